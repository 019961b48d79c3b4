"""`ImageRecordIter` and its kin: iterators over images in record files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

import numpy as np

from ...ir.dialects.mx.parameters import Bool, Int, Ints, Natural, OptionalInt, Positive, Text
from ...ir.types import DType
from ..base import MXNetError
from ..dtypes import dtype_of
from .image_augment import AugmentParameters, DefaultAugmenter
from .image_batches import ImageStream, Loader
from .image_normalize import ImageNormalizer, NormalizeParameters
from .image_records import LabelList, decoder, read_image_record
from .parameters import BatchParameters, iterator_function, require
from .records import IndexedRecords, OrderedRecords, Record, RecordFiles, Shuffling
from .streams import MXDataIter, Rounds
from .text_files import data_files


class CommonRecordParameters(BatchParameters):
    """The parameters of all iterators over images in record files.

    Args:
        path_imglist: A list file, whose labels replace those of the records.
        path_imgrec: A .rec file, several separated by ";", or a folder of them.
        data_shape: The shape of an image: (channels, height, width).
        preprocess_threads: The number of threads that decode images.
        verbose: Whether messages are logged.
        num_parts, part_index: The number of parts of the data, and which of them is read.
        shuffle_chunk_size: The size in MB of parts whose order changes in each epoch; 0: the order of the file.
        shuffle_chunk_seed: The seed of the order of these parts.
        prefetch_buffer: The number of batches that are decoded ahead.
    """

    path_imglist: Text = ""
    path_imgrec: Text = ""
    data_shape: Ints
    preprocess_threads: Positive = 4
    verbose: Bool = True
    num_parts: Int = 1
    part_index: Int = 0
    shuffle_chunk_size: Natural = 0
    shuffle_chunk_seed: Int = 0
    shuffle: Bool = False
    seed: Int = 0


class RecordParameters(CommonRecordParameters):
    """
    Args:
        path_imgidx: The .idx file of the records: parts have equal numbers of records, and all are shuffled together.
        aug_seq: The name of the augmenter, "aug_default".
        label_width: The number of labels of an image.
        device_id: Accepted and not used: batches are on the CPU.
        seed_aug: The seed of random changes of images; None: `seed`.
        shuffle: Whether records are shuffled: all with an index, and otherwise within 64 MB.
        seed: The seed of the order of records.
        dtype: "float32", "uint8" or "int8"; None is "float32".
    """

    path_imgidx: Text = ""
    aug_seq: Text = "aug_default"
    label_width: Positive = 1
    device_id: Int = 0
    seed_aug: OptionalInt = None


class ImageParameters(NormalizeParameters, AugmentParameters, RecordParameters):
    """The parameters of ImageRecordIter."""


class BytesParameters(AugmentParameters, RecordParameters):
    """The parameters of the iterators without normalization."""


class _ImageLoader:
    """Loads the images of ImageRecordIter."""

    def __init__(self, name: str, parameters: ImageParameters, normalizer: ImageNormalizer) -> None:
        self._name, self._width = name, parameters.label_width
        self._decode = decoder(parameters.data_shape[0])
        self._augment = DefaultAugmenter(name, parameters)
        self._normalizer = normalizer
        self._labels = (
            LabelList(name, parameters.path_imglist, parameters.label_width) if parameters.path_imglist else None
        )

    def __call__(self, record: Record, random: Random, data: np.ndarray, label: np.ndarray) -> int:
        read = read_image_record(record)
        where = f"{self._name}: {record.where()}, image {read.number}"
        labels = read.labels if self._labels is None else self._labels.of(read.number, record)
        if len(labels) != self._width:
            raise MXNetError(f"{where}: the record has {len(labels)} labels, but label_width is {self._width}")
        image = self._augment(self._decode(read.encoded, where), random, where)
        self._normalizer.write(image, data, random)
        label[:] = labels
        return read.number


def record_source(
    name: str, files: RecordFiles, parameters: CommonRecordParameters, index: str
) -> OrderedRecords | IndexedRecords:
    """The records of a part of the files, in order or shuffled."""
    part, parts = parameters.part_index, parameters.num_parts
    require(name, 0 <= part < parts, f"part_index={part} must be at least 0 and less than num_parts={parts}")
    shuffling = Shuffling(
        parameters.shuffle, parameters.seed, parameters.shuffle_chunk_size, parameters.shuffle_chunk_seed
    )
    if index:
        return IndexedRecords(files, index, part, parts, shuffling)
    return OrderedRecords(files, part, parts, shuffling)


def record_stream(
    name: str,
    files: RecordFiles,
    parameters: CommonRecordParameters,
    load: Loader,
    dtype: DType,
    label_shape: tuple[int, ...],
    seed: int,
    *,
    rounds: bool,
    index: str = "",
) -> ImageStream:
    """The images of a part of the files in batches, the last of which is filled if `rounds`. `seed` is that of changes
    of images, `index` the .idx file."""
    batches = Rounds(name, record_source(name, files, parameters, index), parameters.batch_size, rounds)
    ahead, threads = parameters.prefetch_buffer, parameters.preprocess_threads
    return ImageStream(
        name, ahead, threads, batches, load, parameters.data_shape, dtype, label_shape, seed, files.close
    )


def require_image_shape(name: str, shape: tuple[int, ...]) -> None:
    """MXNetError if images cannot have this shape."""
    valid = len(shape) == 3 and min(shape) > 0 and shape[0] in (1, 3, 4)
    require(name, valid, f"data_shape={shape} must be (channels, height, width) with 1, 3 or 4 channels")


def _image_stream(name: str, parameters: ImageParameters, dtype: str) -> ImageStream:
    require(name, dtype in ("float32", "uint8", "int8"), f"dtype={dtype!r} is not supported")
    shape = parameters.data_shape
    require_image_shape(name, shape)
    require(
        name,
        parameters.aug_seq == "aug_default",
        f"aug_seq={parameters.aug_seq!r}: the only augmenter is 'aug_default'",
    )
    require(name, bool(parameters.path_imgrec), "path_imgrec is required")
    normalizer = ImageNormalizer(parameters, shape[0], dtype)
    load = _ImageLoader(name, parameters, normalizer)
    files = RecordFiles(data_files(name, parameters.path_imgrec))

    def stream(decoding: str, rounds: bool) -> ImageStream:
        labels = () if parameters.label_width == 1 else (parameters.label_width,)
        seed = parameters.seed if parameters.seed_aug is None else parameters.seed_aug
        index = parameters.path_imgidx
        return record_stream(
            name, files, parameters, load, dtype_of(decoding), labels, seed, rounds=rounds, index=index
        )

    if dtype != "uint8":
        normalizer.find_mean_image(
            name, parameters.mean_img, shape, lambda: stream("float32", False), parameters.verbose
        )
    return stream(dtype, parameters.round_batch)


def _make(dtype: str | None, name: str, parameters: Any, arguments: Mapping[str, Any]) -> MXDataIter:
    full = parameters if isinstance(parameters, ImageParameters) else ImageParameters.parse(name, parameters.values())
    return MXDataIter(_image_stream(name, full, dtype or full.dtype or "float32"), **arguments)


_SUMMARY = (
    "An iterator over images in record files, which im2rec makes. Images are decoded, changed and normalized ahead."
)
ImageRecordIter = iterator_function("ImageRecordIter", ImageParameters, _SUMMARY, partial(_make, None))
ImageRecordIter_v1 = iterator_function("ImageRecordIter_v1", ImageParameters, _SUMMARY, partial(_make, None))
ImageRecordUInt8Iter = iterator_function("ImageRecordUInt8Iter", BytesParameters, _SUMMARY, partial(_make, "uint8"))
ImageRecordUInt8Iter_v1 = iterator_function(
    "ImageRecordUInt8Iter_v1", BytesParameters, _SUMMARY, partial(_make, "uint8")
)
ImageRecordInt8Iter = iterator_function("ImageRecordInt8Iter", BytesParameters, _SUMMARY, partial(_make, "int8"))
