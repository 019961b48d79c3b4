"""Converts symbols to and from the content of `-symbol.json` files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...ir.suggestions import see, suggestion
from ..artifacts import (
    ArtifactError,
    GraphAttr,
    NodeEntry,
    SymbolFile,
    SymbolNode,
    expand_fused,
    is_quantized,
    read_symbol_json,
    upgrade_symbol,
    write_symbol_json,
)
from ..artifacts.symbol_graph import CURRENT_VERSION
from ..base import MXNetError
from ..tracebacks import cause_of
from ..util import is_np_shape
from .network import declare_in_numpy_shapes
from .node import Entry, SymNode, depth_first, is_hidden

# Casts that automatic mixed precision inserted. Saved graphs omit them by default.
_AMP_CASTS = frozenset(("amp_cast", "amp_multicast"))


def to_json(entries: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """The text that MXNet 1.9.1 writes for the graph, byte for byte."""
    if remove_amp_cast:
        entries = _without_amp_casts(entries)
    return write_symbol_json(to_file(entries))


def to_file(entries: Sequence[Entry]) -> SymbolFile:
    nodes = depth_first(entries)
    numbers = {node: i for i, node in enumerate(nodes)}

    def moved(links: Sequence[Entry]) -> tuple[NodeEntry, ...]:
        return tuple(NodeEntry(numbers[e.node], e.index, e.version) for e in links)

    written = tuple(
        SymbolNode(n.op, n.name, n.attrs, moved(n.inputs), _outputs_in_files(n), subgraphs=n.subgraphs) for n in nodes
    )
    return SymbolFile(written, moved(entries), _graph_attributes())


def _graph_attributes() -> dict[str, GraphAttr]:
    """The attributes of a saved graph, in MXNet's order."""
    marks = {"is_np_shape": GraphAttr("int", 1)} if is_np_shape() else {}
    return {**marks, "mxnet_version": GraphAttr("int", CURRENT_VERSION)}


# The number of outputs in files of operators with additional outputs in MXNet builds with oneDNN.
_OUTPUTS_IN_FILES = {
    "_contrib_BatchNormWithReLU": 4,
    "GridGenerator": 2,
    "InstanceNorm": 3,
    "L2Normalization": 2,
    "SpatialTransformer": 3,
}


def _outputs_in_files(node: SymNode) -> int:
    """The number of outputs in MXNet's files. Max pooling has a workspace output if oneDNN computes it."""
    if node.op == "Pooling" and node.attrs.get("pool_type", "max") == "max":
        channels_last = node.attrs.get("layout", "").endswith("C")
        return 2 if node.operator.kernel and not channels_last else 1  # type: ignore[attr-defined]
    return _OUTPUTS_IN_FILES.get(node.op, node.num_outputs)


def _without_amp_casts(entries: Sequence[Entry]) -> Sequence[Entry]:
    nodes = depth_first(entries)
    if not any(node.op in _AMP_CASTS for node in nodes):
        return entries
    copies: dict[SymNode, SymNode] = {}

    def operand(entry: Entry) -> Entry:
        while entry.node.op in _AMP_CASTS:
            entry = entry.node.inputs[entry.index]
        return entry._replace(node=copies[entry.node])

    for node in nodes:
        copies[node] = node.copy()
        copies[node].inputs = [operand(e) for e in node.inputs]
    return [e._replace(node=copies[e.node]) for e in entries]  # a cast that is an output remains


def from_json(text: str | bytes, label: str = "symbol") -> list[Entry]:
    """The heads of the graph in `text`, upgraded from any version of MXNet, without fused nodes.

    MXNetError for invalid text, for a quantised model, or for unknown operators; it lists them with their nodes.
    """
    try:
        file = read_symbol_json(text, label)
    except ArtifactError as error:
        raise MXNetError(str(error)) from None
    try:
        _refuse_quantized(file)
        file = expand_fused(file)
        _check_operators(file)
        entries = from_file(upgrade_symbol(file, _input_names))
        if is_np_shape() and "is_np_shape" not in file.attrs:
            for node in depth_first(entries):
                if node.is_variable:
                    declare_in_numpy_shapes(node)
        return entries
    except (ArtifactError, MXNetError) as error:
        raise MXNetError(f"{label}: {error}") from cause_of(error)


def from_file(file: SymbolFile) -> list[Entry]:
    """The heads of a graph in the current version's format.

    MXNetError names a node with invalid parameters or a wrong number of inputs, or that reads an output that does not
    exist. Heads and inputs of subgraphs are checked too.
    """
    nodes: list[SymNode] = []
    for node in file.nodes:
        inputs = [Entry(nodes[e.node_id], e.index, e.version) for e in node.inputs]
        copy = SymNode(node.op, node.name, dict(node.attrs), inputs)
        copy.subgraphs = tuple(map(_with_outputs, node.subgraphs))
        nodes.append(copy)
    _canonize(nodes)
    for copy in nodes:
        _check_node(copy)
    heads = [Entry(nodes[e.node_id], e.index, e.version) for e in file.heads]
    _check_entries(heads, "the graph's outputs")
    return heads


def _with_outputs(file: SymbolFile) -> SymbolFile:
    """A subgraph with the number of outputs of each node, which `to_json` writes and some files lack."""
    return replace(file, nodes=tuple(map(_with_output_count, file.nodes)))


def _with_output_count(node: SymbolNode) -> SymbolNode:
    node = replace(node, subgraphs=tuple(map(_with_outputs, node.subgraphs)))
    if node.num_outputs is not None:
        return node
    copy = SymNode(node.op, node.name, dict(node.attrs))
    copy.subgraphs = node.subgraphs
    return replace(node, num_outputs=_outputs_in_files(copy))


def _check_node(node: SymNode) -> None:
    """MXNetError unless the node fits its operator."""
    what = f"node {node.name!r} ({node.op})"
    if not node.is_variable:
        try:
            node.operator.require_inputs(len(node.inputs))
        except ValueError as error:
            raise MXNetError(f"{what}: {error}") from None
    _check_entries(node.inputs, what)


def _check_entries(entries: Sequence[Entry], reader: str) -> None:
    for entry in entries:
        if entry.index >= entry.node.num_outputs:
            raise MXNetError(f"{reader}: node {entry.node.name!r} has no output {entry.index}")


def _canonize(nodes: Sequence[SymNode]) -> None:
    """Replace aliases of operators by canonical names, as in MXNet."""
    from ...ir.dialects.mx.operator import lookup

    for node in nodes:
        if not node.is_variable:
            node.op = lookup(node.op).mx_name()
            for entry in node.inputs:
                entry.node.version = max(entry.node.version, entry.version)


def _refuse_quantized(file: SymbolFile) -> None:
    """MXNetError if the model computes in int8."""
    node = next(filter(is_quantized, _all_nodes(file)), None)
    if node is not None:
        raise MXNetError(
            f"quantised (int8) models are not supported, and node {node.name!r} ({node.op}) belongs to one: "
            "load the float32 model instead" + see("compatibility")
        )


def _check_operators(file: SymbolFile) -> None:
    from ...ir.dialects.mx.operator import all_operators, declare_later, find

    declare_later("_onnx_graph", f"{__name__.rpartition('.symbol')[0]}.onnx.operator")  # symbols of imported models
    users: dict[str, list[str]] = {}
    for node in _all_nodes(file):
        if not node.is_variable and find(node.op) is None:
            users.setdefault(node.op, []).append(node.name)
    if users:
        known = [operator.mx_name() for operator in all_operators()]
        lines = "\n".join(
            f"  {op}: used by {', '.join(map(repr, names))}.{suggestion(op, known)}" for op, names in users.items()
        )
        raise MXNetError(f"the graph uses unknown operators:\n{lines}")


def _all_nodes(file: SymbolFile) -> Iterator[SymbolNode]:
    """The nodes of a graph and of its subgraphs."""
    for node in file.nodes:
        yield node
        for subgraph in node.subgraphs:
            yield from _all_nodes(subgraph)


def _input_names(op: str, attrs: Mapping[str, str]) -> Sequence[str]:
    from ...ir.dialects.mx.operator import lookup

    parsed = lookup(op)
    params = {key: value for key, value in attrs.items() if key in parsed.parameters() and not is_hidden(key)}
    names = parsed.parse(params).input_names()
    return () if any(n.endswith("*") for n in parsed.inputs) else names
