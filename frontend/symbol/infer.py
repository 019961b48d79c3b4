"""Shapes and dtypes of symbols, as `infer_shape` and `infer_type` report them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.types import DType
from ..base import MXNetError, integers
from ..dtypes import dtype_of, numpy_type
from ..shapes import from_mxnet, is_known, to_mxnet
from .network import Network
from .node import Entry, SymNode, depth_first

if TYPE_CHECKING:
    from .symbol import Symbol

Shapes = list[tuple[int, ...]]
PartialShapes = list[tuple[int, ...] | None]
Dtypes = list[Any]
_MOST_NAMED = 10


def infer_shape(
    symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool, warn: bool = True
) -> Any:
    """Shapes of arguments, outputs and auxiliary states in MXNet's notation (see `frontend/shapes.py`).

    (None, None, None) if a shape is unknown, unless `partial`.
    """
    network = Network(symbol._entries)
    known = _passed_by_name(symbol, args, kwargs, "shapes")
    for name, shape in known.items():
        if not isinstance(shape, tuple):
            raise TypeError(f"Arguments need to be shapes (tuple), but '{name}' is {type(shape)}.")
    network.check_names(known, "InferShape")
    inferred = network.infer({name: from_mxnet(integers(shape)) for name, shape in known.items()}, {})
    numbers = _in_order(symbol, network)
    lists = tuple([to_mxnet(inferred.shapes.get(i)) for i in values] for values in numbers)
    if partial or not any(map(inferred.unknown, numbers)):
        return lists
    if warn:
        unknown = [f"{n}: {s}" for n, s in zip(symbol.list_arguments(), lists[0], strict=True) if not is_known(s)]
        _warn("shape for the following arguments (0s in shape means unknown dimensions)", unknown)
    return None, None, None


def infer_type(symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool, warn: bool = True) -> Any:
    """Dtypes of arguments, outputs and auxiliary states; None for an unknown dtype.

    (None, None, None) if a dtype is unknown, unless `partial`.
    """
    network = Network(symbol._entries)
    known = _passed_by_name(symbol, args, kwargs, "types")
    network.check_names(known, "InferType")
    inferred = network.infer({}, {name: dtype_of(dtype) for name, dtype in known.items()})
    numbers = _in_order(symbol, network)
    lists = tuple([_numpy_or_none(inferred.dtypes.get(i)) for i in values] for values in numbers)
    if partial or all(dtype is not None for dtypes in lists for dtype in dtypes):
        return lists
    if warn:
        unknown = [f"{n}: None" for n, d in zip(symbol.list_arguments(), lists[0], strict=True) if d is None]
        _warn("type for the following arguments", unknown)
    return None, None, None


def _numpy_or_none(dtype: DType | None) -> Any:
    return None if dtype is None else numpy_type(dtype)


def _passed_by_name(symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> dict[str, Any]:
    if args and kwargs:
        raise ValueError(f"Can only specify known argument {what} either by positional or kwargs way.")
    if args:
        names = symbol.list_arguments()
        if len(args) > len(names):
            raise MXNetError(f"{len(args)} {what} are given, and there are {len(names)} arguments: {', '.join(names)}")
        return {n: a for n, a in zip(names, args, strict=False) if a is not None}
    return {name: value for name, value in kwargs.items() if value is not None}


def _in_order(symbol: Symbol, network: Network) -> tuple[list[int], list[int], list[int]]:
    """The numbers of arguments, outputs and auxiliary states."""
    auxiliary = {node for user in network.nodes for node in user.auxiliary_inputs()}
    arguments = [network.first[node] for node in network.variables if node not in auxiliary]
    states = [network.first[node] for node in network.variables if node in auxiliary]
    return arguments, [network.number(e) for e in symbol._entries], states


def _warn(what: str, unknown: list[str]) -> None:
    if len(unknown) > _MOST_NAMED:
        unknown = [*unknown[:_MOST_NAMED], "..."]
    listed = "\n\t".join(unknown)
    warnings.warn(f"Cannot decide {what}. Consider providing them as input:\n\t{listed}", stacklevel=5)


def debug_text(entries: Sequence[Entry]) -> str:
    """The graph as text, in MXNet's format."""
    nodes = depth_first(entries)
    lines: list[str] = []
    if len(entries) != 1 or not entries[0].node.is_variable:
        lines.append("Symbol Outputs:")
        lines += [f"\toutput[{i}]={e.node.name}({e.index})" for i, e in enumerate(entries)]
    for node in nodes:
        lines += [f"Variable:{node.name}"] if node.is_variable else _described(node)
    return "\n".join(lines) + "\n"


def _described(node: SymNode) -> list[str]:
    lines = ["--------------------", f"Op:{node.op}, Name={node.name}", "Inputs:"]
    for i, e in enumerate(node.inputs):
        version = f" version={e.version}" if e.node.is_variable else ""
        lines.append(f"\targ[{i}]={e.node.name}({e.index}){version}")
    if node.attrs:
        lines += ["Attrs:", *(f"\t{key}={value}" for key, value in sorted(node.attrs.items()))]
    return lines
