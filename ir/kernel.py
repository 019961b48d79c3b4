"""The kernel IR: what is computed for each point of an index space. A `Schedule` defines how it runs.

    kernel = Kernel(name, buffers, extents, axes, stages)
    buffer = Buffer(name, dtype, shape, layout, strides, written)
    axis   = Axis(name, extent, PARALLEL | REDUCE)   extent: a constant, or the name of an extent parameter
    stage  = Store(buffer, index, expr)              one element of a result for each point of the parallel axes
           | Local(name, axes, expr)                 a temporary over `axes` that later stages read by Ref
    expr   = Const(value, dtype) | ScalarParameter(name, dtype) | AxisValue(axis) | Load(buffer, index, other?)
           | Ref(local) | Scalar(op, exprs) | Cast(dtype, expr) | Reduce(op, axes, expr)
           | Contract(lhs, rhs, batch, rows, columns, inner, accumulator, dtype, windows)
    window = Window(name, out, tap, extent, stride, dilation, low, interior)
    index  = for each dimension an Affine (sum of coefficient * axis, plus an offset) or an expr (gather)

An index addresses the LOGICAL tensor; the buffer's layout maps it to memory. The index of a Load with `other` can leave
the buffer's shape, and the Load is `other` there (padding); without `other` it must stay inside. Contract is a matrix
product or a convolution with all of its attributes. Reduce accumulates 16-bit floats in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from .lazy_dataclass import dataclass
from .scalar import ReduceOp, ScalarOp, result_dtype
from .types import DType, Layout

Extent = int | str


class AxisKind(Enum):
    PARALLEL = "parallel"
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    extent: Extent
    kind: AxisKind = AxisKind.PARALLEL


@dataclass(frozen=True, slots=True)
class Affine:
    """sum(coefficient * axis) + offset; terms in the order of the kernel's axes, without zero coefficients."""

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory. `strides` are in elements and override row-major order; names are extent parameters. There is
    one per logical dimension, or with a `layout` one per physical dimension. None means contiguous."""

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    layout: Layout | None = None
    strides: tuple[Extent, ...] | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A number that the launch passes: the low bits of the extent parameter `name`."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class AxisValue:
    """The index along an axis, an I64."""

    axis: str


@dataclass(frozen=True, slots=True)
class Load:
    buffer: str
    index: Index
    other: Const | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """An element of a Local at the current point."""

    local: str


@dataclass(frozen=True, slots=True)
class Scalar:
    op: ScalarOp
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    dtype: DType
    operand: Expr


@dataclass(frozen=True, slots=True)
class Reduce:
    op: ReduceOp
    axes: tuple[str, ...]
    operand: Expr


class ContractionKind(Enum):
    PRODUCT = "product"
    CONVOLUTION = "convolution"
    WEIGHT_GRADIENT = "weight_gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One spatial axis of a convolution.

    `out` and `tap` are axes of the kernel. Output `out` reads with tap `tap` position out * stride + tap * dilation -
    low of the input, which has `extent` elements, interior - 1 zeros between neighbours and zeros on both sides. The
    window binds `name` in the left operand: the index of the element at that position.
    """

    name: str
    out: str
    tap: str
    extent: Extent
    stride: int = 1
    dilation: int = 1
    low: int = 0
    interior: int = 1

    @property
    def position(self) -> Affine:
        """The position in the input, counting interior zeros."""
        return affine((self.out, self.stride), (self.tap, self.dilation), offset=-self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """sum(lhs * rhs) over the reduce axes `inner`: a matrix product, or with `windows` a convolution or its gradient.

    `batch`, `rows` and `columns` are the parallel axes of both operands, only of `lhs`, and only of `rhs`. In a
    convolution, the groups are the batch, images and output positions are the rows, filters are the columns, and a
    group's channels and the taps are reduced. In its gradient with respect to the weights, a group's channels and the
    taps are the rows, and images and output positions are reduced. `lhs` is a Load in which each window's name indexes
    one dimension, and is zero where the window leaves the input. The gradient with respect to the data is a
    convolution, whose windows have interior zeros if the other one has strides.

    Products are summed in `accumulator`. The value has `dtype`; a 16-bit float stays in the accumulator's precision
    until the kernel casts or stores it.
    """

    lhs: Expr
    rhs: Expr
    batch: tuple[str, ...] = ()
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]
    accumulator: DType
    dtype: DType
    windows: tuple[Window, ...] = ()

    @property
    def kind(self) -> ContractionKind:
        if not self.windows:
            return ContractionKind.PRODUCT
        reduced = self.windows[0].out in self.inner
        return ContractionKind.WEIGHT_GRADIENT if reduced else ContractionKind.CONVOLUTION


Expr = Const | ScalarParameter | AxisValue | Load | Ref | Scalar | Cast | Reduce | Contract
Index = tuple[Affine | Expr, ...]


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    index: Index
    value: Expr


@dataclass(frozen=True, slots=True)
class Local:
    name: str
    axes: tuple[str, ...]
    value: Expr


Stage = Store | Local


@dataclass(frozen=True, slots=True)
class Kernel:
    """`buffers` are the kernel's arguments in order, followed by `extents`, each an i64."""

    name: str
    buffers: tuple[Buffer, ...]
    extents: tuple[str, ...]
    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of `expr`, including gathered indices."""
    find = _CHILDREN.get(type(expr))
    return find(expr) if find is not None else ()


_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Scalar: lambda expr: expr.operands,
    Cast: lambda expr: (expr.operand,),
    Reduce: lambda expr: (expr.operand,),
    Contract: lambda expr: (expr.lhs, expr.rhs),
    Load: lambda expr: tuple([i for i in expr.index if type(i) is not Affine]),
}


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything below it, depth first."""
    stack, children_of = [expr], _CHILDREN.get
    while stack:
        current = stack.pop()
        yield current
        find = children_of(type(current))
        if find is not None:
            stack += find(current)[::-1]


def index_value(index: Affine | Expr) -> Expr:
    """An index as a number of type I64."""
    if not isinstance(index, Affine):
        return index
    value: Expr = Const(index.offset, DType.I64)
    for axis, scale in index.terms:
        term = AxisValue(axis) if scale == 1 else Scalar(ScalarOp.MUL, (AxisValue(axis), Const(scale, DType.I64)))
        value = term if value == Const(0, DType.I64) else Scalar(ScalarOp.ADD, (term, value))
    return value


def local(kernel: Kernel, name: str) -> Local:
    """The temporary named `name`."""
    return next(s for s in kernel.stages if isinstance(s, Local) and s.name == name)


def dtype_of(kernel: Kernel, expr: Expr) -> DType:
    """The element type of an expression's values."""
    match expr:
        case Const(dtype=dtype) | ScalarParameter(dtype=dtype) | Cast(dtype=dtype) | Contract(dtype=dtype):
            return dtype
        case AxisValue():
            return DType.I64
        case Load(buffer=buffer):
            return kernel.buffer(buffer).dtype
        case Ref(local=name):
            return dtype_of(kernel, local(kernel, name).value)
        case Scalar(op=op, operands=operands):
            return result_dtype(op, *(dtype_of(kernel, e) for e in operands))
        case Reduce(operand=operand):
            return dtype_of(kernel, operand)


def contracts(kernel: Kernel) -> tuple[Contract, ...]:
    """The distinct contractions of a kernel."""
    nodes = (e for stage in kernel.stages for e in walk(stage.value) if isinstance(e, Contract))
    return tuple(dict.fromkeys(nodes))


def affine(*terms: tuple[str, int], offset: int = 0) -> Affine:
    """An Affine of (axis, coefficient) pairs."""
    return Affine(tuple(t for t in terms if t[1]), offset)
