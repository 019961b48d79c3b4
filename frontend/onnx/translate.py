"""Makes a symbol of an ONNX graph: operators of mx where they have the meaning of ONNX's, `_onnx_graph` for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..symbol import Symbol
from ..symbol.compose import create_node
from .operator import NAME, text_of
from .reader.graph import opset_of
from .reader.sequences import SEQUENCES
from .reader.tensors import array_of, attributes_of
from .writer import onnx_library

_JOINING = frozenset(("Shape", "Size", "If", "Loop", "Scan", *SEQUENCES))
"""Operators whose results decide what other nodes mean, or are no tensors: a model that has one is one operator."""

Call = tuple[str, list[int], dict[str, Any]]
"""An operator of mx, the positions of the node's operands that it takes, and its parameters."""


class _Node:
    """A node with what rules need to know: attributes, constants and the ranks of weights."""

    def __init__(self, proto: Any, opset: int, constants: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]):
        self.proto, self.opset, self.attributes = proto, opset, attributes_of(proto)
        self.names, self._constants, self._weights = list(proto.input), constants, weights

    def attr(self, name: str, default: Any = None) -> Any:
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def constant(self, position: int, attribute: str = "") -> list[Any] | None:
        """The elements of a constant operand, or of the attribute that older versions have."""
        if attribute in self.attributes:
            return list(np.ravel(self.attributes[attribute]).tolist())
        name = self.names[position] if position < len(self.names) else ""
        return self._constants[name].ravel().tolist() if name in self._constants else None

    def weight(self, position: int) -> np.ndarray | None:
        name = self.names[position] if position < len(self.names) else ""
        return self._weights.get(name)


def _window(n: _Node, rank: int) -> dict[str, Any] | None:
    """Strides and symmetric padding; None if mx has no such padding."""
    pads = n.attr("pads", [0] * (2 * rank))
    if n.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or pads[:rank] != pads[rank:]:
        return None
    return {"stride": tuple(n.attr("strides", [1] * rank)), "pad": tuple(pads[:rank])}


def _conv(n: _Node) -> Call | None:
    w = n.weight(1)
    if w is None or w.ndim not in (3, 4, 5):
        return None
    window = _window(n, w.ndim - 2)
    if window is None:
        return None
    biased = len(n.names) > 2
    rest = {"kernel": w.shape[2:], "num_filter": w.shape[0], "num_group": n.attr("group", 1), "no_bias": not biased}
    dilate = tuple(n.attr("dilations", [1] * (w.ndim - 2)))
    return "Convolution", [0, 1, 2][: 2 + biased], {**window, **rest, "dilate": dilate}


def _gemm(n: _Node) -> Call | None:
    w, bias = n.weight(1), n.weight(2)
    plain = n.attr("alpha", 1.0) == n.attr("beta", 1.0) == 1 and n.attr("transB", 0) and not n.attr("transA", 0)
    if not plain or w is None or (len(n.names) > 2 and (bias is None or bias.shape != w.shape[:1])):
        return None
    biased = len(n.names) > 2
    params = {"num_hidden": w.shape[0], "no_bias": not biased, "flatten": False}
    return "FullyConnected", [0, 1, 2][: 2 + biased], params


def _batch_norm(n: _Node) -> Call | None:
    if n.attr("training_mode", 0) or any(n.weight(i) is None for i in range(1, 5)) or len(set(n.names[1:])) < 4:
        return None
    momentum = n.attr("momentum", 0.9)
    return "BatchNorm", [0, 1, 2, 3, 4], {"eps": n.attr("epsilon", 1e-5), "momentum": momentum, "fix_gamma": False}


def _pool(n: _Node) -> Call | None:
    kernel = n.attr("kernel_shape")
    window = _window(n, len(kernel))
    others = n.attr("ceil_mode", 0) or set(n.attr("dilations", [1])) != {1} or len(n.proto.output) > 1
    if window is None or others or len(kernel) > 3:
        return None
    kind = {"MaxPool": "max", "AveragePool": "avg"}[n.proto.op_type]
    included = {"count_include_pad": bool(n.attr("count_include_pad", 0))} if kind == "avg" else {}
    return "Pooling", [0], {"kernel": tuple(kernel), "pool_type": kind, **window, **included}


def _global_pool(n: _Node) -> Call:
    kind = "max" if n.proto.op_type == "GlobalMaxPool" else "avg"
    return "Pooling", [0], {"global_pool": True, "pool_type": kind, "kernel": (1, 1)}


def _softmax(n: _Node) -> Call | None:
    name = "log_softmax" if n.proto.op_type == "LogSoftmax" else "softmax"
    return (name, [0], {"axis": n.attr("axis", -1)}) if n.opset >= 13 else None


def _reshape(n: _Node) -> Call | None:
    """Zeros and -1 have the same meanings; negative numbers below -1 have one in mx alone."""
    shape = n.constant(1, "shape")
    if not shape or min(shape) < -1 or n.attr("allowzero", 0):
        return None
    return "reshape", [0], {"shape": tuple(shape)}


def _clip(n: _Node) -> Call | None:
    low, high = n.constant(1, "min"), n.constant(2, "max")
    if not low or not high:
        return None
    return "clip", [0], {"a_min": low[0], "a_max": high[0]}


def _simple(name: str) -> Callable[[_Node], Call | None]:
    return lambda n: (name, list(range(len(n.names))), {})


RULES: dict[str, Callable[[_Node], Call | None]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Reshape": _reshape,
    "Clip": _clip,
    "Concat": lambda n: ("Concat", [*range(len(n.names))], {"dim": n.attr("axis", 1)}),
    "Transpose": lambda n: ("transpose", [0], {"axes": tuple(n.attr("perm", ()))}),
    "Flatten": lambda n: ("Flatten", [0], {}) if n.attr("axis", 1) == 1 else None,
    "LeakyRelu": lambda n: ("LeakyReLU", [0], {"act_type": "leaky", "slope": n.attr("alpha", 0.01)}),
    "Elu": lambda n: ("LeakyReLU", [0], {"act_type": "elu", "slope": n.attr("alpha", 1.0)}),
    "Relu": lambda n: ("Activation", [0], {"act_type": "relu"}),
    "Softplus": lambda n: ("Activation", [0], {"act_type": "softrelu"}),
    "Softsign": _simple("softsign"),
    "Sigmoid": _simple("sigmoid"),
    "Tanh": _simple("tanh"),
    "Exp": _simple("exp"),
    "Log": _simple("log"),
    "Sqrt": _simple("sqrt"),
    "Abs": _simple("abs"),
    "Neg": _simple("negative"),
    "Erf": _simple("erf"),
    "Identity": _simple("identity"),
    "Add": _simple("broadcast_add"),
    "Sub": _simple("broadcast_sub"),
    "Mul": _simple("broadcast_mul"),
    "Div": _simple("broadcast_div"),
}


def translated(model: Any, weights: Mapping[str, np.ndarray], variables: Mapping[str, Symbol]) -> list[Symbol]:
    """The outputs of a model on variables for its inputs; `weights` are the parameters among them."""
    graph = model.graph
    if model.functions or any(node.op_type in _JOINING for node in graph.node):
        return as_one(model, list(variables.values()), "")
    opset, symbols = opset_of(model), dict(variables)
    constants = {t.name: array_of(t) for t in graph.initializer}
    tensors = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            tensors[node.output[0]] = node
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            if value is not None:
                constants[node.output[0]] = array_of(value)
            continue
        results = _results(model, _Node(node, opset, constants, weights), symbols, tensors)
        for name, symbol in zip(node.output, results, strict=False):
            symbols[name] = symbol
    if any(o.name not in symbols for o in graph.output):
        return as_one(model, list(variables.values()), "")
    return [symbols[o.name] for o in graph.output]


def _results(model: Any, node: _Node, symbols: Mapping[str, Symbol], tensors: Mapping[str, Any]) -> list[Symbol]:
    name = node.proto.name or node.proto.output[0]
    rule = RULES.get(node.proto.op_type)
    call = rule(node) if rule is not None else None
    if call is not None:
        op, positions, params = call
        if all(node.names[i] in symbols for i in positions):
            operands = [symbols[node.names[i]] for i in positions]
            count = {"num_args": len(operands)} if op == "Concat" else {}
            return [Symbol([entry]) for entry in create_node(op, {**params, **count}, operands, {}, name)]
    return _alone(model, node.proto, symbols, tensors, name)


def _alone(
    model: Any, proto: Any, symbols: Mapping[str, Symbol], tensors: Mapping[str, Any], name: str
) -> list[Symbol]:
    """A node as an operator `_onnx_graph`, with the constants that it reads."""
    library = onnx_library()
    helper, names = library.helper, list(dict.fromkeys(n for n in proto.input if n in symbols))
    fixed = [tensors[n] for n in dict.fromkeys(proto.input) if n in tensors]
    nodes = [t for t in fixed if hasattr(t, "op_type")] + [proto]
    inputs = [library.ValueInfoProto(name=n) for n in names]
    outputs = [library.ValueInfoProto(name=n) for n in proto.output if n]
    initializers = [t for t in fixed if not hasattr(t, "op_type")]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    single = helper.make_model(graph, opset_imports=list(model.opset_import))
    results = iter(as_one(single, [symbols[n] for n in names], name))
    return [next(results) if n else symbols[names[0]] for n in proto.output]


def renamed(outputs: list[Symbol], names: list[str], model: Any) -> list[Symbol]:
    """The outputs under other names."""
    library = onnx_library()
    operands = [f"{name}_operand" for name in names]
    nodes = [library.helper.make_node("Identity", [o], [n]) for o, n in zip(operands, names, strict=True)]
    infos = [[library.ValueInfoProto(name=n) for n in listed] for listed in (operands, names)]
    graph = library.helper.make_graph(nodes, "outputs", *infos)
    return as_one(library.helper.make_model(graph, opset_imports=list(model.opset_import)), outputs, "")


def as_one(model: Any, operands: list[Symbol], name: str) -> list[Symbol]:
    """The outputs of a model as one operator `_onnx_graph` on its inputs."""
    return [Symbol([entry]) for entry in create_node(NAME, {"model": text_of(model)}, operands, {}, name)]
