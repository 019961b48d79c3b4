"""The interface of a code generator: what a target provides so that the driver can compile a graph for it.

    Target    what is compiled for: capabilities for the passes, schedules, and an emitter for each program
    Emitter   the code of one program: it emits kernels one by one and then gives their objects

`codegen/llvm` and `codegen/triton` implement both. What runs the compiled program is a `Device` (runtime/device.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..ir.graph import Graph, Node
from ..ir.kernel import Kernel
from ..ir.program import HostFunction
from ..ir.target import Capabilities
from .emission import Emission, LaunchSpec, Packing

if TYPE_CHECKING:
    from ..passes.manager import Context


ALIGNED_BYTES = 16
"""The alignment of buffers on which wide memory accesses of a GPU depend."""


class Emitter(Protocol):
    """The code of one program under construction."""

    def emit(self, kernel: Kernel, parameters: frozenset[str], offsets: Sequence[int]) -> Emission:
        """Schedule a kernel and emit it; equal kernels share their code. `parameters` names the buffers that rarely
        change. `offsets`: the element of its block of memory at which each buffer begins. Blocks, and operands of the
        program, begin at multiples of `ALIGNED_BYTES`. ValueError, TypeError and NotImplementedError name what has no
        emission.
        """
        ...

    def emit_node(self, node: Node, functions: list[HostFunction] | None) -> Emission | None:
        """The code of a primitive that no Kernel describes, whose arguments are the operands and then the results; None
        if the target has none. Nested graphs add the Python functions that they call to `functions`.
        """
        ...

    def emit_packing(self, packing: Packing) -> LaunchSpec:
        """The kernel that stores an operand in this form; equal forms share it."""
        ...

    def code(self) -> tuple[bytes, ...]:
        """The objects that define all symbols of the emitted launches."""
        ...


class Target(Capabilities, Protocol):
    """A machine that programs are compiled for. Implementations are frozen and compared by value."""

    @property
    def identity(self) -> str:
        """Differs between targets whose programs differ: part of the key of a stored program."""
        ...

    def schedule(self, kernel: Kernel, parameters: frozenset[str]) -> object:
        """How `kernel` runs on this target. The emitters of the same target obey it."""
        ...

    def emitter(self, graph: Graph, context: Context) -> Emitter:
        """An emitter for the program of a fused graph."""
        ...
