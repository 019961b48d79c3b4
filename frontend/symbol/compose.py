"""Creates nodes from operators and inputs, and replaces variables of symbols by other symbols."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from ...ir.dialects.mx.parameters import attribute_text
from ..artifacts.symbol_upgrade import INPUT_INITIALIZERS
from ..attribute import current_scope
from ..base import MXNetError
from ..name import current_manager
from ..tracebacks import is_internal
from .node import HIDDEN_KEYS, Entry, SymNode, depth_first, is_hidden, update_versions


def user_location() -> str:
    """`file:line` of the innermost caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def dtype_text(value: Any) -> str:
    """The name of a dtype, such as "float32" or "bfloat16", or "None". TypeError for values that are not dtypes."""
    if value is None or (isinstance(value, str) and value in ("None", "bfloat16")):
        return str(value)
    dtype = np.dtype(value)
    return dtype.names[0] if dtype.names else dtype.name


def hidden_attrs(attrs: Mapping[str, Any], op: str) -> dict[str, str]:
    """`attrs` as strings, with `lr_mult` as `__lr_mult__`. MXNetError for names such as `weight_lr_mult`, which must be
    set on the variable."""
    texts: dict[str, str] = {}
    for key, value in attrs.items():
        suffix = next((hidden for hidden in HIDDEN_KEYS if key.endswith(hidden) and not is_hidden(key)), None)
        if suffix is not None and key != suffix:
            raise MXNetError(
                f"setting variable attributes with {key} is deprecated. please instead use\n"
                f"w = Variable({suffix}={value})\nsym = {op}({key[: -len(suffix) - 1]}=w)"
            )
        texts[f"__{key}__" if suffix else key] = attribute_text(value)
    return texts


def create_node(
    op: str, params: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> list[Entry]:
    """The visible outputs of a new node of the operator `op` on symbols.

    As in MXNet, missing inputs become variables `NAME_INPUT` with the attributes of the node.
    """
    from ...ir.dialects.mx.operator import lookup

    if args and kwargs:
        raise TypeError(
            "Operators with variable length input can only accept input"
            "Symbols either as positional or keyword arguments, not both"
        )
    canonical = lookup(op).mx_name()
    node = SymNode(canonical, name, hidden_attrs(params, op), location=user_location())
    names = node.operator.input_names(len(args) or len(kwargs))
    _attach(node, names, args, kwargs)
    _initialize_states(node)
    update_versions(node)
    return [Entry(node, i) for i in range(node.visible_outputs)]


def _attach(node: SymNode, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if not names and type(node.operator).variadic and any(n.endswith("*") for n in type(node.operator).inputs):
        raise MXNetError(f"{node.op} {node.name!r} takes at least one input, none was given")
    if len(args) > len(names):
        raise MXNetError(
            f"{node.op} {node.name!r} takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given"
        )
    unknown = [key for key in kwargs if key not in names]
    if unknown and names:  # as in MXNet, an operator without inputs ignores symbols
        candidates = "\n".join(f"\t[{i}]{n}" for i, n in enumerate(names))
        raise MXNetError(f"Keyword argument name {unknown[0]} not found.\nCandidate arguments:\n{candidates}")
    operands = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in names:
        if name in operands:
            node.inputs.append(single_entry(operands[name], name))
        else:
            full = f"{node.name}_{name}" if node.name else name
            node.inputs.append(Entry(SymNode("null", full, dict(node.attrs))))


def single_entry(symbol: Any, argument: str) -> Entry:
    """The only output of `symbol`. MXNetError if it has several."""
    if len(symbol._entries) != 1:
        raise MXNetError(
            f"Keyword Argument {argument} is a tuple, single value is required"
            f" (the symbol has {len(symbol._entries)} outputs: {', '.join(symbol.list_outputs())})"
        )
    return symbol._entries[0]


def _initialize_states(node: SymNode) -> None:
    """Set the operator's initializers (zeros for moving_mean) on its variables that have no initializer."""
    initializers = INPUT_INITIALIZERS.get(node.op, {})
    for i, entry in enumerate(node.inputs):
        if i in initializers and entry.node.is_variable:
            entry.node.attrs.setdefault("__init__", initializers[i])


def without_inputs(entries: Sequence[Entry]) -> list[Entry]:
    """The visible outputs of a new node, without a name and inputs, of the operator that computes `entries`.

    `with_inputs` adds inputs. MXNetError if they are outputs of several nodes, or a variable.
    """
    node = entries[0].node
    if node.is_variable or any(entry.node is not node for entry in entries):
        raise MXNetError("Generating atomic symbol from other symbol only works for nongrouped symbol.")
    copy = SymNode(node.op, "", dict(node.attrs), location=user_location())
    copy.subgraphs = node.subgraphs
    return [Entry(copy, i) for i in range(copy.visible_outputs)]


def lacks_inputs(entries: Sequence[Entry]) -> bool:
    """True for the outputs of a node that `without_inputs` made."""
    node = entries[0].node
    return not node.is_variable and not node.inputs and not node.name and bool(type(node.operator).inputs)


def with_inputs(
    entries: Sequence[Entry], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
) -> list[Entry]:
    """The outputs of a copy of the node without inputs that computes `entries`, with these inputs and this name."""
    node = entries[0].node.copy()
    node.name = name or ""
    _attach(node, node.operator.input_names(len(args) or len(kwargs)), args, kwargs)
    try:
        node.operator.require_inputs(len(node.inputs))
    except ValueError as error:
        raise MXNetError(f"{node.op} {node.name!r}: {error}") from None
    update_versions(node)
    return [entry._replace(node=node) for entry in entries]


def replacements(entries: Sequence[Entry], kwargs: Mapping[str, Any]) -> dict[SymNode, Entry]:
    """The variables of a graph that `kwargs` replaces by name, with their replacements. MXNetError for a name that is
    not a variable of the graph."""
    variables = [node for node in depth_first(entries) if node.is_variable]
    names = {node.name for node in variables}
    for key in kwargs:
        if key not in names:
            candidates = "\n".join(f"\t[{i}]{v.name}" for i, v in enumerate(variables))
            raise MXNetError(
                f"Symbol.ComposeKeyword argument name {key} not found.\nCandidate arguments:\n{candidates}"
            )
    return {node: single_entry(kwargs[node.name], node.name) for node in variables if node.name in kwargs}


def resolved_name(name: str | None, hint: str) -> str:
    """The name of a new symbol: `name` or the next automatic name, with the scope's prefix."""
    return current_manager().get(name, hint)


def resolved_attrs(attr: Mapping[str, str] | None) -> dict[str, str]:
    """The attributes of a new symbol and of the current scope."""
    return current_scope().get(attr)
