"""CPUs as targets of upstream MLIR."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Self

from ...ir.lazy_dataclass import dataclass
from ...ir.settings import settings
from ...ir.target import BlockedLayout, ConvSizes
from ...ir.types import DType
from ..llvm.target import CpuTarget

if TYPE_CHECKING:
    from ...ir.code_store import CodeStore
    from ...ir.graph import Graph
    from ...ir.program import Program
    from ...passes.manager import Context, Pass
    from .emitter import MlirEmitter


_CHANNELS_LAST = BlockedLayout(
    block=None,
    dtypes=frozenset({DType.F32}),
    stored=frozenset({DType.F32, DType.BOOL}),
    weights=False,
    halos=False,
    copy=2,
    across=2,
    window_gradient=100,
)
"""The costs are estimates."""


@dataclass(frozen=True, slots=True)
class MlirTarget(CpuTarget):
    """A CPU whose code upstream MLIR generates. Its programs have fixed shapes."""

    @classmethod
    def of(cls, cpu: CpuTarget) -> Self:
        """The target for the same CPU."""
        return cls(**{f.name: getattr(cpu.untuned, f.name) for f in fields(cpu)})

    @property
    def name(self) -> str:
        return "mlir"

    @property
    def blocked_layout(self) -> BlockedLayout:
        """Channels-last, so that the vectors of every inner loop are along channels."""
        return _CHANNELS_LAST

    @property
    def attention_bytes(self) -> int:
        return 0

    def conv_tile(self, sizes: ConvSizes, *, weight_gradient: bool) -> int:
        return 1

    @property
    def slice_bytes(self) -> int:
        """See `Capabilities`."""
        return 0

    def fuses_column_pieces(self, pieces: int, rows: int) -> bool:
        return False

    @property
    def joins_moves(self) -> bool:
        """See `Capabilities`."""
        return False

    @property
    def multiplies_csr(self) -> bool:
        """See `Capabilities`."""
        return False

    @property
    def finds_positions(self) -> bool:
        """See `Capabilities`."""
        return False

    @property
    def passes(self) -> tuple[Pass, ...]:
        from .passes import FOR_MODULES

        return FOR_MODULES

    @property
    def identity(self) -> str:
        from ..stablehlo.upstream import installed_version

        return f"mlir {installed_version()} {settings().mlir_pipeline} {self.machine}"

    @property
    def dynamic(self) -> None:
        return None

    def join(self, program: Program, kernels: CodeStore) -> Program:
        return program

    def emitter(self, graph: Graph, context: Context) -> MlirEmitter:
        from .emitter import MlirEmitter

        return MlirEmitter(self, context)
