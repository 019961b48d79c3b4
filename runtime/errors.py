"""Makes the errors of the runtime in the classes that a frontend chooses."""

from __future__ import annotations


class _Classes:
    memory: type[MemoryError] = MemoryError
    value: type[Exception] = ValueError
    device: type[Exception] = RuntimeError


def raise_as(
    *,
    memory: type[MemoryError] | None = None,
    value: type[Exception] | None = None,
    device: type[Exception] | None = None,
) -> None:
    """Set the class of errors for memory that is not available, for values that a run cannot use, or for work of a
    device that failed."""
    _Classes.memory = memory or _Classes.memory
    _Classes.value = value or _Classes.value
    _Classes.device = device or _Classes.device


def out_of_memory(message: str) -> MemoryError:
    """The error for memory that is not available."""
    return _Classes.memory(message)


def invalid_value(message: str) -> Exception:
    """The error for a value that a run cannot use, for instance an operand that fails a check of its program."""
    return _Classes.value(message)


def device_failed(message: str) -> Exception:
    """The error for work of a device that failed after it was started. The message names the program, and
    the kernel if the device knows it."""
    return _Classes.device(message)
