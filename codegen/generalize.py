"""Removes the shapes from a kernel, so that one piece of code serves all kernels with the same pattern of accesses.

The axes are those of the merged loop nest. Extents, strides other than 0 and 1, offsets of operands, and constants
become arguments of the launch. The result is equal for all shapes of an elementwise operation on contiguous operands,
of a reduction over the same side, and for all shapes with the same pattern of broadcasting.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
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
    Local,
    Reduce,
    Scalar,
    ScalarParameter,
    Stage,
    Store,
    affine,
    contracts,
    walk,
)
from ..ir.lazy_dataclass import dataclass
from ..ir.symbolic import deferred, is_symbolic
from ..ir.types import DType
from .hoist import hoist_reductions
from .nest import Access, Nest, build_nest, woven_axis

_COMMON = (0.0, 1.0, -1.0, float("inf"), float("-inf"))  # do not depend on shapes, and code for known values is faster
_FIXED = (DType.BOOL, DType.U32, DType.U64)  # constants of random streams: products with known numbers are faster
_OFFSET_INDEX = Affine((), 1)  # the index along the dimension whose stride is the offset of an operand


@dataclass(frozen=True)
class GeneralKernel:
    """A kernel with run-time extents. `operands` are the positions of its buffers among the buffers of the original
    kernel, `extents` the original's numbers in the order of `kernel.extents`."""

    kernel: Kernel
    operands: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def sizes(self) -> list[str]:
        """The names of the numbers that are extents, strides and offsets, and not constants."""
        constants = {e.name for s in self.kernel.stages for e in walk(s.value) if isinstance(e, ScalarParameter)}
        return [name for name in self.kernel.extents if name not in constants]


def generalize(kernel: Kernel, kept_strides: Sequence[int], weaves: bool = False) -> GeneralKernel | None:
    """The shape-free form of a kernel; None if its code depends on shapes: contractions, masks, blocked layouts,
    reductions over different axes. `kept_strides` stay constants if the operation itself has them, because the target
    has code for them. With `weaves` the extent of a woven axis stays a constant too."""
    if contracts(kernel) or any(b.layout for b in kernel.buffers):
        return None
    nest = build_nest(hoist_reductions(kernel))
    if nest.guard or any(a.bounds for a in nest.accesses.values()):
        return None
    try:
        return _Generalizer(kernel, nest, kept_strides, weaves).run()
    except _ShapedError:
        return None


class _ShapedError(Exception):
    """Part of the kernel depends on its shape."""


class _Generalizer:
    def __init__(self, kernel: Kernel, nest: Nest, kept_strides: Sequence[int], weaves: bool) -> None:
        self.kernel, self.nest, self.kept_strides = kernel, nest, kept_strides
        pairs = ((a.name, woven_axis(nest, a.name)) for a in nest.axes)
        self.woven = next((pair for pair in pairs if pair[1]), ("", "")) if weaves else ("", "")
        """The axis of vectors that are stored interleaved, and the short axis between their elements."""
        self.axes = {a.name: f"a{i}" for i, a in enumerate(nest.axes)}
        self.parallel = tuple(self.axes[a] for a in nest.names(AxisKind.PARALLEL))
        self.reduced = tuple(self.axes[a] for a in nest.names(AxisKind.REDUCE))
        self.values: dict[str, int] = {}
        self.numbers: dict[tuple[DType, int], ScalarParameter] = {}
        self.buffers: list[Buffer] = []
        self.operands: list[int] = []
        self.extents: dict[str, Extent] = {}
        self.views: dict[tuple[str, Index], tuple[str, Index]] = {}

    def run(self) -> GeneralKernel:
        axes = tuple(replace(a, name=self.axes[a.name], extent=self._axis_extent(a)) for a in self.nest.axes)
        axes = axes or (Axis("a0", self._named("a0n", 1)),)  # a scalar: one element
        self.extents = {a.name: a.extent for a in axes}
        stages = tuple(self._stage(s) for s in self.nest.stages)
        kernel = Kernel("general", tuple(self.buffers), tuple(self.values), axes, stages)
        return GeneralKernel(kernel, tuple(self.operands), tuple(self.values.values()))

    def _axis_extent(self, axis: Axis) -> Extent:
        return axis.extent if axis.name == self.woven[1] else self._named(f"{self.axes[axis.name]}n", axis.extent)

    def _named(self, name: str, value: Extent) -> str:
        assert isinstance(value, int)
        self.values[name] = value
        return name

    def _view(self, buffer: str, index: Index) -> tuple[str, Index]:
        """The buffer and the index of an access."""
        key = buffer, index
        if key not in self.views:
            self.views[key] = self._create_view(key, self.nest.accesses[key])
        return self.views[key]

    def _create_view(self, key: tuple[str, Index], access: Access) -> tuple[str, Index]:
        """A separate buffer for each pattern in which a buffer is accessed. It has a dimension for each axis, for each
        gathered index, and for the offset of the operand."""
        gathered = [self._expr(index) for index, _, _ in access.gathers]
        name = f"v{len(self.buffers)}"
        position = next(i for i, b in enumerate(self.kernel.buffers) if b.name == key[0])
        strided = [(a.name, access.stride(a.name)) for a in self.nest.axes if access.stride(a.name)]
        dimensions: list[tuple[Extent, Extent, Affine | Expr]] = []
        for axis, s in strided:
            own = self.axes[axis]
            kept = s == 1 or self._is_kept(key[1], axis, s) or self._is_woven(access, axis)
            stride = s if kept else self._named(f"{name}s{own}", s)
            dimensions.append((self.extents[own], stride, affine((own, 1))))
        for k, (index, (_, step, extent)) in enumerate(zip(gathered, access.gathers, strict=True)):
            size = 0 if extent is None else self._named(f"{name}e{k}", extent)
            step = step if step == 1 else self._named(f"{name}g{k}", step)
            dimensions.append((size, step, index))
        if access.offset:
            dimensions.append((2, self._named(f"{name}o", access.offset), _OFFSET_INDEX))
        shape, strides, index = zip(*dimensions, strict=True) if dimensions else ((), (), ())
        self.buffers.append(replace(self.kernel.buffers[position], name=name, shape=shape, strides=strides))
        self.operands.append(position)
        return name, index

    def _is_kept(self, index: Index, axis: str, stride: Extent) -> bool:
        """True for a kept stride that the operation itself has, for instance because it reads every second element or
        reverses the axis; other strides of this length depend on the shape."""
        terms = [t for i in index if isinstance(i, Affine) for t in i.terms]
        return not is_symbolic(stride) and stride in self.kept_strides and (axis, stride) in terms

    def _is_woven(self, access: Access, axis: str) -> bool:
        """True for the stride of a result along the axis of vectors that are stored interleaved."""
        vector, woven = self.woven
        return axis == vector and bool(woven) and access.stride(woven) == 1

    def _stage(self, stage: Stage) -> Stage:
        value = self._expr(stage.value)
        if isinstance(stage, Store):
            return Store(*self._view(stage.buffer, stage.index), value)
        full = self.reduced and not isinstance(value, Reduce) and not self.nest.reduced.isdisjoint(stage.axes)
        return Local(stage.name, self.parallel + self.reduced if full else self.parallel, value)

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Load(buffer=buffer, index=index, other=other):
                return Load(*self._view(buffer, index), other)
            case Scalar(op=op, operands=operands):
                return Scalar(op, tuple(self._expr(e) for e in operands))
            case Cast(dtype=dtype, operand=operand):
                return Cast(dtype, self._expr(operand))
            case Const():
                return self._number(expr)
            case Reduce(op=op, axes=axes, operand=operand):
                if {a.name for a in self.kernel.axes if a.kind is AxisKind.REDUCE} != set(axes):
                    raise _ShapedError
                return Reduce(op, self.reduced, self._expr(operand))
            case AxisValue(axis=axis):
                return self._position(axis)
            case _:
                return expr

    def _position(self, axis: str) -> Expr:
        terms = self.nest.values[axis]
        if len(terms) != 1 or terms[0][1] != 1 or terms[0][0] not in self.axes:
            raise _ShapedError
        return AxisValue(self.axes[terms[0][0]])

    def _number(self, const: Const) -> Expr:
        """A constant as an argument of the launch: many depend on the shape (the mean's divisor, the last index of a
        gathered axis)."""
        value, dtype = const.value, const.dtype
        is_index = dtype is DType.I64 and value != 0
        if dtype in _FIXED or value != value or (value in _COMMON and not is_index):
            return const
        bits = deferred(bits_of, value, dtype)
        parameter = self.numbers.get((dtype, bits))
        if parameter is None:
            name = self._named(f"c{len(self.numbers)}", bits)
            parameter = self.numbers[dtype, bits] = ScalarParameter(name, dtype)
        return parameter


def bits_of(value: float, dtype: DType) -> int:
    """A number as a signed 64-bit word. Its low bits are the number in the type in which kernels compute with
    `dtype`."""
    if not dtype.is_float:
        return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)
    memory = ctypes.c_double(value) if dtype is DType.F64 else ctypes.c_float(value)
    return int.from_bytes(bytes(memory), "little", signed=True)
