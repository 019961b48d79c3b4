"""Transforms of images with fixed parameters, data sets in files, and loaders with worker processes."""

import gzip
import hashlib
import os
import struct
import tempfile

import numpy as np
from program import failure, gather, numbers, sketch

PROGRAMS, program = gather()


def picture(mx, *shape):
    """Bytes that vary smoothly, so that resized images differ little between versions of OpenCV."""
    values = 127 + 120 * np.sin(np.arange(np.prod(shape)) * 0.05)
    return mx.nd.array(values.reshape(shape).astype("uint8"), dtype="uint8")


@program
def transforms(mx):
    made = mx.gluon.data.vision.transforms
    image, batch = picture(mx, 10, 14, 3), picture(mx, 2, 9, 8, 3)
    steps = {
        "Cast": made.Cast("float16"),
        "ToTensor": made.ToTensor(),
        "CropResize": made.CropResize(1, 2, 7, 5),
        "CropResize to a size": made.CropResize(1, 2, 7, 5, size=(6, 4), interpolation=1),
        "CropResize to a number": made.CropResize(0, 0, 5, 5, size=8, interpolation=0),
        "CenterCrop": made.CenterCrop(6),
        "CenterCrop of two sizes": made.CenterCrop((9, 4)),
        "CenterCrop of a larger size": made.CenterCrop((20, 8)),
        "Resize": made.Resize(7),
        "Resize to two sizes": made.Resize((12, 5)),
        "Resize to the shorter side": made.Resize(5, keep_ratio=True),
        "Resize by nearest": made.Resize((20, 20), interpolation=0),
        "Resize to two sizes of a ratio": made.Resize((12, 5), keep_ratio=True),
        "RandomApply always": made.RandomApply(made.Cast("float32"), p=1.1),
        "RandomApply never": made.RandomApply(made.Cast("float32"), p=-0.1),
        "RandomBrightness by 0": made.RandomBrightness(0),
        "RandomContrast by 0": made.RandomContrast(0),
        "RandomSaturation by 0": made.RandomSaturation(0),
        "RandomLighting by 0": made.RandomLighting(0),
        "Compose": made.Compose([made.Resize(8), made.ToTensor(), made.Normalize((0.1, 0.2, 0.3), (2, 3, 4))]),
        "Compose of parts": made.Compose(
            [made.Resize(9), made.CenterCrop(6), made.RandomBrightness(0), made.ToTensor(), made.Normalize(0.5, 0.25)]
        ),
        "Compose of nothing": made.Compose([]),
    }
    found = {name: [sketch(step(image)), np.dtype(step(image).dtype).name] for name, step in steps.items()}
    for name in ("ToTensor", "CropResize", "CropResize to a size", "Resize"):
        found[name + ", batch"] = sketch(steps[name](batch))
    normalized = made.Normalize((0.5, 0.25, 0), (1, 2, 3))
    found["Normalize"] = [sketch(normalized(steps["ToTensor"](x))) for x in (image, batch)]
    return found


@program
def wrong_transforms(mx):
    made = mx.gluon.data.vision.transforms
    image = picture(mx, 10, 14, 3)
    calls = [
        lambda: made.RandomRotation((5, 5)),
        lambda: made.RandomRotation((1, 2), rotate_with_proba=1.5),
        lambda: made.RandomRotation((1, 2))(image),
        lambda: made.Rotate(3)(image),
        lambda: made.ToTensor()(mx.nd.ones((2, 3))).wait_to_read(),
        lambda: made.Resize((0, 3))(image).wait_to_read(),
        lambda: made.CropResize(8, 8, 20, 20)(image).wait_to_read(),
        lambda: made.Compose([3]),
    ]
    return [failure(call) for call in calls]


class Squares:
    def __len__(self):
        return 7

    def __getitem__(self, idx):
        return np.full((2, 2), idx * idx, dtype="float32"), idx


def lists(samples):
    return [len(samples), [int(label) for _, label in samples]]


@program
def worker_processes(mx):
    data = mx.gluon.data
    rows = data.ArrayDataset(mx.nd.arange(14).reshape((7, 2)), np.arange(7, dtype="int32"))
    found = []
    for dataset in (rows, Squares()):
        loader = data.DataLoader(dataset, 3, num_workers=2)
        for x, y in loader:
            found.append([numbers(x), numbers(y), np.dtype(x.dtype).name, np.dtype(y.dtype).name, str(x.context)])
        found.append(len(loader))
    found.append(list(data.DataLoader(Squares(), 3, batchify_fn=lists, num_workers=1, last_batch="discard")))
    pinned = data.DataLoader(rows, 4, num_workers=1, pin_memory=True)
    found.append([str(x.context) for batch in pinned for x in batch])
    old = data.dataloader.DataLoaderV1(rows, 4, num_workers=1)
    found.append([numbers(x) for batch in old for x in batch])
    return found


def written(folder, name, content):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    return name, hashlib.sha1(content).hexdigest()


@program
def files_of_data_sets(mx):
    vision = mx.gluon.data.vision
    pixels, labels = np.arange(3 * 784).astype("uint8"), np.array([7, 0, 9], dtype="uint8")
    records = np.arange(2 * 3074).astype("uint8").tobytes()
    words = " = Title = \n \n one two three <unk> two \n one \n two three four\n"
    with tempfile.TemporaryDirectory() as folder:

        class Digits(vision.FashionMNIST):
            def _get_data(self):
                images = struct.pack(">IIII", 2051, 3, 28, 28) + pixels.tobytes()
                self._train_data = written(folder, "images.gz", gzip.compress(images))
                self._train_label = written(
                    folder, "labels.gz", gzip.compress(struct.pack(">II", 2049, 3) + labels.tobytes())
                )
                super()._get_data()

        class Colours(vision.CIFAR100):
            def _get_data(self):
                self._train_data = self._test_data = [written(folder, "train.bin", records)]
                super()._get_data()

        class Words(mx.gluon.contrib.data.text.WikiText2):
            def _get_data(self):
                self._data_file = {"validation": written(folder, "words", words.encode())}
                super()._get_data()

        digits, colours = Digits(folder), Colours(folder, fine_label=True)
        text = Words(folder, segment="validation", seq_len=4)
        return [
            [[sketch(image), int(label), type(label).__name__] for image, label in (digits[i] for i in range(3))],
            [[sketch(image), int(label), type(label).__name__] for image, label in (colours[i] for i in range(2))],
            [type(digits._data).__name__, type(digits._label).__name__, len(digits), len(colours), len(text)],
            [[numbers(part) for part in text[i]] for i in range(len(text))],
            [text.vocabulary.idx_to_token, sorted(text.frequencies.items()), np.dtype(text[0][0].dtype).name],
        ]
