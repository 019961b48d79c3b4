"""Lowers every region of a fused graph to kernels, schedules and emits them, each distinct one once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.dialects.core import Cond, Constant, Fused, While
from ..ir.graph import Graph, GraphError, Node, Value
from ..ir.hashing import structural_hash
from ..ir.kernel import Kernel
from ..ir.target import CpuTarget
from ..passes.manager import Context
from ..passes.plan_memory import Sharing, concat_of, view_of
from .emission import Emission, LaunchSpec, Packing
from .llvm.emit import emit_kernel, is_contraction
from .llvm.emitter import ModuleBuilder
from .llvm.loops.emit import emit_loops
from .llvm.loops.generalize import GeneralKernel, generalize
from .llvm.routines import emit_routine, has_routine
from .lower import Strides, lower_concat, lower_region
from .lower_contract import read_apart


@dataclass(frozen=True)
class Step:
    """One kernel of the program on the graph's values: `operands` are those of its buffers, in order."""

    node: Node
    emission: Emission
    operands: tuple[Value, ...]
    packs: tuple[tuple[int, Packing, LaunchSpec], ...]  # position of the operand, its form, and the kernel that packs
    extents: tuple[int, ...] = ()


@dataclass
class KernelCompiler:
    """Collects the kernels of one program: those of its own shapes in `module`, shape-free ones in modules of their
    own,
    which programs share."""

    target: CpuTarget
    context: Context
    module: ModuleBuilder = field(init=False)
    emissions: dict[str, Emission] = field(default_factory=dict[str, Emission])
    packings: dict[Packing, LaunchSpec] = field(default_factory=dict[Packing, LaunchSpec])
    general: dict[str, bytes] = field(default_factory=dict[str, bytes])
    routines: dict[str, Emission] = field(default_factory=dict[str, Emission])
    controls: dict[str, Emission] = field(default_factory=dict[str, Emission])

    def __post_init__(self) -> None:
        self.module = ModuleBuilder(self.target)

    def steps(self, graph: Graph, sharing: Sharing) -> list[Step]:
        """The kernels of all nodes of `graph`, in order; views need none."""
        made: list[Step] = []
        for node in graph.nodes:
            if isinstance(node.op, Constant) or view_of(node) is not None:
                continue
            concat = concat_of(node)
            if concat is not None:
                made += self._pieces(node, concat.axis, sharing)
            elif isinstance(node.op, Fused):
                made.append(self._region(node, node.op, sharing))
            elif has_routine(node.op):
                made.append(self._routine(node))
            elif isinstance(node.op, Cond | While):
                made.append(self._control(node))
            else:
                raise GraphError(
                    f"{node.describe()} has no kernel on the cpu target; MXFORGE_TARGET=reference interprets it"
                )
        return made

    def _routine(self, node: Node) -> Step:
        """A primitive that no Kernel describes, emitted from the node itself."""
        symbol = f"r{len(self.routines)}_{node.op.name.rpartition('.')[2]}"
        key = structural_hash(node.op, *(v.type for v in (*node.inputs, *node.outputs)))
        emission = self.routines.get(key)
        if emission is None:
            emission = self.routines[key] = emit_routine(node, self.target, self.module, symbol)
        return Step(node, emission, (*node.inputs, *node.outputs), ())

    def _control(self, node: Node) -> Step:
        """A branch or a loop, whose nested graphs are compiled into this module."""
        from .control import emit_control

        return Step(node, emit_control(node, self), (*node.inputs, *node.outputs), ())

    def nested(self, context: Context) -> KernelCompiler:
        """A compiler that adds to the same module, for a nested graph."""
        shared = (self.module, self.emissions, self.packings, self.routines, self.controls)
        made = KernelCompiler(self.target, context)
        made.module, made.emissions, made.packings, made.routines, made.controls = shared
        return made

    def _region(self, node: Node, op: Fused, sharing: Sharing) -> Step:
        operands = (*node.inputs, *node.outputs)
        kernel, positions = read_apart(lower_region(op, strides=[sharing.resolve(v).strides for v in operands]))
        return self._step(node, kernel, tuple(operands[i] for i in positions), sharing.prepared)

    def _pieces(self, node: Node, axis: int, sharing: Sharing) -> list[Step]:
        """A copy for each operand of a concatenation that does not stand in its place already."""
        whole = node.outputs[0]
        types = [v.type for v in node.inputs]
        made: list[Step] = []
        for i, piece in enumerate(node.inputs):
            if (whole, i) in sharing.placed:
                continue
            strides: list[Strides] = [sharing.resolve(v).strides for v in (piece, whole)]
            kernel = lower_concat(types, whole.type, axis, i, "kernel", strides)
            made.append(self._step(node, kernel, (piece, whole), sharing.prepared))
        return made

    def _step(self, node: Node, kernel: Kernel, operands: tuple[Value, ...], prepared: frozenset[Value]) -> Step:
        self._verify(kernel)
        general = None if self.context.options.static_shape else generalize(kernel)
        if general is not None:
            used = tuple(operands[i] for i in general.operands)
            return Step(node, self._emit_general(general), used, (), general.extents)
        parameters = frozenset(b.name for b, v in zip(kernel.buffers, operands, strict=True) if v in prepared)
        emission = self._emit(node, kernel, parameters if is_contraction(kernel) else frozenset())
        positions = {b.name: i for i, b in enumerate(kernel.buffers)}
        packs = tuple((positions[name], packing, self._packing(packing)) for name, packing in emission.packings)
        return Step(node, emission, operands, packs)

    def _verify(self, kernel: Kernel) -> None:
        if self.context.settings.verify:
            from ..ir.verifier import verify_kernel

            verify_kernel(kernel)

    def _emit(self, node: Node, kernel: Kernel, parameters: frozenset[str]) -> Emission:
        key = structural_hash(kernel, parameters) if parameters else structural_hash(kernel)
        emission = self.emissions.get(key)
        if emission is None:
            emission = self.emissions[key] = self._emit_into(node, kernel, f"k_{key[:16]}", parameters)
        return emission

    def _emit_into(self, node: Node, kernel: Kernel, symbol: str, parameters: frozenset[str]) -> Emission:
        self._observe(kernel)
        try:
            return emit_kernel(kernel, self.target, self.module, symbol, parameters)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise GraphError(f"{node.describe()}: {error}") from error

    def _emit_general(self, general: GeneralKernel) -> Emission:
        """A shape-free kernel: its code is compiled once in the life of the process."""
        key = structural_hash(general.kernel)
        symbol = f"g_{key[:16]}"
        if key not in self.general:
            self._observe(general.kernel)
            self.general[key] = general_code(general, self.target, symbol, key)
        return emit_loops(general.kernel, self.target, None, symbol, general.extents)

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


_general_code: dict[tuple[str, CpuTarget], bytes] = {}  # a few kilobytes each, one for each operation in use


def general_code(general: GeneralKernel, target: CpuTarget, symbol: str, key: str) -> bytes:
    """The object that defines `symbol` for a shape-free kernel, from the process's table or compiled now."""
    found = _general_code.get((key, target))
    if found is None:
        from .llvm.compile import compile_object

        module = ModuleBuilder(target)
        emit_loops(general.kernel, target, module, symbol, general.extents)
        found = _general_code[key, target] = compile_object(module.text(), target)
    return found
