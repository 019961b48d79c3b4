"""`MNISTIter`: images and labels in the files of MNIST, which can be compressed with gzip."""

from __future__ import annotations

import gzip
import logging
import struct
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...ir.dialects.mx.parameters import Bool, Int, Natural, OptionalDTypeName, Positive, Text
from ..base import MXNetError
from ..ndarray import array
from ..tracebacks import cause_of
from .parameters import Parameters, iterator_function, require
from .records import generator
from .streams import Batch, BatchStream, MXDataIter, Started

_LOGGER = logging.getLogger(__name__)

_GZIP = b"\x1f\x8b"


class MNISTParameters(Parameters):
    """
    Args:
        image: The file of the images.
        label: The file of the labels.
        batch_size: The number of images of a batch. Images that do not fill a batch are omitted.
        shuffle: Whether the images are shuffled, once.
        flat: Whether images are vectors.
        seed: The seed of the order of the images.
        silent: Whether messages are omitted.
        num_parts, part_index: The number of parts of the data, and which of them is read.
        prefetch_buffer: Accepted and not used: the data are in memory.
        ctx: Accepted and not used: batches are on the CPU.
        dtype: "float32" or None.
    """

    image: Text = "./train-images-idx3-ubyte"
    label: Text = "./train-labels-idx1-ubyte"
    batch_size: Positive = 128
    shuffle: Bool = True
    flat: Bool = False
    seed: Int = 0
    silent: Bool = False
    num_parts: Int = 1
    part_index: Int = 0
    prefetch_buffer: Natural = 4
    ctx: Text = "gpu"
    dtype: OptionalDTypeName = None


def read_idx(path: str, axes: int, part: int = 0, parts: int = 1) -> np.ndarray:
    """The bytes of an IDX file with this number of axes, or of a part of its examples. MXNetError names the file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, ValueError) as error:
        raise MXNetError(f"cannot read {path}: {error}") from cause_of(error)
    head = 4 + 4 * axes
    if len(data) < head or data[:4] != bytes((0, 0, 8, axes)):
        raise MXNetError(f"{path} is not an IDX file of bytes with {axes} axes: it begins with {data[:4]!r}")
    shape = struct.unpack_from(f">{axes}I", data, 4)
    if len(data) < head + prod(shape):
        raise MXNetError(
            f"{path} ends at byte {len(data)}: an array of shape {shape} would end at {head + prod(shape)}"
        )
    begin, end = (int(shape[0] / parts * i) for i in (part, part + 1))
    return np.frombuffer(data, np.uint8, prod(shape), head).reshape(shape)[begin:end]


class MNISTStream(BatchStream):
    """The batches of a MNISTIter: pixels divided by 256."""

    def __init__(self, name: str, parameters: MNISTParameters) -> None:
        super().__init__(name, 1)
        part, parts = parameters.part_index, parameters.num_parts
        require(name, 0 <= part < parts, f"part_index={part} must be at least 0 and less than num_parts={parts}")
        require(name, parameters.dtype in (None, "float32"), f"dtype={parameters.dtype!r} is not supported")
        self._images = read_idx(parameters.image, 3, part, parts)
        self._labels = read_idx(parameters.label, 1, part, parts)
        if len(self._images) != len(self._labels):
            counts = f"{len(self._images)} images, and {parameters.label} has {len(self._labels)} labels"
            raise MXNetError(f"{name}: {parameters.image} has {counts}")
        count = len(self._images)
        require(name, parameters.batch_size <= count, f"batch_size={parameters.batch_size} exceeds the {count} images")
        self._order = generator(parameters.seed, 0).permutation(count) if parameters.shuffle else np.arange(count)
        self._size, self._flat = parameters.batch_size, parameters.flat
        self._at = 0

    def start(self) -> Started | None:
        at = self._at
        if at + self._size > len(self._order):
            return None
        self._at += self._size
        return lambda: self._batch(self._order[at : at + self._size])

    def _batch(self, order: np.ndarray) -> Batch:
        images = self._images[order].astype(np.float32) / 256
        shape = (-1,) if self._flat else (1, *images.shape[1:])
        data = array(images.reshape(len(order), *shape))
        return Batch(data, array(self._labels[order].astype(np.float32)), 0, np.zeros(len(order), np.uint64))

    def rewind(self, complete: bool) -> None:
        self._at = 0


def _make(name: str, parameters: MNISTParameters, arguments: Mapping[str, Any]) -> MXDataIter:
    iterator = MXDataIter(MNISTStream(name, parameters), **arguments)
    if not parameters.silent:
        _LOGGER.info("%s: batches of shape %s, shuffle=%s", name, iterator.provide_data[0].shape, parameters.shuffle)
    return iterator


MNISTIter = iterator_function("MNISTIter", MNISTParameters, "An iterator over the images of MNIST.", _make)
