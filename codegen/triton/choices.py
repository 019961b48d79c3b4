"""Tuned schedules of GPUs: the numbers of a schedule that a search can change, and which of them compute a kernel.

A choice has no axes, precision or width of indices, which follow from the kernel, so it cannot change what is computed.
Sums are added in another order if blocks or parts of a sum differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any
from warnings import warn

from ...ir.bounds import Within
from ...ir.hashing import structural_hash
from ...ir.kernel import Kernel, contracts, dtype_of
from ...ir.lazy_dataclass import dataclass
from ..lower_contract import convolutions_as_products
from ..tuned_entries import Entry, Value
from .gpu import Gpu
from .kernel_code import MOST_COUNTERS
from .memory_order import in_memory_order
from .operands import find_contraction
from .schedule import TritonSchedule, power_of_two, schedule_triton

if TYPE_CHECKING:
    from .target import GpuTarget

Block = Annotated[int, Within(0, 1 << 17)]
_LEAST, _MOST = 16, 256
"""Points of a block of tensor cores."""
_SUMS = 192
"""Registers of a thread for the sums of a block."""
_POINTS, _MOST_POINTS = 2, 1 << 13
_HELD = 1 << 15
"""Elements of a block of rows."""
_LONGEST_STEP = 128
_STAGES, _SPLIT = 6, 64
_DIMENSIONS = ("z", "y", "x", "m", "n", "r", "k", "k0", "k1")


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """`z` to `k1` are the blocks of the dimensions of a schedule with these names, 0 for those that it does not have.
    The others are `TritonSchedule`'s."""

    num_warps: Annotated[int, Within(1, 16)]
    num_stages: Annotated[int, Within(1, 8)]
    split: Annotated[int, Within(1, 1 << 12)]
    z: Block = 0
    y: Block = 0
    x: Block = 0
    m: Block = 0
    n: Block = 0
    r: Block = 0
    k: Block = 0
    k0: Block = 0
    k1: Block = 0


def choice_of(schedule: TritonSchedule) -> GpuChoice:
    """The numbers of a schedule."""
    blocks: Any = {d.name: d.block for d in schedule.dims}
    return GpuChoice(schedule.num_warps, schedule.num_stages, schedule.split, **blocks)


def with_choice(schedule: TritonSchedule, choice: GpuChoice) -> TritonSchedule:
    """The schedule with these numbers."""
    dims = tuple(replace(d, block=getattr(choice, d.name)) for d in schedule.dims)
    numbers = {"num_warps": choice.num_warps, "num_stages": choice.num_stages, "split": choice.split}
    return replace(schedule, dims=dims, **numbers)


def entry_of(choice: GpuChoice) -> dict[str, Value]:
    """The entry of a choice in tables: blocks that are 0 are left out."""
    numbers = {f.name: getattr(choice, f.name) for f in fields(choice)}  # type: ignore[arg-type]
    return {"kind": "GpuChoice", **{name: n for name, n in numbers.items() if n}}


def choice_in(entry: Entry) -> GpuChoice:
    """The choice of an entry. ValueError if it has other fields."""
    numbers: Any = {name: n for name, n in entry.items() if name != "kind"}
    try:
        return GpuChoice(**numbers)
    except TypeError as error:
        raise ValueError(f"not a schedule for GPUs: {error}") from None


def choice_key(kernel: Kernel, precision: str) -> str:
    """The same key for all kernels that differ in names only, with the same mode of float32 products."""
    return structural_hash(kernel, precision)


def tuned_schedule(kernel: Kernel, schedule: TritonSchedule, target: GpuTarget, precision: str) -> TritonSchedule:
    """The schedule that a search found for a kernel, instead of `schedule`, that of the formulas."""
    entry = target.tuned.entries.get(choice_key(kernel, precision))
    if entry is None:
        return schedule
    choice = choice_in(entry)
    if allows(kernel, schedule, choice, target):
        return with_choice(schedule, choice)
    warn(f"{choice} is not a schedule for {kernel.name}: tune the model again", RuntimeWarning, stacklevel=3)
    return schedule


def default_choice(kernel: Kernel, target: Gpu, precision: str) -> tuple[TritonSchedule, GpuChoice]:
    """The schedule of the formulas, and its numbers."""
    schedule = schedule_triton(kernel, target, precision=precision)
    return schedule, choice_of(schedule)


def neighbours(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice, target: Gpu) -> list[GpuChoice]:
    """The choices that differ from one in a number, and in two for blocks of a product."""
    near = (c for c in _near(schedule, choice) if c != choice and allows(kernel, schedule, c, target))
    return list(dict.fromkeys(near))


def _near(schedule: TritonSchedule, choice: GpuChoice) -> Iterator[GpuChoice]:
    names = [d.name for d in schedule.dims if d.block > 1]
    for name in names:
        for block in (2 * getattr(choice, name), getattr(choice, name) // 2):
            yield replace(choice, **{name: block})
    for warps in (2 * choice.num_warps, choice.num_warps // 2):
        yield replace(choice, num_warps=warps)
        for name in names:  # as many elements for each thread
            block = getattr(choice, name) * warps // choice.num_warps
            yield replace(choice, num_warps=warps, **{name: block})
    for stages in (choice.num_stages + 1, choice.num_stages - 1):
        yield replace(choice, num_stages=stages)
    for split in (2 * choice.split, choice.split // 2):
        yield replace(choice, split=split)
    if {"m", "n"} <= {*names}:
        yield replace(choice, m=2 * choice.m, n=choice.n // 2)
        yield replace(choice, m=choice.m // 2, n=2 * choice.n)


def allows(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice, target: Gpu) -> bool:
    """True if a choice computes a kernel, whose schedule of the formulas is given."""
    if choice == choice_of(schedule):
        return True
    formula = {d.name: d.block for d in schedule.dims}
    for name in _DIMENSIONS:
        block = getattr(choice, name)
        if (name in formula) != (block > 0) or block & (block - 1) or (formula.get(name, 0) <= 1 and block > 1):
            return False
        if formula.get(name, 0) > 1 and block < _POINTS:
            return False
    if not (1 <= choice.num_stages <= _STAGES and choice.split >= 1) or choice.num_warps not in (1, 2, 4, 8, 16):
        return False
    kernel = in_memory_order(convolutions_as_products(kernel))
    if contracts(kernel) and not schedule.plain:
        if "r" in formula:
            return _allows_blocks(kernel, schedule, choice, target)
        return _allows_product(kernel, schedule, choice, target)
    return _allows_loops(kernel, schedule, choice)


def _allows_product(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice, target: Gpu) -> bool:
    product = find_contraction(kernel)
    dtype = product.dtypes[0]
    m, n, k, split = choice.m, choice.n, choice.k, choice.split
    rows, columns, inner = (_count(kernel, schedule, d) for d in "mnk")
    least = 32 if dtype.itemsize == 1 else _LEAST
    fits = all(_LEAST <= b <= max(_LEAST, min(_MOST, power_of_two(c))) for b, c in ((m, rows), (n, columns)))
    if not fits or not least <= k <= max(least, min(_LONGEST_STEP, power_of_two(inner))):
        return False
    if schedule.precision == "exact" and ((m, n, k), split) != (tuple(schedule.dim(d).block for d in "mnk"), 1):
        return False  # operands are in registers
    steps = -(-inner // (k * split))
    bytes_of_stage = (m + (2 * n if dtype.itemsize == 4 else n)) * k * dtype.itemsize
    tiles = _count(kernel, schedule, "z") * -(-rows // m) * -(-columns // n)
    return (
        choice.num_warps in (4, 8)
        and m * n <= _SUMS * 32 * choice.num_warps
        and choice.num_stages <= max(1, steps)
        and bytes_of_stage * choice.num_stages <= target.shared_bytes
        and split <= _SPLIT
        and (split == 1 or (tiles <= MOST_COUNTERS and inner >= 2 * k * split))
    )


def _allows_blocks(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice, target: Gpu) -> bool:
    """Attention and its gradients: whole rows of queries and values stay whole."""
    whole = [d for d in schedule.dims if d.name not in "mr"]
    if choice.split != 1 or any(getattr(choice, d.name) != d.block for d in whole):
        return False
    most = max(_LEAST, min(128, power_of_two(_count(kernel, schedule, "m"))))
    keys = max(_LEAST, min(128, power_of_two(_count(kernel, schedule, "r"))))
    dtype = dtype_of(kernel, contracts(kernel)[0].lhs)
    read = choice.r * sum(d.block for d in whole if d.block > 1) * dtype.itemsize
    return (
        _LEAST <= choice.m <= most
        and _LEAST <= choice.r <= keys
        and choice.num_warps in (4, 8)
        and read * choice.num_stages <= 2 * target.shared_bytes // 3
    )


def _allows_loops(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice) -> bool:
    """Pointwise work and rows: no more stages, and the same parts of rows."""
    if (choice.num_stages, choice.split) != (schedule.num_stages, schedule.split):
        return False
    held = 1
    for d in schedule.dims:
        block = getattr(choice, d.name)
        if block > max(d.block, 2 * power_of_two(_count(kernel, schedule, d.name))):
            return False
        held *= block
    is_row = schedule.dims[-1].name == "r" and schedule.dims[-1].block > 1
    return held <= (_HELD if is_row else _MOST_POINTS)


def _count(kernel: Kernel, schedule: TritonSchedule, name: str) -> int:
    """The points of a dimension."""
    count = 1
    for axis in schedule.dim(name).axes:
        extent = kernel.axis(axis).extent
        count *= extent if isinstance(extent, int) else 1
    return count
