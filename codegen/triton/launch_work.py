"""The work of one launch on a GPU, from its kernel and its schedule: what times are estimated from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...ir.kernel import (
    Affine,
    AxisValue,
    Buffer,
    Contract,
    Expr,
    Kernel,
    Load,
    Reduce,
    Ref,
    Scalar,
    Store,
    children,
    dtype_of,
    local,
    walk,
)
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar import ScalarOp
from ...ir.types import DType
from ..hoist import hoist_reductions
from ..lower_contract import contract_as_sum, convolutions_as_products
from .attention import Attention, find_attention
from .depths import depth
from .describe import Described
from .emit import Blocks, TritonSource
from .memory_order import in_memory_order
from .nested import NestedProduct, find_nested
from .operands import LOW, axes_of, find_contraction, low_half
from .rows import is_split
from .schedule import TritonSchedule

_PASSES = {"float32": 3, "tf32": 1, "bf16x3": 3, "bf16x6": 6}
"""The products of tensor cores for a product of float32 numbers, by the precision of a schedule."""
_SIMPLE = frozenset(
    ScalarOp[name]
    for name in (
        "RECTIFY NEG ABS SIGN FLOOR CEIL ROUND RINT TRUNC IS_NAN IS_INF IS_FINITE ADD SUB MUL MAX MIN NOT AND OR XOR "
        "SHIFT_LEFT SHIFT_RIGHT EQ NE LT LE GT GE SELECT"
    ).split()
)
"""Operations of one instruction or two."""
_FUNCTION, _LOAD = 12, 2
"""Instructions of a function such as exp, and of a load with its address."""
_DIVISION = 6
"""Instructions that divide a float32 number into two tf32 numbers and move it to the operands of tensor cores."""
_SOFTMAX = 16
"""Instructions of attention for each score."""
_ADDRESS = 3
"""Instructions for each 16 bytes of an operand of a product: an address, its mask, and a copy to shared memory."""
_UNROLLED = 4
"""Points of a window whose loads are in flight together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchWork:
    """`programs` of `warps` warps each. All other numbers are those of one program.

    `steps` follow each other: each waits for its loads, which `stages` - 1 steps before have started. `products` are
    multiply-adds on tensor cores in `unit` (F16 for all 16-bit floats, F32 for tf32, I8), with all passes and with what
    pads tiles. `operations` are instructions of single threads on one element. `loaded` and `stored` are bytes that
    leave or reach the multiprocessor. `shared` is memory of the program in bytes, `registers` those of a thread.
    `arrives`: programs share a sum, and the last one to arrive adds its parts.
    """

    programs: int
    warps: int
    stages: int = 1
    steps: int = 1
    unit: DType = DType.F32
    products: float = 0
    operations: float = 0
    loaded: float = 0
    stored: float = 0
    shared: int = 0
    registers: int = 32
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of an operand that a launch reads at least once, and of a result that it writes; 0 for others."""

    read: int
    written: int


def launch_work(described: Described, programs: int) -> LaunchWork:
    """The work of a launch of `programs` programs of a kernel that is not written by hand."""
    kernel, schedule = _emitted(described), described.source.schedule
    attention, nested = find_attention(kernel), find_nested(kernel)
    if attention is not None or nested is not None:
        return _blocks(kernel, schedule, attention or nested, programs)  # pyright: ignore[reportArgumentType]
    if any(d.name == "k" for d in schedule.dims):
        return _product(kernel, schedule, programs)
    return _loops(kernel, described, programs)


def traffic(described: Described) -> list[Traffic]:
    """What a launch reads and writes, for each buffer of the kernel."""
    kernel, source = _emitted(described), described.source
    moved = [_traffic(kernel, buffer) for buffer in kernel.buffers]
    if not is_split(kernel, source.schedule):
        return moved
    first, last = source.name.endswith("_0"), not _has_parts(source)
    return [Traffic(0 if last else t.read, 0 if first else t.written) for t in moved]


def _traffic(kernel: Kernel, buffer: Buffer) -> Traffic:
    size = _count(buffer.shape) * buffer.dtype.itemsize
    if buffer.name.endswith(LOW):
        return Traffic(size, 0)  # as the other halves
    loads = {e for s in kernel.stages for e in walk(s.value) if isinstance(e, Load) and e.buffer == buffer.name}
    read = sum(_points(kernel, axes_of(kernel, e)) for e in loads) * buffer.dtype.itemsize
    stores = [s for s in kernel.stages if isinstance(s, Store) and s.buffer == buffer.name]
    written = sum(_points(kernel, _stored_along(s)) for s in stores) * buffer.dtype.itemsize
    return Traffic(min(size, read), min(size, written))


def _has_parts(source: TritonSource) -> bool:
    """True if the programs of a launch have parts of their rows."""
    return source.grid[-1] == Blocks((source.schedule.split,), 1)


def _emitted(described: Described) -> Kernel:
    assert described.kernel is not None
    kernel = in_memory_order(convolutions_as_products(described.kernel))
    if described.source.schedule.plain:
        kernel = contract_as_sum(kernel)
    is_loop = find_attention(kernel) is None and find_nested(kernel) is None
    return hoist_reductions(kernel) if is_loop else kernel


def _stored_along(stage: Store) -> set[str]:
    return {a for i in stage.index if isinstance(i, Affine) for a, _ in i.terms}


def _count(extents: Sequence[object]) -> int:
    """The product of extents, as far as they are constants."""
    return prod(n for n in extents if isinstance(n, int))


def _points(kernel: Kernel, axes: set[str] | tuple[str, ...]) -> int:
    return _count([kernel.axis(a).extent for a in axes])


# --- products ---------------------------------------------------------------------------------------------------------


def _product(kernel: Kernel, schedule: TritonSchedule, programs: int) -> LaunchWork:
    product = find_contraction(kernel)
    if schedule.dim("m").axes != product.rows:
        product = product.swapped()
    m, n, k = (schedule.dim(d).block for d in "mnk")
    steps = -(-_points(kernel, schedule.dim("k").axes) // (k * schedule.split))
    left, right = (dtype.itemsize for dtype in product.dtypes)
    is_divided = low_half(kernel, product.rhs) is not None
    halves = 2 if is_divided else 1
    block = m * k * left + n * k * right * halves
    passes, unit, divided = _arithmetic(product.dtypes[0], schedule.precision)
    divided *= m * k + (0 if is_divided else n * k)
    parts = 4 * m * n * (schedule.split + 1) if schedule.split > 1 else 0
    operations = steps * (divided + block / 16 * _ADDRESS) + _instructions(kernel) / programs
    if not passes:
        operations += steps * m * n * k
    return LaunchWork(
        programs=programs,
        warps=schedule.num_warps,
        stages=schedule.num_stages,
        steps=steps,
        unit=unit,
        products=steps * m * n * k * passes,
        operations=operations,
        loaded=steps * block + parts / 2,
        stored=m * n * dtype_of(kernel, product.node).itemsize / schedule.split + parts / 2,
        shared=block * schedule.num_stages,
        arrives=schedule.split > 1,
        registers=_registers(m * n * 1.25 + (m * k if divided else 0), schedule.num_warps),
    )


def _arithmetic(dtype: DType, precision: str) -> tuple[int, DType, float]:
    """(products on tensor cores for each product, their unit, instructions for each element of operands)."""
    if dtype in (DType.F16, DType.BF16):
        return 1, DType.F16, 0
    if dtype.is_integer:
        return 1, DType.I8, 0
    if precision == "exact":
        return 0, DType.F32, 0
    unit = DType.F16 if precision.startswith("bf16") else DType.F32
    return _PASSES[precision], unit, 2 if precision == "tf32" else _DIVISION


def _registers(elements: float, warps: int) -> int:
    return min(255, 48 + int(elements / (32 * warps)))


# --- attention and its gradients --------------------------------------------------------------------------------------


def _blocks(kernel: Kernel, schedule: TritonSchedule, parts: Attention | NestedProduct, programs: int) -> LaunchWork:
    """A loop over blocks of keys with two products or more in each step."""
    nodes = [parts.first] if isinstance(parts, Attention) else [p.node for p in parts.inner]
    m, n, r = (schedule.dim(d).block for d in "mnr")
    inner = [d.block for d in schedule.dims if d.name.startswith("k")]
    assert len(inner) == len(nodes)
    dtype = dtype_of(kernel, nodes[0].lhs)
    passes, unit, divided = _arithmetic(dtype, schedule.precision)
    steps = -(-_points(kernel, parts.keys) // r)
    read = r * (n + sum(inner)) * dtype.itemsize
    per_step = m * r * (_SOFTMAX + len(nodes)) + divided * (r * (n + sum(inner)) + m * (r + sum(inner)))
    return LaunchWork(
        programs=programs,
        warps=schedule.num_warps,
        stages=schedule.num_stages,
        steps=steps,
        unit=unit,
        products=steps * m * r * (n + sum(inner)) * max(1, passes),
        operations=steps * (per_step + read / 16 * _ADDRESS),
        loaded=steps * read + m * sum(inner) * dtype.itemsize,
        stored=m * n * dtype.itemsize,
        shared=read * schedule.num_stages,
        registers=_registers(m * (n + r + (sum(inner) if divided else 0)), schedule.num_warps),
    )


# --- pointwise work and rows ------------------------------------------------------------------------------------------


def _loops(kernel: Kernel, described: Described, programs: int) -> LaunchWork:
    schedule, moved = described.source.schedule, traffic(described)
    combines = is_split(kernel, schedule) and not _has_parts(described.source)
    return LaunchWork(
        programs=programs,
        warps=schedule.num_warps,
        stages=2,
        steps=1 if combines else _steps(kernel, schedule),
        operations=0 if combines else _instructions(kernel) / programs,
        loaded=sum(t.read for t in moved) * _passes_over_rows(kernel, schedule) / programs,
        stored=sum(t.written for t in moved) / programs,
        registers=_registers(prod(d.block for d in schedule.dims), schedule.num_warps),
    )


def _steps(kernel: Kernel, schedule: TritonSchedule) -> int:
    """The iterations of the loops of a program."""
    row = schedule.dims[-1]
    if row.name != "r":
        return 1
    length = _points(kernel, row.axes)
    if row.block == 1:
        return -(-length // _UNROLLED)
    return -(-length // (row.block * schedule.split)) * _loops_over_rows(kernel, schedule)


def _loops_over_rows(kernel: Kernel, schedule: TritonSchedule) -> int:
    if is_split(kernel, schedule):
        return 1
    return max(1, *(depth(kernel, stage) for stage in kernel.stages))


def _passes_over_rows(kernel: Kernel, schedule: TritonSchedule) -> int:
    """How often a row is read: once if a block holds it."""
    row = schedule.dims[-1]
    if row.name != "r" or row.block == 1 or row.block >= _points(kernel, row.axes) or is_split(kernel, schedule):
        return 1
    return 1 + max(depth(kernel, stage) for stage in kernel.stages)


def _instructions(kernel: Kernel) -> int:
    """The instructions of all points, without those of products: each value is computed once for each point of the axes
    along which it varies."""
    every = (e for stage in kernel.stages for e in _outside(stage.value))
    return sum(
        _cost(e) * _points(kernel, _varies_along(kernel, e.operand if isinstance(e, Reduce) else e)) for e in every
    )


def _varies_along(kernel: Kernel, expr: Expr) -> set[str]:
    """The axes along which a value varies."""
    match expr:
        case Load():
            own = {a for i in expr.index if isinstance(i, Affine) for a, _ in i.terms}
        case AxisValue():
            own = {expr.axis}
        case Ref():
            own = set(local(kernel, expr.local).axes)
        case _:
            own = set[str]()
    own = own.union(*(_varies_along(kernel, child) for child in children(expr)))
    if isinstance(expr, Reduce):
        return own - {*expr.axes}
    return own - {*expr.inner} if isinstance(expr, Contract) else own


def _outside(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything below it, without operands of products."""
    yield expr
    if not isinstance(expr, Contract):
        for child in children(expr):
            yield from _outside(child)


def _cost(e: Expr) -> int:
    if isinstance(e, Load):
        return _LOAD
    if isinstance(e, Scalar):
        return 1 if e.op in _SIMPLE else _FUNCTION
    return 1 if isinstance(e, Reduce) else 0
