"""Rewrites kernels with a contraction: lowers it to a plain sum, separates its operands, moves epilogues to float32."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..ir.kernel import (
    Affine,
    AxisValue,
    Const,
    Contract,
    Expr,
    Kernel,
    Load,
    Reduce,
    ReduceOp,
    Scalar,
    Stage,
    Store,
    Window,
    children,
    contracts,
    dtype_of,
    walk,
)
from ..ir.kernel import Cast as CastExpr
from ..ir.scalar import ScalarOp
from ..ir.types import DType

_HALVES = (DType.F16, DType.BF16)


def sum_dtype(operand: DType) -> DType:
    """The dtype in which products of two operands of this dtype are summed: float32 for 16-bit floats."""
    return DType.F32 if operand in _HALVES else operand


# --- convolutions as products -------------------------------------------------------------------------------------


def implicit_product(kernel: Kernel, node: Contract) -> Contract:
    """The same contraction as a matrix product whose left operand reads the input at the positions of the windows."""
    if not node.windows:
        return node
    assert isinstance(node.lhs, Load)
    index = input_index(node)
    interior = [1] * len(index)
    for i, at in enumerate(node.lhs.index):
        interior[i] = next((w.interior for w in node.windows if at == _named(w)), 1)
    zero = Const(0, kernel.buffer(node.lhs.buffer).dtype)
    if any(_leaves(kernel, w) for w in node.windows):
        return replace(node, lhs=dilated_load(node.lhs.buffer, index, tuple(interior), zero), windows=())
    return replace(node, lhs=replace(node.lhs, index=index), windows=())


def convolutions_as_products(kernel: Kernel) -> Kernel:
    """The same kernel with each convolution as its implicit product."""

    def product(expr: Expr) -> Expr:
        return implicit_product(kernel, expr) if isinstance(expr, Contract) else expr

    return rewritten(kernel, product) if any(c.windows for c in contracts(kernel)) else kernel


def input_index(node: Contract) -> tuple[Affine, ...]:
    """The index of a convolution's input, in positions that count interior zeros too."""
    assert isinstance(node.lhs, Load)
    positions: Mapping[Affine, Affine] = {_named(w): w.position for w in node.windows}
    index = tuple(i for i in node.lhs.index if isinstance(i, Affine))
    assert len(index) == len(node.lhs.index)
    return tuple(positions.get(i, i) for i in index)


def _named(window: Window) -> Affine:
    return Affine(((window.name, 1),))


def _leaves(kernel: Kernel, window: Window) -> bool:
    """True if the window reads zeros between elements of the input or beyond its ends."""
    out, taps = kernel.axis(window.out).extent, kernel.axis(window.tap).extent
    if isinstance(out, str) or isinstance(taps, str) or isinstance(window.extent, str):
        return True
    last = (out - 1) * window.stride + (taps - 1) * window.dilation - window.low
    return window.interior != 1 or window.low > 0 or last >= window.extent


def dilated_load(buffer: str, index: tuple[Affine, ...], interior: tuple[int, ...], other: Const) -> Expr:
    """The element at `index` of `buffer` padded with `interior - 1` times `other` between its elements along each
    dimension; `other` there and outside of the buffer.
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
    load = Load(buffer, tuple(mapped), other)
    return load if whole is None else Scalar(ScalarOp.SELECT, (whole, load, other))


def _as_expr(index: Affine) -> Expr:
    total: Expr = Const(index.offset, DType.I64)
    for axis, coefficient in index.terms:
        term = Scalar(ScalarOp.MUL, (AxisValue(axis), Const(coefficient, DType.I64)))
        total = Scalar(ScalarOp.ADD, (total, term))
    return total


# --- plain sums ---------------------------------------------------------------------------------------------------


def contract_as_sum(kernel: Kernel) -> Kernel:
    """The same kernel with each Contract as an explicit sum of products: the fallback of every target."""

    def as_sum(expr: Expr) -> Expr:
        return _sum(kernel, implicit_product(kernel, expr)) if isinstance(expr, Contract) else expr

    return rewritten(kernel, as_sum)


def _sum(kernel: Kernel, node: Contract) -> Expr:
    """The sum of products, each in `node.dtype`. A Reduce of 16-bit floats sums in float32."""
    factors = tuple(e if dtype_of(kernel, e) is node.dtype else CastExpr(node.dtype, e) for e in (node.lhs, node.rhs))
    return Reduce(ReduceOp.ADD, node.inner, Scalar(ScalarOp.MUL, factors))


def rewritten(kernel: Kernel, rule: Callable[[Expr], Expr]) -> Kernel:
    """The kernel with `rule` applied to the outermost expressions that it changes."""
    return replace(kernel, stages=tuple(replace(s, value=_mapped(s.value, rule)) for s in kernel.stages))


def _mapped(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `rule` applied to the outermost expressions that it changes."""
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


# --- separate operands --------------------------------------------------------------------------------------------


def separate_operands(kernel: Kernel) -> tuple[Kernel, tuple[int, ...]]:
    """Give each operand of the Contracts its own buffer if the kernel reads the operand's buffer elsewhere too.

    An emitter can then pack the operand without a change to other reads. Returns the kernel, and for each of its
    buffers the position of the original buffer.
    """
    positions = list(range(len(kernel.buffers)))
    for side in ("rhs", "lhs"):
        kernel = _split_side(kernel, side, positions)
    return kernel, tuple(positions)


def _split_side(kernel: Kernel, side: str, positions: list[int]) -> Kernel:
    operands: list[Expr] = [getattr(c, side) for c in contracts(kernel)]
    mine = Counter(e.buffer for o in operands for e in walk(o) if isinstance(e, Load))
    names = [n for n, count in mine.items() if count < _distinct_reads(kernel)[n]]
    for name in names:
        own = f"{name}_{side}"
        at = next(i for i, b in enumerate(kernel.buffers) if b.name == name)
        buffers = (*kernel.buffers[: at + 1], replace(kernel.buffers[at], name=own), *kernel.buffers[at + 1 :])
        positions.insert(at + 1, positions[at])
        kernel = rewritten(replace(kernel, buffers=buffers), _renaming(side, name, own))
    return kernel


def _distinct_reads(kernel: Kernel) -> Counter[str]:
    """How often each buffer is read: by distinct contractions, and outside of them."""
    reads: Counter[str] = Counter()
    for contract in contracts(kernel):
        reads.update(e.buffer for e in walk(contract) if isinstance(e, Load))
    stack: list[Expr] = [s.value for s in kernel.stages]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Load):
            reads[expr.buffer] += 1
        if not isinstance(expr, Contract):
            stack.extend(children(expr))
    return reads


def _renaming(side: str, old: str, new: str) -> Callable[[Expr], Expr]:
    """The rule that renames a buffer in one operand of each Contract."""

    def rename(e: Expr) -> Expr:
        return replace(e, buffer=new) if isinstance(e, Load) and e.buffer == old else e

    def rule(e: Expr) -> Expr:
        return replace(e, **{side: _mapped(getattr(e, side), rename)}) if isinstance(e, Contract) else e

    return rule


# --- epilogues in float32 -----------------------------------------------------------------------------------------


def epilogue_in_float32(kernel: Kernel) -> Kernel:
    """The same kernel with 16-bit floats computed in float32: they are converted where they are read, and rounded where
    the graph casts to them and where they are stored.
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
        case Contract(dtype=dtype) if dtype in _HALVES:
            return replace(expr, dtype=DType.F32)
        case _:
            return expr
