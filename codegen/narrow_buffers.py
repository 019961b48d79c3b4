"""Narrows the buffers of a kernel to the parts that it accesses, so that kernels of different pieces are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..ir.kernel import Affine, Buffer, Expr, Extent, Index, Kernel, Load, Stage, Store, contracts, index_value, walk
from ..ir.symbolic import is_symbolic, known_equal
from ..ir.types import TensorType
from ..passes.plan_memory import physical_strides
from .lower_contract import rewritten


class Part(NamedTuple):
    """A box of a buffer: the element of the buffer at which it begins, its type, and its strides (None: contiguous)."""

    offset: int
    type: TensorType
    strides: tuple[int, ...] | None


def narrow_buffers(kernel: Kernel) -> tuple[Kernel, tuple[Part | None, ...]]:
    """The kernel on parts of its buffers, and for each buffer its part, or None if the kernel takes all of it.

    A kernel takes a part if constants shift all of its accesses to a buffer: those to a slice, and those to a piece of
    a concatenation. Kernels with products take whole buffers, which they can pack.
    """
    accesses = {} if contracts(kernel) else _accesses(kernel)
    extents = {a.name: a.extent for a in kernel.axes}
    begins: dict[str, tuple[int, ...]] = {}
    parts: list[Part | None] = []
    buffers: list[Buffer] = []
    for buffer in kernel.buffers:
        box = _box(buffer, accesses.get(buffer.name, ()), extents)
        if box is not None:
            begins[buffer.name], part = box
            buffer = replace(buffer, shape=part.type.shape, strides=part.strides)
        buffers.append(buffer)
        parts.append(None if box is None else box[1])
    if begins:
        kernel = _shifted(replace(kernel, buffers=tuple(buffers)), begins)
    return kernel, tuple(parts)


def _accesses(kernel: Kernel) -> dict[str, list[Index]]:
    """The indices of all loads and stores of each buffer that has no padding and is not read to gather."""
    accesses: dict[str, list[Index]] = {}
    kept: set[str] = set()
    for stage in kernel.stages:
        loads = [e for e in walk(stage.value) if isinstance(e, Load)]
        indices = [load.index for load in loads]
        if isinstance(stage, Store):
            accesses.setdefault(stage.buffer, []).append(stage.index)
            indices.append(stage.index)
        for load in loads:
            accesses.setdefault(load.buffer, []).append(load.index)
            if load.other is not None:
                kept.add(load.buffer)
        gathered = [index_value(i) for index in indices for i in index if not isinstance(i, Affine)]
        kept.update(e.buffer for expr in gathered for e in walk(expr) if isinstance(e, Load))
    return {name: indices for name, indices in accesses.items() if name not in kept}


def _box(
    buffer: Buffer, accesses: Sequence[Index], extents: Mapping[str, Extent]
) -> tuple[tuple[int, ...], Part] | None:
    """The first index of the box that the accesses reach, and the box; None if the buffer is not narrowed."""
    known = _numbers(buffer.shape)
    if buffer.layout is not None or not accesses or known is None:
        return None
    begin: list[int] = []
    shape: list[int] = []
    for n, indices in zip(known, zip(*accesses, strict=True), strict=True):
        reach = _reach(indices, extents)
        if reach is None:
            return None
        first, end = reach
        begin.append(first)
        shape.append(end - first if first else n)
    whole, part = TensorType(known, buffer.dtype), TensorType(tuple(shape), buffer.dtype)
    strides = physical_strides(whole) if buffer.strides is None else _numbers(buffer.strides)
    if strides is None or not any(begin) or min(begin) < 0:
        return None
    offset = sum(b * stride for b, stride in zip(begin, strides, strict=True))
    return tuple(begin), Part(offset, part, None if _is_contiguous(part, strides) else strides)


def _numbers(extents: tuple[Extent, ...]) -> tuple[int, ...] | None:
    """The extents if none of them is the name of a parameter."""
    numbers = tuple([n for n in extents if not isinstance(n, str)])
    return numbers if len(numbers) == len(extents) else None


def _reach(indices: Sequence[Affine | Expr], extents: Mapping[str, Extent]) -> tuple[int, int] | None:
    """The first index along one dimension, and the end if the first is not 0; None if they are not constants."""
    affine = [i for i in indices if isinstance(i, Affine)]
    if len(affine) < len(indices) or any(is_symbolic(i.offset) for i in affine):
        return None
    first, end = min(i.offset for i in affine), 0
    for index in affine if first else ():
        last = index.offset
        for axis, coefficient in index.terms:
            n = extents[axis]
            if isinstance(n, str) or is_symbolic(n) or is_symbolic(coefficient) or coefficient < 0:
                return None
            last += coefficient * (n - 1)
        end = max(end, last + 1)
    return first, end


def _is_contiguous(type: TensorType, strides: Sequence[int]) -> bool:
    """True if these strides are those of contiguous memory, except along axes of one element."""
    pairs = zip(type.shape, strides, physical_strides(type), strict=True)
    return all(known_equal(n, 1) or known_equal(stride, contiguous) for n, stride, contiguous in pairs)


def _shifted(kernel: Kernel, begins: Mapping[str, tuple[int, ...]]) -> Kernel:
    """The kernel with indices into the parts that begin at `begins`."""

    def shift(buffer: str, index: Index) -> Index:
        pairs = zip(index, begins[buffer], strict=True)
        return tuple([replace(i, offset=i.offset - begin) if isinstance(i, Affine) else i for i, begin in pairs])

    def shift_load(e: Expr) -> Expr:
        return replace(e, index=shift(e.buffer, e.index)) if isinstance(e, Load) and e.buffer in begins else e

    def shift_store(stage: Stage) -> Stage:
        if isinstance(stage, Store) and stage.buffer in begins:
            return replace(stage, index=shift(stage.buffer, stage.index))
        return stage

    kernel = rewritten(kernel, shift_load)
    return replace(kernel, stages=tuple(map(shift_store, kernel.stages)))
