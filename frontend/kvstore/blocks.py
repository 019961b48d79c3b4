"""Memory in which the arrays of a bucket are one after another while they are summed.

Gradients are not views of that memory themselves: a sum in their memory would change them before the step that asks for
it, and another memory for the sum costs the copy that views save. One native call copies all arrays of a bucket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ...ir.program import Copy, Place, Program, Space
from ...ir.types import DType, TensorType
from ...runtime.communicator import DeviceCommunicator
from ...runtime.device import Runnable, number_of
from ...runtime.tensor_memory import as_memory, elements
from ...runtime.writes import WrittenTogether, written
from ..ndarray import NDArray
from ..ndarray.array_classes import empty_array
from ..ndarray.gradients import put
from .buckets import Key

Array = np.ndarray[Any, Any]

_ADDRESS, _STORAGE = attrgetter("_address"), attrgetter("_storage")
_DTYPE, _DEVICE = attrgetter("_dtype"), attrgetter("_storage.device")
_KNOWN = 4
"""Pairs of lists of arrays for which copies are prepared."""


class Copies:
    """Copies of arrays to dense arrays, outside of recorded graphs: one call, if all are dense and of the same dtypes,
    in the memory of one device."""

    def __init__(self, targets: Sequence[NDArray]) -> None:
        """Copies to arrays like these, of which no two share elements."""
        self._dtypes, self._devices = list(map(_DTYPE, targets)), set(map(_DEVICE, targets))
        self._sizes = [array._nbytes() for array in targets]
        self._known: deque[_Prepared] = deque(maxlen=_KNOWN)

    def run(self, sources: Sequence[NDArray], targets: Sequence[NDArray], again: bool = False) -> None:
        """Copy each source to its target, which has its shape. `again` for lists that are passed more than once, as the
        same objects, which do not change: one program copies all of them."""
        for known in self._known:
            if known.sources is sources and known.targets is targets:
                known.run()
                return
        if not again or len(targets) < 2 or not self._fit(sources):
            for source, target in zip(sources, targets, strict=True):
                put(source, target)
            return
        (device,) = self._devices
        prepared = _Prepared(sources, targets, device.load(_copies(self._sizes)))
        self._known.append(prepared)
        prepared.run()

    def _fit(self, sources: Sequence[NDArray]) -> bool:
        if any([kind._is_sparse for kind in set(map(type, sources))]) or len(self._devices) > 1:
            return False
        return set(map(_DEVICE, sources)) == self._devices and list(map(_DTYPE, sources)) == self._dtypes


class _Prepared:
    """A program that copies arrays to others. It has their addresses, since it runs for no others."""

    def __init__(self, sources: Sequence[NDArray], targets: Sequence[NDArray], program: Runnable) -> None:
        self.sources, self.targets, self._program = sources, targets, program
        self._addresses = list(map(_ADDRESS, sources)), list(map(_ADDRESS, targets))
        self._written = WrittenTogether(set(map(_STORAGE, targets)))

    def run(self) -> None:
        self._program.run(*self._addresses)
        self._written()


def _copies(sizes: Sequence[int]) -> Program:
    """The program that copies each of its inputs, of so many bytes, to an output."""
    types = tuple([TensorType((n,), DType.U8) for n in sizes])
    steps = [Copy(Place(Space.OUTPUT, i), Place(Space.INPUT, i), n) for i, n in enumerate(sizes) if n]
    return Program("copies", types, types, frozenset(), tuple(steps), (), 0, 0, b"", ())


class _Block:
    """Memory for arrays of one dtype: `flat` is all of it, `parts` are arrays like those, by key."""

    def __init__(self, arrays: Mapping[Key, NDArray]) -> None:
        first = next(iter(arrays.values()))
        self.flat = empty_array((sum(array.size for array in arrays.values()),), first._dtype, first._context)
        self.parts: dict[Key, NDArray] = {}
        begin = 0
        for k, array in arrays.items():
            self.parts[k] = self.flat._alias(array._shape, begin)
            begin += array._nbytes()
        self.each = list(self.parts.values())


class Bucket:
    """Arrays of one dtype that are summed together."""

    def __init__(self, arrays: Mapping[Key, NDArray]) -> None:
        """For arrays like these."""
        self.keys = tuple(arrays)
        self._block: _Block | None = _Block(arrays)
        self._given: _Block | None = None
        self._copies = Copies(self._block.each)

    @property
    def block(self) -> _Block:
        """The memory that is in use."""
        if self._block is None:
            assert self._given is not None
            self._block = _Block(self._given.parts)
        return self._block

    @property
    def parts(self) -> dict[Key, NDArray]:
        """The arrays that are in the memory, which `fill` overwrites."""
        return self.block.parts

    @property
    def flat(self) -> NDArray:
        """The memory as one array."""
        return self.block.flat

    def fill(self, arrays: Sequence[NDArray], again: bool = False) -> None:
        """Copy arrays to the memory; see `Copies.run`."""
        self._copies.run(arrays, self.block.each, again)

    def values(self) -> Array:
        """The elements: on the host the memory itself, except of BF16, which is float32."""
        flat = self.flat
        if flat._address.__class__ is int:
            memory = flat._memory()
        else:
            memory = np.empty(flat._shape, flat._dtype.memory)
            flat._storage.device.read(flat._address, memory)
        return elements(memory, DType.BF16) if flat._dtype is DType.BF16 else memory

    def replace(self, values: Array) -> None:
        """Set the elements. They can be those of `values`, changed in place."""
        flat = self.flat
        if flat._address.__class__ is not int:
            flat._write(as_memory(values, flat._dtype))
        elif (memory := flat._memory()).ctypes.data != values.ctypes.data:
            memory[...] = as_memory(values, flat._dtype)
        written(flat._storage)

    def sum_over(self, gpus: DeviceCommunicator) -> None:
        """Start to replace the elements, which are on a GPU, by the sums over all members."""
        flat = self.flat
        gpus.all_reduce("sum", number_of(flat._address), flat._dtype, flat.size)
        written(flat._storage)

    def give(self) -> dict[Key, NDArray]:
        """The arrays that are in the memory, which keep their values until the next ones are given."""
        block = self.block
        self._block, self._given = self._given, block
        return block.parts
