"""Direct translation of MXNet's operators to equivalent ONNX operators.

A rule returns the names of the results, or None if ONNX's operator does not support the parameters. An operator without
a rule, or whose rule returns None, is lowered to core primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Node
from ...ir.symbolic import is_symbolic
from ...ir.types import DType
from .writer import Writer, onnx_type

Rule = Callable[[Writer, Node, Any], "str | list[str] | None"]
RULES: dict[str, Rule] = {}
"""By the operator's canonical name in MXNet."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators with these names."""

    def register(function: Rule) -> Rule:
        RULES.update((name, function) for name in names)
        return function

    return register


def _inputs(w: Writer, node: Node) -> list[str]:
    return [w.input(v) for v in node.inputs]


def _is_float(node: Node) -> bool:
    return node.inputs[0].type.dtype in (DType.F16, DType.F32, DType.F64)


def _channels_last(op: Any) -> bool:
    return bool(op.layout) and op.layout.endswith("C")


@rule("Convolution", "Convolution_v1")
def _convolution(w: Writer, node: Node, op: Any) -> str | None:
    if _channels_last(op):
        return None
    return w.op(
        "Conv",
        *_inputs(w, node),
        hint=node.name,
        kernel_shape=list(op.kernel),
        strides=list(op.strides),
        dilations=list(op.dilation),
        pads=[*op.padding, *op.padding],
        group=op.num_group,
    )


@rule("Deconvolution")
def _deconvolution(w: Writer, node: Node, op: Any) -> str | None:
    if _channels_last(op) or any(op.target_shape):
        return None
    return w.op(
        "ConvTranspose",
        *_inputs(w, node),
        hint=node.name,
        kernel_shape=list(op.kernel),
        strides=list(op.strides),
        dilations=list(op.dilation),
        pads=[*op.padding, *op.padding],
        output_padding=list(op.adj or (0,) * len(op.kernel)),
        group=op.num_group,
    )


@rule("FullyConnected")
def _fully_connected(w: Writer, node: Node, op: Any) -> str | None:
    """Gemm if the data is a matrix or flattened to one, else MatMul with the transposed weight."""
    x, weight, *bias = _inputs(w, node)
    shape = node.inputs[0].type.shape
    if op.flatten and len(shape) != 2:
        x = w.op("Flatten", x, axis=1)
    if op.flatten or len(shape) == 2:
        return w.op("Gemm", x, weight, *bias, hint=node.name, transB=1)
    product = w.op("MatMul", x, w.op("Transpose", weight, perm=[1, 0]), hint=node.name)
    return w.op("Add", product, bias[0]) if bias else product


@rule("BatchNorm", "_contrib_SyncBatchNorm", "BatchNorm_v1")
def _batch_norm(w: Writer, node: Node, op: Any) -> list[str] | None:
    """With `fix_gamma`, the stored scales are ignored: gamma is 1."""
    if getattr(op, "axis", 1) != 1 or node.inputs[0].type.rank < 2 or op.output_mean_var:
        return None
    x, gamma, beta, mean, var = _inputs(w, node)
    if op.fix_gamma:
        type = node.inputs[1].type
        gamma = w.constant(np.ones(type.shape, type.dtype.numpy))
    result = w.op("BatchNormalization", x, gamma, beta, mean, var, hint=node.name, epsilon=float(op.eps))
    return [result, mean, var]


_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}


@rule("Activation")
def _activation(w: Writer, node: Node, op: Any) -> str | None:
    return w.op(_ACTIVATIONS[op.act_type], *_inputs(w, node), hint=node.name) if _is_float(node) else None


@rule("relu", "sigmoid", "tanh", "softsign")
def _activation_by_name(w: Writer, node: Node, op: Any) -> str | None:
    return w.op(_ACTIVATIONS[op.mx_name()], *_inputs(w, node), hint=node.name) if _is_float(node) else None


@rule("LeakyReLU")
def _leaky_relu(w: Writer, node: Node, op: Any) -> str | None:
    if op.act_type == "leaky":
        return w.op("LeakyRelu", *_inputs(w, node), hint=node.name, alpha=float(op.slope))
    if op.act_type == "elu":
        return w.op("Elu", *_inputs(w, node), hint=node.name, alpha=float(op.slope))
    if op.act_type == "prelu" and node.inputs[1].type.rank == 1:
        x, slope = _inputs(w, node)
        after = max(node.inputs[0].type.rank - 2, 0) if node.inputs[1].type.shape != (1,) else 0
        return w.op("PRelu", x, w.reshape(slope, [*node.inputs[1].type.shape, *[1] * after]), hint=node.name)
    return None


@rule("Pooling")
def _pooling(w: Writer, node: Node, op: Any) -> str | None:
    if op.pool_type not in ("max", "avg") or _channels_last(op) or not _is_float(node):
        return None
    op_type = "MaxPool" if op.pool_type == "max" else "AveragePool"
    if op.global_pool:
        return w.op(f"Global{op_type}", *_inputs(w, node), hint=node.name)
    if op.pooling_convention != "valid" and op.pool_type == "avg":
        return None  # ONNX counts elements of windows beyond the padding differently
    rank = len(op.kernel)
    pad, strides = list(op.pad or (0,) * rank), list(op.stride or (1,) * rank)
    ends = pad if op.pooling_convention == "valid" else _end_padding(node, op.kernel, strides, pad)
    if ends is None:
        return None
    attributes: dict[str, Any] = {"strides": strides, "pads": pad + ends}
    if op_type == "AveragePool":
        attributes["count_include_pad"] = int(op.count_include_pad is not False)
    return w.op(op_type, *_inputs(w, node), hint=node.name, kernel_shape=list(op.kernel), **attributes)


def _end_padding(node: Node, kernel: Sequence[int], strides: Sequence[int], pad: Sequence[int]) -> list[int] | None:
    """What follows each axis for the last window to end in it. None if an extent is unknown, or if a window would have
    padding alone, which ONNX forbids."""
    before, after = (v.type.shape[2:] for v in (node.inputs[0], node.outputs[0]))
    if any(map(is_symbolic, (*before, *after))):
        return None
    sizes = zip(before, after, kernel, strides, pad, strict=True)
    ends = [max(0, (out - 1) * stride + taps - n - low) for n, out, taps, stride, low in sizes]
    return ends if all(end < taps for end, taps in zip(ends, kernel, strict=True)) else None


@rule("softmax", "log_softmax", "SoftmaxActivation", "SoftmaxOutput")
def _softmax(w: Writer, node: Node, op: Any) -> str | None:
    op_type = "LogSoftmax" if op.mx_name() == "log_softmax" else "Softmax"
    same = getattr(op, "dtype", None) is None and getattr(op, "temperature", None) in (None, 1)
    if not _is_float(node) or not same or getattr(op, "use_length", False):
        return None
    axis = getattr(op, "axis", None)
    if axis is None:  # SoftmaxActivation, SoftmaxOutput: over all axes except the first, or over the channels
        by_channel = getattr(op, "multi_output", False) or getattr(op, "mode", "") == "channel"
        axis = 1 if by_channel else -1
        if node.inputs[0].type.rank != 2 and not by_channel and not getattr(op, "preserve_shape", False):
            return None
    return w.op(op_type, w.input(node.inputs[0]), hint=node.name, axis=axis)


@rule("Dropout", "_copy", "BlockGrad", "make_loss", "MakeLoss", "_identity_with_attr_like_rhs")
def _identity(w: Writer, node: Node, op: Any) -> str | None:
    if getattr(op, "mode", "training") == "always":
        return None
    return w.op("Identity", w.input(node.inputs[0]), hint=node.name)


@rule("Flatten")
def _flatten(w: Writer, node: Node, op: Any) -> str:
    return w.op("Flatten", *_inputs(w, node), hint=node.name, axis=1)


@rule("Concat")
def _concat(w: Writer, node: Node, op: Any) -> str:
    return w.op("Concat", *_inputs(w, node), hint=node.name, axis=op.dim)


@rule("Embedding")
def _embedding(w: Writer, node: Node, op: Any) -> str:
    """Gather of rows. MXNet's indices can be floats, and indices out of bounds are clamped."""
    indices = w.cast(w.input(node.inputs[0]), DType.I64)
    last = node.inputs[1].type.shape[0] - 1
    indices = w.op("Min", w.op("Max", indices, w.constant(0, np.int64)), w.constant(last, np.int64))
    return w.op("Gather", w.input(node.inputs[1]), indices, hint=node.name, axis=0)


@rule("LayerNorm")
def _layer_norm(w: Writer, node: Node, op: Any) -> str | None:
    if op.output_mean_var or op.axis not in (-1, node.inputs[0].type.rank - 1):
        return None
    return w.op("LayerNormalization", *_inputs(w, node), hint=node.name, axis=-1, epsilon=float(op.eps))


@rule("LRN")
def _lrn(w: Writer, node: Node, op: Any) -> str:
    numbers = {"alpha": float(op.alpha), "beta": float(op.beta), "bias": float(op.knorm), "size": int(op.nsize)}
    return w.op("LRN", *_inputs(w, node), hint=node.name, **numbers)


@rule("Cast")
def _cast(w: Writer, node: Node, op: Any) -> str:
    return w.op("Cast", *_inputs(w, node), hint=node.name, to=onnx_type(node.outputs[0].type.dtype))


@rule("add_n")
def _sum(w: Writer, node: Node, op: Any) -> str | None:
    return w.op("Sum", *_inputs(w, node), hint=node.name) if _is_float(node) else None


_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}


@rule(*(f"{family}_{name}" for family in ("elemwise", "broadcast") for name in _ARITHMETIC))
def _arithmetic(w: Writer, node: Node, op: Any) -> str | None:
    same = node.inputs[0].type.dtype is node.inputs[1].type.dtype
    op_type = _ARITHMETIC[op.mx_name().rpartition("_")[2]]
    return w.op(op_type, *_inputs(w, node), hint=node.name) if same and _is_float(node) else None


@rule("clip")
def _clip(w: Writer, node: Node, op: Any) -> str | None:
    if not _is_float(node):
        return None
    dtype = node.inputs[0].type.dtype
    bounds = [w.scalar(op.a_min, dtype), w.scalar(op.a_max, dtype)]
    return w.op("Clip", *_inputs(w, node), *bounds, hint=node.name)


@rule("UpSampling")
def _up_sampling(w: Writer, node: Node, op: Any) -> str | None:
    if op.sample_type != "nearest" or len(node.inputs) != 1:
        return None
    scales = w.constant([1, 1, op.scale, op.scale], np.float32)
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.op("Resize", *_inputs(w, node), "", scales, hint=node.name, **modes)
