"""Programs whose numbers are functions of their inputs' extents. They are compiled by `dynamic.py`; one that comes from
the disk cache imports nothing of the compiler but the functions that it calls again.
"""

from __future__ import annotations

import marshal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Generic, TypeVar

from ..ir.program import Program, Step
from ..ir.settings import settings
from ..ir.steps import map_nested
from ..ir.symbolic import Evaluator
from ..ir.types import TensorType

E = TypeVar("E")


class Dynamic(ABC, Generic[E]):
    """What depends on the extents of inputs that are not parameters. `evaluate` returns it for their extents, or None
    if they do not satisfy the guards."""

    def __init__(self, parameters: frozenset[int], evaluate: Evaluator) -> None:
        self.parameters = parameters
        self._evaluate = evaluate

    def at(self, types: Sequence[TensorType]) -> E | None:
        """What it is for inputs of these types; None if they do not satisfy the guards. Dtypes, ranks and the types of
        parameters must be the same as in the compiled graph."""
        extents = [n for i, t in enumerate(types) if i not in self.parameters for n in t.shape]
        evaluated = self._evaluate(*extents)
        return None if evaluated is None else self._finished(evaluated)

    @abstractmethod
    def _finished(self, evaluated: Any) -> E:
        """What callers get of what the evaluator returns."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled for the same version of Python and of the compiler: the evaluator is bytecode and its constants."""
        code, scope = self._evaluate.__code__, self._evaluate.__globals__
        constants = {name: scope[name] for name in code.co_names if name in scope}
        return _unpickled, (type(self), self.parameters, marshal.dumps(code), constants)


class DynamicProgram(Dynamic[Program]):
    """A program with symbolic numbers."""

    def _finished(self, evaluated: Program) -> Program:
        return _checked(evaluated)


class DynamicPair(Dynamic[tuple[Program, Program]]):
    """The forward and the backward program of a derivative, with symbolic numbers. The inputs are those of the graph
    that was differentiated."""

    def _finished(self, evaluated: tuple[Program, Program]) -> tuple[Program, Program]:
        forward, backward = evaluated
        return _checked(forward), _checked(backward)


def _unpickled(cls: type[Dynamic[E]], parameters: frozenset[int], code: bytes, constants: dict[str, Any]) -> Dynamic[E]:
    return cls(parameters, FunctionType(marshal.loads(code), constants))


def _checked(evaluated: Program) -> Program:
    program = _without_empty_launches(evaluated)
    if settings().verify:
        from ..ir.verifier import verify_program

        verify_program(program)
    return program


def _without_empty_launches(program: Program) -> Program:
    """The program without launches over an empty index space, which some kernels have for some extents, and without
    loops that do not run."""
    return replace(program, steps=_not_empty(program.steps))


def _not_empty(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple([map_nested(step, _not_empty) for step in steps if getattr(step, "count", 1)])
