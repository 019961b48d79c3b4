"""Says in text what an operator takes: what help(nd.FullyConnected) shows, from the declaration alone."""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from .operator import Operator


@dataclass(frozen=True)
class Parameter:
    """One parameter as users see it: `type` in MXNet's words; `default` is None too when `required`."""

    name: str
    type: str
    default: Any
    required: bool


def parameters(op: type[Operator]) -> tuple[Parameter, ...]:
    """The parameters in MXNet's order."""
    return tuple(_parameter(name, info) for name, info in op.parameters().items())


def arguments(op: type[Operator]) -> tuple[str, ...]:
    """Names of the inputs as arguments of a Python function; a variadic one begins with "*"."""
    return tuple(f"*{n.rstrip('*')}" if n.endswith("*") else n.rstrip("?!") for n in op.inputs)


def signature(op: type[Operator]) -> str:
    """`(data, weight, bias=None, *, num_hidden, no_bias=False)`: inputs, then parameters."""
    inputs = [f"*{n.rstrip('*')}" if n.endswith("*") else n.rstrip("!").replace("?", "=None") for n in op.inputs]
    star = [] if not op.parameters() or any(n.startswith("*") for n in inputs) else ["*"]
    fields = [p.name if p.required else f"{p.name}={p.default!r}" for p in parameters(op)]
    return f"({', '.join([*inputs, *star, *fields])})"


def docstring(op: type[Operator]) -> str:
    """The operator's description, its inputs, parameters and outputs, as numpydoc sections."""
    lines = [inspect.getdoc(op) or op.mx_name(), "", "Parameters", "----------"]
    lines += [f"{name} : NDArray or Symbol" for name in arguments(op)]
    lines += [f"{p.name} : {p.type}, {'required' if p.required else f'default {p.default!r}'}" for p in parameters(op)]
    visible = op.outputs[: len(op.outputs) - op.hidden]
    return "\n".join([*lines, "", "Returns", "-------", *(f"{name} : NDArray or Symbol" for name in visible)])


def _parameter(name: str, info: Any) -> Parameter:
    required = info.default is PydanticUndefined
    return Parameter(name, type_name(info.annotation), None if required else info.default, required)


_NAMES = {int: "int", float: "float", bool: "boolean", str: "string", type(None): "None"}


def type_name(annotation: Any) -> str:
    """A parameter's type in MXNet's words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_name(get_args(annotation)[0])
    if origin is Literal:
        return "{" + ", ".join(repr(v) for v in get_args(annotation)) + "}"
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(a) for a in get_args(annotation))
    if origin is tuple:
        element = get_args(annotation)[0]
        return "Shape(tuple)" if element is not float else "tuple of <float>"
    return _NAMES[annotation]
