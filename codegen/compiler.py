"""Lowers every region of a fused graph to kernels, schedules and emits them, each distinct one once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.dialects.core import Constant, Fused
from ..ir.graph import Graph, GraphError, Node, Value
from ..ir.hashing import structural_hash
from ..ir.kernel import Kernel
from ..ir.target import CpuTarget
from ..passes.manager import Context
from ..passes.plan_memory import Sharing, concat_of, view_of
from .emission import Emission, LaunchSpec, Packing
from .llvm.emit import emit_kernel
from .llvm.emitter import ModuleBuilder
from .lower import Strides, lower_concat, lower_region


@dataclass(frozen=True)
class Step:
    """One kernel of the program on the graph's values: `operands` are those of its buffers, in order."""

    node: Node
    kernel: Kernel
    emission: Emission
    operands: tuple[Value, ...]
    packs: tuple[
        tuple[int, Packing, LaunchSpec], ...
    ]  # position of the operand, its packed form, and the kernel that packs


@dataclass
class KernelCompiler:
    """Collects the kernels of one program in one module."""

    target: CpuTarget
    context: Context
    module: ModuleBuilder = field(init=False)
    emissions: dict[str, Emission] = field(default_factory=dict[str, Emission])
    packings: dict[Packing, LaunchSpec] = field(default_factory=dict[Packing, LaunchSpec])

    def __post_init__(self) -> None:
        self.module = ModuleBuilder(self.target)

    def steps(self, graph: Graph, sharing: Sharing) -> list[Step]:
        """The kernels of all nodes of `graph`, in order; views need none."""
        made: list[Step] = []
        for node in graph.nodes:
            if isinstance(node.op, Constant) or view_of(node) is not None:
                continue
            if not isinstance(node.op, Fused):
                raise GraphError(
                    f"{node.describe()} has no kernel on the cpu target; MXFORGE_TARGET=reference interprets it"
                )
            concat = concat_of(node)
            if concat is None:
                made.append(self._region(node, node.op, sharing))
            else:
                made += self._pieces(node, concat.axis, sharing)
        return made

    def _region(self, node: Node, op: Fused, sharing: Sharing) -> Step:
        operands = (*node.inputs, *node.outputs)
        kernel = lower_region(op, strides=[sharing.resolve(v).strides for v in operands])
        return self._step(node, kernel, operands)

    def _pieces(self, node: Node, axis: int, sharing: Sharing) -> list[Step]:
        """A copy for each operand of a concatenation that does not stand in its place already."""
        whole = node.outputs[0]
        types = [v.type for v in node.inputs]
        made: list[Step] = []
        for i, piece in enumerate(node.inputs):
            if (whole, i) in sharing.placed:
                continue
            strides: list[Strides] = [sharing.resolve(v).strides for v in (piece, whole)]
            made.append(self._step(node, lower_concat(types, whole.type, axis, i, "kernel", strides), (piece, whole)))
        return made

    def _step(self, node: Node, kernel: Kernel, operands: tuple[Value, ...]) -> Step:
        emission = self._emit(node, kernel)
        positions = {b.name: i for i, b in enumerate(kernel.buffers)}
        packs = tuple((positions[name], packing, self._packing(packing)) for name, packing in emission.packings)
        return Step(node, kernel, emission, operands, packs)

    def _emit(self, node: Node, kernel: Kernel) -> Emission:
        key = structural_hash(kernel)
        emission = self.emissions.get(key)
        if emission is None:
            if self.context.settings.verify:
                from ..ir.verifier import verify_kernel

                verify_kernel(kernel)
            try:
                emission = emit_kernel(kernel, self.target, self.module, f"k_{key[:16]}")
            except (NotImplementedError, TypeError, ValueError) as error:
                raise GraphError(f"{node.describe()}: {error}") from error
            self.emissions[key] = emission
            self._observe(kernel)
        return emission

    def _packing(self, packing: Packing) -> LaunchSpec:
        launch = self.packings.get(packing)
        if launch is None:
            launch = packing.emit(self.module, self.target, f"pack_{len(self.packings)}")
            self.packings[packing] = launch
        return launch

    def _observe(self, kernel: Kernel) -> None:
        if self.context.settings.debug < 4 and self.context.settings.dump is None:
            return
        import sys

        from ..ir.printer import print_kernel

        text = print_kernel(kernel)
        if self.context.settings.debug >= 4:
            print(text, file=sys.stderr)
        self.context.dump("kernel", "mlir", text)
