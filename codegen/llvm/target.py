"""CPUs as targets: the properties of a CPU with its schedules and emitters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from ...ir.lazy_dataclass import dataclass
from ...ir.symbolic import is_symbolic
from ...ir.target import BlockedLayout
from ...ir.types import DType
from .cpu import Cpu
from .schedule.tuned import Tuned
from .shared import share_code

if TYPE_CHECKING:
    from ...ir.code_store import CodeStore
    from ...ir.graph import Graph
    from ...ir.kernel import Kernel
    from ...ir.program import Program
    from ...passes.manager import Context, Pass
    from ..target import Emitter
    from ..tuned_entries import Entry
    from .schedule.kinds import Schedule

_BLOCKED = frozenset({DType.F32, DType.F64})
"""The dtypes of convolutions in blocks."""

_STORED = frozenset({DType.F32, DType.F64, DType.F16, DType.BF16, DType.BOOL})
"""The dtypes of values in blocks."""


@dataclass(frozen=True, slots=True)
class CpuTarget(Cpu):
    """Implements `codegen.target.Target`. Functions import the compiler, because a warm start does not need it."""

    @property
    def name(self) -> str:
        return "cpu"

    @property
    def blocked_layout(self) -> BlockedLayout:
        """Channels in blocks, which micro-kernels read and write in float32. They pack weights from row-major memory.

        The costs are measurements on AVX-512, where a vector read takes 0.07 ns per element, and a relayout 0.45 ns.
        """
        return BlockedLayout(
            block=self.channel_block,
            dtypes=_BLOCKED,
            stored=_STORED,
            weights=False,
            halos=True,
            copy=3,
            across=4,
            window_gradient=100,
        )

    @property
    def attention_bytes(self) -> int:
        return 0

    @property
    def slice_bytes(self) -> int:
        """A third of the last cache of common processors. It is the same for all of them, and so are programs."""
        return 12 << 20

    def fuses_column_pieces(self, pieces: int, rows: int) -> bool:
        """True if the registers hold the pieces of one vector of columns for four rows, or for all of fewer rows: with
        less rows the weights arrive too slowly."""
        from .schedule.registers import tallest

        return tallest(pieces, self) >= (4 if is_symbolic(rows) else min(rows, 4))

    @property
    def joins_moves(self) -> bool:
        """See `Capabilities`."""
        return False

    @property
    def multiplies_csr(self) -> bool:
        """See `Capabilities`."""
        return True

    @property
    def finds_positions(self) -> bool:
        """See `Capabilities`."""
        return True

    @property
    def passes(self) -> tuple[Pass, ...]:
        from ...passes.pipeline import FOR_KERNELS

        return FOR_KERNELS

    @property
    def machine(self) -> tuple[object, ...]:
        """The properties of the CPU."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "tuned")

    @property
    def identity(self) -> str:
        return f"{self.machine}{self.tuned.digest}"

    @property
    def code_identity(self) -> str:
        return f"{self.triple}\0{self.cpu}\0{self.features}"

    @property
    def concurrent(self) -> bool:
        """False: LLVM uses all processors for one program."""
        return False

    @property
    def dynamic(self) -> CpuTarget | None:
        """This CPU without tuned schedules, on which code for any shape does not depend."""
        return self.untuned

    @property
    def compiles_fast(self) -> bool:
        """See `DynamicTarget`."""
        return True

    def share(self, symbols: Iterable[str], code: bytes) -> None:
        share_code(symbols, self, code)

    def with_tuned(self, tuned: Tuned) -> CpuTarget:
        """This CPU with other tuned schedules."""
        return replace(self, tuned=tuned)

    @property
    def tuning_identity(self) -> str:
        """The identity of this CPU in tables of tuned schedules."""
        return self.untuned.identity

    def with_entries(self, entries: Mapping[str, Entry]) -> CpuTarget:
        """This CPU with the schedules of a table."""
        return self.with_tuned(Tuned(entries))

    def schedule(self, kernel: Kernel, parameters: frozenset[str]) -> Schedule | None:
        """The schedule of a contraction, or the choice for the loops of any other kernel; None for loops with run-time
        extents. ContractionError for a contraction that has no schedule.
        """
        from .emit import schedule_kernel

        return schedule_kernel(kernel, self, parameters)

    def join(self, program: Program, kernels: CodeStore) -> Program:
        """The program: the thread pool starts groups of launches together."""
        return program

    def emitter(self, graph: Graph, context: Context) -> Emitter:
        from .program_emitter import LlvmEmitter

        return LlvmEmitter(self, graph, context)


AVX2 = CpuTarget("x86_64-unknown-linux-gnu", "znver3", "", 256, 16)
AVX512 = CpuTarget("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512, 32, l2_bytes=1 << 20)
NEON = CpuTarget("aarch64-unknown-linux-gnu", "neoverse-n1", "", 128, 32, l1_bytes=64 << 10, l2_bytes=1 << 20)
