"""ImageDetIter: batches of images with the labels of their objects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError
from ..ndarray import NDArray
from ..tracebacks import cause_of
from .boxes import parse_label, require_valid, revert_normalization
from .create_det_augmenter import CreateDetAugmenter
from .image_iter import ImageIter


class ImageDetIter(ImageIter):
    """Reads, decodes and augments images with objects, and makes batches.

    The raw label of an image is: the width of its header (2 or more), the width of an object (5 or more), the rest of
    the header, and for each object (class, xmin, ymin, xmax, ymax, ...) in fractions of the image. The labels of a
    batch have the shape (batch_size, objects, width of an object); missing objects are rows of -1. An image without a
    valid label is skipped.

    `aug_list` are augmenters, instead of those that `CreateDetAugmenter(data_shape, **kwargs)` returns. See ImageIter
    for the other arguments.
    """

    _no_label = -1

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
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
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            data_shape=data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape: tuple[int, int] = self._estimate_label_shape()
        self.provide_label = [(label_name, (self.batch_size, *self.label_shape))]

    def _check_valid_label(self, label: np.ndarray) -> None:
        require_valid(label)

    def _parse_label(self, label: Any) -> np.ndarray:
        return parse_label(label)

    def _estimate_label_shape(self) -> tuple[int, int]:
        """The greatest number of objects in an image, and the width of an object. Reads all labels."""
        count, width = 0, 0
        self.reset()
        try:
            while True:
                label = self._label_or_error(self.next_sample()[0])
                count, width = max(count, label.shape[0]), label.shape[1]
        except StopIteration:
            pass
        self.reset()
        if not count:
            raise MXNetError("ImageDetIter: there is no image")
        return count, width

    def _label_or_error(self, raw: Any) -> np.ndarray:
        """The objects of a raw label. RuntimeError names the image of a label that is not valid."""
        try:
            return self._parse_label(raw)
        except RuntimeError as error:
            raise RuntimeError(f"{self._place()}: {error}") from cause_of(error)

    def reshape(self, data_shape: Any = None, label_shape: Any = None) -> None:
        """Change the shape of images (C, H, W), or of labels (objects, width of an object). None leaves it."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = data_shape
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self.provide_label[0][0], (self.batch_size, *label_shape))]
            self.label_shape = label_shape

    def _write_sample(self, batch_data: NDArray, batch_label: NDArray, row: int) -> int:
        label, encoded = self.next_sample()
        data = self.imdecode(encoded)
        try:
            self.check_valid_image([data])
            data, label = self.augmentation_transform(data, self._parse_label(label))
            self._check_valid_label(label)
        except RuntimeError as error:
            logging.getLogger().debug("Invalid image, skipping:  %s", error)
            return 0
        self._write_image(batch_data, row, data)
        batch_label[row] = self._no_label
        self._write_label(batch_label, (row, slice(len(label))), nd.array(label))
        return 1

    def augmentation_transform(self, data: NDArray, label: np.ndarray) -> tuple[NDArray, np.ndarray]:  # type: ignore[override]
        """Apply the augmenters."""
        for aug in self.auglist:
            data, label = aug(data, label)
        return data, label

    def check_label_shape(self, label_shape: Any) -> None:
        """Raise ValueError for fewer objects than in the current shape, or another width of an object."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        count, width = self.label_shape
        if label_shape[0] < count:
            raise ValueError(f"Attempts to reduce label count from {count} to {label_shape[0]}, not allowed.")
        if label_shape[1] != width:
            raise ValueError(f"label_shape object width inconsistent: {width} vs {label_shape[1]}.")

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this iterator and `it` the greater of their numbers of objects. Returns `it`."""
        assert isinstance(it, ImageDetIter), "Synchronize with invalid iterator."
        (count, width), (other, other_width) = self.label_shape, it.label_shape
        assert width == other_width, "object width mismatch."
        greatest = max(count, other)
        for iterator, current in ((self, count), (it, other)):
            if greatest > current:
                iterator.reshape(None, (greatest, width))
        if verbose and count != other:
            logging.getLogger().info("Resized label_shape to (%d, %d).", greatest, width)
        return it

    def draw_next(
        self,
        color: Any = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: dict[int, str] | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the next images in BGR with their boxes drawn, which requires OpenCV.

        Args:
            color: The colour of boxes in RGB; None for random ones.
            thickness: Of the lines, in pixels.
            mean, std: Arrays that ColorNormalizeAug subtracted and divided by; True for those of ImageNet.
            clip: True to clip to [0, 255].
            waitKey: Show images in a window and wait for so many milliseconds; None to show nothing.
            window_name: The title of the window.
            id2labels: Names of classes, which are drawn at the boxes.
        """
        from .drawing import draw_boxes

        while True:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            data = self.imdecode(encoded)
            try:
                self.check_valid_image([data])
                label = self._parse_label(label)
            except RuntimeError as error:
                logging.getLogger().debug("Invalid image, skipping:  %s", error)
                continue
            data, label = self.augmentation_transform(data, label)
            image = revert_normalization(data.asnumpy(), mean, std)
            image = (image.clip(0, 255) if clip else image)[:, :, ::-1].astype(np.uint8)
            yield draw_boxes(np.ascontiguousarray(image), label, color, thickness, waitKey, window_name, id2labels)
