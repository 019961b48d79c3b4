"""Translation of core primitives to ONNX, for operators of mx without a direct ONNX equivalent."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...ir.dialects.core.contraction import Conv, Dot
from ...ir.dialects.core.control import Call, Cond, While
from ...ir.dialects.core.creation import Constant, Iota, Size
from ...ir.dialects.core.indexing import Gather, Scatter
from ...ir.dialects.core.ordering import ArgSort, Sort
from ...ir.dialects.core.pointwise import Cast, Pointwise
from ...ir.dialects.core.reduction import ArgReduce, Cumulative, Reduce
from ...ir.dialects.core.scan import Scan
from ...ir.dialects.core.shape import Broadcast, Concat, Pad, Reshape, Reverse, Slice, Transpose
from ...ir.dialects.core.window import ReduceWindow
from ...ir.graph import Graph, Node
from ...ir.scalar import ReduceOp
from ...ir.symbolic import is_symbolic, known_same
from ...ir.types import DType, TensorType
from .position_rules import argsort, gather, scatter, sort
from .scalar_rules import write_scalar
from .writer import Writer, unsupported

_REDUCTIONS = {
    ReduceOp.ADD: "ReduceSum",
    ReduceOp.MUL: "ReduceProd",
    ReduceOp.MAX: "ReduceMax",
    ReduceOp.MIN: "ReduceMin",
}
_BACKWARD_STOP = -(2**31)


def _constant(w: Writer, node: Node, op: Constant) -> str:
    if node.outputs[0].type.dtype is DType.BF16:
        return w.cast(w.constant(op.value), DType.BF16)
    return w.constant(op.value, hint=node.name or "constant")


def _size(w: Writer, node: Node, op: Size) -> str:
    return w.cast(w.op("Squeeze", w.size(op.value)), op.dtype)


def _iota(w: Writer, node: Node, op: Iota) -> str:
    """A constant, or a range that is repeated if extents are symbolic."""
    if not any(map(is_symbolic, op.shape)):
        return w.constant(op.evaluate()[0])
    stop = w.op("Squeeze", w.size(op.shape[op.axis]))
    counts = w.cast(w.op("Range", w.constant(0, np.int64), stop, w.constant(1, np.int64)), op.dtype)
    aligned = w.reshape(counts, [n if k == op.axis else 1 for k, n in enumerate(op.shape)])
    return w.op("Expand", aligned, w.ints(op.shape))


def _pointwise(w: Writer, node: Node, op: Pointwise) -> str:
    return write_scalar(w, node, op.op, [w.input(v) for v in node.inputs])


def _cast(w: Writer, node: Node, op: Cast) -> str:
    return w.cast(w.input(node.inputs[0]), op.dtype)


def _broadcast(w: Writer, node: Node, op: Broadcast) -> str:
    operand = node.inputs[0].type.shape
    shape = [1] * len(op.shape)
    for axis, extent in zip(op.axes, operand, strict=True):
        shape[axis] = extent
    x = w.input(node.inputs[0])
    x = x if known_same(shape, operand) else w.reshape(x, shape)
    return x if known_same(shape, op.shape) else w.op("Expand", x, w.ints(op.shape))


def _reshape(w: Writer, node: Node, op: Reshape) -> str:
    return w.reshape(w.input(node.inputs[0]), op.shape)


def _transpose(w: Writer, node: Node, op: Transpose) -> str:
    return w.transpose(w.input(node.inputs[0]), op.permutation)


def _slice(w: Writer, node: Node, op: Slice) -> str:
    return w.slice(w.input(node.inputs[0]), op.start, op.stop, op.step)


def _reverse(w: Writer, node: Node, op: Reverse) -> str:
    count = len(op.axes)
    numbers = ([-1] * count, [_BACKWARD_STOP] * count, op.axes, [-1] * count)
    return w.op("Slice", w.input(node.inputs[0]), *map(w.ints, numbers))


def _concat(w: Writer, node: Node, op: Concat) -> str:
    return w.op("Concat", *map(w.input, node.inputs), axis=op.axis)


def _pad(w: Writer, node: Node, op: Pad) -> str:
    x, value = map(w.input, node.inputs)
    return _padded(w, x, node.inputs[0].type.shape, value, op.low, op.high, op.interior)


def _padded(w: Writer, x: str, shape: Any, value: str, low: Any, high: Any, interior: Any) -> str:
    """Pad a tensor: interior padding (with a new axis after each padded one), then edges, then negative edges as a
    slice."""
    shape = list(shape)
    for axis, between in enumerate(interior):
        if between and shape[axis] > 1:
            x = w.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            edges = [0] * (2 * len(shape) + 2)
            edges[len(shape) + 1 + axis + 1] = between
            x = w.op("Pad", x, w.ints(edges), value)
            wide = shape[axis] * (between + 1)
            x = w.reshape(x, [*shape[:axis], wide, *shape[axis + 1 :]])
            shape[axis] = wide - between
            x = w.slice(x, [0] * len(shape), shape)
    if any(n > 0 for n in (*low, *high)):
        x = w.op("Pad", x, w.ints([max(n, 0) for n in (*low, *high)]), value)
        shape = [n + max(a, 0) + max(b, 0) for n, a, b in zip(shape, low, high, strict=True)]
    if any(n < 0 for n in (*low, *high)):
        x = w.slice(x, [max(-n, 0) for n in low], [n + min(b, 0) for n, b in zip(shape, high, strict=True)])
    return x


def _dot(w: Writer, node: Node, op: Dot) -> str:
    """One MatMul of (batch, rows, depth) and (batch, depth, columns), reshaped to the result's shape."""
    lhs, rhs = (v.type.shape for v in node.inputs)
    left_free = [i for i in range(len(lhs)) if i not in (*op.lhs_batch, *op.lhs_contract)]
    right_free = [i for i in range(len(rhs)) if i not in (*op.rhs_batch, *op.rhs_contract)]
    batch, depth = prod(lhs[i] for i in op.lhs_batch), prod(lhs[i] for i in op.lhs_contract)
    rows, columns = prod(lhs[i] for i in left_free), prod(rhs[i] for i in right_free)
    x = w.transpose(w.input(node.inputs[0]), [*op.lhs_batch, *left_free, *op.lhs_contract])
    y = w.transpose(w.input(node.inputs[1]), [*op.rhs_batch, *op.rhs_contract, *right_free])
    product = w.op("MatMul", w.reshape(x, [batch, rows, depth]), w.reshape(y, [batch, depth, columns]))
    return w.reshape(product, node.outputs[0].type.shape)


def _conv(w: Writer, node: Node, op: Conv) -> str:
    if op.batch_groups != 1:
        raise unsupported(node, "it has batch groups")
    x, weight = map(w.input, node.inputs)
    shape, rank = node.inputs[0].type.shape, len(op.strides)
    zero = w.scalar(0, node.inputs[0].type.dtype)
    low, high = ([0, 0, *(p[i] for p in op.padding)] for i in (0, 1))
    if any(n < 0 for n in (*low, *high)) or any(n != 1 for n in op.lhs_dilation):
        x = _padded(w, x, shape, zero, low, high, [0, 0, *(n - 1 for n in op.lhs_dilation)])
        low = high = [0] * (rank + 2)
    return w.op(
        "Conv",
        x,
        weight,
        hint=node.name,
        strides=list(op.strides),
        dilations=list(op.rhs_dilation),
        pads=[*low[2:], *high[2:]],
        group=op.groups,
    )


def _reduce(w: Writer, node: Node, op: Reduce) -> str:
    x = w.input(node.inputs[0])
    if not op.axes:
        return x
    if op.op in (ReduceOp.AND, ReduceOp.OR):
        if node.inputs[0].type.dtype is not DType.BOOL:
            raise unsupported(node, "it is a bitwise reduction")
        op_type = "ReduceMin" if op.op is ReduceOp.AND else "ReduceMax"
        return w.cast(w.op(op_type, w.cast(x, DType.I32), w.ints(op.axes), keepdims=0), DType.BOOL)
    return w.op(_REDUCTIONS[op.op], x, w.ints(op.axes), keepdims=0, hint=node.name)


def _arg_reduce(w: Writer, node: Node, op: ArgReduce) -> str:
    op_type = "ArgMax" if op.kind == "max" else "ArgMin"
    return w.op(op_type, w.input(node.inputs[0]), axis=op.axis, keepdims=0)


def _cumulative(w: Writer, node: Node, op: Cumulative) -> str:
    if op.op is not ReduceOp.ADD:
        raise unsupported(node, f"ONNX has no cumulative {op.op.value}")
    axis = w.constant(op.axis, np.int64)
    return w.op("CumSum", w.input(node.inputs[0]), axis, reverse=int(op.reverse))


def _reduce_window(w: Writer, node: Node, op: ReduceWindow) -> str:
    """A pooling on a tensor (1, others, windowed axes...)."""
    type = node.inputs[0].type
    per_axis = list(zip(op.window, op.strides, op.padding, op.dilation, strict=True))
    windowed = [i for i, entry in enumerate(per_axis) if entry != (1, 1, (0, 0), 1)]
    if not windowed:
        return w.input(node.inputs[0])
    others = [i for i in range(type.rank) if i not in windowed]
    order = [*others, *windowed]
    low, high = ([op.padding[i][side] for i in windowed] for side in (0, 1))
    x = w.transpose(w.input(node.inputs[0]), order)
    shape = [1, prod(type.shape[i] for i in others), *(type.shape[i] for i in windowed)]
    x = w.reshape(x, shape)
    neutral = w.constant(op.op.neutral(type.dtype), type.dtype.numpy)
    x = _padded(w, x, shape, neutral, [0, 0, *low], [0, 0, *high], [0] * len(shape))
    x = _pool(w, node, op, x, windowed)
    result = node.outputs[0].type.shape
    x = w.reshape(x, [result[i] for i in order])
    return w.transpose(x, [order.index(i) for i in range(type.rank)])


def _pool(w: Writer, node: Node, op: ReduceWindow, x: str, windowed: list[int]) -> str:
    window, strides, dilations = ([e[i] for i in windowed] for e in (op.window, op.strides, op.dilation))
    if op.op is ReduceOp.ADD and dilations == [1] * len(dilations):
        mean = w.op("AveragePool", x, kernel_shape=window, strides=strides)
        return w.op("Mul", mean, w.scalar(prod(window), node.inputs[0].type.dtype))
    if op.op is ReduceOp.ADD:
        channels = prod(n for i, n in enumerate(node.inputs[0].type.shape) if i not in windowed)
        ones = w.constant(np.ones((channels, 1, *window), node.inputs[0].type.dtype.numpy))
        return w.op("Conv", x, ones, strides=strides, dilations=dilations, group=channels)
    if op.op is ReduceOp.MAX:
        return w.op("MaxPool", x, kernel_shape=window, strides=strides, dilations=dilations)
    if op.op is ReduceOp.MIN:
        negated = w.op("MaxPool", w.op("Neg", x), kernel_shape=window, strides=strides, dilations=dilations)
        return w.op("Neg", negated)
    raise unsupported(node, f"ONNX has no window reduction for {op.op.value}")


def _call(w: Writer, node: Node, op: Call) -> list[str]:
    return write_inline(w, op.body, [w.input(v) for v in node.inputs])


def write_inline(w: Writer, graph: Graph, operands: list[str]) -> list[str]:
    """Write the nodes of a graph to `w`. Returns the names of its results."""
    w.names.update(zip(graph.inputs, operands, strict=True))
    for node in graph.nodes:
        write_node(w, node)
    return [w.input(v) for v in graph.outputs]


def _branch(w: Writer, graph: Graph, operands: list[str]) -> Any:
    """A branch as a nested graph without inputs. It reads its operands from the enclosing graph."""
    inner = Writer(w)
    names = _new_names(inner, write_inline(inner, graph, operands))
    infos = [inner.value_info(n, v.type) for n, v in zip(names, graph.outputs, strict=True)]
    return inner.graph("branch", [], infos)


def _new_names(w: Writer, names: list[str]) -> list[str]:
    """The results under new names: a nested graph can return neither its inputs nor a tensor twice."""
    return [w.op("Identity", name) for name in names]


def _cond(w: Writer, node: Node, op: Cond) -> list[str]:
    predicate, *operands = map(w.input, node.inputs)
    branches = {"then_branch": _branch(w, op.then, operands), "else_branch": _branch(w, op.otherwise, operands)}
    return w.ops("If", [predicate], len(node.outputs), node.name, **branches)


def _while(w: Writer, node: Node, op: While) -> list[str]:
    """A Loop. ONNX evaluates the condition at the end of a step, so the first condition is computed before the loop."""
    states = [w.input(v) for v in node.inputs]
    [first] = write_inline(w, op.cond, states)
    counter, proceed = w.fresh("step"), w.fresh("proceed")
    extra = [w.value_info(counter, TensorType((), DType.I64)), w.value_info(proceed, TensorType((), DType.BOOL))]
    inner, inputs = w.body(op.body, extra)
    results = write_inline(inner, op.body, [inner.names[v] for v in op.body.inputs])
    [again] = write_inline(inner, op.cond, results)
    names = _new_names(inner, [again, *results])
    types = [TensorType((), DType.BOOL), *(v.type for v in node.outputs)]
    outputs = [inner.value_info(n, t) for n, t in zip(names, types, strict=True)]
    return w.ops("Loop", ["", first, *states], len(states), node.name, body=inner.graph("body", inputs, outputs))


def _scan(w: Writer, node: Node, op: Scan) -> list[str]:
    """A Scan. ONNX requires a scanned operand, which is zeros if there is none. The body reads invariant operands from
    the enclosing graph."""
    operands, last = [w.input(v) for v in node.inputs], op.carries + op.scanned
    inputs_of_scan = operands[:last] if op.scanned else [*operands[:last], _zeros(w, op.length)]
    inner = Writer(w)
    own = [inner.fresh(v.name or "operand") for v in op.body.inputs[:last]]
    inputs = [inner.value_info(n, v.type) for n, v in zip(own, op.body.inputs, strict=False)]
    if not op.scanned:
        inputs.append(inner.value_info(inner.fresh("zero"), TensorType((), DType.I64)))
    names = _new_names(inner, write_inline(inner, op.body, [*own, *operands[last:]]))
    outputs = [inner.value_info(n, v.type) for n, v in zip(names, op.body.outputs, strict=True)]
    body = inner.graph("step", inputs, outputs)
    scanned, stacked = max(op.scanned, 1), len(node.outputs) - op.carries
    order = {"scan_input_directions": [1] * scanned, "scan_output_directions": [1] * stacked} if op.reverse else {}
    return w.ops("Scan", inputs_of_scan, len(node.outputs), node.name, body=body, num_scan_inputs=scanned, **order)


def _zeros(w: Writer, length: int) -> str:
    return w.op("Expand", w.constant(0, np.int64), w.size(length))


Rule = Callable[[Writer, Node, Any], "str | list[str]"]

RULES: dict[type, Rule] = {
    Constant: _constant,
    Size: _size,
    Iota: _iota,
    Pointwise: _pointwise,
    Cast: _cast,
    Broadcast: _broadcast,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reverse: _reverse,
    Concat: _concat,
    Pad: _pad,
    Dot: _dot,
    Conv: _conv,
    Reduce: _reduce,
    ArgReduce: _arg_reduce,
    Cumulative: _cumulative,
    ArgSort: argsort,
    Sort: sort,
    Gather: gather,
    Scatter: scatter,
    ReduceWindow: _reduce_window,
    Call: _call,
    Cond: _cond,
    While: _while,
    Scan: _scan,
}
"""The rule of each primitive. Random bits, callbacks, factorizations and gradients have no ONNX equivalent."""


def write_node(w: Writer, node: Node) -> None:
    """Write a node of core and name its results. Raises MXNetError if ONNX cannot express it."""
    rule = RULES.get(type(node.op))
    if rule is None:
        raise unsupported(node, f"ONNX has no equivalent of {node.op.name}")
    results = rule(w, node, node.op)
    w.names.update(zip(node.outputs, [results] if isinstance(results, str) else results, strict=True))
