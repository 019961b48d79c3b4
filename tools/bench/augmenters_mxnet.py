"""Work on images in MXNet's API: MXNet and mxforge run the same programs.

This file must run on Python 3.7, which old frameworks require.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import tempfile

import numpy


def load(engine, spec, arrays):
    """The program of a suite of augmenters; a call returns the arrays that it makes."""
    photographs = [array.tobytes() for array in arrays]
    if spec["iterator"]:
        work = _iterator(engine.mx, spec["iterator"], spec["augment"], photographs)
    else:
        work = _single_images(engine.mx, spec["augment"], photographs)

    def seeded():
        random.seed(0)
        numpy.random.seed(0)
        return work()

    return engine.program(seeded)


def _single_images(mx, arguments, photographs):
    decode = mx.image.imdecode
    if arguments is None:
        return lambda: [decode(data) for data in photographs]
    images = [decode(data) for data in photographs]

    def augmented():
        augmenters = mx.image.CreateAugmenter((3, 224, 224), **arguments)  # new ones: some keep a random order
        produced = []
        for image in images:
            for augmenter in augmenters:
                image = augmenter(image)
            produced.append(image)
        return produced

    return augmented


def _iterator(mx, class_name, arguments, photographs):
    """An epoch of one batch."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    record, index = os.path.join(folder, "a.rec"), os.path.join(folder, "a.idx")
    writer = mx.recordio.MXIndexedRecordIO(index, record, "w")
    for number, data in enumerate(photographs):
        label = [2, 5, number % 3, 0.2, 0.1, 0.7, 0.8] if class_name == "ImageDetIter" else number
        writer.write_idx(number, mx.recordio.pack((0, label, number, 0), data))
    writer.close()
    detects = class_name == "ImageDetIter"
    shape = (3, 300, 300) if detects else (3, 224, 224)
    create = mx.image.CreateDetAugmenter if detects else mx.image.CreateAugmenter
    files = {"path_imgrec": record, "path_imgidx": index}
    iterator = getattr(mx.image, class_name)(len(photographs), shape, shuffle=True, **files)

    def epoch():
        iterator.seq.sort()
        iterator.auglist = create(shape, **arguments)
        iterator.reset()
        batch = iterator.next()
        return [batch.data[0], batch.label[0]]

    return epoch
