"""Converts logical indices to addresses: a stride for each axis, gathered indices, and bounds tests.

GPU buffers are row-major, strided or channels-last.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.kernel import Affine, AxisKind, AxisValue, Buffer, Expr, Extent, Index, Kernel, Load, Store, walk
from ...ir.lazy_dataclass import dataclass
from ...ir.types import Layout
from .sizes import Size, product, size


@dataclass(frozen=True, slots=True)
class Bound:
    """The condition 0 <= index < extent, which a padded load tests."""

    index: Affine | Expr
    extent: Size


@dataclass(frozen=True, slots=True)
class Access:
    """Element `offset + sum(stride * axis) + sum(stride * gathered index)` of a buffer."""

    buffer: str
    offset: Size
    strides: tuple[tuple[str, Size], ...]
    gathers: tuple[tuple[Expr, Size], ...]
    bounds: tuple[Bound, ...]

    def stride(self, axis: str) -> Size:
        return next((s for a, s in self.strides if a == axis), size(0))


def access(kernel: Kernel, name: str, index: Index, *, padded: bool = False) -> Access:
    """The address of an index into buffer `name`; axes of extent 1 are left out."""
    buffer = kernel.buffer(name)
    offset, strides, gathers = size(0), dict[str, Size](), list[tuple[Expr, Size]]()
    for i, step in zip(index, element_strides(kernel, buffer), strict=True):
        if not isinstance(i, Affine):
            gathers.append((i, step))
            continue
        offset = offset + size(i.offset) * step
        for axis, c in i.terms:
            strides[axis] = strides.get(axis, size(0)) + size(c) * step
    steps = tuple((a, s) for a, s in strides.items() if s.terms and kernel.axis(a).extent != 1)
    return Access(name, offset, steps, tuple(gathers), _bounds(kernel, buffer, index) if padded else ())


def element_strides(kernel: Kernel, buffer: Buffer) -> tuple[Size, ...]:
    """The stride along each dimension, in elements; ValueError for a layout with several blocks or a halo."""
    shape = buffer.shape if buffer.layout is None else _channels_last(kernel, buffer, buffer.layout)
    if buffer.strides is not None:
        strides = tuple(map(size, buffer.strides))
    else:
        strides = tuple(product(map(size, shape[k + 1 :])) for k in range(len(shape)))
    return strides if buffer.layout is None else (strides[0], strides[-1], *strides[2:-1])


def _channels_last(kernel: Kernel, buffer: Buffer, layout: Layout) -> tuple[Extent, ...]:
    """The physical shape of a channels-last buffer."""
    n, channels, *space = buffer.shape
    if layout.block != max(1, channels) or any(map(any, layout.halo)):
        raise ValueError(
            f"kernel {kernel.name}: buffer {buffer.name} is neither row-major nor channels-last, as a GPU requires"
        )
    return (n, 1, *space, layout.block)


def _bounds(kernel: Kernel, buffer: Buffer, index: Index) -> tuple[Bound, ...]:
    """Tests for the dimensions along which the index can leave the buffer."""
    pairs = zip(index, buffer.shape, strict=True)
    return tuple(Bound(i, size(n)) for i, n in pairs if not isinstance(i, Affine) or _can_leave(kernel, i, size(n)))


def _can_leave(kernel: Kernel, index: Affine, extent: Size) -> bool:
    low = high = size(index.offset).constant
    for axis, c in index.terms:
        last = (size(c) * (size(kernel.axis(axis).extent) + size(-1))).constant
        if last is None or low is None or high is None:
            return True
        low, high = low + min(0, last), high + max(0, last)
    return low is None or high is None or low < 0 or extent.constant is None or high >= extent.constant


def accesses(kernel: Kernel) -> Iterator[Access]:
    """The address of every Load and Store of the kernel."""
    for stage in kernel.stages:
        for expr in walk(stage.value):
            if isinstance(expr, Load):
                yield access(kernel, expr.buffer, expr.index, padded=expr.other is not None)
        if isinstance(stage, Store):
            yield access(kernel, stage.buffer, stage.index)


def chains(kernel: Kernel) -> list[tuple[str, ...]]:
    """The axes in order; neighbours that every access can treat as one flattened axis form one chain. Axes of extent 1
    are left out."""
    every = list(accesses(kernel))
    pinned = _pinned(kernel, every)
    result: list[tuple[str, ...]] = []
    for axis in kernel.axes:
        if axis.extent == 1:
            continue
        last = kernel.axis(result[-1][-1]) if result else None
        if last is not None and last.kind is axis.kind and not pinned & {last.name, axis.name}:
            whole = size(axis.extent)
            if all(a.stride(last.name) == a.stride(axis.name) * whole for a in every):
                result[-1] = (*result[-1], axis.name)
                continue
        result.append((axis.name,))
    return result


def _pinned(kernel: Kernel, every: list[Access]) -> set[str]:
    """Axes whose value is read or tested by itself, so that they cannot be flattened."""
    named = {e.axis for s in kernel.stages for e in walk(s.value) if isinstance(e, AxisValue)}
    tested = {a for f in every for b in f.bounds if isinstance(b.index, Affine) for a, _ in b.index.terms}
    return named | tested


def axis_names(kernel: Kernel, kind: AxisKind) -> tuple[str, ...]:
    return tuple(a.name for a in kernel.axes if a.kind is kind)
