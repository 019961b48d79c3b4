"""Lowers every region of a fused graph to kernels and emits them with the target's emitter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ..ir.dialects.core import Cond, Constant, Conv, Fused, HostCallback, Scan, While
from ..ir.graph import Graph, GraphError, Node, Value
from ..ir.host_functions import primitive_function
from ..ir.kernel import Kernel
from ..ir.lazy_dataclass import dataclass
from ..ir.program import HostFunction, Place, Program
from ..ir.program import Step as ProgramStep
from ..ir.symbolic import is_symbolic
from ..ir.types import DType, TensorType
from ..passes.manager import Context
from ..passes.plan_memory import Sharing, concat_of, view_of
from .chains import ChainedKernel, find_chains, outer_buffers
from .emission import Emission, LaunchSpec, Packing
from .narrow_buffers import Part
from .region_kernels import RegionKernel, RegionKernels
from .target import ALIGNED_BYTES, Emitter


class ControlSteps(Protocol):
    """The steps of a branch or a loop; see `control.py`."""

    programs: tuple[Program, ...]
    """The programs of the nested graphs."""

    def lower(
        self, operands: Sequence[Place], work: Place, constants: Sequence[Place], layers: Sequence[Sequence[int]]
    ) -> ProgramStep:
        """The step on operands, packed operands and results at these places, with its workspace at `work`. `constants`
        are the places of the constants of the nested programs, `layers` the positions of their names."""
        ...


CompileControl = Callable[[Node, "KernelCompiler"], tuple[Emission, ControlSteps]]


@dataclass(frozen=True)
class Step:
    """One kernel of the program on the graph's values: `operands` are the operands of its launches, in order. The last
    step of a chain also computes the nodes `before`. A step with `control` or `function`, the position of a Python
    function, has no launches."""

    node: Node
    emission: Emission
    operands: tuple[Value, ...]
    packs: tuple[tuple[int, Packing, LaunchSpec], ...] = ()  # position of the operand, its form, the kernel that packs
    kernel: Kernel | None = None  # None for primitives that no Kernel describes
    parameters: frozenset[str] = frozenset()  # the kernel's buffers that rarely change
    before: tuple[Node, ...] = ()
    control: ControlSteps | None = None
    function: int | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the step computes, in order."""
        return (*self.before, self.node)


class PackedInputs:
    """Inputs of a nested graph that its caller packs. `values` are further inputs: the packed form of one each."""

    def __init__(self, inputs: Iterable[Value] = ()) -> None:
        self.inputs = frozenset(inputs)
        self.values: dict[tuple[Value, Packing], Value] = {}

    def packed(self, value: Value, packing: Packing) -> Value | None:
        """The packed form of a value; None if it is no such input."""
        if value not in self.inputs:
            return None
        packed = Value(TensorType((packing.nbytes,), DType.U8), None, len(self.values))
        return self.values.setdefault((value, packing), packed)


class KernelCompiler:
    """Compiles the kernels of one graph. `functions` collects the Python functions that its steps call; users'
    functions are refused in a loop `of_unknown_length`. `packed` holds the inputs that the caller packs, `unaligned`
    the inputs and outputs that can begin at any element, such as the rows that the body of a loop takes."""

    def __init__(
        self,
        emitter: Emitter,
        context: Context,
        functions: list[HostFunction],
        compile_control: CompileControl,
        packed: PackedInputs | None = None,
        of_unknown_length: bool = False,
        unaligned: frozenset[Value] = frozenset(),
    ) -> None:
        self.unaligned = unaligned
        self.emitter, self.context, self.functions = emitter, context, functions
        self.compile_control, self.of_unknown_length = compile_control, of_unknown_length
        self.packed = packed or PackedInputs()
        self.kernels = RegionKernels()
        self._emissions: dict[Hashable, Emission] = {}
        self._chain_emissions: dict[Hashable, Emission | None] = {}

    def steps(self, graph: Graph, sharing: Sharing) -> list[Step]:
        """The kernels of all nodes of `graph`, in order. Constants and views have none."""
        self.sharing = sharing
        chained = self._chains(graph, sharing)
        inside = {node for step in chained.values() for node in step.before}
        steps: list[Step] = []
        for node in graph.nodes:
            if isinstance(node.op, Constant) or view_of(node) is not None or node in inside:
                continue
            if node in chained:
                steps.append(chained[node])
                continue
            concat = concat_of(node)
            if concat is not None:
                steps += self._pieces(node, concat.axis, sharing)
            elif isinstance(node.op, Fused):
                steps += self._region(node, node.op, sharing)
            elif isinstance(node.op, HostCallback):
                steps.append(self._host_call(node, node.op))
            elif isinstance(node.op, Cond | While | Scan):
                steps.append(self._control(node))
            else:
                steps.append(self._primitive(node))
        return self._cleared(steps, graph, sharing)

    def _cleared(self, steps: Sequence[Step], graph: Graph, sharing: Sharing) -> list[Step]:
        """The steps, which zero the halo of a value when they are the first to write to its block of memory, if the
        target has a kernel for it. Callers zero the halos of inputs and results."""
        known = {sharing.resolve(v).base for v in (*graph.inputs, *graph.outputs)}.union(sharing.prepared)
        read: dict[Value, int] = {}  # the fewest groups of a convolution that reads a value
        for node in graph.nodes:
            for v in node.inputs if (groups := _groups(node)) else ():
                base = sharing.resolve(v).base
                read[base] = min(groups, read.get(base, groups))
        result: list[Step] = []
        for step in steps:
            emission = step.emission
            for position, value in enumerate(step.operands):
                view = sharing.resolve(value)
                if view.base in known:
                    continue
                known.add(view.base)
                is_cleared = view.base in read and not view.offset
                spec = self.emitter.emit_clearing(view.base.type, position, read[view.base] > 1) if is_cleared else None
                if spec is not None:
                    launches, cleared = (spec, *emission.launches), (*emission.cleared, position)
                    emission = replace(emission, launches=launches, cleared=cleared)
            result.append(step if emission is step.emission else replace(step, emission=emission))
        return result

    def _primitive(self, node: Node) -> Step:
        """A primitive that no Kernel describes: a routine of the target, or else the primitive's own implementation."""
        operands = (*node.inputs, *node.outputs)
        first = self.sharing.resolve(node.outputs[0])
        in_place = bool(node.inputs) and first == self.sharing.resolve(node.inputs[0])
        emission = self.emitter.emit_node(node, all(map(self.is_aligned, operands)), in_place)
        if emission is None:
            return self._interpreted(node)
        return self._launched(node, emission, operands)

    def _control(self, node: Node) -> Step:
        """A branch or a loop."""
        emission, control = self.compile_control(node, self)
        return replace(self._launched(node, emission, (*node.inputs, *node.outputs)), control=control)

    def _host_call(self, node: Node, op: HostCallback) -> Step:
        """A call of a user's function."""
        if self.of_unknown_length:
            raise GraphError(
                f"{node.describe()} is a Python function, which cannot be called inside a loop whose length depends on "
                "data"
            )
        inputs, outputs = (tuple([v.type for v in values]) for values in (node.inputs, node.outputs))
        return self._called(node, HostFunction(op.call, inputs, outputs, node.describe(), op.writes))

    def _interpreted(self, node: Node) -> Step:
        """A call of the primitive's own implementation, for a target that has none."""
        target = self.context.target.name
        if any(v.type.layout is not None for v in (*node.inputs, *node.outputs)):
            raise GraphError(f"{node.describe()} has no kernel on the {target} target")
        return self._called(node, primitive_function(node), f"the {target} target has no kernel for {node.op.name}")

    def _called(self, node: Node, function: HostFunction, fallback: str = "") -> Step:
        self.functions.append(function)
        operands = (*node.inputs, *node.outputs)
        return Step(node, Emission((), fallback=fallback), operands, function=len(self.functions) - 1)

    def _region(self, node: Node, op: Fused, sharing: Sharing) -> list[Step]:
        return [self._step(node, kernel, operands, sharing) for kernel, operands in self._kernels(node, op)]

    def _kernels(self, node: Node, op: Fused) -> list[tuple[Kernel, tuple[Value, ...]]]:
        """The kernels of a region, and the values of their buffers."""
        values = (*node.inputs, *node.outputs)
        kernels = self.kernels.of_region(op, tuple([self.sharing.resolve(v).strides for v in values]))
        return [self._on(kernel, values) for kernel in kernels]

    def _on(self, region: RegionKernel, values: Sequence[Value]) -> tuple[Kernel, tuple[Value, ...]]:
        """A kernel, and the values of its buffers."""
        places = zip(region.positions, region.parts, strict=True)
        return region.kernel, tuple([self._part(values[i], part) for i, part in places])

    def _part(self, value: Value, part: Part | None) -> Value:
        return value if part is None else self.sharing.part(value, part.type, part.offset, part.strides)

    def _chains(self, graph: Graph, sharing: Sharing) -> dict[Node, Step]:
        """The steps of the chains that the target computes in blocks of rows, by the last node of each."""
        least = self.emitter.chained_bytes
        chains = find_chains(graph, sharing, least) if least else ()
        steps = [step for chain in chains if (step := self._chain(chain, sharing)) is not None]
        return {step.node: step for step in steps}

    def _chain(self, nodes: Sequence[Node], sharing: Sharing) -> Step | None:
        chain: list[ChainedKernel] = []
        values: list[tuple[Value, ...]] = []
        for node in nodes:
            assert isinstance(node.op, Fused)
            ((kernel, operands),) = self._kernels(node, node.op)
            before = nodes[len(chain) - 1].outputs[0] if chain else None
            sources = [i for i, v in enumerate(operands) if sharing.resolve(v).base is before]
            if len(sources) > 1:  # a product that also reads its left operand in another way
                return None
            chain.append(ChainedKernel(kernel, sources[0] if sources else None, _prepared(kernel, operands, sharing)))
            values.append(operands)
        key = tuple([(id(link.kernel), link.source, link.parameters) for link in chain])
        if key not in self._chain_emissions:
            for link in chain:
                self._verify(link.kernel)
            self._chain_emissions[key] = self.emitter.emit_chain(chain)
        emission = self._chain_emissions[key]
        if emission is None:
            return None
        operands = tuple(values[k][i] for k, i in outer_buffers(chain))
        return replace(self._launched(nodes[-1], emission, operands), before=tuple(nodes[:-1]))

    def _pieces(self, node: Node, axis: int, sharing: Sharing) -> list[Step]:
        """A copy for each operand of a concatenation that is not computed in its place in the result."""
        whole = node.outputs[0]
        steps: list[Step] = []
        begin = 0
        for i, piece in enumerate(node.inputs):
            if (whole, i) not in sharing.placed:
                strides = sharing.resolve(piece).strides, sharing.resolve(whole).strides
                kernel = self.kernels.of_piece(piece.type, whole.type, axis, begin, strides)
                steps.append(self._step(node, *self._on(kernel, (piece, whole)), sharing))
            begin += piece.type.shape[axis]
        return steps

    def _step(self, node: Node, kernel: Kernel, operands: tuple[Value, ...], sharing: Sharing) -> Step:
        parameters = _prepared(kernel, operands, sharing)
        aligned = all(map(self.is_aligned, operands))
        key = id(kernel), parameters, aligned
        emission = self._emissions.get(key)
        if emission is None:
            self._verify(kernel)
            try:
                emission = self._emissions[key] = self.emitter.emit(kernel, parameters, aligned)
            except (NotImplementedError, TypeError, ValueError) as error:
                raise GraphError(f"{node.describe()}: {error}") from error
        return self._launched(node, emission, operands, kernel, parameters)

    def is_aligned(self, value: Value) -> bool:
        """True if a value of the graph begins at a multiple of `ALIGNED_BYTES`, for all extents."""
        view = self.sharing.resolve(value)
        return view.base not in self.unaligned and is_aligned_size(view.offset * value.type.dtype.itemsize)

    def _launched(
        self,
        node: Node,
        emission: Emission,
        operands: tuple[Value, ...],
        kernel: Kernel | None = None,
        parameters: frozenset[str] = frozenset(),
    ) -> Step:
        """The step of an emission, with the kernels that pack its operands."""
        taken = list(operands) if emission.operands is None else [operands[i] for i in emission.operands]
        packs: list[tuple[int, Packing, LaunchSpec]] = []
        for i, packing in emission.packings:
            packed = self.packed.packed(taken[i], packing)
            if packed is None:
                packs.append((i, packing, self.emitter.emit_packing(packing)))
            else:
                taken[i] = packed
        return Step(node, emission, tuple(taken), tuple(packs), kernel, parameters)

    def _verify(self, kernel: Kernel) -> None:
        if self.context.settings.verify:
            from ..ir.verifier import verify_kernel

            verify_kernel(kernel)


def is_aligned_size(nbytes: int) -> bool:
    """True if a number of bytes is a multiple of `ALIGNED_BYTES`, for all extents."""
    rest = nbytes % ALIGNED_BYTES
    return not is_symbolic(rest) and not rest


def _groups(node: Node) -> int:
    """The fewest groups of a region's convolutions, 0 without one."""
    nodes = node.op.body.nodes if isinstance(node.op, Fused) else ()
    return min((n.op.groups for n in nodes if isinstance(n.op, Conv)), default=0)


def _prepared(kernel: Kernel, operands: Sequence[Value], sharing: Sharing) -> frozenset[str]:
    """The buffers of a kernel that rarely change."""
    return frozenset(
        b.name for b, v in zip(kernel.buffers, operands, strict=True) if sharing.whole(v) in sharing.prepared
    )
