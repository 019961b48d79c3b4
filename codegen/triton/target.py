"""NVIDIA GPUs as targets: Triton compiles for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

from ...ir.lazy_dataclass import dataclass
from ...ir.target import ConvSizes
from .gpu import Gpu
from .kernel_code import Form

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from ...ir.kernel import Kernel
    from ...passes.manager import Context, Pass
    from .program_emitter import TritonEmitter
    from .schedule import TritonSchedule


@dataclass(frozen=True, slots=True)
class GpuTarget(Gpu):
    """Implements `codegen.target.Target`. `form` is the form of kernels that the device loads: a cubin, or Triton's
    MLIR. It is the output of the last stage of Triton's compiler that runs.
    """

    form: Form = "cubin"

    @property
    def name(self) -> str:
        return "gpu"

    @property
    def channel_block(self) -> int:
        """1: buffers are row-major."""
        return 1

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int]) -> int:
        """0: convolutions are implicit matrix products."""
        return 0

    def fuses_parts(self, parts: int, rows: int) -> bool:
        return False

    @property
    def passes(self) -> tuple[Pass, ...]:
        from ...passes.pipeline import FOR_KERNELS

        return FOR_KERNELS

    @property
    def identity(self) -> str:
        from .compile import triton_version

        return f"triton {triton_version()} {astuple(self)}"

    @property
    def code_identity(self) -> str:
        return self.identity

    @property
    def dynamic(self) -> None:
        return None

    def schedule(self, kernel: Kernel, parameters: frozenset[str]) -> TritonSchedule:
        """See `schedule_triton`."""
        from .schedule import schedule_triton

        return schedule_triton(kernel, self)

    def emitter(self, graph: Graph, context: Context) -> TritonEmitter:
        from .program_emitter import TritonEmitter

        return TritonEmitter(self, context)


SM90 = GpuTarget(90, 227 << 10, 132)
