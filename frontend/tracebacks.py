"""Keeps tracebacks short: one exception, and of the package's own frames only those that the user called.

With `MXFORGE_DEBUG` at 1 or more, causes and frames stay.
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
_SHORT = "_mxforge_short"  # attribute of errors whose traceback is short


def is_internal(frame: FrameType) -> bool:
    """True for a frame of this package."""
    return str(frame.f_globals.get("__name__")).startswith(_PACKAGE)


def cause_of(error: Exception) -> BaseException | None:
    """The cause for `raise ... from error`, where the text of the new error is complete: the error of the user's code
    from which `error` comes, or None. While debugging, `error` itself."""
    from ..ir.dialects.mx.custom import UserCodeError

    at: BaseException | None = error
    while at is not None and not isinstance(at, MXNetError | UserCodeError):
        at = at.__cause__
    return error if settings().debug else at and at.__cause__


def shorten(error: Exception) -> None:
    """Remove internal frames from the traceback of an error, in place: of each run of them the first stays.

    The traceback of an error that no `raise` statement made is left alone: an operation of this package failed, and
    the place matters.
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
    """The error to raise where `new` says all that `error` did, frames of the user's code included."""
    shorten(error)
    setattr(new, _SHORT, True)
    return new.with_traceback(error.__traceback__)


def api_boundary(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator for functions that users call: errors leave them with a short traceback.

    It costs a Python call. Functions that are called often catch `Exception` and call `shorten` themselves.
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
    """True if a `raise` statement or code of the user made the error, rather than an operation of this package."""
    while at.tb_next is not None:
        at = at.tb_next
    return not is_internal(at.tb_frame) or at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE
