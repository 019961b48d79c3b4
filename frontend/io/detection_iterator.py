"""`ImageDetRecordIter`: an iterator over images with boxes of objects in record files."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from ...ir.dialects.mx.parameters import Float, Int, Text
from ...ir.types import DType
from ..base import MXNetError
from .detection_augment import DetectionAugmenter, DetectionAugmentParameters
from .image_batches import ImageStream
from .image_iterators import CommonRecordParameters, record_source, record_stream, require_image_shape
from .image_normalize import DetectionNormalizeParameters, DetectionNormalizer
from .image_records import LabelList, decoder, read_image_record
from .parameters import iterator_function, require
from .records import Record, RecordFiles
from .streams import MXDataIter
from .text_files import data_files

_SIZES = 4  # a label begins with the channels, height and width of the image, and the number of its labels


class DetectionRecordParameters(CommonRecordParameters):
    """
    Args:
        aug_seq: The name of the augmenter, "det_aug_default".
        label_width: The number of labels of each image; -1: any number.
        label_pad_width: The number of labels to which all are padded; 0 or -1: the largest number.
        label_pad_value: The value of the padding.
        shuffle: Whether records are shuffled, within 64 MB.
        seed: The seed of the order of records, and of changes of images.
        dtype: "float32" or None.
    """

    path_imgrec: Text = "./data/imgrec.rec"
    aug_seq: Text = "det_aug_default"
    label_width: Int = -1
    label_pad_width: Int = 0
    label_pad_value: Float = -1.0


class DetectionParameters(DetectionNormalizeParameters, DetectionAugmentParameters, DetectionRecordParameters):
    """The parameters of ImageDetRecordIter."""


class _DetectionLoader:
    """Loads the images of ImageDetRecordIter. A label is the size of the image, the number of its labels, its labels,
    and padding."""

    def __init__(self, name: str, parameters: DetectionParameters, normalizer: DetectionNormalizer) -> None:
        self._name, self._parameters = name, parameters
        self._width = parameters.label_width if parameters.label_width > 0 else None
        self._decode = decoder(parameters.data_shape[0])
        self._augment = DetectionAugmenter(name, parameters)
        self._normalizer = normalizer
        self._labels = LabelList(name, parameters.path_imglist, self._width) if parameters.path_imglist else None

    def widest(self, records: list[Record]) -> int:
        """The largest number of labels of an image."""
        if self._labels is not None:
            return self._labels.widest
        return max((len(read_image_record(record).labels) for record in records), default=0)

    def __call__(self, record: Record, random: Random, data: np.ndarray, label: np.ndarray) -> int:
        read = read_image_record(record)
        where = f"{self._name}: {record.where()}, image {read.number}"
        if self._labels is None and not read.many:
            raise MXNetError(f"{where}: the record has no array of labels")
        labels = read.labels if self._labels is None else self._labels.of(read.number, record)
        if self._width is not None and len(labels) != self._width:
            raise MXNetError(f"{where}: the record has {len(labels)} labels, but label_width is {self._width}")
        image, labels = self._augment(self._decode(read.encoded, where), labels, random, where)
        height, width, channels = image.shape
        data[:, height:] = 0
        data[:, :, width:] = 0
        self._normalizer.write(image, data[:, :height, :width], random)
        label[:] = self._parameters.label_pad_value
        label[:_SIZES] = channels, height, width, len(labels)
        label[_SIZES : _SIZES + len(labels)] = labels
        return read.number


def _make(name: str, parameters: DetectionParameters, arguments: Mapping[str, Any]) -> MXDataIter:
    require_image_shape(name, parameters.data_shape)
    require(name, parameters.dtype in (None, "float32"), f"dtype={parameters.dtype!r} is not supported")
    augmenter = "det_aug_default"
    require(
        name, parameters.aug_seq == augmenter, f"aug_seq={parameters.aug_seq!r}: the only augmenter is {augmenter!r}"
    )
    normalizer = DetectionNormalizer(parameters, parameters.data_shape[0])
    load = _DetectionLoader(name, parameters, normalizer)
    files = RecordFiles(data_files(name, parameters.path_imgrec))
    width = _label_width(name, load, files, parameters)

    def stream(rounds: bool) -> ImageStream:
        return record_stream(
            name, files, parameters, load, DType.F32, (width + _SIZES,), parameters.seed, rounds=rounds
        )

    normalizer.find_mean_image(
        name, parameters.mean_img, parameters.data_shape, lambda: stream(False), parameters.verbose
    )
    return MXDataIter(stream(parameters.round_batch), **arguments)


def _label_width(name: str, load: _DetectionLoader, files: RecordFiles, parameters: DetectionParameters) -> int:
    """The number of labels to which all are padded. MXNetError if an image has more than the number that is given."""
    source = record_source(name, files, parameters, "")
    widest = 0
    while records := source.take(1024):
        widest = max(widest, load.widest(records))
    width = parameters.label_pad_width
    require(
        name, width <= 0 or width >= widest, f"label_pad_width={width} is less than {widest}, the labels of an image"
    )
    return max(width, widest)


ImageDetRecordIter = iterator_function(
    "ImageDetRecordIter",
    DetectionParameters,
    "An iterator over images in record files, whose labels are boxes of objects.",
    _make,
)
