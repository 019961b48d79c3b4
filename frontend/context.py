"""Contexts: the devices on which arrays are stored, and the current context of each thread."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from ..ir.suggestions import see
from .base import MXNetError, _MXClassPropertyMetaClass, check_call, classproperty, with_metaclass
from .tracebacks import api_boundary

if TYPE_CHECKING:
    from ..runtime.device import Device as _Device

_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "Context",
    "check_call",
    "classproperty",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "gpu_memory_info",
    "num_gpus",
    "with_metaclass",
]


def accepts_device(function: _F) -> _F:
    """A decorator: a function with an argument `ctx` also takes it as `device`, its name in MXNet 2."""

    @api_boundary
    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["ctx"] = kwargs.pop("device")
        return function(*args, **kwargs)

    return public  # type: ignore[return-value]


GPU = 2
"""The `device_typeid` of GPUs, whose arrays are not in host memory."""

_TEXT = re.compile(r"(\w+)(?:\((\d+)\))?")


class UnknownDevice(MXNetError, KeyError):
    """An unknown device name. MXNet raises a KeyError."""

    __str__ = Exception.__str__


class Context(metaclass=_MXClassPropertyMetaClass):
    """A device: `Context("cpu", 0)`, or a copy of another context. `with` makes it the current one.

    cpu(0), cpu(1), ... are different contexts of the one machine, as in MXNet.

    Example:
        >>> mx.nd.ones((1,), ctx=mx.cpu()).context
        cpu(0)
        >>> with mx.Context("cpu", 1):
        ...     print(mx.nd.ones((1,)).context)
        cpu(1)
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {name: number for number, name in devtype2str.items()}

    __slots__ = ("_entered", "device_id", "device_typeid")

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
        elif device_type in self.devstr2type:
            self.device_typeid, self.device_id = self.devstr2type[device_type], device_id
        else:
            raise UnknownDevice(f"device {device_type!r} is unknown: use one of {', '.join(self.devstr2type)}")
        self._entered: list[Context] = []

    @classmethod
    def _default(cls) -> Context:
        _warn_default_ctx()
        return current_context()

    @classmethod
    def _make_default(cls, context: Context) -> None:
        _warn_default_ctx()
        _current.context = context

    default_ctx: ClassVar[Any] = classproperty(_default).setter(_make_default)
    """The current context of this thread, which can be set. Deprecated."""

    @property
    def device_type(self) -> str:
        return self.devtype2str[self.device_typeid]

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return False
        return self.device_typeid == other.device_typeid and self.device_id == other.device_id

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[type[Context], tuple[str, int]]:
        return Context, (self.device_type, self.device_id)

    def __setstate__(self, state: dict[str, int]) -> None:
        """Reads the state of a pickle that MXNet wrote."""
        self.device_typeid, self.device_id, self._entered = state["device_typeid"], state["device_id"], []

    def __enter__(self) -> Self:
        self._entered.append(_current.context)
        _current.context = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.context = self._entered.pop()

    def empty_cache(self) -> None:
        """Return idle memory of the device to the system."""
        device_of(self).release_cached()


def _warn_default_ctx() -> None:
    text = "Context.default_ctx has been deprecated. Please use Context.current_context() instead."
    warnings.warn(text, DeprecationWarning, stacklevel=4)


class _Current(threading.local):
    """Each thread's own current context."""

    def __init__(self) -> None:
        self.context = _CPU_0


_CPU_0 = Context("cpu", 0)
_current = _Current()


def cpu(device_id: int = 0) -> Context:
    """The CPU. All ids name the same cores and memory, but are different contexts."""
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """CPU memory from which copies to a GPU are fast. In mxforge it is ordinary CPU memory: all copies to GPUs pass
    through pinned blocks."""
    return Context("cpu_pinned", device_id)


def cpu_shared(device_id: int = 0) -> Context:
    """CPU memory that processes share. In mxforge it is ordinary CPU memory."""
    return Context("cpu_shared", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU. The context can always be created; arrays can be stored there if `device_id < num_gpus()`."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """The number of usable GPUs."""
    from ..runtime.devices import device_count

    return device_count("gpu")


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU."""
    return device_of(gpu(device_id)).memory_info()


def current_context() -> Context:
    """The context of the innermost `with`, or cpu(0)."""
    return _current.context


def as_context(ctx: Context | str) -> Context:
    """The context itself, or the context that a text such as "cpu(0)" or "cpu" names. MXNetError for other texts."""
    if isinstance(ctx, Context):
        return ctx
    match = _TEXT.fullmatch(ctx)
    if match is None:
        raise MXNetError(f"{ctx!r} is not a context: write it as cpu(0)")
    return Context(match[1], int(match[2] or 0))


def usable(context: Context | str | None) -> Context:
    """The context, or the current one for None. MXNetError if no array can be stored there."""
    context = _current.context if context is None else context
    if isinstance(context, str):
        context = as_context(context)
    if not isinstance(context, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a Context is expected, not {type(context).__name__}")
    if context.device_typeid == GPU:
        device_of(context)
    return context


def device_of(context: Context) -> _Device:
    """The device that stores the arrays of a context; all kinds of CPU memory belong to the host. MXNetError for a GPU
    that does not exist."""
    from ..runtime.devices import HOST, open_device

    if context.device_typeid != GPU:
        return HOST
    try:
        return open_device("gpu", context.device_id)
    except LookupError:
        raise _no_gpu(context) from None


def _no_gpu(context: Context) -> MXNetError:
    from ..runtime.devices import unavailable

    count = num_gpus()
    reason = f"num_gpus() is {count}" if count else unavailable("gpu")
    return MXNetError(f"{context!r} cannot be used: {reason}. Use cpu()." + see("compatibility"))


Device, current_device = Context, current_context  # names of MXNet 2
