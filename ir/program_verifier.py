"""Checks programs: those of the compiler, if MXFORGE_VERIFY is set, and those that files contain."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from .graph import GraphError
from .places import Access
from .program import HostCall, Launch, Place, Program, Space, Step, own_places, walk
from .step_accesses import GROUPED, StepGroup, step_accesses
from .step_fields import fields_of
from .types import DType, TensorType

_UNKNOWN = Access(0, reads=False, writes=False)
_FLAG, _KEY = TensorType((), DType.BOOL), TensorType((4,), DType.U32)


def verify_program(program: Program, symbols: Collection[str] | None = None) -> None:
    """GraphError unless all that the steps of the program access is inside of its spaces, and its parts are consistent.
    Its numbers are not symbolic: conditions on symbols would become guards.

    `symbols` are the symbols that the program's code defines; None skips the check of the launches' symbols. Steps that
    prepare must read no input except parameters, and write no output.
    """
    verifier = _ProgramVerifier(program, symbols)
    verifier.check_parts()
    for prepared, steps in ((True, program.prepare), (False, program.steps)):
        for step, counts in walk(steps):
            verifier.check_step(step, counts, prepared=prepared)
    if program.groups:
        verifier.check_groups()


class _ProgramVerifier:
    def __init__(self, program: Program, symbols: Collection[str] | None) -> None:
        self.program, self.symbols = program, symbols
        tensors = ((Space.INPUT, program.inputs), (Space.OUTPUT, program.outputs))
        self.sizes = {(space, i): t.nbytes for space, types in tensors for i, t in enumerate(types)}
        for space in (Space.ARENA, Space.PREPARED, Space.CONSTANT):
            self.sizes[space, 0] = program.extent(Place(space))

    def fail(self, message: str) -> NoReturn:
        raise GraphError(f"program {self.program.name!r}: {message}")

    # -- the parts of the program

    def check_parts(self) -> None:
        program = self.program
        self.positions("parameters", program.parameters)
        self.positions("state", program.state)
        self.positions("elementwise", program.elementwise)
        if program.random is not None:
            self.positions("the random key", [program.random.input])
            if program.inputs[program.random.input] != _KEY:
                self.fail(f"the random key has the type {program.inputs[program.random.input]}")
        if not 0 <= program.scratch_bytes <= program.arena_bytes:
            self.fail(f"{program.scratch_bytes} bytes of scratch memory in an arena of {program.arena_bytes}")
        if program.groups and (sum(program.groups) != len(program.steps) or min(program.groups) < 1):
            self.fail(f"groups {program.groups} do not divide {len(program.steps)} steps")
        flags = program.outputs[len(program.results) :]
        if len(flags) != len(program.checks) or any(t != _FLAG for t in flags):
            self.fail(f"{len(program.checks)} checks for outputs of types {flags}")

    def positions(self, what: str, positions: Collection[int]) -> None:
        if not all(0 <= i < len(self.program.inputs) for i in positions):
            self.fail(f"{what}: {sorted(positions)} are out of range for {len(self.program.inputs)} inputs")

    def check_groups(self) -> None:
        """Check that the steps of each group can run at the same time."""
        accesses = iter(step_accesses(self.program))
        for steps in self.program.grouped():
            group = StepGroup()
            for step in steps:
                access = next(accesses)
                if group.conflicts(access) or (len(steps) > 1 and not isinstance(step, GROUPED)):
                    self.fail(f"{self.described(step)} is in a group with steps on which it depends")
                group.add(access)

    # -- steps

    def check_step(self, step: Step, counts: tuple[int, ...], *, prepared: bool) -> None:
        """Check a step inside of loops with these counts."""
        self.check_numbers(step)
        places, accesses = own_places(step), self.program.accesses(step)
        if accesses and len(accesses) != len(places):
            self.fail(f"{self.described(step)}: {len(accesses)} accesses to {len(places)} places")
        runs = getattr(step, "count", 1) != 0 and 0 not in counts
        for place, access in zip(places, accesses or [_UNKNOWN] * len(places), strict=True):
            size = self.sizes.get((place.space, place.index), -1)
            if place.strides or not 0 <= place.offset <= size - access.nbytes:
                self.check_place(step, place, access.nbytes, counts, runs)
            if prepared and self.is_of_caller(place):
                self.fail(f"{self.described(step)}: {place.text()} is not a parameter, but the step is in `prepare`")
            if access.writes and not self.may_write(step, place, prepared):
                self.fail(
                    f"{self.described(step)}: it cannot write {place.text()}, which is neither an output nor state"
                )

    def check_numbers(self, step: Step) -> None:
        program = self.program
        if getattr(step, "count", 0) < 0 or getattr(step, "grain", 1) < 1:
            self.fail(f"{self.described(step)}: invalid count or grain")
        for name in fields_of(step.__class__).layers:
            if not all(0 <= i < len(program.names) for i in getattr(step, name)):
                self.fail(f"a step has layers {getattr(step, name)} of {len(program.names)} names")
        if isinstance(step, Launch) and self.symbols is not None and step.symbol not in self.symbols:
            self.fail(f"{self.described(step)}: no code defines the symbol")
        if isinstance(step, HostCall) and not 0 <= step.function < len(program.functions):
            self.fail(f"{self.described(step)}: there are {len(program.functions)} functions")

    def check_place(self, step: Step, place: Place, nbytes: int, counts: tuple[int, ...], runs: bool) -> None:
        """A step that does not run accesses nothing. An empty tensor can be at the end of its space."""
        size = self.sizes.get((place.space, place.index))
        if size is None:
            self.fail(f"{self.described(step)}: {place.space.value} {place.index} does not exist")
        first, last = place.reach(counts) if place.strides else (place.offset, place.offset)
        if runs and not 0 <= first <= last <= size - nbytes:
            of = f"{nbytes} bytes from {place.text()} on are" if nbytes else f"{place.text()} is"
            self.fail(f"{self.described(step)}: {of} outside its space of {size} bytes")

    def is_of_caller(self, place: Place) -> bool:
        """True for inputs that are not parameters, and outputs."""
        is_parameter = place.space is Space.INPUT and place.index in self.program.parameters
        return place.space in (Space.INPUT, Space.OUTPUT) and not is_parameter

    def may_write(self, step: Step, place: Place, prepared: bool) -> bool:
        """Python functions can also write inputs that are not state."""
        if place.space is Space.INPUT:
            return not prepared and (place.index in self.program.state or isinstance(step, HostCall))
        return place.space in (Space.ARENA, Space.PREPARED if prepared else Space.OUTPUT)

    def described(self, step: Step) -> str:
        if isinstance(step, Launch):
            return f"launch of {step.symbol!r} ({self.program.label(step)})"
        places = ", ".join(place.text() for place in own_places(step))
        return f"{step.__class__.__name__} of {places or 'steps'}"
