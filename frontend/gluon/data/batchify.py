"""`mxforge.gluon.data.batchify`: functions that make a batch of samples, for `DataLoader(batchify_fn=...)`.

MXNet 1.9.1 lacks this module. Its functions are those of MXNet 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import MXNetError
from .dataloader import default_batchify_fn

Batchify = Callable[[Sequence[Any]], Any]


class Stack:
    """Stacks samples of one shape along a new first axis."""

    def __call__(self, data: Sequence[Any]) -> nd.NDArray:
        shapes = {np.shape(sample) for sample in data}
        if len(shapes) > 1:
            raise MXNetError(f"Stack takes samples of one shape, not {sorted(shapes)}; Pad makes their extents equal")
        return default_batchify_fn(data)


class Pad:
    """Stacks samples of several extents, padded at their ends to the largest extent along each axis."""

    def __init__(self, val: float | None = None, dtype: Any = None, round_to: int | None = None) -> None:
        """
        Args:
            val: The padding; 0 by default.
            dtype: The dtype of the batch; that of the first sample by default.
            round_to: If given, the padded extent of the first axis is a multiple of it.
        """
        self.val, self.dtype, self.round_to = 0 if val is None else val, dtype, round_to

    def __call__(self, data: Sequence[Any]) -> nd.NDArray:
        arrays = [sample.asnumpy() if isinstance(sample, nd.NDArray) else np.asarray(sample) for sample in data]
        ranks = {array.ndim for array in arrays}
        if len(ranks) > 1 or 0 in ranks:
            raise MXNetError(f"Pad takes samples with the same number of axes, at least one, not {sorted(ranks)}")
        extents = np.max([array.shape for array in arrays], axis=0)
        if self.round_to is not None:
            extents[0] = -(-extents[0] // self.round_to) * self.round_to
        batch = np.full((len(arrays), *extents), self.val, self.dtype or arrays[0].dtype)
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
        return nd.array(batch, dtype=batch.dtype)


class Append:
    """Returns the samples as a list of arrays, each with a batch axis of extent 1 at `batch_axis` if `expand`."""

    def __init__(self, expand: bool = True, batch_axis: int = 0) -> None:
        self.expand, self.batch_axis = expand, batch_axis

    def __call__(self, data: Sequence[Any]) -> list[nd.NDArray]:
        arrays = [default_batchify_fn([sample])[0] for sample in data]
        return [array.expand_dims(self.batch_axis) for array in arrays] if self.expand else arrays


class Group:
    """Makes a batch of each element of samples that are tuples: `Group(Stack(), Pad(val=-1))`."""

    def __init__(self, fn: Batchify | Sequence[Batchify], *args: Batchify) -> None:
        if args and not callable(fn):
            raise ValueError("Group takes the functions as one sequence, or one by one")
        self.functions = (fn, *args) if callable(fn) else tuple(fn)

    def __call__(self, data: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        sizes = {len(sample) for sample in data}
        if sizes != {len(self.functions)}:
            raise MXNetError(f"Group has {len(self.functions)} functions; the samples have {sorted(sizes)} elements")
        return tuple(function(parts) for function, parts in zip(self.functions, zip(*data, strict=True), strict=True))


class AsList:
    """Returns the samples as a list."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        return list(data)
