"""Readers of record files in MXNet's API: MXNet and mxforge run the same programs.

This file must run on Python 3.7, which old frameworks require.
"""

from __future__ import annotations

import random

import numpy

NORMALIZED = {"mean_r": 123.68, "mean_g": 116.78, "mean_b": 103.94, "std_r": 58.4, "std_g": 57.1, "std_b": 57.4}


def load(engine, spec, arrays):
    """The program of a suite of readers. A call reads all records."""
    return PROGRAMS[spec["data"]](engine.mx, spec["path"], spec["threads"])


class Images:
    """Batches of random crops. The outputs are a batch of crops at the centre."""

    def __init__(self, mx, path, threads):
        self.mx = mx
        self.options = {"path_imgrec": path, "data_shape": (3, 224, 224), "batch_size": 50, "verbose": False}
        self.options.update(NORMALIZED, preprocess_threads=threads)
        self.batches = mx.io.ImageRecordIter(rand_crop=True, rand_mirror=True, **self.options)

    def run(self, calls):
        for _ in range(calls):
            for batch in self.batches:
                batch.data[0].wait_to_read()
            self.batches.reset()

    def outputs(self):
        batch = next(iter(self.mx.io.ImageRecordIter(**self.options)))
        return [batch.data[0].asnumpy(), batch.label[0].asnumpy()]


class Records:
    """All records in order. The output is their size."""

    def __init__(self, mx, path, threads):
        self.reader = mx.recordio.MXRecordIO(path, "r")
        self.size = 0

    def run(self, calls):
        for _ in range(calls):
            self.reader.reset()
            self.size = sum(map(len, iter(self.reader.read, None)))

    def outputs(self):
        return [numpy.array([self.size])]


class Index:
    """All records in a fixed random order. The output is their size."""

    def __init__(self, mx, path, threads):
        self.reader = mx.recordio.MXIndexedRecordIO(path[:-3] + "idx", path, "r")
        self.keys = list(self.reader.keys)
        random.Random(0).shuffle(self.keys)
        self.size = 0

    def run(self, calls):
        for _ in range(calls):
            self.size = sum(map(len, map(self.reader.read_idx, self.keys)))

    def outputs(self):
        return [numpy.array([self.size])]


PROGRAMS = {"read-images": Images, "read-records": Records, "read-index": Index}
