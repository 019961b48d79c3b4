"""Makes the errors of the runtime in the classes that a frontend chooses."""

from __future__ import annotations


class _Classes:
    memory: type[MemoryError] = MemoryError
    value: type[Exception] = ValueError


def raise_as(*, memory: type[MemoryError] | None = None, value: type[Exception] | None = None) -> None:
    """Set the class of errors for memory that is not available, or for values that a run cannot use."""
    _Classes.memory = memory or _Classes.memory
    _Classes.value = value or _Classes.value


def out_of_memory(message: str) -> MemoryError:
    """The error for memory that is not available."""
    return _Classes.memory(message)


def invalid_value(message: str) -> Exception:
    """The error for a value that a run cannot use, for instance an operand that fails a check of its program."""
    return _Classes.value(message)
