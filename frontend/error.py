"""Errors that a message may name, and how to register more."""

from __future__ import annotations

from .base_errors import MXNetError, register_error

__all__ = ["InternalError", "MXNetError", "register"]

register = register_error


@register_error
class InternalError(MXNetError):
    """Something inside mxforge is wrong, and not the call."""

    def __init__(self, msg: str) -> None:
        hint = "" if "MXNet hint:" in msg else "\nMXNet hint: this is an error inside of mxforge: please report it."
        super().__init__(msg + hint)


for _error in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_error.__name__, _error)
