"""Builds an operator's help text, which help(nd.FullyConnected) shows, from its declaration.

The docstring of an operator's class holds a summary and the sections

    Args:
        data: Shape and meaning of an input or a parameter.
        lower_bound, upper_bound: One text for several arguments.
    Returns:
        Shape and meaning of the result, or `name: text` for each of several results.
    Example:
        >>> nd.relu(nd.array([-1, 2])).asnumpy()
        array([0., 2.], dtype=float32)

A class inherits the texts of arguments from its base classes.
"""

from __future__ import annotations

import inspect
import re
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ...lazy_dataclass import dataclass
from .declared import Field
from .operator import Operator


@dataclass(frozen=True)
class Parameter:
    """One parameter as users see it: `type` in MXNet's notation; `default` is None if `required`."""

    name: str
    type: str
    default: Any
    required: bool


@cache
def parameters(op: type[Operator]) -> tuple[Parameter, ...]:
    """The parameters in MXNet's order."""
    return tuple(map(_parameter, op.parameters().values()))


def arguments(op: type[Operator]) -> tuple[str, ...]:
    """Names of the inputs as arguments of a Python function; a variadic one starts with "*"."""
    return tuple(f"*{n.rstrip('*')}" if n.endswith("*") else n.rstrip("?!") for n in op.inputs)


def signature(op: type[Operator]) -> str:
    """`(data, weight, bias=None, *, num_hidden, no_bias=False)`: inputs, then parameters."""
    inputs = [f"*{n.rstrip('*')}" if n.endswith("*") else n.rstrip("!").replace("?", "=None") for n in op.inputs]
    star = [] if not op.parameters() or any(n.startswith("*") for n in inputs) else ["*"]
    fields = [p.name if p.required else f"{p.name}={p.default!r}" for p in parameters(op)]
    return f"({', '.join([*inputs, *star, *fields])})"


_SECTION = re.compile(r"^(Args|Returns|Example):\n", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


@cache
def _sections(owner: type) -> dict[str, str]:
    """The sections of one class's docstring; the text before them is "summary"."""
    parts = _SECTION.split(inspect.cleandoc(owner.__dict__.get("__doc__") or ""))
    return dict(zip(("summary", *parts[1::2]), (part.rstrip() for part in parts[::2]), strict=True))


@cache
def _entries(owner: type, section: str) -> dict[str, str]:
    """The texts of a section by name, each a paragraph of lines."""
    entries: dict[str, str] = {}
    for names, text in _ENTRY.findall(_sections(owner).get(section, "")):
        entries.update(dict.fromkeys(names.split(", "), text.replace("\n        ", "\n")))
    return entries


def argument_texts(op: type[Operator]) -> dict[str, str]:
    """The texts of inputs and parameters by name, including those of base classes."""
    texts: dict[str, str] = {}
    for owner in reversed(op.__mro__):
        texts.update(_entries(owner, "Args"))
    return texts


def summary(op: type[Operator]) -> str:
    """The text before the sections."""
    return next((s["summary"] for s in map(_sections, op.__mro__) if s["summary"]), op.mx_name())


def sentence(op: type[Operator]) -> str:
    """The first paragraph of the summary as one line."""
    return summary(op).partition("\n\n")[0].replace("\n", " ")


def docstring(op: type[Operator], array: str = "NDArray") -> str:
    """An operator's summary, parameters, results and example as numpydoc sections. `array` is the inputs' type."""
    texts = argument_texts(op)
    lines = [summary(op), "", "Parameters", "----------"]
    for declared in op.inputs:
        name = declared.rstrip("?*!")
        optional = ", optional" if declared.endswith("?") else ""
        lines += _item(f"{'*' * declared.endswith('*')}{name} : {array}{optional}", texts.get(name))
    for p in parameters(op):
        lines += _item(f"{p.name} : {p.type}, {_default(p)}", texts.get(p.name))
    lines += ["", "Returns", "-------", *_results(op, array)]
    example = _sections(op).get("Example")
    if example:
        lines += ["", "Examples", "--------", example.replace("\n    ", "\n").removeprefix("    ")]
    return "\n".join(lines)


def _results(op: type[Operator], array: str) -> list[str]:
    owner = next((c for c in op.__mro__ if "Returns" in _sections(c)), op)
    texts, lines = _entries(owner, "Returns"), list[str]()
    visible = op.outputs[: len(op.outputs) - op.hidden]
    whole = None if texts else _sections(owner).get("Returns")
    for name in dict.fromkeys((*visible, *texts)):
        lines += _item(f"{name} : {array}", texts.get(name, whole and inspect.cleandoc(whole)))
    return lines


def _item(head: str, text: str | None) -> list[str]:
    return [head, *(f"    {line}" for line in text.splitlines())] if text else [head]


def _default(p: Parameter) -> str:
    if p.required:
        return "required"
    # MXNet's defaults are 32-bit numbers
    return f"default {float(f'{p.default:.7g}') if isinstance(p.default, float) else p.default!r}"


def _parameter(field: Field) -> Parameter:
    default = None if field.is_required else field.default
    return Parameter(field.name, type_name(field.type), default, field.is_required)


_NAMES = {int: "int", float: "float", bool: "boolean", str: "string", type(None): "None"}


def type_name(annotation: Any) -> str:
    """A parameter's type in MXNet's notation."""
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
