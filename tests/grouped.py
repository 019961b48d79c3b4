"""Parametrises a test by groups of cases: one test runs all cases of a group, and names each case that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")
Test = Callable[..., None]


def grouped(
    argument: str, cases: Iterable[Case], by: Callable[[Case], str], ids: Callable[[Case], str] = str
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize(argument, cases, ids=ids)`, but one test runs all cases with the same `by(case)`.
    Fixtures are those of the group. A case cannot skip."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(by(case), []).append(case)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(group: str, **others: Any) -> None:
            found = ((ids(case), _error(test, {argument: case} | others)) for case in groups[group])
            errors = [(name, error) for name, error in found if error]
            for name, error in errors:
                error.add_note(f"The case is {name}")
            if errors:
                names = "\n".join(name for name, _ in errors)
                text = f"{len(errors)} of {len(groups[group])} cases fail:\n{names}\n"
                raise ExceptionGroup(text, [error for _, error in errors])

        arguments = inspect.signature(test)
        parameters = [p.replace(name="group") if p.name == argument else p for p in arguments.parameters.values()]
        run.__signature__ = arguments.replace(parameters=parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("group", groups)(run)

    return decorate


def _error(test: Test, arguments: dict[str, Any]) -> Exception | None:
    """What the test of one case raises."""
    try:
        test(**arguments)
    except pytest.skip.Exception as skipped:
        return AssertionError(f"the case skips, and its group would appear as passed: {skipped}")
    except Exception as error:
        return error
    return None


def module_of(cls: type) -> str:
    """The name of a class's module without its package, for groups of operators."""
    return cls.__module__.rpartition(".")[2]
