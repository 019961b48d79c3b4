"""The interface of a code generator, which the driver uses to compile a graph for a target.

    Target    a machine: capabilities for the passes, schedules, and an emitter for each program
    Emitter   the code of one program: it emits kernels one by one and then returns their objects

`codegen/llvm` and `codegen/triton` implement both. A `Device` (runtime/device.py) runs the compiled program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..ir.graph import Graph, Node
from ..ir.target import Capabilities
from ..ir.types import TensorType
from .emission import Emission, LaunchSpec, Packing

if TYPE_CHECKING:
    from ..ir.code_store import CodeStore
    from ..ir.gather_steps import Part
    from ..ir.kernel import Kernel
    from ..ir.program import Program
    from ..passes.manager import Context, Pass
    from .chains import ChainedKernel


ALIGNED_BYTES = 16
"""The alignment of buffers on which wide memory accesses of a GPU depend."""


class Emitter(Protocol):
    """The code of one program under construction."""

    @property
    def target(self) -> Target:
        """The machine that the code is for."""
        ...

    def nested(self) -> Emitter:
        """An emitter of the same program for a nested graph, which runs many times: its kernels have fixed shapes."""
        ...

    @property
    def chained_bytes(self) -> int:
        """The size from which a value between the kernels of a chain is worth computing in blocks of rows; 0: none
        is."""
        ...

    def emit(self, kernel: Kernel, parameters: frozenset[str], aligned: bool) -> Emission:
        """Schedule a kernel and emit it; equal kernels share their code. `parameters` names the buffers that rarely
        change. `aligned`: all buffers begin at multiples of `ALIGNED_BYTES` in every launch. Raises ValueError,
        TypeError or NotImplementedError that names the construct that cannot be emitted.
        """
        ...

    def emit_node(self, node: Node, aligned: bool, in_place: bool) -> Emission | None:
        """The code of a primitive that no Kernel describes; its arguments are the operands and then the results.
        `aligned` is as in `emit`. `in_place`: the first result replaces the first operand in its memory. None if
        the target does not implement the primitive: then the host computes it.
        """
        ...

    def emit_chain(self, chain: Sequence[ChainedKernel]) -> Emission | None:
        """The launch that computes a chain in blocks of rows; its arguments are the chain's outer buffers. None if the
        target computes this chain kernel by kernel. Not called if `chained_bytes` is 0."""
        ...

    def emit_packing(self, packing: Packing) -> LaunchSpec:
        """The kernel that packs an operand into this form; equal forms share it."""
        ...

    def emit_clearing(self, type: TensorType, position: int, grouped: bool) -> LaunchSpec | None:
        """The kernel that zeroes the halo of a tensor, which is the argument at `position`. None: the tensor's memory
        is zeroed once, and no value of another type uses it. `grouped`: only convolutions in groups read the tensor,
        which compute little for each of its elements."""
        ...

    @property
    def joins(self) -> bool:
        """True if `join` joins launches. Then what depends on parameters alone is computed first, by few launches,
        unless it is kept from run to run."""
        ...

    def join(self, program: Program, parts: Sequence[Part]) -> Program:
        """The program of the emitted launches with fewer of them and the same results; see `Target.join`. `parts` are
        the node that a launch computes a part of, and a number that is the same for launches which follow each other:
        those that prepare, then the others. Not called unless `joins`."""
        ...

    def code(self) -> tuple[bytes, ...]:
        """The objects that define all symbols of the emitted launches."""
        ...


class Target(Capabilities, Protocol):
    """A machine that programs are compiled for. Implementations are frozen and compare by value."""

    @property
    def passes(self) -> Sequence[Pass]:
        """The passes from a graph of mx or core to a fused graph, in order."""
        ...

    @property
    def identity(self) -> str:
        """A string that differs between targets whose programs differ: part of the key of a stored program."""
        ...

    @property
    def code_identity(self) -> str:
        """A string that differs between targets for which the code of a text differs: part of the key of a stored
        kernel."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if threads can compile programs for this target at the same time. False if the compilation of one uses
        all processors, or tables that threads cannot share."""
        ...

    @property
    def dynamic(self) -> DynamicTarget | None:
        """The target of programs for any shapes; None if all programs of this target have fixed shapes."""
        ...

    def join(self, program: Program, kernels: CodeStore) -> Program:
        """A program with the same results. If launches cost more than what small kernels compute, kernels that do not
        depend on each other are one launch; `kernels` is where the code of these is."""
        ...

    def schedule(self, kernel: Kernel, parameters: frozenset[str]) -> object:
        """The schedule of `kernel` on this target, which the target's emitters follow."""
        ...

    def emitter(self, graph: Graph, context: Context) -> Emitter:
        """An emitter for the program of a fused graph."""
        ...


class DynamicTarget(Target, Protocol):
    """A target whose programs share code for any shapes."""

    @property
    def compiles_fast(self) -> bool:
        """True if the program of one operator takes milliseconds to compile: then eager operators have programs for any
        shapes."""
        ...

    def share(self, symbols: Iterable[str], code: bytes) -> None:
        """Let programs that are compiled from now on use an object, which defines these symbols."""
        ...
