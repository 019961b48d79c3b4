"""Batches between processes: a pickle, whose large arrays are in blocks of shared memory.

The loader's process uses large arrays where the worker wrote them, without a copy. Small ones are part of the pickle,
so that a label does not keep a block of images.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from functools import partial
from math import prod
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from .....ir.lazy_dataclass import dataclass
from .....ir.types import DType
from .....runtime.storage import Storage, as_numpy
from ....context import cpu_shared
from ....ndarray import NDArray
from ....ndarray.array_classes import array_at, array_class, empty_array, is_numpy
from .memory import Arena, BlockStorage

_SMALL = 1 << 16
_SHORT_PICKLE = 1 << 12

_arenas: list[Arena] = []  # one in a worker process, none elsewhere


def use_arena(arena: Arena) -> None:
    """Make `shared_array` allocate from this arena."""
    _arenas[:] = [arena]


def shared_array(shape: tuple[int, ...], dtype: DType) -> NDArray:
    """An array without values in context cpu_shared: in a worker process, large ones are in shared memory."""
    nbytes = prod(shape) * dtype.itemsize
    if not _arenas or nbytes < _SMALL:
        return empty_array(shape, dtype, cpu_shared())
    storage = _arenas[0].allocate(nbytes)
    return array_at(storage, storage.address, shape, dtype, cpu_shared())


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch: `blocks` are the numbers of blocks of shared memory, and the bytes used in each. The first `arrays` of
    them are arrays, the others buffers of the pickle. If the pickle itself is long, it is in the last block."""

    pickled: bytes | None
    arrays: int
    blocks: list[tuple[int, int]]


def pack(batch: Any, arena: Arena) -> Packed:
    """Pickle a batch, and keep its blocks for the loader's process until `Arena.take_back`."""
    stream = io.BytesIO()
    pickler = _BatchPickler(stream, arena)
    pickler.dump(batch)
    storages, content = [*pickler.arrays, *pickler.buffers], stream.getbuffer()
    short = content.nbytes <= _SHORT_PICKLE
    if not short:
        storages.append(_copied(content, arena))
    blocks = [(arena.lend(storage.block), storage.nbytes) for storage in storages]
    return Packed(bytes(content) if short else None, len(pickler.arrays), blocks)


def unpack(packed: Packed, storages: Sequence[Storage]) -> Any:
    """The batch in this process. `storages` are the memory of its blocks."""
    buffers: list[Any] = [as_numpy(s, np.uint8, (s.nbytes,)) for s in storages[packed.arrays :]]
    pickled = buffers.pop() if packed.pickled is None else packed.pickled
    return _BatchUnpickler(io.BytesIO(pickled), buffers, storages).load()


class _BatchPickler(pickle.Pickler):
    """Pickles arrays as references to blocks: `arrays`, and `buffers` for those of NumPy."""

    def __init__(self, stream: io.BytesIO, arena: Arena) -> None:
        buffers: list[BlockStorage] = []
        # Not a method: the pickler would be garbage in a cycle, and keep the blocks until a collection.
        super().__init__(stream, pickle.HIGHEST_PROTOCOL, buffer_callback=partial(_is_small, buffers, arena))
        self.dispatch_table = ForkingPickler(stream).dispatch_table  # type: ignore[attr-defined]
        self.arrays: list[BlockStorage] = []
        self.buffers = buffers
        self._arena = arena

    def reducer_override(self, obj: Any) -> Any:
        if not (type(obj) is NDArray or is_numpy(obj)) or not obj._on_host:
            return NotImplemented
        nbytes = obj._nbytes()
        if nbytes < _SMALL:
            return _array_of_bytes, (obj._memory().tobytes(), obj._shape, obj._dtype.value, is_numpy(obj))
        storage = obj._storage
        if not isinstance(storage, BlockStorage) or storage.nbytes != nbytes:
            storage = _copied(obj._memory(), self._arena)
        return _array_in_block, (storage, obj._shape, obj._dtype.value, is_numpy(obj))

    def persistent_id(self, obj: Any) -> int | None:
        """The position of a storage in `arrays`; None for other objects."""
        if not isinstance(obj, BlockStorage):
            return None
        self.arrays.append(obj)
        return len(self.arrays) - 1


def _is_small(buffers: list[BlockStorage], arena: Arena, buffer: pickle.PickleBuffer) -> bool:
    """True for a buffer that becomes a part of the pickle. Others are copied to blocks, and added to `buffers`."""
    with buffer.raw() as content:
        if content.nbytes >= _SMALL:
            buffers.append(_copied(content, arena))
        return content.nbytes < _SMALL


class _BatchUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, buffers: Sequence[Any], storages: Sequence[Storage]) -> None:
        super().__init__(stream, buffers=buffers)
        self._storages = storages

    def persistent_load(self, pid: int) -> Storage:
        return self._storages[pid]


def _copied(content: memoryview | np.ndarray, arena: Arena) -> BlockStorage:
    """A block with this content."""
    values = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    storage = arena.allocate(values.nbytes)
    as_numpy(storage, np.uint8, values.shape)[:] = values
    return storage


def _array_of_bytes(content: bytes, shape: tuple[int, ...], dtype: str, numpy: bool) -> NDArray:
    array = empty_array(shape, DType(dtype), cpu_shared(), array_class("numpy" if numpy else "default"))
    array._write(np.frombuffer(content, array._memory().dtype).reshape(shape))
    return array


def _array_in_block(storage: Storage, shape: tuple[int, ...], dtype: str, numpy: bool) -> NDArray:
    cls = array_class("numpy" if numpy else "default")
    return array_at(storage, storage.address, shape, DType(dtype), cpu_shared(), cls)
