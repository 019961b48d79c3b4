"""The parameters of the iterators over files: declared as fields of a class, and read from keyword arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from ...ir.dialects.mx.declared import Declared, Problem, Refused
from ...ir.dialects.mx.describe import type_name
from ...ir.dialects.mx.parameters import Bool, Natural, OptionalDTypeName, Text
from ..base import MXNetError

_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n        .*)*)", re.MULTILINE)


class Parameters(Declared):
    """Parameters that MXNet accepts as text or as Python values. Subclasses declare them with the types of operators'
    parameters, and describe them in a section "Args" of the docstring. Names that they do not declare are ignored,
    because MXNet's programs pass all parameters of a training iterator to others, too.
    """

    unknown_parameters = "ignore"

    @classmethod
    def parse(cls, iterator: str, values: Mapping[str, Any]) -> Self:
        """The parameters of `iterator`. MXNetError names the iterator and each invalid parameter."""
        try:
            return cls(**values)
        except Refused as error:
            raise MXNetError("; ".join(_explain(iterator, problem) for problem in error.problems)) from None

    @classmethod
    def describe(cls) -> str:
        """The parameters as a numpydoc section."""
        texts = _texts(cls)
        lines = ["Parameters", "----------"]
        for name, field in cls.fields().items():
            default = "required" if field.is_required else f"optional, default={field.default!r}"
            lines += [f"{name} : {type_name(field.type)}, {default}", f"    {texts[name]}"]
        return "\n".join(lines)


class BatchParameters(Parameters):
    """
    Args:
        batch_size: The number of examples of a batch.
        round_batch: Whether the last batch is filled with the first examples, so that the next epoch begins after them.
        prefetch_buffer: The number of batches that are read ahead.
        ctx: Accepted and not used: batches are on the CPU.
        dtype: The dtype of the data.
    """

    batch_size: Natural
    round_batch: Bool = True
    prefetch_buffer: Natural = 4
    ctx: Text = "gpu"
    dtype: OptionalDTypeName = None


def _texts(cls: type[Parameters]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        for names, text in _ENTRY.findall(inspect.cleandoc(owner.__dict__.get("__doc__") or "")):
            texts.update(dict.fromkeys(names.split(", "), " ".join(text.split())))
    return texts


def _explain(iterator: str, problem: Problem) -> str:
    if problem.kind == "missing":
        return f"{iterator} requires the parameter {problem.parameter!r}"
    reason = f"valid values are {problem.allowed}" if problem.allowed else problem.reason
    return f"{iterator}: {problem.parameter}={problem.value!r}: {reason}"


def require(iterator: str, holds: bool, what: str) -> None:
    """MXNetError with `what` unless the condition holds."""
    if not holds:
        raise MXNetError(f"{iterator}: {what}")


def iterator_function(
    name: str, parameters: type[Parameters], summary: str, make: Callable[[str, Any, Mapping[str, Any]], Any]
) -> Callable[..., Any]:
    """MXNet's function `name`, which takes keyword arguments. It calls `make(name, parsed parameters, all arguments)`.

    Its help text lists the parameters.
    """

    def create(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(f"{name} can only accept keyword arguments")
        return make(name, parameters.parse(name, kwargs), kwargs)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"{summary}\n\n{parameters.describe()}\n\nReturns\n-------\nMXDataIter\n    The iterator."
    return create
