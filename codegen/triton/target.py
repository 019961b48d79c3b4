"""NVIDIA GPUs as targets: Triton compiles for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from ...ir.lazy_dataclass import dataclass
from ...ir.target import BlockedLayout, ConvSizes
from ...ir.types import DType
from ..tuned_entries import TunedEntries
from .gpu import Gpu
from .kernel_code import Form

if TYPE_CHECKING:
    from ...ir.code_store import CodeStore
    from ...ir.graph import Graph
    from ...ir.kernel import Kernel
    from ...ir.program import Program
    from ...passes.manager import Context, Pass
    from ..tuned_entries import Entry
    from .program_emitter import TritonEmitter
    from .schedule import TritonSchedule

_TENSOR_CORES = frozenset({DType.F16, DType.BF16, DType.F32})
"""The dtypes of numbers whose products tensor cores compute; float32 as three TF32 products."""


NOT_TUNED = TunedEntries()
_ATTENTION_BYTES = 512
"""A program holds the queries or values of a block in registers and shared memory."""


@dataclass(frozen=True, slots=True)
class GpuTarget(Gpu):
    """Implements `codegen.target.Target`. `form` is the form of kernels that the device loads: a cubin, or Triton's
    MLIR. It is the output of the last stage of Triton's compiler that runs. `tuned` are schedules that replace those of
    the formulas (`choices.py`).
    """

    form: Form = "cubin"
    tuned: TunedEntries = NOT_TUNED

    @property
    def untuned(self) -> Self:
        """This GPU without tuned schedules."""
        return replace(self, tuned=NOT_TUNED) if self.tuned.entries else self

    @property
    def tuning_identity(self) -> str:
        """The identity of this GPU in tables of tuned schedules, which all versions of Triton use."""
        return f"cuda-sm{self.capability} {self.multiprocessors} multiprocessors {self.shared_bytes} bytes"

    def with_entries(self, entries: Mapping[str, Entry]) -> Self:
        """This GPU with the schedules of a table."""
        return replace(self, tuned=TunedEntries(entries))

    @property
    def name(self) -> str:
        return "gpu"

    @property
    def blocked_layout(self) -> BlockedLayout:
        """Channels-last, for the dtypes of tensor cores: they take both operands of a convolution, which is an implicit
        matrix product over taps and channels, contiguous along the channels. Padding is masked.

        The costs are estimates for kernels that memory limits: a copy reads and writes each element once, and tiles
        transpose in registers. Gradients of maxima over windows cost the same in both orders of memory.
        """
        return BlockedLayout(
            block=None,
            dtypes=_TENSOR_CORES,
            stored=_TENSOR_CORES | {DType.BOOL},
            weights=True,
            halos=False,
            copy=2,
            across=1,
            window_gradient=0,
        )

    @property
    def attention_bytes(self) -> int:
        return _ATTENTION_BYTES

    def conv_tile(self, sizes: ConvSizes, *, weight_gradient: bool) -> int:
        """1: masks end each tile with the last output."""
        return 1

    @property
    def slice_bytes(self) -> int:
        """See `Capabilities`."""
        return 0

    def fuses_column_pieces(self, pieces: int, rows: int) -> bool:
        return False

    @property
    def joins_moves(self) -> bool:
        """True: a launch takes longer than strided reads."""
        return True

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
        from .passes import FOR_GPUS

        return FOR_GPUS

    @property
    def identity(self) -> str:
        from .compile import triton_version

        numbers = self.capability, self.shared_bytes, self.multiprocessors, self.form
        return f"triton {triton_version()} {numbers}{self.tuned.digest}"

    @property
    def code_identity(self) -> str:
        return self.untuned.identity

    @property
    def concurrent(self) -> bool:
        """True: other processes compile the kernels (`parallel.py`)."""
        return True

    @property
    def dynamic(self) -> GpuTarget:
        """This GPU without tuned schedules, on which code for any shape does not depend."""
        return self.untuned

    @property
    def compiles_fast(self) -> bool:
        """False: Triton takes a second for a kernel."""
        return False

    def share(self, symbols: Iterable[str], code: bytes) -> None:
        """Nothing to do: programs find the code of kernels by their text in the store (`Context.kernels`)."""

    def join(self, program: Program, kernels: CodeStore) -> Program:
        from .join_launches import join_compiled

        return join_compiled(program, self, kernels)

    def schedule(self, kernel: Kernel, parameters: frozenset[str]) -> TritonSchedule:
        """See `schedule_triton`."""
        from .schedule import schedule_triton

        return schedule_triton(kernel, self)

    def emitter(self, graph: Graph, context: Context) -> TritonEmitter:
        from .program_emitter import TritonEmitter

        return TritonEmitter(self, context)


SM90 = GpuTarget(90, 227 << 10, 132)

TARGETS = {
    f"cuda-sm{target.capability}": target
    for target in (
        GpuTarget(80, 163 << 10, 108),
        GpuTarget(86, 99 << 10, 84),
        GpuTarget(89, 99 << 10, 128),
        SM90,
        GpuTarget(100, 227 << 10, 148),
    )
}
"""The architectures to compile for on any machine, with the multiprocessors of A100, A40, RTX 4090, H100 and B200."""
