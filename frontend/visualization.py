"""Shows networks: `print_summary` prints a table of layers, `plot_network` draws a graph with Graphviz."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .symbol import Symbol
from .symbol.node import depth_first

if TYPE_CHECKING:
    from .symbol.node import SymNode

__all__ = ["Symbol", "plot_network", "print_summary"]

Shapes = Mapping[str, tuple[int, ...]]
_HEADS = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")


def _str2tuple(string: str) -> list[str]:
    """The numbers in a text, as strings."""
    return re.findall(r"\d+", string)


def _numbers(node: SymNode, attribute: str) -> str:
    """A shape attribute of a node as "3x3"."""
    return "x".join(_str2tuple(node.attrs[attribute]))


def _known_shapes(symbol: Symbol, shapes: Mapping[str, Any] | None) -> Shapes | None:
    """The shapes of all values by name; None if `shapes` is None. ValueError if they cannot be inferred."""
    if shapes is None:
        return None
    internals = symbol.get_internals()
    inferred = internals.infer_shape(**shapes)[1]
    if inferred is None:
        raise ValueError("Input shape is incomplete")
    return dict(zip(internals.list_outputs(), inferred, strict=True))


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Any] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = [0.44, 0.64, 0.74, 1.0],
) -> None:
    """Print a line for each layer: name and operator, output shape, number of parameters, predecessors.

    Args:
        symbol: The network.
        shape: Input shapes by name. Without it, output shapes are empty and parameter counts that depend on them are
            too small, as in MXNet.
        line_length: Characters in a line.
        positions: The end of each column, as fractions of `line_length`, or in characters if the last is above 1.
    """
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be Symbol")
    ends = [int(line_length * p) for p in positions] if positions[-1] <= 1 else [int(p) for p in positions]
    table = _Summary(symbol, _known_shapes(symbol, shape), ends)
    print("_" * line_length)
    table.row(_HEADS)
    print("=" * line_length)
    total = 0
    last = len(table.nodes) - 1
    for i, node in enumerate(table.nodes):
        if node.is_variable and i > 0:
            continue
        total += table.layer(i, node)
        print(("=" if i == last else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


class _Summary:
    """The rows of the table."""

    def __init__(self, symbol: Symbol, shapes: Shapes | None, ends: Sequence[int]) -> None:
        self.nodes = depth_first(symbol._entries)
        self.shapes, self.ends = shapes or {}, ends
        head = symbol._entries[0]
        # MXNet reads all three numbers of the first head's entry as node numbers
        self.heads = {self.nodes[i] for i in (self.nodes.index(head.node), head.index, head.version)}

    def row(self, fields: Sequence[Any]) -> None:
        line = ""
        for field, end in zip(fields, self.ends, strict=True):
            line = (line + str(field))[:end].ljust(end)
        print(line)

    def shape(self, node: SymNode) -> tuple[int, ...]:
        """The output shape without the batch axis; () if it is unknown."""
        name = node.name if node.is_variable else f"{node.name}_output"
        return self.shapes.get(name, ())[1:]

    def layer(self, number: int, node: SymNode) -> int:
        """Print one layer; returns its number of parameters."""
        shown = not node.is_variable or node in self.heads
        out = self.shape(node) if shown else ()
        before = [e.node for e in node.inputs if not e.node.is_variable or e.node in self.heads]
        count = self.parameters(node, before)
        op = node.op
        first, *rest = [n.name for n in before] or [""]
        self.row((f"{node.name}({op})", "x".join(map(str, out)), count, first))
        for name in rest:
            self.row(("", "", "", name))
        return count

    def parameters(self, node: SymNode, before: Sequence[SymNode]) -> int:
        attrs = node.attrs
        channels = sum(int(shape[0]) for n in before if (shape := self.shape(n)))
        bias = attrs.get("no_bias") != "True"
        match node.op:
            case "Convolution":
                filters = int(attrs["num_filter"])
                inner = channels * filters // int(attrs.get("num_group", "1"))
                return inner * prod(map(int, _str2tuple(attrs["kernel"]))) + filters * bias
            case "FullyConnected":
                return (channels + bias) * int(attrs["num_hidden"])
            case "BatchNorm":
                shape = self.shapes.get(f"{node.name}_output")
                return 0 if shape is None else int(shape[1]) * 2
            case "Embedding":
                return int(attrs["input_dim"]) * int(attrs["output_dim"])
        return 0


_COLOURS = ("#8dd3c7", "#fb8072", "#ffffb3", "#bebada", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")
_COLOUR_OF = {
    "null": 0,
    "Convolution": 1,
    "FullyConnected": 1,
    "Activation": 2,
    "LeakyReLU": 2,
    "BatchNorm": 3,
    "Pooling": 4,
    "Concat": 5,
    "Flatten": 5,
    "Reshape": 5,
    "Softmax": 6,
}
_WEIGHTS = ("weight", "bias", "beta", "gamma", "moving_var", "moving_mean", "running_var", "running_mean")
_WEIGHT_ENDS = tuple(f"_{name}" for name in _WEIGHTS)


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Any] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] = {},
    hide_weights: bool = True,
) -> Any:
    """The network as a `graphviz.Digraph`, whose methods `render` and `view` need the Graphviz program.

    Args:
        symbol: The network.
        title: The name of the graph.
        save_format: The format of `render`.
        shape: Input shapes by name: edges are labelled with the shapes of their values.
        dtype: Input dtypes by name: edges are labelled with the dtypes of their values.
        node_attrs: Graphviz attributes of all nodes.
        hide_weights: Do not draw edges from weights.

    ImportError without the Python package graphviz.
    """
    try:
        from graphviz import Digraph  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("Draw network requires graphviz library") from None
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be a Symbol")
    shapes, types = _known_shapes(symbol, shape), _known_types(symbol, dtype)
    nodes = depth_first(symbol._entries)
    _warn_of_names([n.name for n in nodes])
    dot = Digraph(name=title, format=save_format)
    box = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled", **node_attrs}
    for node in nodes:
        if node.is_variable and node.name.endswith(_WEIGHT_ENDS):
            continue
        oval = {"shape": "oval"} if node.is_variable else {}
        colour = {"fillcolor": _COLOURS[_COLOUR_OF.get(node.op, 7)]}
        dot.node(name=node.name, label=_label(node), **{**box, **oval, **colour})
    for node in nodes:
        inputs = node.inputs[:1] if node.op == "_contrib_BilinearResize2D" else node.inputs
        for entry in inputs:
            source = entry.node
            if not (hide_weights and source.is_variable and source.name.endswith(_WEIGHT_ENDS)):
                edge = {"dir": "back", "arrowtail": "open", "label": _edge_label(source, shapes, types)}
                dot.edge(tail_name=node.name, head_name=source.name, **edge)
    return dot


def _known_types(symbol: Symbol, types: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if types is None:
        return None
    internals = symbol.get_internals()
    inferred = internals.infer_type(**types)[1]
    if inferred is None:
        raise ValueError("Input type is incomplete")
    return dict(zip(internals.list_outputs(), inferred, strict=True))


def _warn_of_names(names: Sequence[str]) -> None:
    repeated = sorted({name for i, name in enumerate(names) if name in names[:i]})
    if repeated:
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may result in cyclic graph. "
            f"Repeated names: {','.join(repeated)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _label(node: SymNode) -> str:
    attrs = node.attrs
    stride = _numbers(node, "stride") if "stride" in attrs else "1"
    match node.op:
        case "Convolution":
            return f"Convolution\n{_numbers(node, 'kernel')}/{stride}, {attrs['num_filter']}"
        case "FullyConnected":
            return f"FullyConnected\n{attrs['num_hidden']}"
        case "Activation":
            return f"Activation\n{attrs['act_type']}"
        case "LeakyReLU":
            return f"LeakyReLU\n{attrs.get('act_type', 'Leaky')}"
        case "Pooling":
            kernel = _numbers(node, "kernel") if "kernel" in attrs else "[]"
            return f"Pooling\n{attrs.get('pool_type', 'max')}, {kernel}/{stride}"
        case "Custom":
            return attrs["op_type"]
    return node.name


def _edge_label(source: SymNode, shapes: Shapes | None, types: Mapping[str, Any] | None) -> str:
    key = source.name
    if not source.is_variable:
        key += "_output"
        if "num_outputs" in source.attrs:
            key += str(int(source.attrs["num_outputs"]) - 1)
    label = "" if shapes is None else "x".join(map(str, shapes[key][1:]))
    return label if types is None else f"{label}({types[key].__name__})"
