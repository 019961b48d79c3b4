"""Converts a kernel's logical indices to addresses: axes of a loop nest, a stride along each, and bounds to test.

    nest   = Nest(axes, stages, accesses, guard)
    access = Access(buffer, offset, strides, bounds, gathers)
    address in elements = offset + sum(stride * axis) + sum(stride * gathered index)

The axis that counts the channels of blocked buffers is split in two (block, channel within the block). A blocked buffer
whose channels are read in another way (in reverse, along another axis) is gathered. Axes that are one flattened axis
for every access are merged; axes of extent 1 are removed. The result is the smallest nest, equal for many shapes.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.kernel import (
    Affine,
    Axis,
    AxisKind,
    AxisValue,
    Buffer,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Kernel,
    Load,
    Reduce,
    Scalar,
    Stage,
    Store,
    index_value,
    walk,
)
from ..ir.lazy_dataclass import dataclass
from ..ir.scalar import ScalarOp
from ..ir.symbolic import is_symbolic, known_equal
from ..ir.types import DType, Shape

Terms = tuple[tuple[str, int], ...]
Strides = tuple[tuple[str, Extent], ...]

_WOVEN = (2, 3, 4)
"""Extents of axes for which vectors are stored interleaved."""


@dataclass(frozen=True, slots=True)
class Bound:
    """0 <= sum(coefficient * axis) + offset < extent."""

    terms: Terms
    offset: int
    extent: int


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses of one Load or Store. Gathers are (index expression, stride, extent). A padded access masks
    elements outside of `bounds` and of the extents of gathers; the extent is None if the index is always inside.
    `in_blocks` is True if the split axis counts the buffer's channels, whose last block can be padded.
    """

    buffer: str
    offset: Extent
    strides: Strides
    bounds: tuple[Bound, ...] = ()
    gathers: tuple[tuple[Expr, Extent, Extent | None], ...] = ()
    in_blocks: bool = False

    def stride(self, axis: str) -> Extent:
        return next((s for a, s in self.strides if a == axis), 0)


@dataclass(frozen=True)
class Nest:
    """A loop nest. `accesses` maps (buffer, index) of every Load and Store to its Access. `values` are the terms of
    each AxisValue, `reduced` the kernel's names of its reduced axes. `guard` is the test that a lane is a channel and
    not padding; None if no block is padded."""

    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    accesses: dict[tuple[str, Index], Access]
    values: dict[str, Terms]
    reduced: frozenset[str]
    guard: Bound | None = None

    def extent(self, axis: str) -> Extent:
        return next(a.extent for a in self.axes if a.name == axis)

    def known_extent(self, axis: str) -> int:
        """The extent of an axis. ValueError if it is a run-time extent."""
        extent = self.extent(axis)
        if not isinstance(extent, int):
            raise ValueError(f"axis {axis} has the run-time extent {extent}")
        return extent

    def names(self, kind: AxisKind) -> list[str]:
        return [a.name for a in self.axes if a.kind is kind]


def build_nest(kernel: Kernel) -> Nest:
    """The loop nest of a kernel; ValueError names an access that has no address. With run-time extents the axes are
    unchanged.
    """
    nest = _Linear(kernel).nest()
    return nest if kernel.extents else _without_reductions(_merge_axes(_drop_unit_axes(nest)))


def woven_axis(nest: Nest, vector: str) -> str:
    """The short axis whose elements all results have next to each other, followed by those of the next element of the
    vector axis; "" if there is none, or if operands are not contiguous or equal along the vector axis."""
    stored = {(s.buffer, s.index) for s in nest.stages if isinstance(s, Store)}
    if nest.reduced or nest.guard is not None or any(a.bounds or a.in_blocks for a in nest.accesses.values()):
        return ""
    if any(_step(a, vector) not in (0, 1) for key, a in nest.accesses.items() if key not in stored):
        return ""
    results = [nest.accesses[key] for key in stored]
    for axis in nest.axes:
        n = axis.extent
        if isinstance(n, str) or is_symbolic(n) or n not in _WOVEN or axis.name == vector:
            continue
        if all(_step(a, axis.name) == 1 and _step(a, vector) == n for a in results):
            return axis.name
    return ""


def _step(access: Access, axis: str) -> int:
    """The stride of an access along an axis, -1 if it is no known number."""
    stride = access.stride(axis)
    return -1 if isinstance(stride, str) or is_symbolic(stride) else stride


def _touched(stages: tuple[Stage, ...]) -> list[tuple[str, Index, bool]]:
    """(buffer, index, padded) of every access, in order."""
    touched: dict[tuple[str, Index], bool] = {}
    for stage in stages:
        for expr in walk(stage.value):
            if isinstance(expr, Load):
                touched[expr.buffer, expr.index] = (
                    touched.get((expr.buffer, expr.index), False) or expr.other is not None
                )
        if isinstance(stage, Store):
            touched[stage.buffer, stage.index] = False
            for i in stage.index:
                assert isinstance(i, Affine)
    return [(buffer, index, padded) for (buffer, index), padded in touched.items()]


class _Linear:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.extents = {a.name: a.extent for a in kernel.axes}
        self.touched = _touched(kernel.stages)
        self.split, self.block = self._split_axis()

    def _split_axis(self) -> tuple[str, int]:
        """The axis that counts channels in blocked buffers, and the block; ("", 1) if there is none. Stores take
        precedence, because they cannot be scattered.
        """
        stores = [(stage.buffer, stage.index) for stage in self.kernel.stages if isinstance(stage, Store)]
        loads = [(name, index) for name, index, _ in self.touched if (name, index) not in stores]
        for name, index in (*stores, *loads):
            layout, channel = self.kernel.buffer(name).layout, index[1] if len(index) > 1 else None
            if layout is None or layout.block == 1 or not isinstance(channel, Affine):
                continue
            inside = self._inside_blocks(channel, layout.block)
            if len(inside) == 1 and inside[0][1] == 1 and channel.offset % layout.block == 0:
                return inside[0][0], layout.block
        return "", 1

    def _inside_blocks(self, channel: Affine, block: int) -> Terms:
        """The terms that are not multiples of the block, without axes of extent 1."""
        return tuple((a, c) for a, c in channel.terms if c % block and self.extents[a] != 1)

    def _follows_blocks(self, channel: Affine, block: int) -> bool:
        """True if the channel's index is the split axis, or moves by whole blocks."""
        inside = self._inside_blocks(channel, block)
        if not inside:
            return channel.offset % block == 0 or not channel.terms
        return inside == ((self.split, 1),) and block == self.block and channel.offset % block == 0

    def nest(self) -> Nest:
        accesses = {(name, index): self._access(name, index, padded) for name, index, padded in self.touched}
        self._check_stores(accesses)
        values = {a.name: self._physical(((a.name, 1),)) for a in self.kernel.axes}
        reduced = frozenset(a.name for a in self.kernel.axes if a.kind is AxisKind.REDUCE)
        return Nest(self._axes(), self.kernel.stages, accesses, values, reduced, self._guard())

    def _check_stores(self, accesses: dict[tuple[str, Index], Access]) -> None:
        for stage in self.kernel.stages:
            if isinstance(stage, Store) and accesses[stage.buffer, stage.index].gathers:
                channel = stage.index[1]
                raise ValueError(f"kernel {self.kernel.name}: channels of {stage.buffer} are written at {channel}")

    def _guard(self) -> Bound | None:
        channels = self.extents.get(self.split)
        if not isinstance(channels, int) or channels % self.block == 0:
            return None
        return Bound(self._physical(((self.split, 1),)), 0, channels)

    def _axes(self) -> tuple[Axis, ...]:
        if not self.split:
            return self.kernel.axes
        channel = self.kernel.axis(self.split)
        assert isinstance(channel.extent, int)
        outer = replace(channel, name=f"{channel.name}o", extent=-(-channel.extent // self.block))
        inner = replace(channel, name=f"{channel.name}i", extent=self.block)
        axes = [outer if a is channel else a for a in self.kernel.axes]
        last = max(i for i, a in enumerate(axes) if a.kind is channel.kind)
        return (*axes[: last + 1], inner, *axes[last + 1 :])

    def _physical(self, terms: Terms) -> Terms:
        """Terms over the kernel's axes as terms over the nest's."""
        out: list[tuple[str, int]] = []
        for axis, c in terms:
            out += [(f"{axis}o", c * self.block), (f"{axis}i", c)] if axis == self.split else [(axis, c)]
        return tuple(out)

    def _access(self, name: str, index: Index, padded: bool) -> Access:
        buffer = self.kernel.buffer(name)
        offset: Extent = 0
        strides, gathers = dict[str, Extent](), list[tuple[Expr, Extent, Extent | None]]()
        for i, n, (step, halo, block) in zip(index, buffer.shape, _dimensions(buffer), strict=True):
            if not isinstance(i, Affine) or (block > 1 and not self._follows_blocks(i, block)):
                gathers += _gathered(i, step, block, n if padded and not isinstance(i, Affine) else None)
                i = Affine()
            start = self._offset(i, step, halo, block)
            offset = offset + start if isinstance(offset, int) and isinstance(start, int) else start or offset
            for axis, s in self._steps(i, step, block):
                before = strides.get(axis, 0)
                strides[axis] = before + s if isinstance(before, int) and isinstance(s, int) else s
        bounds = self._bounds(buffer, index) if padded else ()
        steps = tuple((a, s) for a, s in strides.items() if s)
        return Access(name, offset, steps, bounds, tuple(gathers), self._is_in_blocks(buffer, index))

    def _is_in_blocks(self, buffer: Buffer, index: Index) -> bool:
        """True if the split axis counts the buffer's channels."""
        block = buffer.layout.block if buffer.layout else 1
        channel = index[1] if block > 1 else None
        return isinstance(channel, Affine) and self._inside_blocks(channel, block) == ((self.split, 1),)

    def _offset(self, index: Affine, step: Extent, halo: int, block: int) -> Extent:
        if index.offset + halo == 0:
            return 0
        if not isinstance(step, int):
            if index != Affine((), 1):
                raise ValueError(f"kernel {self.kernel.name}: an offset along a run-time stride")
            return step
        if block == 1:
            return (index.offset + halo) * step
        return index.offset // block * step + index.offset % block

    def _steps(self, index: Affine, step: Extent, block: int) -> list[tuple[str, Extent]]:
        if not isinstance(step, int):
            return [(a, step) for a, _ in index.terms]
        if block == 1:
            return [(a, c * step) for a, c in self._physical(index.terms)]
        inside = self._inside_blocks(index, block)
        steps: list[tuple[str, Extent]] = [pair for axis, _ in inside for pair in ((f"{axis}o", step), (f"{axis}i", 1))]
        return steps + [(axis, c // block * step) for axis, c in index.terms if c % block == 0]

    def _bounds(self, buffer: Buffer, index: Index) -> tuple[Bound, ...]:
        """Tests for the dimensions along which the index can leave the buffer."""
        bounds: list[Bound] = []
        for i, n in zip(index, buffer.shape, strict=True):
            if isinstance(i, Affine) and isinstance(n, int) and self._can_leave(i, n):
                bounds.append(Bound(self._physical(i.terms), i.offset, n))
        return tuple(bounds)

    def _can_leave(self, index: Affine, n: int) -> bool:
        low = high = index.offset
        for axis, c in index.terms:
            extent = self.extents[axis]
            assert isinstance(extent, int)
            low, high = low + min(0, c * (extent - 1)), high + max(0, c * (extent - 1))
        return low < 0 or high >= n


def _gathered(
    index: Affine | Expr, step: Extent, block: int, extent: Extent | None
) -> list[tuple[Expr, Extent, Extent | None]]:
    """The gathers of one dimension; for a blocked dimension, of the block and of the position in the block."""
    position = index_value(index)
    if block == 1:
        return [(position, step, extent)]
    size = Const(block, DType.I64)
    number, place = Scalar(ScalarOp.DIV, (position, size)), Scalar(ScalarOp.MOD, (position, size))
    tested: list[tuple[Expr, Extent, Extent | None]] = [] if extent is None else [(position, 0, extent)]
    return [*tested, (number, step, None), (place, 1, None)]


def _dimensions(buffer: Buffer) -> list[tuple[Extent, int, int]]:
    """(stride, elements of halo before, block) of each logical dimension."""
    if buffer.layout is None and buffer.strides is not None:
        return [(s, 0, 1) for s in buffer.strides]
    shape: Shape = tuple(n for n in buffer.shape if isinstance(n, int))
    layout = buffer.layout
    physical = shape if layout is None else layout.physical_shape(shape)
    strides = [s for s in buffer.strides if isinstance(s, int)] if buffer.strides else _contiguous(physical)
    if layout is None:
        return [(s, 0, 1) for s in strides]
    halo = [lo for lo, _ in layout.halo]
    return [
        (strides[0], 0, 1),
        (strides[1], 0, layout.block),
        *((s, h, 1) for s, h in zip(strides[2:-1], halo, strict=True)),
    ]


def _contiguous(shape: Shape) -> list[int]:
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return strides[::-1]


def _pinned(nest: Nest) -> set[str]:
    """Axes whose value is read or tested by itself, so that they can be neither merged nor removed."""
    bounds = [b for a in nest.accesses.values() for b in a.bounds] + ([nest.guard] if nest.guard else [])
    pinned = {axis for b in bounds for axis, _ in b.terms}
    gathered = [expr for a in nest.accesses.values() for expr, _, _ in a.gathers]
    for value in (*gathered, *(stage.value for stage in nest.stages)):
        for expr in walk(value):
            if isinstance(expr, AxisValue):
                pinned.update(a for a, _ in nest.values[expr.axis])
    return pinned


def _drop_unit_axes(nest: Nest) -> Nest:
    pinned = _pinned(nest)
    dropped = {a.name for a in nest.axes if a.extent == 1 and a.name not in pinned}
    return _without(nest, dropped, tuple(a for a in nest.axes if a.name not in dropped))


def _without_reductions(nest: Nest) -> Nest:
    """The nest with each Reduce replaced by its operand, if no reduced axis is left: it then combines one element."""
    if nest.names(AxisKind.REDUCE):
        return nest
    return replace(nest, stages=tuple(replace(s, value=_single(s.value)) for s in nest.stages))


def _single(expr: Expr) -> Expr:
    match expr:
        case Reduce(operand=operand):
            return _single(operand)
        case Scalar(operands=operands):
            return replace(expr, operands=tuple(map(_single, operands)))
        case Cast(operand=operand):
            return replace(expr, operand=_single(operand))
        case _:
            return expr


def _without(nest: Nest, dropped: set[str], axes: tuple[Axis, ...]) -> Nest:
    accesses = {
        key: replace(a, strides=tuple((n, s) for n, s in a.strides if n not in dropped))
        for key, a in nest.accesses.items()
    }
    return replace(nest, axes=axes, accesses=accesses)


def _merge_axes(nest: Nest) -> Nest:
    """Merge neighbours (a, b) of one kind if in each access the stride of a is extent(b) times the stride of b."""
    pinned = _pinned(nest)
    merged = True
    while merged:
        merged = False
        for a, b in zip(nest.axes, nest.axes[1:], strict=False):
            if a.kind is b.kind and not pinned & {a.name, b.name} and _can_merge(nest, a, b):
                assert isinstance(a.extent, int) and isinstance(b.extent, int)
                whole = replace(b, extent=a.extent * b.extent)
                axes = tuple(whole if x is b else x for x in nest.axes if x is not a)
                nest = _without(nest, {a.name}, axes)
                merged = True
                break
    return nest


def _can_merge(nest: Nest, a: Axis, b: Axis) -> bool:
    assert isinstance(b.extent, int)
    for access in nest.accesses.values():
        outer, inner = access.stride(a.name), access.stride(b.name)
        assert isinstance(outer, int) and isinstance(inner, int)
        if not known_equal(outer, inner * b.extent):
            return False
    return True
