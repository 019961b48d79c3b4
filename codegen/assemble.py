"""Assembles a Program from compiled kernels and planned memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np

from ..ir.assign_offsets import ALIGNMENT, Block, assign_offsets
from ..ir.dialects.core import Constant, Fused
from ..ir.graph import Graph, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.once import once
from ..ir.places import Access
from ..ir.program import PACK, Copy, HostCall, Launch, Place, Program, Space, Step
from ..ir.types import DType
from ..passes.elementwise import elementwise_inputs
from ..passes.plan_memory import Sharing
from .accesses import Accesses, after_first, taken
from .compiler import ControlSteps
from .compiler import Step as KernelStep
from .emission import LaunchSpec, Packing
from .labels import kind_of_launch, step_names

Phase = Literal["prepare", "run"]


def assemble(
    graph: Graph,
    sharing: Sharing,
    steps: Sequence[KernelStep],
    code: tuple[bytes, ...],
    names: Sequence[str] = (),
    keeps_prepared: bool = True,
) -> Program:
    """The program of `graph`: a place for every value, and the launches of every step. `Program.names` lists `names`
    first, then the other names of nodes. See `Options.keeps_prepared`."""
    return assemble_placed(graph, sharing, steps, code, names, keeps_prepared)[0]


@dataclass(frozen=True)
class Placement:
    """Where a program has the values of its graph. `place` returns the place of a value that a step takes or that the
    graph returns, `packed` that of a packed form, and `workspace` that of the workspace of a step with such a number.
    `prepare` and `run` are the number of the step of each launch of the two phases; `prepared` are the values that the
    first phase computes."""

    place: Callable[[Value], Place]
    packed: Callable[[Value, Packing], Place]
    workspace: Callable[[int], Place]
    prepare: list[int]
    run: list[int]
    prepared: frozenset[Value]


def assemble_placed(
    graph: Graph,
    sharing: Sharing,
    steps: Sequence[KernelStep],
    code: tuple[bytes, ...],
    names: Sequence[str] = (),
    keeps_prepared: bool = True,
    *,
    joins: bool = False,
) -> tuple[Program, Placement]:
    """`assemble`, with the places of values. With `joins`, launches that do not depend on each other will run at the
    same time. So what depends on parameters alone is computed first, also if it is not kept, and memory is used again
    only after a few more steps."""
    prepared = sharing.prepared if keeps_prepared else frozenset[Value]()
    first = sharing.prepared if joins and not keeps_prepared else frozenset[Value]()
    order = sorted(range(len(steps)), key=lambda i: bool(first) and not first.issuperset(steps[i].node.outputs))
    assembler = _Assembler(graph, sharing, prepared, [steps[i] for i in order], names)
    if joins:
        assembler.join(first)
    program, position = assembler.program(code), {number: i for i, number in enumerate(order)}
    prepare, run = ([order[i] for i in assembler.owners[phase]] for phase in ("prepare", "run"))

    def workspace(number: int) -> Place:
        return assembler.workspace(position[number])

    return program, Placement(assembler.place, assembler.packed_place, workspace, prepare, run, prepared)


@dataclass(slots=True)
class _Timeline:
    """One phase of the program: the blocks of memory that live during it, and the steps for which they then stay
    unused."""

    slack: int = 0
    blocks: list[Block] = field(default_factory=list[Block])

    def block(self, nbytes: int, start: int, end: int, zeroed: object = None) -> Block:
        block = Block(nbytes, start, end + self.slack, zeroed)
        self.blocks.append(block)
        return block


_FOREVER = 1 << 60
_SLACK = 3
"""The steps of joined launches after which memory is used again: as many can compute gradients of one layer."""


class _Assembler:
    def __init__(
        self,
        graph: Graph,
        sharing: Sharing,
        prepared: frozenset[Value],
        steps: Sequence[KernelStep],
        names: Sequence[str],
    ) -> None:
        """`prepared` are the values that only the launches `prepare` compute."""
        self.graph, self.sharing, self.prepared, self.steps = graph, sharing, prepared, steps
        self.first, self.count_of_first = frozenset[Value](), 0
        self.time: dict[Phase, _Timeline] = {"prepare": _Timeline(), "run": _Timeline()}
        self.blocks: dict[Value, tuple[Phase, Block]] = {}
        self.packed: dict[tuple[Value, Packing], tuple[Phase, Block]] = {}
        self.launched: set[tuple[Value, Packing]] = set()  # packed forms that a launch already packs
        self.work: dict[int, Block] = {}
        self.fixed: dict[Value, Place] = {}
        self.constants = bytearray()
        self.names = {name: i for i, name in enumerate(names)}
        visible = len(graph.outputs) - len(graph.updates)
        self.outputs, self.states = graph.outputs[:visible], graph.outputs[visible:]
        self.owners: dict[Phase, list[int]] = {"prepare": [], "run": []}
        self.accesses = Accesses(sharing)
        self.saved: dict[int, Block] = {}  # states whose new value is another input, read before inputs are replaced

    def join(self, first: frozenset[Value]) -> None:
        """Let launches be joined: the first steps compute `first`, and packed forms of these come next."""
        self.first, self.time["run"].slack = first, _SLACK
        self.count_of_first = sum(first.issuperset(step.node.outputs) for step in self.steps) if first else 0

    def program(self, code: tuple[bytes, ...]) -> Program:
        self._fix_places()
        self._plan()
        scratch = [b for b in self.time["prepare"].blocks if _is_scratch(b)]
        arena, scratch_bytes = assign_offsets(self.time["run"].blocks, assign_offsets(scratch)[0])
        prepared, _ = assign_offsets([b for b in self.time["prepare"].blocks if not _is_scratch(b)])
        launches: dict[Phase, list[Step]] = {"prepare": [], "run": []}
        for number, step in enumerate(self.steps):
            if number == self.count_of_first:
                self._pack_first(launches)
            launches[self._phase(step)] += self._launches(number, step, launches)
            self._own(number, launches)
        return Program(
            name=self.graph.name,
            inputs=self.graph.input_types(),
            outputs=tuple(v.type for v in self.outputs),
            parameters=self.graph.parameters,
            steps=(*launches["run"], *self._copies()),
            prepare=tuple(launches["prepare"]),
            arena_bytes=arena,
            prepared_bytes=prepared,
            constants=bytes(self.constants),
            code=code,
            state=self.graph.updates,
            random=self.graph.random,
            elementwise=elementwise_inputs(self.graph),
            names=tuple(self.names),
            checks=self.graph.checks,
            scratch_bytes=scratch_bytes,
        )

    def _own(self, number: int, launches: dict[Phase, list[Step]]) -> None:
        """Note that new launches are of a step."""
        for phase, known in launches.items():
            self.owners[phase] += [number] * (len(known) - len(self.owners[phase]))

    # -- places that do not depend on lifetimes

    def _fix_places(self) -> None:
        for i, value in enumerate(self.graph.inputs):
            self.fixed[value] = Place(Space.INPUT, i)
        for node in self.graph.nodes:
            if isinstance(node.op, Constant):
                self.fixed[node.outputs[0]] = Place(Space.CONSTANT, 0, self._content(_stored(node.op).tobytes()))
        for i, value in enumerate(self.outputs):
            if self._is_computed_whole(value):
                self.fixed[self.sharing.resolve(value).base] = Place(Space.OUTPUT, i)
        for i, value in zip(self.graph.updates, self.states, strict=True):
            if self._is_computed_whole(value) and self._may_replace(i, self.sharing.resolve(value).base):
                self.fixed[self.sharing.resolve(value).base] = Place(Space.INPUT, i)

    def _is_computed_whole(self, value: Value) -> bool:
        """True if a run computes `value`, it fills its block of memory, and the block has no place yet."""
        root = self.sharing.resolve(value)
        computed = root.base not in self.fixed and root.base not in self.prepared
        return computed and root.offset == 0 and root.base.type.nbytes == value.type.nbytes

    def _may_replace(self, position: int, new: Value) -> bool:
        """True if launches can write `new` over an input: no step reads the input after `new` is first written, the
        step that writes it reads the input element by element, and no output is a copy of the input.
        """
        old = self.graph.inputs[position]
        if old in self._returned:
            return False
        first, last = self._spans[new][0], self._spans.get(old, (0, -1))[1]
        return last < first or (last == first and self._reads_elementwise(self.steps[first].node, old, new))

    @once
    def _returned(self) -> frozenset[Value]:
        """The values whose memory outputs are in."""
        return frozenset(map(self._base, self.graph.outputs))

    @once
    def _spans(self) -> dict[Value, tuple[int, int]]:
        """The numbers of the first and the last step that use each value's memory."""
        spans: dict[Value, tuple[int, int]] = {}
        for number, step in enumerate(self.steps):
            for base in map(self._base, step.operands):
                spans[base] = spans.get(base, (number,))[0], number
        return spans

    def _base(self, value: Value) -> Value:
        return self.sharing.resolve(value).base

    def _reads_elementwise(self, node: Node, old: Value, new: Value) -> bool:
        """True if `node` reads `old` itself, and only to compute the same elements of `new` and its other results."""
        if not isinstance(node.op, Fused) or new not in node.outputs or old.type != new.type:
            return False
        elementwise = elementwise_inputs(node.op.body)
        return all(v is old and i in elementwise for i, v in enumerate(node.inputs) if self._base(v) is old)

    def _content(self, content: bytes) -> int:
        """The offset of further constants."""
        self.constants += bytes(-len(self.constants) % ALIGNMENT)
        offset = len(self.constants)
        self.constants += content
        return offset

    def _copies(self) -> tuple[Copy, ...]:
        """Copies of outputs that no launch computes, then of new states that are not computed in place."""
        outputs = [(Place(Space.OUTPUT, i), v) for i, v in enumerate(self.outputs)]
        saved = [(self._block_place("run", block), self.states[k]) for k, block in self.saved.items()]
        read_first = [Copy(target, self.place(v), v.type.nbytes) for target, v in (*outputs, *saved)]
        replaced = [
            Copy(Place(Space.INPUT, i), self._new_state(k), self.states[k].type.nbytes)
            for k, i in enumerate(self.graph.updates)
        ]
        return tuple(copy for copy in (*read_first, *replaced) if copy.target != copy.source)

    def _new_state(self, number: int) -> Place:
        """The place of a state's new value at the time when the inputs are replaced."""
        block = self.saved.get(number)
        return self.place(self.states[number]) if block is None else self._block_place("run", block)

    # -- lifetimes

    def _phase(self, step: KernelStep) -> Phase:
        return "prepare" if self.prepared.issuperset(step.node.outputs) else "run"

    def _plan(self) -> None:
        last, packed = self._last_uses(), self._last_packed_uses()
        for number, step in enumerate(self.steps):
            phase = self._phase(step)
            cleared = {self._base(step.operands[position]) for position in step.emission.cleared}
            for value in step.operands:
                self._need(value, phase, number, last, self._base(value) in cleared)
            for position, packing, _ in step.packs:
                key = step.operands[position], packing
                self._need_packed(*key, phase, number, packed[key])
            if step.emission.workspace:
                self.work[number] = self.time[phase].block(step.emission.workspace, number, number)
        for k, value in enumerate(self.states):
            place = self.fixed.get(self._base(value))
            if place is not None and place.space is Space.INPUT and place.index != self.graph.updates[k]:
                self.saved[k] = self.time["run"].block(value.type.nbytes, 0, _FOREVER)

    def _last_uses(self) -> dict[Value, int]:
        """The last step that reads each value's memory; `_FOREVER` for outputs, and for prepared values that a run
        reads unpacked.
        """
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            packed = {position for position, _, _ in step.packs}
            for position, value in enumerate(step.operands):
                base = self.sharing.resolve(value).base
                crosses = base in self.prepared and self._phase(step) == "run" and position not in packed
                last[base] = max(last.get(base, 0), _FOREVER if crosses else number)
        for value in self.graph.outputs:
            last[self.sharing.resolve(value).base] = _FOREVER
        return last

    def _need(self, value: Value, phase: Phase, number: int, last: dict[Value, int], cleared: bool) -> None:
        base = self.sharing.resolve(value).base
        if base in self.fixed or base in self.blocks:
            return
        if base in self.prepared:
            phase = "prepare"
        layout = base.type.layout
        halo = layout is not None and any(map(any, layout.halo)) and not cleared
        zeroed = (base.type.shape, layout.block, layout.halo, base.type.dtype) if layout and halo else None
        self.blocks[base] = phase, self.time[phase].block(base.type.nbytes, number, last[base], zeroed)

    def _last_packed_uses(self) -> dict[tuple[Value, Packing], int]:
        """The last step that reads each packed form."""
        return {(s.operands[i], packing): n for n, s in enumerate(self.steps) for i, packing, _ in s.packs}

    def _need_packed(self, value: Value, packing: Packing, phase: Phase, number: int, last: int) -> None:
        """Plan memory for a packed operand: packed parameters live for ever, other packed values until the last step
        that reads them in this form. A packed form can be padded: its zeros are written once.
        """
        if (value, packing) in self.packed:
            return
        phase, last = ("prepare", _FOREVER) if value in self.prepared else (phase, last)
        number = min(number, self.count_of_first) if value in self.first else number
        zeroed = None if packing.nbytes == value.type.nbytes else packing  # of equal size: nothing is padded
        self.packed[value, packing] = phase, self.time[phase].block(packing.nbytes, number, last, zeroed)

    # -- launches

    def place(self, value: Value) -> Place:
        """The place of a value."""
        view = self.sharing.resolve(value)
        place = self.fixed.get(view.base) or self._block_place(*self.blocks[view.base])
        offset = view.offset * value.type.dtype.itemsize
        return place.at(offset)

    def packed_place(self, value: Value, packing: Packing) -> Place:
        """The place of the packed form of a value."""
        return self._block_place(*self.packed[value, packing])

    def workspace(self, number: int) -> Place:
        """The place of the workspace of a step that has one."""
        return self._block_place(self._phase(self.steps[number]), self.work[number])

    def _block_place(self, phase: Phase, block: Block) -> Place:
        is_kept = phase == "prepare" and not _is_scratch(block)
        return Place(Space.PREPARED if is_kept else Space.ARENA, 0, block.offset)

    def _pack_first(self, launches: dict[Phase, list[Step]]) -> None:
        """Add the launches that pack values of the first steps."""
        for number, step in enumerate(self.steps):
            for position, packing, spec in step.packs:
                if step.operands[position] in self.first:
                    self._pack(step, position, packing, spec, launches)
            self._own(number, launches)

    def _pack(
        self, step: KernelStep, position: int, packing: Packing, spec: LaunchSpec, done: dict[Phase, list[Step]]
    ) -> Place:
        """The place of a packed operand, with the launch that packs it if there is none yet."""
        value = step.operands[position]
        key = value, packing
        packed = self.packed_place(*key)
        if key not in self.launched:
            accesses = self.accesses.packing(value, packing)
            done[self.packed[key][0]].append(self._launch(spec, (self.place(value), packed), accesses, PACK, step))
        self.launched.add(key)
        return packed

    def _launches(self, number: int, step: KernelStep, done: dict[Phase, list[Step]]) -> list[Step]:
        arguments: list[Place | int] = [self.place(v) for v in step.operands]
        for position, packing, spec in step.packs:
            arguments[position] = self._pack(step, position, packing, spec, done)
        kind = kind_of_launch(step.node.op)
        work = self._block_place(self._phase(step), self.work[number]) if number in self.work else None
        places = [a for a in arguments if isinstance(a, Place)]
        if step.control is not None:
            return [self._control(step, step.control, places, work)]
        if step.function is not None:
            return [HostCall(step.function, tuple(places), kind, self._layers(step), step.emission.fallback)]
        accesses = tuple(self.accesses.of(step, {position: packing for position, packing, _ in step.packs}))
        arguments += step.emission.extents
        if work is not None:
            arguments.append(work)
        elif any(spec.numbers for spec in step.emission.launches):
            arguments.append(0)
        return [
            self._launch(spec, *taken(spec, arguments, after_first(accesses) if number else accesses), kind, step)
            for number, spec in enumerate(step.emission.launches)
        ]

    def _control(self, step: KernelStep, control: ControlSteps, places: Sequence[Place], work: Place | None) -> Step:
        """The branch or the loop of a step. Constants of nested programs are constants of the program."""
        assert work is not None
        starts = [Place(Space.CONSTANT, 0, self._content(p.constants)) for p in control.programs]
        layers = [[self._name(name) for name in p.names] for p in control.programs]
        return replace(control.lower(places, work, starts, layers), layers=self._layers(step))

    def _layers(self, step: KernelStep) -> tuple[int, ...]:
        return tuple([self._name(name) for name in step_names(step)])

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _launch(
        self,
        spec: LaunchSpec,
        arguments: tuple[Place | int, ...],
        accesses: tuple[Access, ...],
        kind: str,
        step: KernelStep,
    ) -> Launch:
        described = spec.kind or kind, self._layers(step), step.emission.fallback
        return Launch(spec.symbol, arguments + spec.numbers, spec.count, spec.grain, *described, accesses)


def _is_scratch(block: Block) -> bool:
    """True for a block of the prepare phase that no run reads. It is in the arena, which is unused at that time; its
    offset does not depend on the run, so that programs of a family prepare with the same launches."""
    return block.end < _FOREVER and block.zeroed is None


def _stored(op: Constant) -> np.ndarray[Any, Any]:
    """The elements of a constant as stored in memory: a BF16 is the upper half of the float32 in `op.value`."""
    if op.dtype is DType.BF16:
        return (op.value.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(op.value)
