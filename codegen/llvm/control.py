"""Compiles a branch or a loop of a graph to one function, which launches the kernels of the nested graphs.

The function runs on one thread and computes addresses. It passes the launches of each step to the thread pool, so all
threads share the work of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.assign_offsets import ALIGNMENT
from ...ir.dialects.core import Scan, While
from ...ir.graph import Graph, Node, Op
from ...ir.graph import Value as GraphValue
from ...ir.lazy_dataclass import dataclass
from ...ir.program import HostFunction, Launch, Place, Program, Space
from ...ir.symbolic import is_symbolic
from ...passes.manager import Context, run_passes
from ...passes.pipeline import FOR_CPU
from ...passes.plan_memory import share_memory
from ..assemble import assemble
from ..compiler import KernelCompiler, PackedInputs
from ..emission import Emission, LaunchSpec, Packing
from .arithmetic import Value
from .emitter import FunctionBuilder
from .pool import RECORD_WORDS, RUN
from .routines.rows import kernel_function, pointers
from .types import I8, I64, PTR

if TYPE_CHECKING:
    from .program_emitter import LlvmEmitter


def emit_control(node: Node, emitter: LlvmEmitter, functions: list[HostFunction] | None, symbol: str) -> Emission:
    """One function `symbol` whose arguments are the addresses of the operands, of their packed forms, of the results
    and of the workspace. It runs on one thread, which shares the launches of each step with the others.

    A loop whose length depends on data cannot call Python functions: if one failed, the loop might never terminate.
    """
    inner = None if isinstance(node.op, While) else functions
    nested = [_compile(graph, emitter, inner) for graph in _regions(node.op)]
    programs = [program for program, _ in nested]
    packs = [pack for _, packs in nested for pack in packs]
    emitter.add_arguments(len(packs))
    state = [v.type.nbytes for v in node.outputs[: _state_of(node)]]
    function = _Function(node, programs, kernel_function(emitter.module, symbol), len(packs))
    workspace = function.place_memory(state)
    function.emit()
    reasons = "; ".join(dict.fromkeys(reason for program in programs for _, reason in program.fallbacks()))
    inputs, outputs = len(node.inputs), len(node.outputs)
    return Emission(
        (LaunchSpec(symbol, 1, 1),),
        workspace,
        packings=tuple((inputs + k, packing) for k, (_, packing) in enumerate(packs)),
        fallback=reasons,
        operands=(*range(inputs), *(position for position, _ in packs), *range(inputs, inputs + outputs)),
    )


def _regions(op: Op) -> Sequence[Graph]:
    """The nested graphs. Operands that are equal in all steps of a scan are parameters of its body: their packed forms
    are operands of the scan, and other values that depend only on them are computed before the first step."""
    if not isinstance(op, Scan):
        return op.regions()
    invariants = range(op.carries + op.scanned, len(op.body.inputs))
    return (replace(op.body, parameters=frozenset(invariants)),)


def _position(values: Sequence[GraphValue], value: GraphValue) -> int | None:
    return next((k for k, v in enumerate(values) if v is value), None)


def _state_of(node: Node) -> int:
    """The number of leading results that are the state of a loop, which each step replaces."""
    if isinstance(node.op, Scan):
        return node.op.carries
    return len(node.outputs) if isinstance(node.op, While) else 0


def _compile(
    graph: Graph, emitter: LlvmEmitter, functions: list[HostFunction] | None
) -> tuple[Program, list[tuple[int, Packing]]]:
    """The program of a nested graph; its kernels are emitted into the module of the outer graph. Packed forms of
    parameters are further inputs: the position of the parameter and the form of each."""
    outer = emitter.context
    context = Context(outer.target, replace(outer.options, static_shape=True), outer.settings)
    fused = run_passes(FOR_CPU, graph, context)
    sharing = share_memory(fused)
    packed = PackedInputs(fused.inputs[i] for i in fused.parameters)
    steps = KernelCompiler(emitter.nested(), context, functions, packed).steps(fused, sharing)
    extended = replace(fused, inputs=(*fused.inputs, *packed.values.values()))
    return assemble(extended, sharing, steps, ()), [(fused.inputs.index(v), packing) for v, packing in packed.values]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Offsets of a nested program's blocks in the workspace."""

    arena: int
    prepared: int


class _Function:
    def __init__(self, node: Node, programs: Sequence[Program], f: FunctionBuilder, packed: int) -> None:
        """`packed`: how many packed forms of operands follow the operands."""
        self.node, self.programs, self.f, self.packed = node, programs, f, packed
        self.memory: list[_Memory] = []
        self.next: list[int] = []
        self.flag, self.zeroed = 0, 0

    def place_memory(self, state: Sequence[int]) -> int:
        """Lay out the workspace: the programs' blocks, the next state of a loop, its condition. Returns the bytes."""
        top = 0

        def take(nbytes: int) -> int:
            nonlocal top
            start = top
            top += -(-nbytes // ALIGNMENT) * ALIGNMENT
            return start

        self.memory = [_Memory(take(p.arena_bytes), take(p.prepared_bytes)) for p in self.programs]
        self.zeroed = top
        self.next = [take(n) for n in state]
        self.flag = take(1)
        return top

    def emit(self) -> None:
        f, node = self.f, self.node
        count = len(node.inputs) + self.packed
        *places, work = pointers(f, count + len(node.outputs) + 1)
        self.operands, self.results, self.work = places[:count], places[count:], work
        with f.loop(f.args[1], f.args[2]):
            self._fill(work, self.zeroed)
            match node.op:
                case While():
                    self._loop()
                case Scan():
                    self._scan(node.op)
                case _:
                    self._branch()
        f.ret()

    # -- branches and loops

    def _branch(self) -> None:
        f, (pred, *operands) = self.f, self.operands
        then, otherwise = (_Call(self, i, operands, self.results) for i in range(2))
        f.branch(f.cmp("ne", f.load(pred, I8), 0), then.run_once, otherwise.run_once)

    def _loop(self) -> None:
        """Emit a while loop. The state is stored in the results; each step computes the next state in the workspace."""
        f = self.f
        following = self._initial_state()
        flag = f.gep(self.work, self.flag, I8)
        condition = _Call(self, 0, self.results, [flag])
        body = _Call(self, 1, self.results, following, len(following))
        condition.prepare()
        body.prepare()

        def continues() -> Value:
            condition.run()
            return f.cmp("ne", f.load(flag, I8), 0)

        def step() -> tuple[Value, ...]:
            body.run()
            self._replace_state(following, body.unchanged())
            return ()

        f.while_loop((), continues, step)

    def _scan(self, op: Scan) -> None:
        """Emit a scan. Slices of operands and parts of stacked results are not copied: each step computes their
        addresses. Nor is the state: a step stores it where the next one reads it, in the stacked result that holds it
        too, or alternately in the workspace and in the result, which the last step writes."""
        f, first, last = self.f, op.carries, op.carries + op.scanned
        stacked = [_position(op.body.outputs[first:], v) for v in op.body.outputs[:first]]

        def moved(places: Sequence[Value], values: Sequence[GraphValue], i: Value) -> list[Value]:
            return [
                f.gep(p, f.mul(i, v.type.nbytes // max(op.length, 1)), I8) for p, v in zip(places, values, strict=True)
            ]

        def call(i: Value, state: Sequence[Value]) -> _Call:
            step = f.sub(f.const(I64, op.length - 1), i) if op.reverse else i
            slices = moved(self.operands[first:last], self.node.inputs[first:last], step)
            pieces = moved(self.results[first:], self.node.outputs[first:], step)
            is_result = f.cmp("eq", f.urem(f.sub(f.const(I64, op.length - 1), i), 2), 0)
            following = [
                f.select(is_result, result, f.gep(self.work, offset, I8)) if k is None else pieces[k]
                for k, result, offset in zip(stacked, self.results[:first], self.next, strict=True)
            ]
            return _Call(self, 0, [*state, *slices, *self.operands[last:]], [*following, *pieces], first)

        initial = self.operands[:first]
        call(f.const(I64, 0), initial).prepare()
        with f.carry_loop(0, op.length, initial) as loop:
            body = call(loop.index, loop.values)
            body.run()
            kept = body.unchanged()
            loop.next(*(old if j in kept else body.outputs[j] for j, old in enumerate(loop.values)))
        for j, place in enumerate(loop.results):
            if stacked[j] is None and j not in kept and not is_symbolic(op.length) and op.length:
                continue  # the last step stored it in the result
            with f.when(f.cmp("ne", place, self.results[j])):
                self.copy(place, self.results[j], self.node.outputs[j].type.nbytes)

    def _initial_state(self) -> list[Value]:
        """Copy the initial state to the results, where the state is stored. Returns the addresses of the next state."""
        for i, value in enumerate(self.node.outputs[: len(self.next)]):
            self.copy(self.operands[i], self.results[i], value.type.nbytes)
        return [self.f.gep(self.work, offset, I8) for offset in self.next]

    def _replace_state(self, following: Sequence[Value], unchanged: set[int]) -> None:
        """Copy the next state over the current state, except the parts `unchanged`."""
        for i, place in enumerate(following):
            if i not in unchanged:
                self.copy(place, self.results[i], self.node.outputs[i].type.nbytes)

    # -- memory

    def copy(self, source: Value, target: Value, nbytes: int) -> None:
        copy = self.f.module.declare_raw("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1 immarg")
        size = self.f.const(I64, nbytes).text
        self.f.lines.append(f"  call void {copy}(ptr {target.text}, ptr {source.text}, i64 {size}, i1 false)")

    def _fill(self, target: Value, nbytes: int) -> None:
        """Fill new memory with zeros, which halos and packed operands require."""
        fill = self.f.module.declare_raw("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1 immarg")
        size = self.f.const(I64, nbytes).text
        self.f.lines.append(f"  call void {fill}(ptr {target.text}, i8 0, i64 {size}, i1 false)")


class _Call:
    """Runs of a nested program on operands at given addresses. Its launches go through the thread pool, as those of any
    program."""

    def __init__(
        self, owner: _Function, number: int, inputs: Sequence[Value], outputs: Sequence[Value], state: int = 0
    ) -> None:
        """The first `state` outputs are the next values of the inputs at the same positions."""
        self.owner, self.f, self.program, self.state = owner, owner.f, owner.programs[number], state
        self.memory, self.inputs, self.outputs = owner.memory[number], inputs, outputs
        f = self.f
        self.constants = f.table(I8, list(self.program.constants)) if self.program.constants else f.const(PTR, 0)

    def prepare(self) -> None:
        """Compute values that depend only on parameters and constants."""
        self._launch(self.program.prepare)

    def run(self) -> None:
        self._launch(self.program.launches)
        unchanged, outputs = self.unchanged(), self.outputs
        for copy in self.program.copies:
            target, source = copy.target.index, copy.source
            is_same = source.space is Space.OUTPUT and outputs[source.index] is outputs[target]
            if target not in unchanged and not is_same:
                self.owner.copy(self._address(copy.source), self._address(copy.target), copy.nbytes)

    def run_once(self) -> tuple[Value, ...]:
        self.prepare()
        self.run()
        return ()

    def unchanged(self) -> set[int]:
        """The positions of a loop's state that its body returns unchanged: they are not copied."""
        targets = {c.target.index for c in self.program.copies if c.source == Place(Space.INPUT, c.target.index)}
        return {i for i in targets if i < self.state}

    def _table(self, launch: Launch) -> Value:
        f = self.f
        table = f.alloca(I64, max(1, len(launch.arguments)))
        for i, argument in enumerate(launch.arguments):
            value = self._address(argument) if isinstance(argument, Place) else f.const(I64, argument)
            f.store(value, f.gep(table, i, I64))
        return table

    def _launch(self, launches: Sequence[Launch]) -> None:
        """Write the records of launches and run them."""
        f = self.f
        if not launches:
            return
        records = f.alloca(I64, RECORD_WORDS * len(launches))
        for k, launch in enumerate(launches):
            if not f.module.has_function(launch.symbol):  # a Python function, whose address the loader provides
                f.module.declare_raw(launch.symbol, "void", "ptr, i64, i64, i32")
            kernel = f.address(f"@{launch.symbol}")
            words = (kernel, self._table(launch), f.const(I64, launch.count), f.const(I64, launch.grain))
            for i, word in enumerate(words):
                f.store(word, f.gep(records, RECORD_WORDS * k + i, I64))
        run = f.module.declare_raw(RUN, "void", "ptr, i64")
        f.call_void(run, records, f.const(I64, len(launches)))

    def _address(self, place: Place) -> Value:
        starts = {
            Space.ARENA: (self.owner.work, self.memory.arena),
            Space.PREPARED: (self.owner.work, self.memory.prepared),
            Space.CONSTANT: (self.constants, 0),
        }
        if place.space is Space.INPUT:
            start, offset = self.inputs[place.index], 0
        elif place.space is Space.OUTPUT:
            start, offset = self.outputs[place.index], 0
        else:
            start, offset = starts[place.space]
        return self.f.gep(start, offset + place.offset, I8)
