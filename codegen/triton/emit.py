"""Emits a kernel as the source text of one Triton function, with the data to compile and launch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ...ir.kernel import Extent, Kernel, Reduce, contracts, walk
from ...ir.lazy_dataclass import dataclass
from ..hoist import hoist_reductions
from ..lower_contract import contract_as_sum, convolutions_as_products
from .attention import find_attention
from .emit_attention import emit_attention
from .emit_nested import emit_nested
from .gemm import emit_gemm
from .memory_order import in_memory_order
from .nested import find_nested
from .numbers import named_numbers
from .rows import has_parts, phases, words_of_row
from .schedule import TileDim, TritonSchedule
from .source import Source, module_text
from .split import COUNTERS, WORK
from .tiles import emit_tile
from .types import POINTERS

DIVISOR = 16
"""Arguments that are known to be multiples of it let Triton access memory in wide pieces."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The programs along one dimension of the grid: blocks of `block` points that cover the product of `extents`."""

    extents: tuple[Extent, ...]
    block: int

    def count(self, extents: Mapping[str, int]) -> int:
        return -(-prod(extents[e] if isinstance(e, str) else e for e in self.extents) // self.block)


@dataclass(frozen=True, slots=True)
class TritonSource:
    """A Python module with one `@triton.jit` function `name`.

    `signature` lists (name, type) of the run-time arguments: a pointer for each buffer, the extents, `numbers`, which
    are symbolic, and what a split needs: a workspace, whose bytes are the product of `work`, and for a contraction the
    counters of the device. (In a kernel of several launches, which share the workspace, it comes before the numbers.)
    `constants` are the compile-time arguments. `divisible` names arguments that the caller guarantees to be multiples
    of `DIVISOR` (pointers: of 16 bytes). The grid is launched as one dimension, of the product of `grid`.
    """

    text: str
    name: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int | str], ...]
    divisible: frozenset[str]
    grid: tuple[Blocks, ...]
    schedule: TritonSchedule
    numbers: tuple[int, ...] = ()
    work: tuple[Blocks, ...] = ()

    @property
    def identity(self) -> str:
        """A text that determines the compiled kernel, on one target."""
        s = self.schedule
        options = s.num_warps, s.num_stages, s.fp_fusion, self.signature, self.constants, sorted(self.divisible)
        return f"{options}\n{self.text}"

    def programs(self, extents: Mapping[str, int] | None = None) -> int:
        """Programs to launch for these run-time extents."""
        return prod(b.count(extents or {}) for b in self.grid)

    @property
    def counts(self) -> bool:
        """True if the last argument is the counters of the device."""
        return self.signature[-1][0] == COUNTERS

    def workspace(self, extents: Mapping[str, int] | None = None) -> int:
        """Bytes of the workspace for these run-time extents."""
        return prod(b.count(extents or {}) for b in self.work) if self.work else 0


def emit_triton(kernel: Kernel, schedule: TritonSchedule) -> TritonSource:
    """The source of a kernel that is one launch; see `emit_launches`."""
    (source,) = emit_launches(kernel, schedule)
    return source


def emit_launches(kernel: Kernel, schedule: TritonSchedule) -> tuple[TritonSource, ...]:
    """The sources of the launches of `kernel` under `schedule`, in order: one, unless rows are split.

    A convolution is emitted as an implicit matrix product. ValueError or NotImplementedError for a kernel that cannot
    be emitted: one with several blocks of channels, with reductions beside a contraction, or with reductions over
    different axes.
    """
    if not kernel.name.isidentifier():
        raise ValueError(f"kernel {kernel.name!r}: the name of a Triton function must be a Python identifier")
    kernel = in_memory_order(convolutions_as_products(kernel))
    if schedule.plain:
        kernel = contract_as_sum(kernel)
    if not _has_blocks(kernel):
        kernel = hoist_reductions(kernel)
        _check_reductions(kernel, schedule)
    count = phases(kernel, schedule)
    names = [kernel.name] if count == 1 else [f"{kernel.name}_{phase}" for phase in range(count)]
    return tuple(_emit(replace(kernel, name=name), schedule, phase) for phase, name in enumerate(names))


def _emit(kernel: Kernel, schedule: TritonSchedule, phase: int) -> TritonSource:
    attention, nested = find_attention(kernel), find_nested(kernel)
    is_gemm = bool(contracts(kernel)) and attention is None and nested is None
    pointers = [(f"{b.name}_ptr", POINTERS[b.dtype]) for b in kernel.buffers]
    signature = (*pointers, *((e, "i64" if schedule.wide else "i32") for e in kernel.extents))
    constants: tuple[tuple[str, int | str], ...]
    constants = tuple((f"{d.name.upper()}_BLOCK", d.block) for d in schedule.dims if d.block > 1)
    if is_gemm:
        constants += (("GROUP", schedule.group),)
    split = _split_arguments(kernel) if schedule.split > 1 else ()
    source = Source({n for n, _ in (*signature, *split, *constants)})
    if attention is not None:
        emit_attention(kernel, attention, schedule, source)
    elif nested is not None:
        emit_nested(kernel, nested, schedule, source)
    elif is_gemm:
        emit_gemm(kernel, schedule, source)
    else:
        emit_tile(kernel, schedule, source, phase)
    lines, numbers = named_numbers(source.scopes[0].lines, source.fresh, kernel)
    symbolic = tuple((name, "i64") for name in numbers)
    signature += (*split, *symbolic) if phases(kernel, schedule) > 1 else (*symbolic, *split)
    parameters = [n for n, _ in signature] + [f"{n}: tl.constexpr" for n, _ in constants]
    text = module_text(f"Kernel {kernel.name}, generated.", kernel.name, parameters, lines)
    aligned = frozenset(f"{b.name}_ptr" for b in kernel.buffers) if schedule.aligned else frozenset[str]()
    grid = tuple(_blocks(kernel, d) for d in schedule.dims if d.name[0] not in "rk")
    if has_parts(kernel, schedule, phase):
        grid += (Blocks((schedule.split,), 1),)
    divisible, values = aligned | schedule.divisible, tuple(numbers.values())
    work: tuple[Blocks, ...] = ()
    if split and is_gemm:
        grid = (Blocks((schedule.split,), 1), *grid)
        work = (Blocks((4 * prod(d.block for d in schedule.dims if d.name != "k"),), 1), *grid)
    elif split:
        work = (Blocks((8, words_of_row(kernel, schedule), *_blocks(kernel, schedule.dim("x")).extents), 1),)
    divisible |= {name for name, _ in split}
    return TritonSource(text, kernel.name, signature, constants, divisible, grid, schedule, values, work)


def _has_blocks(kernel: Kernel) -> bool:
    """True for attention and its gradients."""
    return find_attention(kernel) is not None or find_nested(kernel) is not None


def _split_arguments(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The workspace of a kernel that splits its sums; for those of a contraction also the counters of the device."""
    if not contracts(kernel):
        return ((WORK, "*i64"),)
    (node,) = contracts(kernel)
    return (WORK, POINTERS[node.accumulator]), (COUNTERS, "*i32")


def _check_reductions(kernel: Kernel, schedule: TritonSchedule) -> None:
    """NotImplementedError unless all reductions of the kernel run over the axes of its rows."""
    reduced = [set(e.axes) for s in kernel.stages for e in walk(s.value) if isinstance(e, Reduce)]
    if contracts(kernel) and reduced:
        raise NotImplementedError(f"kernel {kernel.name}: reductions beside a contraction have no Triton emission")
    if any(axes != set(schedule.dims[-1].axes) for axes in reduced):
        raise NotImplementedError(f"kernel {kernel.name}: reductions over different axes have no Triton emission")


def _blocks(kernel: Kernel, dim: TileDim) -> Blocks:
    return Blocks(tuple(kernel.axis(a).extent for a in dim.axes), dim.block)
