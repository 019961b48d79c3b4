"""Programs whose numbers are functions of their inputs' extents. They are compiled by `dynamic.py`; one that comes from
the disk cache imports nothing of the compiler but the functions that it calls again.
"""

from __future__ import annotations

import marshal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Generic, TypeVar, cast

from ..ir.places import Column
from ..ir.program import Program, Step
from ..ir.settings import settings
from ..ir.steps import map_nested
from ..ir.symbolic import Evaluator
from ..ir.types import Shape, TensorType

E = TypeVar("E")


Numbers = tuple[Any, ...]
"""What the programs of one dynamic program differ in."""


class Dynamic(ABC, Generic[E]):
    """What depends on the extents of inputs that are not parameters. `evaluate` returns the numbers that depend on
    these extents, or None if they do not satisfy the guards; `build` returns what has these numbers."""

    def __init__(self, parameters: frozenset[int], evaluate: Evaluator, build: Callable[..., Any]) -> None:
        self.parameters = parameters
        self._evaluate, self._build = evaluate, build

    def numbers(self, shapes: Sequence[Shape]) -> Numbers | None:
        """The numbers for inputs of these shapes; None if they do not satisfy the guards."""
        numbers = self._evaluate(*[n for i, shape in enumerate(shapes) if i not in self.parameters for n in shape])
        if numbers is not None and settings().verify:
            self.built(numbers)
        return numbers

    def built(self, numbers: Numbers) -> E:
        """What it is with these numbers."""
        return self._finished(self._build(*numbers))

    def at(self, types: Sequence[TensorType]) -> E | None:
        """What it is for inputs of these types; None if they do not satisfy the guards. Dtypes, ranks and the types of
        parameters must be the same as in the compiled graph."""
        numbers = self.numbers([t.shape for t in types])
        return None if numbers is None else self.built(numbers)

    @property
    def own_bytes(self) -> int:
        """An estimate of its memory: the bytecode of both functions with its tables, and machine code twice, as bytes
        and as pages."""
        functions: list[Any] = [self._evaluate, self._build]
        constants: dict[int, Any] = {id(value): value for f in functions for value in f.__globals__.values()}
        code = 2 * sum(map(_bytes_of, constants.values()))
        return code + 8 * sum(len(f.__code__.co_code) for f in functions)

    def with_columns(self) -> Any:
        """What `build` returns, with a `Column` in the place of each number."""
        return self._build(*map(Column, range(self._build.__code__.co_argcount)))

    @abstractmethod
    def _finished(self, built: Any) -> E:
        """What callers get of what the second function returns."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled for the same version of Python and of the compiler: the functions are bytecode and its constants."""
        return _unpickled, (type(self), self.parameters, _pickled(self._evaluate), _pickled(self._build))


class DynamicProgram(Dynamic[Program]):
    """A program with symbolic numbers."""

    def _finished(self, built: Program) -> Program:
        return _checked(built)


class DynamicPair(Dynamic[tuple[Program, Program]]):
    """The forward and the backward program of a derivative, with symbolic numbers. The inputs are those of the graph
    that was differentiated."""

    def _finished(self, built: tuple[Program, Program]) -> tuple[Program, Program]:
        forward, backward = built
        return _checked(forward), _checked(backward)


def _bytes_of(constant: Any) -> int:
    if isinstance(constant, bytes):
        return len(constant)
    return sum(map(_bytes_of, cast("tuple[Any, ...]", constant))) if type(constant) is tuple else 0


_Pickled = tuple[bytes, dict[str, Any]]


def _pickled(function: Any) -> _Pickled:
    code, scope = function.__code__, function.__globals__
    return marshal.dumps(code), {name: scope[name] for name in code.co_names if name in scope}


def _unpickled(cls: type[Dynamic[E]], parameters: frozenset[int], *functions: _Pickled) -> Dynamic[E]:
    evaluate, build = [FunctionType(marshal.loads(code), constants) for code, constants in functions]
    return cls(parameters, evaluate, build)


def _checked(evaluated: Program) -> Program:
    program = _without_empty_launches(evaluated)
    if settings().verify:
        from ..ir.verifier import verify_program

        verify_program(program)
    return program


def _without_empty_launches(program: Program) -> Program:
    """The program without launches over an empty index space, which some kernels have for some extents, and without
    loops that do not run."""
    steps = _not_empty(program.steps)
    return program if steps == program.steps else replace(program, steps=steps)


def _not_empty(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple([map_nested(step, _not_empty) for step in steps if getattr(step, "count", 1)])
