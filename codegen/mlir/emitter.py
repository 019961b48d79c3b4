"""The emitter of programs of the target `mlir`: one launch for each call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Never

from ...ir.dialects.core import Call
from ...ir.graph import GraphError, Node
from ...ir.hashing import trace_hash
from ...passes.manager import Context
from ..emission import Emission, LaunchSpec
from ..stablehlo.export import stablehlo_text
from ..stablehlo.upstream import UpstreamError
from .objects import Objects
from .pipeline import lower_module

if TYPE_CHECKING:
    from ...ir.gather_steps import Part
    from ...ir.kernel import Kernel
    from ...ir.program import Program
    from ...ir.types import TensorType
    from ..chains import ChainedKernel
    from ..emission import Packing
    from .target import MlirTarget


class MlirEmitter:
    """Collects the functions of one program; implements `codegen.target.Emitter`."""

    chained_bytes = 0

    def __init__(self, target: MlirTarget, context: Context) -> None:
        self.target, self.context = target, context
        self._objects = Objects(target, context)
        self.emissions: dict[str, Emission] = {}

    def nested(self) -> MlirEmitter:
        return self

    def emit_node(self, node: Node, aligned: bool, in_place: bool) -> Emission | None:
        """The function of a call. The host computes other primitives."""
        if not isinstance(node.op, Call):
            return None
        symbol = f"m_{trace_hash(self.target.identity, node.op)[:24]}"
        if symbol not in self.emissions:
            start = time.perf_counter()
            try:
                lowered = lower_module(stablehlo_text(node.op.body), symbol, self.target, self.context)
            except UpstreamError as error:
                raise GraphError(f"upstream MLIR cannot compile {node.describe()}: {error}") from None
            self.context.trace.append(("mlir", time.perf_counter() - start))
            self._objects.add(lowered.pieces)
            self.emissions[symbol] = Emission((LaunchSpec(symbol, 1, 1),), lowered.workspace)
        return self.emissions[symbol]

    def code(self) -> tuple[bytes, ...]:
        """The objects of all functions."""
        return self._objects.finished()

    # -- what only emitters of kernels have: every primitive is part of a call

    def emit(self, kernel: Kernel, parameters: frozenset[str], aligned: bool) -> Never:
        raise NotImplementedError("the mlir target has no kernels")

    joins = False

    def join(self, program: Program, parts: Sequence[Part]) -> Never:
        raise AssertionError("no launches are joined")

    def emit_chain(self, chain: Sequence[ChainedKernel]) -> None:
        return None

    def emit_packing(self, packing: Packing) -> Never:
        raise NotImplementedError("the mlir target packs no operands")

    def emit_clearing(self, type: TensorType, position: int, grouped: bool) -> None:
        return None
