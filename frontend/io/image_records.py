"""Image records: the header and labels of a record, labels from a list file, and decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..base import MXNetError
from ..image_codec import codec
from ..recordio import unpack
from ..tracebacks import cause_of
from .records import Record
from .text_files import read_lines


class ImageRecord(NamedTuple):
    """The content of an image record."""

    number: int
    labels: np.ndarray
    many: bool  # whether the record has an array of labels, and not one number
    encoded: bytes


def read_image_record(record: Record) -> ImageRecord:
    """The content of a record. MXNetError names the file and the position."""
    try:
        header, encoded = unpack(record.data)
    except MXNetError as error:
        raise MXNetError(f"{record.where()}: {error}") from cause_of(error)
    labels = np.atleast_1d(np.asarray(header.label, np.float32))
    return ImageRecord(header.id, labels, header.flag > 0, encoded)


class LabelList:
    """The labels of a list file, by the number of the image. A line has the number, labels, and the path of a file.

    With `width` None, each line has its own number of labels.
    """

    def __init__(self, name: str, path: str, width: int | None) -> None:
        self._name, self._path = name, path
        self._labels: dict[int, np.ndarray] = {}
        for block in read_lines([path]):
            for i, line in enumerate(block.lines):
                number, *fields = line.split("\t") if "\t" in line else line.split()
                labels = fields[:-1] if width is None else fields[:width]
                try:
                    self._labels[int(float(number))] = np.array(labels, np.float32)
                except (ValueError, OverflowError):
                    raise MXNetError(f"{name}: {block.where(i)}: not a number and labels: {line[:80]!r}") from None
                if not labels or (width is not None and len(labels) < width):
                    needed = width or "at least 1"
                    raise MXNetError(f"{name}: {block.where(i)}: {len(labels)} labels, not {needed}: {line[:80]!r}")

    @property
    def widest(self) -> int:
        return max((len(labels) for labels in self._labels.values()), default=0)

    def of(self, number: int, record: Record) -> np.ndarray:
        if number not in self._labels:
            raise MXNetError(f"{self._name}: {record.where()}: image {number} is not in the list {self._path}")
        return self._labels[number]


Decoder = Callable[[bytes, str], np.ndarray]
"""Decodes an image, (H, W, C) in BGR order; the text names its place for errors."""


def decoder(channels: int) -> Decoder:
    """A function that decodes images with 1, 3 or 4 channels. MXNetError names the place of an image that is damaged,
    too large, or has other channels than the 4 that are required.
    """

    def decode(encoded: bytes, where: str) -> np.ndarray:
        try:
            image = _with_alpha(encoded) if channels == 4 else codec.decode(encoded, channels == 3, False, upright=True)
        except MXNetError as error:
            raise MXNetError(f"{where}: {error}") from cause_of(error)
        if image.shape[2] != channels or image.dtype != np.uint8:
            content = f"{image.shape[2]} channels of {image.dtype}"
            raise MXNetError(f"{where}: the image has {content}, not {channels} of uint8")
        return image

    return decode


def _with_alpha(encoded: bytes) -> np.ndarray:
    image = codec.decode_packed(encoded, -1) if encoded else None
    if image is None:
        raise MXNetError(f"Decoding failed. Invalid image file: {len(encoded)} bytes")
    return image if image.ndim == 3 else image[:, :, None]
