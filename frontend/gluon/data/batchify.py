"""`mxforge.gluon.data.batchify`: functions that make a batch of samples, for `DataLoader(batchify_fn=...)`.

MXNet 1.9.1 lacks this module. Its functions are those of MXNet 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import MXNetError
from ...context import Context

Batchify = Callable[[Sequence[Any]], Any]


def _context(shared: bool) -> Context:
    return Context("cpu_shared" if shared else "cpu", 0)


def _arrays(samples: Sequence[Any]) -> list[np.ndarray]:
    return [sample.asnumpy() if isinstance(sample, nd.NDArray) else np.asarray(sample) for sample in samples]


class Stack:
    """Stacks samples of one shape along a new first axis. Elements of tuples are stacked separately.

    `use_shared_mem` puts the batch in memory that processes share, here as in the other functions.
    """

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._ctx = _context(use_shared_mem)

    def __call__(self, data: Sequence[Any]) -> Any:
        if isinstance(data[0], tuple):
            return [self(parts) for parts in zip(*data, strict=True)]
        arrays = _arrays(data)
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise MXNetError(f"Stack takes samples of one shape, not {sorted(shapes)}; Pad makes their extents equal")
        batch = np.stack(arrays)
        return nd.array(batch, self._ctx, batch.dtype)


class Pad:
    """Stacks samples of several extents, padded at their ends to the largest extent along each axis."""

    def __init__(
        self, val: float | None = None, dtype: Any = None, round_to: int | None = None, use_shared_mem: bool = False
    ) -> None:
        """
        Args:
            val: The padding; 0 by default.
            dtype: The dtype of the batch; that of the first sample by default.
            round_to: If given, padded extents are multiples of it.
            use_shared_mem: Whether the batch is in memory that processes share.
        """
        self._ctx = _context(use_shared_mem)
        self.val, self.dtype, self.round_to = 0 if val is None else val, dtype, round_to

    def __call__(self, data: Sequence[Any]) -> nd.NDArray:
        if isinstance(data[0], tuple):
            raise MXNetError("Pad takes arrays, not tuples: Group applies a function to each element of tuples")
        arrays = _arrays(data)
        ranks = {array.ndim for array in arrays}
        if len(ranks) > 1 or 0 in ranks:
            raise MXNetError(f"Pad takes samples with the same number of axes, at least one, not {sorted(ranks)}")
        extents = np.max([array.shape for array in arrays], axis=0)
        if self.round_to is not None:
            extents = -(-extents // self.round_to) * self.round_to
        batch = np.full((len(arrays), *extents), self.val, self.dtype or arrays[0].dtype)
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
        return nd.array(batch, self._ctx, batch.dtype)


class Append:
    """Returns the samples as a list of arrays, each with a batch axis of extent 1 at `batch_axis` if `expand`. Samples
    that are no NDArrays become float32."""

    def __init__(self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False) -> None:
        self.expand, self.batch_axis = expand, batch_axis
        self._ctx = _context(use_shared_mem)

    def __call__(self, data: Sequence[Any]) -> list[nd.NDArray]:
        arrays = [nd.array(sample, self._ctx) for sample in data]
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
