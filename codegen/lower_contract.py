"""Builds the kernels of convolutions and matrix products: what is computed, with any expression of the sum as the
epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..ir.kernel import (
    Affine,
    Axis,
    AxisKind,
    AxisValue,
    Buffer,
    Const,
    Contract,
    Expr,
    Index,
    Kernel,
    Load,
    Reduce,
    ReduceOp,
    Scalar,
    Stage,
    Store,
    affine,
    walk,
)
from ..ir.kernel import Cast as CastExpr
from ..ir.scalar import ScalarOp
from ..ir.types import DType, Layout

Epilogue = Callable[[Expr, Index], Expr]
"""From the Contract and the index of the stored element to the stored value."""


@dataclass(frozen=True)
class ConvSpec:
    """A convolution's attributes, as in core: `low` and `high` are the padding on each side of each spatial axis
    (negative crops).
    """

    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...] = ()
    interior: tuple[int, ...] = ()
    groups: int = 1

    def out_size(self, size: Sequence[int], taps: Sequence[int]) -> tuple[int, ...]:
        rank = len(size)
        dilation, interior = self.dilation or (1,) * rank, self.interior or (1,) * rank
        return tuple(
            ((n - 1) * i + 1 + lo + hi - (k - 1) * d - 1) // s + 1
            for n, k, s, lo, hi, d, i in zip(
                size, taps, self.stride, self.low, self.high, dilation, interior, strict=True
            )
        )


@dataclass(frozen=True)
class Extras:
    """Further operands of an epilogue, and physical strides of the three other buffers unless contiguous."""

    buffers: tuple[Buffer, ...] = ()
    epilogue: Epilogue = field(default=lambda total, index: total)
    strides: tuple[tuple[int, ...] | None, ...] = (None, None, None)


def conv_kernel(
    x: tuple[int, ...],
    w: tuple[int, ...],
    spec: ConvSpec,
    dtype: DType = DType.F32,
    x_layout: Layout | None = None,
    out_layout: Layout | None = None,
    extras: Extras | None = None,
    name: str = "conv",
) -> Kernel:
    """x (N, C, spatial), w (O, C / groups, taps) -> y (N, O, spatial), as buffers `x`, `w`, the extras, `y`.

    Axes: i0 (batch), g (groups, when there are several), i1 (filter in its group), i2... (positions); r0 (channel),
    r1... (taps).
    """
    extras = extras or Extras()
    rank = len(x) - 2
    size = spec.out_size(x[2:], w[2:])
    axes, out = _conv_axes(x[0], w, size, spec.groups)
    contract = Contract(
        _conv_input(x, w, spec, dtype),
        Load("w", (out[1], *(affine((f"r{k}", 1)) for k in range(rank + 1)))),
        _taps(rank),
    )
    buffers = (
        Buffer("x", dtype, x, x_layout, extras.strides[0]),
        Buffer("w", dtype, w, None, extras.strides[1]),
        *extras.buffers,
        Buffer("y", dtype, (x[0], w[0], *size), out_layout, extras.strides[2], written=True),
    )
    return Kernel(name, buffers, (), axes, (Store("y", out, extras.epilogue(contract, out)),))


def _taps(rank: int) -> tuple[str, ...]:
    return tuple(f"r{k}" for k in range(rank + 1))


def _conv_axes(batch: int, w: tuple[int, ...], size: tuple[int, ...], groups: int) -> tuple[tuple[Axis, ...], Index]:
    filters = w[0] // groups
    group = (Axis("g", groups),) if groups > 1 else ()
    axes = (
        Axis("i0", batch),
        *group,
        Axis("i1", filters),
        *(Axis(f"i{k + 2}", n) for k, n in enumerate(size)),
        *(Axis(f"r{k}", n, AxisKind.REDUCE) for k, n in enumerate(w[1:])),
    )
    channel = affine(*((a.name, filters) for a in group), ("i1", 1))
    return axes, (affine(("i0", 1)), channel, *(affine((f"i{k + 2}", 1)) for k in range(len(size))))


def _conv_input(x: tuple[int, ...], w: tuple[int, ...], spec: ConvSpec, dtype: DType) -> Expr:
    rank = len(x) - 2
    dilation, interior = spec.dilation or (1,) * rank, spec.interior or (1,) * rank
    group = (("g", w[1]),) if spec.groups > 1 else ()
    index: list[Affine] = [affine(("i0", 1)), affine(*group, ("r0", 1))]
    for k, (stride, step, low) in enumerate(zip(spec.stride, dilation, spec.low, strict=True)):
        index.append(affine((f"i{k + 2}", stride), (f"r{k + 1}", step), offset=-low))
    zero = Const(0.0, dtype)
    if any(n != 1 for n in interior):
        return dilated_load("x", tuple(index), (1, 1, *interior), zero)
    padded = any((*spec.low, *spec.high))
    return Load("x", tuple(index), zero if padded else None)


def dilated_load(buffer: str, index: tuple[Affine, ...], interior: tuple[int, ...], zero: Const) -> Expr:
    """The element of `buffer` with `interior - 1` zeros put between its elements along each dimension; `zero` there and
    outside.
    """
    whole: Expr | None = None
    mapped: list[Affine | Expr] = []
    for i, divisor in zip(index, interior, strict=True):
        if divisor == 1:
            mapped.append(i)
            continue
        position = _as_expr(i)
        step = Const(divisor, DType.I64)
        on = Scalar(ScalarOp.EQ, (Scalar(ScalarOp.MOD, (position, step)), Const(0, DType.I64)))
        whole = on if whole is None else Scalar(ScalarOp.AND, (whole, on))
        mapped.append(Scalar(ScalarOp.DIV, (position, step)))
    load = Load(buffer, tuple(mapped), zero)
    return load if whole is None else Scalar(ScalarOp.SELECT, (whole, load, zero))


def _as_expr(index: Affine) -> Expr:
    total: Expr = Const(index.offset, DType.I64)
    for axis, coefficient in index.terms:
        term = Scalar(ScalarOp.MUL, (AxisValue(axis), Const(coefficient, DType.I64)))
        total = Scalar(ScalarOp.ADD, (total, term))
    return total


def split_dilated(index: Expr) -> tuple[Affine, int] | None:
    """The inverse of `dilated_load` for one dimension: the affine position and the divisor; None for any other
    expression.
    """
    match index:
        case Scalar(ScalarOp.DIV, (position, Const(value=divisor))):
            inner = _as_affine(position)
            return None if inner is None else (inner, int(divisor))
        case _:
            return None


def _as_affine(expr: Expr) -> Affine | None:
    match expr:
        case Const(value=value):
            return Affine((), int(value))
        case Scalar(ScalarOp.ADD, (rest, Scalar(ScalarOp.MUL, (AxisValue(axis), Const(value=coefficient))))):
            inner = _as_affine(rest)
            return None if inner is None else Affine((*inner.terms, (axis, int(coefficient))), inner.offset)
        case _:
            return None


def gemm_kernel(
    batch: tuple[int, ...],
    rows: int,
    columns: int,
    inner: int,
    dtype: DType = DType.F32,
    transposed: tuple[bool, bool] = (False, False),
    batched_rhs: bool = True,
    extras: Extras | None = None,
    name: str = "gemm",
) -> Kernel:
    """a [batch..., rows, inner] times b [batch..., inner, columns] -> y [batch..., rows, columns], buffers `a`, `b`,
    the extras, `y`.

    `transposed` swaps the last two dimensions of a and of b; `batched_rhs` False gives b no batch.
    """
    extras = extras or Extras()
    heads = tuple(f"b{k}" for k in range(len(batch)))
    axes = (
        *(Axis(h, n) for h, n in zip(heads, batch, strict=True)),
        Axis("m", rows),
        Axis("n", columns),
        Axis("k", inner, AxisKind.REDUCE),
    )
    lead = tuple(affine((h, 1)) for h in heads)
    a_pair, b_pair = (("k", "m") if transposed[0] else ("m", "k")), (("n", "k") if transposed[1] else ("k", "n"))
    sizes = {"m": rows, "n": columns, "k": inner}
    b_lead, b_batch = (lead, batch) if batched_rhs else ((), ())
    contract = Contract(
        Load("a", (*lead, *(affine((p, 1)) for p in a_pair))),
        Load("b", (*b_lead, *(affine((p, 1)) for p in b_pair))),
        ("k",),
    )
    out: Index = (*lead, affine(("m", 1)), affine(("n", 1)))
    buffers = (
        Buffer("a", dtype, (*batch, *(sizes[p] for p in a_pair)), None, extras.strides[0]),
        Buffer("b", dtype, (*b_batch, *(sizes[p] for p in b_pair)), None, extras.strides[1]),
        *extras.buffers,
        Buffer("y", dtype, (*batch, rows, columns), None, extras.strides[2], written=True),
    )
    return Kernel(name, buffers, (), axes, (Store("y", out, extras.epilogue(contract, out)),))


def read_apart(kernel: Kernel) -> tuple[Kernel, tuple[int, ...]]:
    """Give an operand of a Contract that the kernel reads elsewhere too a buffer of its own.

    An emitter may want the operand of a contraction, and nothing else, in a packed form. Returns the kernel, and for
    each of its buffers the position of the original one.
    """
    positions = list(range(len(kernel.buffers)))
    for contract in _contracts(kernel):
        for side in ("rhs", "lhs"):
            kernel = _split_side(kernel, contract, side, positions)
            contract = _contracts(kernel)[0]
    return kernel, tuple(positions)


def _contracts(kernel: Kernel) -> list[Contract]:
    """The Contract of a kernel that has a single one."""
    found = {e for stage in kernel.stages for e in walk(stage.value) if isinstance(e, Contract)}
    return list(found) if len(found) == 1 else []


def _split_side(kernel: Kernel, contract: Contract, side: str, positions: list[int]) -> Kernel:
    operand: Expr = getattr(contract, side)
    loads = [e for stage in kernel.stages for e in walk(stage.value) if isinstance(e, Load)]
    for name in dict.fromkeys(e.buffer for e in walk(operand) if isinstance(e, Load)):
        mine = sum(isinstance(e, Load) and e.buffer == name for e in walk(operand))
        if sum(e.buffer == name for e in loads) == mine:
            continue
        own = f"{name}_{side}"
        apart = replace(contract, **{side: _renamed(operand, name, own)})
        at = next(i for i, b in enumerate(kernel.buffers) if b.name == name)
        buffers = (*kernel.buffers[: at + 1], replace(kernel.buffers[at], name=own), *kernel.buffers[at + 1 :])
        positions.insert(at + 1, positions[at])
        stages = tuple(replace(s, value=_replaced(s.value, contract, apart)) for s in kernel.stages)
        kernel, contract, operand = replace(kernel, buffers=buffers, stages=stages), apart, getattr(apart, side)
    return kernel


def _renamed(expr: Expr, old: str, new: str) -> Expr:
    def rename(e: Expr) -> Expr:
        return replace(e, buffer=new) if isinstance(e, Load) and e.buffer == old else e

    return _mapped(expr, rename)


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return _mapped(expr, lambda e: new if e == old else e)


def _mapped(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """`rule` on the outermost expressions that it changes."""
    changed = rule(expr)
    if changed is not expr:
        return changed
    match expr:
        case Scalar(operands=operands):
            return replace(expr, operands=tuple(_mapped(e, rule) for e in operands))
        case CastExpr(operand=operand) | Reduce(operand=operand):
            return replace(expr, operand=_mapped(operand, rule))
        case _:
            return expr


def contract_as_sum(kernel: Kernel) -> Kernel:
    """The same kernel with each Contract as the sum of products that it means."""
    stages = tuple(replace(s, value=_mapped(s.value, _as_sum)) for s in kernel.stages)
    return replace(kernel, stages=stages)


def _as_sum(expr: Expr) -> Expr:
    if not isinstance(expr, Contract):
        return expr
    return Reduce(ReduceOp.ADD, expr.axes, Scalar(ScalarOp.MUL, (expr.lhs, expr.rhs)))


_HALVES = (DType.F16, DType.BF16)


def epilogue_in_float32(kernel: Kernel) -> Kernel:
    """The same kernel with every step around its Contract said in the dtype in which it is computed: 16-bit floats
    become float32 where they are read, and round where the graph casts to them and where they are stored.
    """
    halves = {b.name for b in kernel.buffers if b.dtype in _HALVES}
    if not halves:
        return kernel
    return replace(kernel, stages=tuple(_stage_in_float32(s, kernel, halves) for s in kernel.stages))


def _stage_in_float32(stage: Stage, kernel: Kernel, halves: set[str]) -> Stage:
    value = _in_float32(stage.value, halves)
    if isinstance(stage, Store) and stage.buffer in halves:
        rounded = value.operand if isinstance(value, CastExpr) and _rounds(value.operand) else value
        dtype = kernel.buffer(stage.buffer).dtype
        value = rounded if _rounds(rounded) else CastExpr(dtype, rounded)
    return replace(stage, value=value)


def _rounds(expr: Expr) -> bool:
    return isinstance(expr, CastExpr) and expr.dtype in _HALVES


def _in_float32(expr: Expr, halves: set[str]) -> Expr:
    match expr:
        case Load(buffer=buffer) if buffer in halves:
            return CastExpr(DType.F32, expr)
        case Const(value=value, dtype=dtype) if dtype in _HALVES:
            return Const(value, DType.F32)
        case Scalar(op=op, operands=operands):
            return Scalar(op, tuple(_in_float32(e, halves) for e in operands))
        case CastExpr(dtype=dtype, operand=operand):
            inner = CastExpr(dtype, _in_float32(operand, halves))
            return CastExpr(DType.F32, inner) if dtype in _HALVES else inner
        case _:
            return expr
