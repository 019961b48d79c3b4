"""Errors that can be raised by name, and `register` for more."""

from __future__ import annotations

from .base_errors import MXNetError, register_error

__all__ = ["InternalError", "MXNetError", "register"]

register = register_error


@register_error
class InternalError(MXNetError):
    """A bug in mxforge rather than an invalid call."""

    def __init__(self, msg: str) -> None:
        hint = "" if "MXNet hint:" in msg else "\nMXNet hint: this is an error inside of mxforge: please report it."
        super().__init__(msg + hint)


for _error in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_error.__name__, _error)
