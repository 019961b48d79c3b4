"""What the disk cache knows of a symbol for one signature: a warm start infers no types and builds no graph.

The key covers everything that the graph is made of: the symbol, the types of its inputs, which of them are parameters,
the options, the target and the compiler.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.graph import Graph
from ...ir.types import DType, TensorType
from ...passes.manager import Options
from ...runtime.device import Device
from ..util import is_np_shape
from .node import Entry, depth_first

if TYPE_CHECKING:
    from ...runtime.compile import StoredProgram
    from .function import SymbolFunction

_KIND = "symbol 1"
"""The kind of what is stored; the number changes with the format."""


class StoredSymbol(NamedTuple):
    """The types of the results, and the program with the names of the graph and its nodes."""

    types: tuple[TensorType, ...]
    program: StoredProgram


def symbol_key(function: SymbolFunction, types: Sequence[TensorType], options: Options, device: Device) -> str | None:
    """The name on disk of a function for operands of these types. None if programs are not stored."""
    from ...runtime.compile import record_key, stores_programs

    if not stores_programs(device):
        return None
    described = [(t.shape, t.dtype.value, n in function.parameters) for n, t in zip(function.names, types, strict=True)]
    symbol = _text(function.symbol._entries)
    return record_key(_KIND, options, device, symbol, function.title, described, is_np_shape())


def _text(entries: Sequence[Entry]) -> str:
    """The symbol as text: equal text means an equal graph."""
    return repr(structure(entries, named=True))


def structure(entries: Sequence[Entry], named: bool = False) -> tuple[Any, ...]:
    """What a symbol computes, with the names of its variables, and if `named` of all nodes: equal for equal graphs."""
    nodes = depth_first(entries)
    numbers = {node: i for i, node in enumerate(nodes)}
    lines = [
        (
            n.op,
            n.name if named or n.is_variable else "",
            sorted(n.attrs.items()),
            [(numbers[e.node], e.index) for e in n.inputs],
            n.subgraphs,
        )
        for n in nodes
    ]
    return lines, [(numbers[e.node], e.index) for e in entries]


def read_stored(key: str) -> StoredSymbol | None:
    """What is stored under the key; None if nothing is."""
    from ...runtime.compile import StoredProgram, get_record

    data = get_record(key)
    if data is None:
        return None
    types, (program, name, names) = json.loads(data)
    result_types = tuple([TensorType(tuple(shape), DType(dtype)) for shape, dtype in types])
    return StoredSymbol(result_types, StoredProgram(program, name, tuple(names)))


def store(key: str, graph: Graph, options: Options, device: Device) -> None:
    """Store what is known of a function, whose graph has been compiled."""
    from ...runtime.compile import put_record, stored_as

    program = stored_as(graph, options, device)
    if program is None:
        return
    types = [(t.shape, t.dtype.value) for t in graph.output_types()]
    put_record(key, json.dumps([types, program]).encode())
