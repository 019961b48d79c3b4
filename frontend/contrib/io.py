"""Adapts a Gluon DataLoader to an iterator for Module."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..io import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Batches of a loader of (data, label) pairs. An incomplete last batch is padded with zeros, and `pad` is set."""

    def __init__(
        self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self._loader = loader
        data, label = next(iter(loader))
        self.batch_size = data.shape[0]
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current_batch: Any = None
        self.reset()

    def reset(self) -> None:
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def _padded(self, array: NDArray) -> list[NDArray]:
        """The array in the iterator's dtype, padded with rows of zeros to the batch size."""
        array = array.astype(self.dtype)
        if not self.getpad():
            return [array]
        padded = nd.zeros((self.batch_size, *array.shape[1:]), dtype=self.dtype)
        padded[: array.shape[0]] = array
        return [padded]

    def getdata(self) -> list[NDArray]:
        return self._padded(self._current_batch[0])

    def getlabel(self) -> list[NDArray]:
        return self._padded(self._current_batch[1])

    def getpad(self) -> int:
        return self.batch_size - self._current_batch[0].shape[0]

    def getindex(self) -> None:
        return None
