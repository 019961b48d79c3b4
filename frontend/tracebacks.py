"""Keeps tracebacks short: one exception, and of the package's frames only the functions that the user called.

With `MXFORGE_DEBUG` at 1 or more, causes and all frames remain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from ..ir.settings import settings
from .base_errors import MXNetError

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __name__.partition(".")[0] + "."
_RAISE = opmap["RAISE_VARARGS"]
_SHORT = "_mxforge_short"  # attribute of errors whose traceback has been shortened


def is_internal(frame: FrameType) -> bool:
    """True for a frame of this package."""
    return str(frame.f_globals.get("__name__")).startswith(_PACKAGE)


def cause_of(error: Exception) -> BaseException | None:
    """The cause for `raise ... from cause_of(error)` when the new error's text is complete: the error of the user's
    code that led to `error`, or None. While debugging, `error` itself."""
    from ..ir.dialects.mx.custom import UserCodeError

    at: BaseException | None = error
    while at is not None and not isinstance(at, MXNetError | UserCodeError):
        at = at.__cause__
    return error if settings().debug else at and at.__cause__


def shorten(error: Exception) -> None:
    """Remove internal frames from the traceback of an error, in place; the first frame of each sequence remains.

    A traceback is left unchanged if the error was not raised by a `raise` statement: an operation of this package
    failed, and its line matters.
    """
    at = error.__traceback__
    if at is None or settings().debug or not (hasattr(error, _SHORT) or _is_deliberate(at)):
        return
    setattr(error, _SHORT, True)  # the frame of the `raise` statement is gone
    while at.tb_next is not None:
        if is_internal(at.tb_frame) and is_internal(at.tb_next.tb_frame):
            at.tb_next = at.tb_next.tb_next
        else:
            at = at.tb_next


def in_place_of(error: Exception, new: Exception) -> Exception:
    """Returns `new` with the shortened traceback of `error`, to be raised in place of `error`."""
    shorten(error)
    setattr(new, _SHORT, True)
    return new.with_traceback(error.__traceback__)


def api_boundary(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator for functions that users call: it shortens the traceback of their errors.

    It adds a Python call. Functions on fast paths catch `Exception` and call `shorten` themselves.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is not None:  # not an error of the call itself
                error.__traceback__ = error.__traceback__.tb_next  # the frame of `function` is enough
            shorten(error)
            raise

    return call


def _is_deliberate(at: TracebackType) -> bool:
    """True if a `raise` statement or the user's code raised the error, rather than an operation of this package."""
    while at.tb_next is not None:
        at = at.tb_next
    return not is_internal(at.tb_frame) or at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE
