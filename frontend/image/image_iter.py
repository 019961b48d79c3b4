"""ImageIter: batches of images from record files, list files, or lists."""

from __future__ import annotations

import logging
import os
import random
from typing import Any

from .. import ndarray as nd
from .. import recordio
from ..base import MXNetError
from ..io import DataBatch, DataIter
from ..ndarray import NDArray
from ..tracebacks import cause_of
from .create_augmenter import CreateAugmenter
from .functions import imdecode
from .lists import Sample, read_list, samples_of
from .pixels import colors_of

_LABEL_TYPES = ("int32", "float32", "int64", "float64")


class ImageIter(DataIter):
    """Reads, decodes and augments images, and makes batches of shape (batch_size, C, H, W).

    An image that is not valid is skipped. Subclasses can override every step: `next_sample`, `imdecode`,
    `check_valid_image`, `augmentation_transform` and `postprocess_data`.

    Args:
        batch_size: The number of images in a batch.
        data_shape: (C, H, W) of the images; C must be 3.
        label_width: The number of labels of an image.
        path_imgrec: A record file.
        path_imglist: A list file: lines with an index, labels and a path, separated by tabs.
        path_root: The folder of the paths in lists.
        path_imgidx: The index of the record file, which `shuffle` and `num_parts` require.
        shuffle: True to shuffle at each reset, with Python's `random`.
        part_index, num_parts: Read one of several equal parts.
        aug_list: Augmenters, instead of those that `CreateAugmenter(data_shape, **kwargs)` returns.
        imglist: A list of [label, path], [label, label, ..., path] or [labels, path].
        data_name, label_name: The names in `provide_data` and `provide_label`.
        dtype: The dtype of labels of lists.
        last_batch_handle: What happens to an incomplete last batch. "pad": it is completed with the first images;
            "discard": it is omitted; "roll_over": its images begin the next epoch.
    """

    _no_label = 0
    """The labels of rows without an image, which a last batch has if there are fewer images than rows."""

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: list[Any] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        assert path_imgrec or path_imglist or isinstance(imglist, list)
        assert dtype in _LABEL_TYPES, f"{dtype} label not supported"
        self.imgrec: Any = None
        self.imgidx: list[Any] | None = None
        if path_imgrec:
            self._open_records(path_imgrec, path_imgidx)
        self.imglist: dict[Any, Sample] | None = None
        keys: list[Any] = []
        if path_imglist:
            logging.getLogger().info("%s: loading image list %s...", type(self).__name__, path_imglist)
            keys, self.imglist = read_list(path_imglist, dtype)
        elif isinstance(imglist, list):
            logging.getLogger().info("%s: loading image list...", type(self).__name__)
            keys, self.imglist = samples_of(imglist, dtype)
        self.path_root = path_root
        self.check_data_shape(data_shape)
        if batch_size < 1:
            raise MXNetError(f"{type(self).__name__}: batch_size={batch_size} must be positive")
        self.batch_size, self.data_shape, self.label_width = batch_size, data_shape, label_width
        self.provide_data: Any = [(data_name, (batch_size, *data_shape))]
        self.provide_label: Any = [(label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))]
        self.shuffle = shuffle
        self.seq = self._order(keys, bool(shuffle or num_parts > 1 or path_imgidx), part_index, num_parts)
        self.num_image = len(self.seq) if self.seq is not None else None
        self.auglist: list[Any] = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.last_batch_handle = last_batch_handle
        self.cur = 0
        self._records = 0
        self._allow_read = True
        self._cache_data: NDArray | None = None
        self._cache_label: NDArray | None = None
        self._cache_idx: int | None = None
        self.reset()

    def _open_records(self, path: str, index: str | None) -> None:
        logging.getLogger().info("%s: loading recordio %s...", type(self).__name__, path)
        if index:
            self.imgrec = recordio.MXIndexedRecordIO(index, path, "r")
            self.imgidx = list(self.imgrec.keys)
        else:
            self.imgrec = recordio.MXRecordIO(path, "r")

    def _order(self, keys: list[Any], indexed: bool, part_index: int, num_parts: int) -> list[Any] | None:
        """The keys of the samples of this part, or None to read records in the order of the file."""
        if self.imgrec is None:
            order = keys
        elif indexed:
            assert self.imgidx is not None, "shuffle and num_parts require path_imgidx"
            order = self.imgidx
        else:
            return None
        if num_parts == 1:
            return order
        assert part_index < num_parts
        size = len(order) // num_parts
        return order[part_index * size : (part_index + 1) * size]

    def reset(self) -> None:
        """Go back to the first sample; images that "roll_over" left stay."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._cache_data is None:
            self._rewind()

    def hard_reset(self) -> None:
        """Go back to the first sample, without images that "roll_over" left."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        self._rewind()
        self._cache_data = self._cache_label = self._cache_idx = None

    def _rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = self._records = 0
        self._allow_read = True

    def next_sample(self) -> tuple[Any, bytes]:
        """Label and encoded image of the next sample. Raises StopIteration at the end."""
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            return self._next_record()
        assert self.num_image is not None
        if self.cur >= self.num_image:
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            assert self.imglist is not None
            label, name = self.imglist[key]
            return label, self.read_image(name)
        header, image = recordio.unpack(self.imgrec.read_idx(key))
        return (header.label if self.imglist is None else self.imglist[key][0]), image

    def _next_record(self) -> tuple[Any, bytes]:
        record = self.imgrec.read()
        if record is None:
            if self.last_batch_handle != "discard":
                self.imgrec.reset()
                self._records = 0
            raise StopIteration
        self._records += 1
        header, image = recordio.unpack(record)
        return header.label, image

    def _batchify(self, batch_data: NDArray, batch_label: NDArray, start: int = 0) -> int:
        """Write samples to the rows from `start` on. Returns the number of filled rows, less than `batch_size` at the
        end. Raises StopIteration if it is 0."""
        row = start
        try:
            while row < self.batch_size:
                row += self._write_sample(batch_data, batch_label, row)
        except StopIteration:
            if not row:
                raise
        return row

    def _write_sample(self, batch_data: NDArray, batch_label: NDArray, row: int) -> int:
        """Write the next sample to a row. Returns 1, or 0 if the image is not valid."""
        label, encoded = self.next_sample()
        data = self.imdecode(encoded)
        try:
            self.check_valid_image(data)
        except RuntimeError as error:
            logging.getLogger().debug("Invalid image, skipping:  %s", error)
            return 0
        self._write_image(batch_data, row, self.augmentation_transform(data))
        self._write_label(batch_label, row, label)
        return 1

    def _write_label(self, batch_label: NDArray, row: Any, label: Any) -> None:
        """Write a label. ValueError names the image if it does not fit."""
        try:
            batch_label[row] = label
        except ValueError as error:
            shape, room = getattr(label, "shape", ()), batch_label.shape[1:]
            text = f"{self._place()}: a label of shape {shape} does not fit a row of labels of shape {room}"
            raise ValueError(text) from cause_of(error)

    def _write_image(self, batch_data: NDArray, row: int, image: NDArray) -> None:
        plain = getattr(self.postprocess_data, "__func__", None) is ImageIter.postprocess_data
        colors = colors_of(image) if plain and image.shape[:2] == batch_data.shape[2:] else None
        if colors is None:
            batch_data[row] = self.postprocess_data(image)
        else:
            batch_data._write(colors.transpose(2, 0, 1), row)

    def _new_batch(self) -> tuple[NDArray, NDArray]:
        """Memory for a batch and its labels."""
        return nd.empty((self.batch_size, *self.data_shape)), nd.empty(self.provide_label[0][1])

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration at the end."""
        if self._cache_data is None:
            data, label = self._new_batch()
            filled = self._batchify(data, label)
        else:
            assert self._cache_label is not None and self._cache_idx is not None
            data, label, filled = self._cache_data, self._cache_label, self._cache_idx
        pad = self.batch_size - filled
        if pad:
            self._complete(data, label, filled)
        return DataBatch([data], [label], pad=pad)

    def _complete(self, data: NDArray, label: NDArray, filled: int) -> None:
        """Complete an incomplete batch with the first samples, or raise StopIteration; see `last_batch_handle`."""
        if self.last_batch_handle == "discard":
            raise StopIteration
        if self.last_batch_handle == "roll_over" and self._cache_data is None:
            self._cache_data, self._cache_label, self._cache_idx = data, label, filled
            raise StopIteration
        filled = self._batchify(data, label, filled)
        if filled < self.batch_size:
            data[filled:], label[filled:] = 0, self._no_label
        if self.last_batch_handle == "pad":
            self._allow_read = False
        else:
            self._cache_data = self._cache_label = self._cache_idx = None

    def check_data_shape(self, data_shape: Any) -> None:
        """Raise ValueError unless `data_shape` is (3, H, W)."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: Any) -> None:
        """Raise RuntimeError if a decoded image has no axes."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """Decode an image. RuntimeError names the file or record of an image that cannot be decoded."""
        try:
            return imdecode(s)
        except Exception as error:
            raise RuntimeError(f"Broken image {self._place()}, {error}") from cause_of(error)

    def _place(self) -> str:
        """The file or the key of the sample that was read last; for records without an index, its number from 0."""
        if not self.seq:
            return f"index: {self._records - 1}"
        key = self.seq[(self.cur % len(self.seq)) - 1]
        return f"index: {key}" if self.imglist is None else f"filename: {self.imglist[key][1]}"

    def read_image(self, fname: str) -> bytes:
        """The content of a file below `path_root`."""
        with open(os.path.join(self.path_root, fname), "rb") as file:  # type: ignore[arg-type]
            return file.read()

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """Apply the augmenters."""
        for aug in self.auglist:
            data = aug(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """(H, W, C) to (C, H, W)."""
        return nd.transpose(datum, axes=(2, 0, 1))
