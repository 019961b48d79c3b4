"""Makes one program of several, which then run as one native call. The functions are pure and compile nothing: results
equal those of the given programs bit for bit.

    parallel(name, inputs, uses)                   at the same time
    sequence(name, types, inputs, uses, outputs)   in order; they exchange values

Programs that are combined have symbols that identify their code (`codegen/llvm/program_emitter.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import takewhile, zip_longest

from .assign_offsets import ALIGNMENT, Block, assign_offsets
from .lazy_dataclass import dataclass
from .program import Copy, Place, Program, Space, Step
from .program_rewrite import move_steps, name_steps
from .step_accesses import group_steps
from .types import TensorType


@dataclass(frozen=True)
class Use:
    """One program of a combination. `inputs` and `outputs` are the numbers of the values that it reads and computes.
    Several uses can have the same program."""

    program: Program
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()


def why_alone(program: Program) -> str:
    """Why a program cannot be part of a combination; "" if it can."""
    return "calls Python functions" if program.functions else "has checks" if program.checks else ""


def parallel(name: str, inputs: Sequence[TensorType], uses: Sequence[Use]) -> Program:
    """The program that runs programs at the same time, each on memory of its own: step k of all of them, then the next.

    The values are its inputs: random keys too, of which each program needs one. Programs only replace state, and can
    share inputs that none of them replaces. ValueError for programs with outputs, or that call Python functions.
    """
    combined = _Combination()
    for use in uses:
        if use.program.outputs:
            raise ValueError(f"{use.program.name} has outputs")
    regions = [combined.add(use.program) for use in uses]
    operands = [[Place(Space.INPUT, i) for i in use.inputs] for use in uses]
    columns = [
        combined.steps(use.program, region, places, ())
        for use, region, places in zip(uses, regions, operands, strict=True)
    ]
    steps = [step for row in zip_longest(*columns) for step in row if step is not None]
    return group_steps(combined.program(name, inputs, (), steps, uses))


def sequence(
    name: str,
    types: Sequence[TensorType],
    inputs: int,
    uses: Sequence[Use],
    outputs: Sequence[int],
    alignment: int = 1,
) -> Program:
    """The program that runs programs in order. `types` are those of all values: the first `inputs` are its inputs, a
    program computes each other value, or it is zeros. `outputs` are the values that it returns.

    What a program prepares is computed in each run. Programs can replace inputs of the sequence: the caller passes each
    of these once, and no other input that shares memory with it. ValueError for programs that call Python functions.
    Operands of the programs begin at multiples of `alignment` bytes, if the inputs and results of the sequence do.
    """
    return _Sequence(types, inputs, uses, outputs, alignment).program(name)


@dataclass(frozen=True, slots=True)
class _Region:
    """The offsets of a program's own memory in that of its combination: of scratch memory, and behind all scratch
    memory of the rest of the arena and of the prepared memory."""

    scratch_bytes: int
    scratch: int
    kept: int
    prepared: int
    constants: int
    layers: tuple[int, ...]
    unnamed: tuple[int, ...]  # of launches without layers


@dataclass
class _Combination:
    """What programs have in common. Equal constants are stored once. `scratch` and `kept` are the bytes of the parts of
    the arena that hold nothing between runs, and that keep zeros; places are known when all memory is taken."""

    scratch: int = 0
    kept: int = 0
    constants: bytearray = field(default_factory=bytearray)
    code: dict[bytes, None] = field(default_factory=dict[bytes, None])
    names: dict[str, int] = field(default_factory=dict[str, int])
    _starts: dict[bytes, int] = field(default_factory=dict[bytes, int])  # of constants

    def add(self, program: Program, scratch: int | None = None) -> _Region:
        """Give a program memory of its own; its scratch memory is at `scratch` if that is given. Its halos and its
        prepared memory are zeros before the first run."""
        reason = why_alone(program)
        if reason:
            raise ValueError(f"{program.name} {reason}")
        self.code.update(dict.fromkeys(program.code))
        layers = tuple([self._name(name) for name in program.names])
        scratch = self.take_scratch(program.scratch_bytes) if scratch is None else scratch
        kept = self.take_kept(program.arena_bytes - program.scratch_bytes)
        prepared, constants = self.take_kept(program.prepared_bytes), self._constants(program.constants)
        return _Region(program.scratch_bytes, scratch, kept, prepared, constants, layers, (self._name(program.name),))

    def take_scratch(self, nbytes: int) -> int:
        self.scratch += _rounded(nbytes)
        return self.scratch - _rounded(nbytes)

    def take_kept(self, nbytes: int) -> int:
        self.kept += _rounded(nbytes)
        return self.kept - _rounded(nbytes)

    def place(self, region: _Region, place: Place) -> Place:
        """A place in a program's own memory."""
        match place.space:
            case Space.ARENA if place.offset < region.scratch_bytes:
                start = Place(Space.ARENA, 0, region.scratch)
            case Space.ARENA:
                start = self.kept_place(region.kept - region.scratch_bytes)
            case Space.PREPARED:
                start = self.kept_place(region.prepared)
            case _:
                start = Place(Space.CONSTANT, 0, region.constants)
        return place.behind(start)

    def kept_place(self, offset: int) -> Place:
        return Place(Space.ARENA, 0, self.scratch + offset)

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _constants(self, content: bytes) -> int:
        start = self._starts.setdefault(content, len(self.constants))
        if start == len(self.constants):
            self.constants += content.ljust(_rounded(len(content)), b"\0")
        return start

    def steps(
        self,
        program: Program,
        region: _Region,
        inputs: Sequence[Place],
        outputs: Sequence[Place],
        skip: Collection[Step] = (),
    ) -> list[Step]:
        """The steps of a program on operands at these places, those that prepare first, without those in `skip`."""

        def move(place: Place) -> Place:
            if place.space in (Space.INPUT, Space.OUTPUT):
                return place.behind((inputs if place.space is Space.INPUT else outputs)[place.index])
            return self.place(region, place)

        kept = [step for step in (*program.prepare, *program.steps) if step not in skip]
        return list(name_steps(move_steps(kept, move), region.layers, region.unnamed))

    def program(
        self,
        name: str,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        steps: Iterable[Step],
        uses: Sequence[Use],
    ) -> Program:
        replaced = dict.fromkeys(use.inputs[i] for use in uses for i in use.program.state)
        return Program(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            parameters=frozenset(),
            steps=tuple(steps),
            prepare=(),
            arena_bytes=self.scratch + self.kept,
            scratch_bytes=self.scratch,
            prepared_bytes=0,
            constants=bytes(self.constants),
            code=tuple(self.code),
            state=tuple(i for i in replaced if i < len(inputs)),
            names=tuple(self.names),
        )


@dataclass(frozen=True, slots=True)
class _Values:
    """The offsets of values in their buffer, of which the first `scratch_bytes` are in scratch memory."""

    offsets: Mapping[int, int]
    scratch_bytes: int
    scratch: int
    kept: int


class _Sequence:
    """Places the values of a sequence: at an input, in an output (`direct`), in a buffer of the arena, or where the
    program that returns a value copies it from (`copied`), so that the copy is left out."""

    def __init__(
        self, types: Sequence[TensorType], inputs: int, uses: Sequence[Use], outputs: Sequence[int], alignment: int
    ) -> None:
        self.types, self.inputs, self.uses, self.outputs, self.alignment = types, inputs, uses, outputs, alignment
        self.read = {v for use in uses for v in use.inputs}
        self.combined = _Combination()
        self.replaced = {use.inputs[i] for use in uses for i in use.program.state}
        self.left_out: list[dict[int, Copy]] = [self._left_out(use) for use in uses]  # by value
        self.copied = {v: (n, c.source) for n, copies in enumerate(self.left_out) for v, c in copies.items()}
        self.direct: dict[int, int] = {}
        computed = {v for use in uses for v in use.outputs} - set(self.copied)
        for position, value in enumerate(outputs):
            if value in computed:
                self.direct.setdefault(value, position)

    def program(self, name: str) -> Program:
        regions = self._regions()
        values = self._assign()
        places = {v: self._place(v, values, regions) for v in range(len(self.types))}
        steps: list[Step] = []
        for use, region, copies in zip(self.uses, regions, self.left_out, strict=True):
            operands = [places[v] for v in use.inputs], [places[v] for v in use.outputs]
            steps += self.combined.steps(use.program, region, *operands, set(copies.values()))
        for position, value in enumerate(self.outputs):
            target = Place(Space.OUTPUT, position)
            if places[value] != target:
                steps.append(Copy(target, places[value], self.types[value].nbytes))
        outputs = [self.types[v] for v in self.outputs]
        return self.combined.program(name, self.types[: self.inputs], outputs, steps, self.uses)

    def _left_out(self, use: Use) -> dict[int, Copy]:
        """The last copies that return a whole value, by the value, if no program replaces their source, and no program
        reads the value or the source is aligned."""
        copies: dict[int, Copy] = {}
        trailing = takewhile(lambda step: isinstance(step, Copy), reversed(use.program.steps))
        for copy in (step for step in trailing if isinstance(step, Copy)):
            target, operand = copy.target, _operand(use, copy.source)
            if target.space is not Space.OUTPUT or operand in self.replaced:
                continue
            value = use.outputs[target.index]
            is_whole = not target.offset and copy.nbytes == self.types[value].nbytes
            if is_whole and (value not in self.read or copy.source.offset % self.alignment == 0):
                copies[value] = copy
        return copies

    def _regions(self) -> list[_Region]:
        """The own memory of each use. All uses share scratch memory, and those of one program the rest, unless other
        programs read a value there later."""
        own = (Space.ARENA, Space.PREPARED)
        keeps = [any(copy.source.space in own for copy in copies.values()) for copies in self.left_out]
        pairs = list(zip(self.uses, keeps, strict=True))
        scratch = self.combined.take_scratch(max((u.program.scratch_bytes for u, k in pairs if not k), default=0))
        shared: dict[int, _Region] = {}
        regions: list[_Region] = []
        for use, keep in pairs:
            if keep:
                regions.append(self.combined.add(use.program))
                continue
            key = id(use.program)
            if key not in shared:
                shared[key] = self.combined.add(use.program, scratch)
            regions.append(shared[key])
        return regions

    def _assign(self) -> _Values:
        """Place the values that need a buffer."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, use in enumerate(self.uses):
            for value in use.outputs:
                first.setdefault(value, number)
            for value in (*use.inputs, *use.outputs):
                last[self._root(value)] = number
        for value in self.outputs:
            last[self._root(value)] = len(self.uses)
        blocks = {
            v: Block(
                self.types[v].nbytes, first.get(v, 0), last[v] if v in first else len(self.uses), _zeros(v in first)
            )
            for v in last
            if v >= self.inputs and v not in self.direct and v not in self.copied
        }
        total, scratch = assign_offsets(list(blocks.values()))
        offsets = {v: block.offset for v, block in blocks.items()}
        return _Values(offsets, scratch, self.combined.take_scratch(scratch), self.combined.take_kept(total - scratch))

    def _root(self, value: int) -> int:
        """The value whose memory holds `value`, if a program copies it from another one."""
        while value in self.copied:
            number, source = self.copied[value]
            operand = _operand(self.uses[number], source)
            if operand is None:
                break
            value = operand
        return value

    def _place(self, value: int, values: _Values, regions: Sequence[_Region]) -> Place:
        offset = 0
        while value in self.copied:
            number, source = self.copied[value]
            operand = _operand(self.uses[number], source)
            if operand is None:
                place = self.combined.place(regions[number], source)
                return place.at(offset)
            value, offset = operand, offset + source.offset
        if value < self.inputs:
            return Place(Space.INPUT, value, offset)
        if value in self.direct:
            return Place(Space.OUTPUT, self.direct[value], offset)
        start = values.offsets.get(value, 0)
        if start < values.scratch_bytes:
            return Place(Space.ARENA, 0, values.scratch + start + offset)
        return self.combined.kept_place(values.kept + start - values.scratch_bytes + offset)


def _operand(use: Use, place: Place) -> int | None:
    """The value of a place among the operands of a use; None for the program's own memory."""
    if place.space is Space.INPUT:
        return use.inputs[place.index]
    return use.outputs[place.index] if place.space is Space.OUTPUT else None


def _zeros(is_computed: bool) -> str | None:
    """See `Block.zeroed`: a value that no program computes is never written."""
    return None if is_computed else "zeros"


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
