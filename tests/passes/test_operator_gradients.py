"""Every declared operator through all stages of training, its gradient against MXNet's records and central differences.

A call becomes a graph of mx, which is lowered to core, differentiated and divided; both parts run on the reference
target, and some on this machine's processor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import Golden, Gradient, gradient_goldens, operator_goldens, swept_gradients
from grouped import grouped
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.dialects.core.split import Split
from mxforge.ir.dialects.core.vanishing import contains_own_cotangents
from mxforge.ir.dialects.mx.operator import Operator, all_operators, lookup
from mxforge.ir.types import DType, TensorType
from mxforge.passes.training import lowered_for_gradients, training_graphs
from recorded_gradients import (
    CONTEXT,
    DIFFERENT,
    Array,
    Arrays,
    Call,
    backward,
    called,
    differences,
    is_compared,
    is_different,
    keys_of,
    on_cpu,
    on_reference,
    seeded,
)

# -- MXNet's records


@pytest.mark.sampled(3)
@grouped("gradient", [g for g in gradient_goldens() if not is_different(g)], by=lambda gradient: gradient.op)
def test_gradients_agree_with_mxnet(gradient: Gradient) -> None:
    assert differences([gradient]) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", swept_gradients())
def test_gradients_agree_with_mxnet_for_all_parameters(op: str) -> None:
    found = [differences([g]) for g in swept_gradients()[op] if is_compared(g)]
    assert [problem for problems in found for problem in problems] == []


NOT_RECORDED: tuple[tuple[str, str], ...] = (
    (
        r".*_update(_phase\d)?|multi_(lars|sum_sq)|(multi_)?all_finite|reset_arrays",
        "MXNet has none: updates of weights",
    ),
    (r"_slice_assign(_scalar)?|_scatter_set_nd|_set_value|_onehot_encode|_copyto", "MXNet has none: assignments"),
    (r"_contrib_backward_\w+|_grad_add|_histogram|_shuffle|argmax_channel|batch_take", "MXNet has none"),
    (r"fill_element_0index|khatri_rao|_contrib_(RROIAlign|allclose)", "MXNet has none"),
    (r"_image_(resize|to_tensor)", "MXNet's fails"),
    (r"_contrib_(ModulatedDeformableConvolution|count_sketch|i?fft)", "MXNet has it on GPUs alone"),
    (r"_random_\w+|_sample_unique_zipfian|_(arange|eye|full|linspace|ones|zeros\w*)", "no operands"),
    (r"_contrib_(SparseEmbedding|group_adagrad_update)|_square_sum|_sparse_retain", "results or operands are sparse"),
    (r"_foreach|_while_loop|_cond|Custom|_contrib_boolean_mask", "tested elsewhere, as programs"),
)


def test_every_gradient_of_mxnet_is_recorded() -> None:
    recorded = {lookup(op).mx_name() for op in [*swept_gradients(), *(g.op for g in gradient_goldens())]}
    missing = {op.mx_name() for op in all_operators()} - recorded
    assert [name for name in sorted(missing) if not any(re.fullmatch(p, name) for p, _ in NOT_RECORDED)] == []
    assert [p for p, _ in NOT_RECORDED if not any(re.fullmatch(p, name) for name in missing)] == []


@pytest.mark.parametrize("pattern", [p for p, _ in DIFFERENT[:-1]])
def test_each_difference_is_still_there(pattern: str) -> None:
    recorded = chain(gradient_goldens(), *swept_gradients().values())
    assert any(differences([g]) for g in recorded if re.match(pattern, str(g)))


# -- every declared operator

NOT_CALLED = {
    **dict.fromkeys(("_foreach", "_cond", "_while_loop"), "their networks are attributes: tested below"),
    **dict.fromkeys(("_contrib_boolean_mask", "_set_value"), "not in graphs"),
    **dict.fromkeys((f"_contrib_backward_{name}" for name in ("hawkesll", "index_copy", "quadratic")), "never called"),
    "Custom": "Python functions",
}
"""Operators without a sample, with the reason."""


def uniform(*shape: int, low: float = 0.25) -> Array:
    return np.random.default_rng(0).uniform(low, 1, shape)


def whole(*values: int) -> Array:
    return np.array(values, np.int32)


MORE: dict[str, tuple[dict[str, Any], Arrays]] = {
    **{f"_random_{kind}": ({"shape": (2, 3)}, []) for kind in ("uniform", "normal", "exponential", "gamma", "poisson")},
    "_random_negative_binomial": ({"shape": (2, 3), "k": 2, "p": 0.5}, []),
    "_random_generalized_negative_binomial": ({"shape": (2, 3)}, []),
    "_random_randint": ({"low": 0, "high": 9, "shape": (2, 3)}, []),
    "_sample_unique_zipfian": ({"range_max": 9, "shape": (2, 3)}, []),
    "_zeros_without_dtype": ({"shape": (2, 3)}, []),
    "_shuffle": ({}, [uniform(4, 3)]),
    "_copyto": ({}, [uniform(2, 3)]),
    "_onehot_encode": ({}, [whole(0, 2), uniform(2, 3)]),
    "_scatter_set_nd": ({"shape": (4,)}, [uniform(4), uniform(2), whole(1, 3)[None]]),
    "_square_sum": ({"axis": 1}, [uniform(3, 4)]),
    "_sparse_retain": ({}, [uniform(4, 3), whole(0, 2)]),
    "_sparse_adagrad_update": ({"lr": 0.1}, [uniform(3), uniform(3), uniform(3)]),
    "_contrib_group_adagrad_update": ({"lr": 0.1}, [uniform(3, 2), uniform(3, 2), uniform(3, 1)]),
    "_contrib_allclose": ({}, [uniform(3), uniform(3)]),
    "_contrib_fft": ({}, [uniform(2, 4)]),
    "_contrib_ifft": ({}, [uniform(2, 8)]),
    "_contrib_count_sketch": ({"out_dim": 3}, [uniform(2, 4), np.array([0.0, 1, 2, 0]), np.array([1.0, -1, 1, -1])]),
    "reset_arrays": ({"num_arrays": 2}, [uniform(3), uniform(2)]),
}
"""Samples of operators without a recorded call."""

NOT_THE_DERIVATIVE = {
    *(
        "BlockGrad",
        "IdentityAttachKLSparseReg",
        "LinearRegressionOutput",
        "LogisticRegressionOutput",
        "MAERegressionOutput",
    ),
    *("MakeLoss", "SVMOutput", "SoftmaxOutput", "make_loss", "_contrib_gradientmultiplier", "_contrib_hawkesll"),
    *("_contrib_round_ste", "_contrib_sign_ste", "_linalg_potrf", "_linalg_syevd", "_ravel_multi_index", "_shuffle"),
    *("_image_flip_left_right", "_image_flip_top_bottom", "_image_adjust_lighting"),
    *(name.mx_name() for name in all_operators() if name.mx_name().startswith(("_image_random", "_sample_"))),
    *(f"_contrib_{name}" for name in ("MultiBoxDetection", "MultiBoxTarget", "MultiProposal", "Proposal")),
    *(f"_contrib_{name}" for name in ("box_decode", "box_encode", "box_iou")),
}
"""Operators that draw random numbers, or whose gradient differs from the derivative and is in MXNet's records."""


@cache
def samples() -> dict[str, tuple[Operator, Arrays]]:
    """A recorded call for each operator, with floats if there is one."""
    recorded: list[Golden | Gradient] = [*operator_goldens(), *gradient_goldens()]
    floating = sorted(recorded, key=lambda g: not any(x.dtype.kind == "f" for x in g.inputs))
    found = {name: (lookup(name).parse(attributes), arrays) for name, (attributes, arrays) in MORE.items()}
    for golden in floating:
        op = lookup(golden.op).parse(golden.attributes)
        found.setdefault(op.mx_name(), (op, golden.inputs))
    return found


NAMES = sorted(op.mx_name() for op in all_operators() if op.mx_name() not in NOT_CALLED)


def test_every_operator_has_a_sample() -> None:
    assert set(samples()) == set(NAMES)
    assert set(NOT_CALLED) <= {op.mx_name() for op in all_operators()}


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_goes_through_all_stages(name: str) -> None:
    """Its gradient is the derivative, measured in float64 at a point near the sample."""
    op, arrays = samples()[name]
    call = called((op, [x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays]))
    parts = training_graphs(call.graph, call.wrt, CONTEXT)
    rng = np.random.default_rng(0)
    cotangents = [rng.standard_normal(v.type.shape) for v in seeded(call)]
    gradients = backward(call, parts, cotangents)[1]
    assert [g.shape for g in gradients] == [call.arrays[i].shape for i in call.wrt]
    moved = [i for i, g in zip(call.wrt, gradients, strict=True) if np.any(g)]
    narrow = any(v.type.dtype is not DType.F64 for v in seeded(call))
    if moved and not narrow and name not in NOT_THE_DERIVATIVE:
        check_derivative(beside(call, moved, rng), parts, cotangents, moved, rng)


LOSSES = {
    *("IdentityAttachKLSparseReg", "MakeLoss", "SVMOutput", "SoftmaxOutput", "make_loss"),
    *(f"{kind}RegressionOutput" for kind in ("Linear", "Logistic", "MAE")),
}


@pytest.mark.parametrize("name", NAMES)
def test_only_losses_have_gradients_that_no_cotangent_causes(name: str) -> None:
    call = called(samples()[name])
    graph = lowered_for_gradients(call.graph, call.wrt, CONTEXT)
    assert contains_own_cotangents(graph) == (name in LOSSES)


def beside(call: Call, moved: Sequence[int], rng: np.random.Generator) -> Call:
    """The call, moved slightly away from ties and bounds."""
    arrays = list(call.arrays)
    for i in moved:
        arrays[i] = arrays[i] + rng.uniform(1e-4, 1e-3, arrays[i].shape)
    return replace(call, arrays=tuple(arrays))


def check_derivative(
    call: Call, parts: Split, cotangents: Arrays, moved: Sequence[int], rng: np.random.Generator, h: float = 1e-6
) -> None:
    gradients = dict(zip(call.wrt, backward(call, parts, cotangents)[1], strict=True))
    for i in moved:
        direction = rng.standard_normal(call.arrays[i].shape)
        above, below = (loss(call, parts, cotangents, i, step * direction) for step in (h, -h))
        slope = (above - below) / (2 * h)
        np.testing.assert_allclose(np.sum(gradients[i] * direction), slope, 1e-4, 1e-6, err_msg=f"input {i}")


def loss(call: Call, parts: Split, cotangents: Arrays, i: int, step: Array) -> float:
    """The results times their cotangents, after input i moved by `step`."""
    arrays = [x + step if k == i else x for k, x in enumerate(call.arrays)]
    results = on_reference(parts.forward, [*arrays, *keys_of(parts.forward, arrays)])
    floats = [r for r, v in zip(results, call.graph.outputs, strict=False) if v.type.dtype.is_float]
    return sum(float(np.sum(r * c)) for r, c in zip(floats, cotangents, strict=True))


ON_CPU = (
    *("BatchNorm", "BlockGrad", "CTCLoss", "Convolution", "Deconvolution", "Dropout", "Embedding", "LayerNorm", "LRN"),
    *("Pooling", "RNN", "ROIPooling", "SVMOutput", "SoftmaxOutput", "UpSampling", "_contrib_ROIAlign", "_linalg_det"),
    *("_linalg_potrf", "broadcast_power", "gather_nd", "max", "softmax", "sort", "topk"),
)


@pytest.mark.parametrize("name", ON_CPU)
def test_some_operators_on_this_processor(name: str) -> None:
    op, arrays = samples()[name]
    call = called((op, arrays))
    parts = training_graphs(call.graph, call.wrt, CONTEXT)
    rng = np.random.default_rng(0)
    cotangents = [rng.standard_normal(v.type.shape) for v in seeded(call)]
    pairs = zip(*(backward(call, parts, cotangents, run)[1] for run in (on_cpu, on_reference)), strict=True)
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, 2e-4, 2e-5, equal_nan=True)


# -- operators with networks as attributes


def loops() -> dict[str, Any]:
    """A symbol of `x` (4, 3), `s` (3,) and `w` (3, 3) for each operator with networks."""
    sym: Any = mx.sym
    contrib = sym.contrib
    x, s, w = (sym.var(name) for name in "xsw")

    def step(row: Any, state: Any) -> Any:
        new = sym.tanh(sym.dot(w, state) * row)
        return sym.SoftmaxActivation(sym.BlockGrad(state) * new), new

    def more(count: Any, state: Any) -> Any:
        return count < 3

    def turn(count: Any, state: Any) -> Any:
        new = sym.sin(sym.dot(w, state))
        return new, (count + 1, new)

    def either() -> Any:
        return sym.sum(sym.broadcast_mul(x, sym.reshape(s, shape=(1, 3))), axis=1)

    started = sym.zeros((1,))
    chosen = contrib.cond(sym.sum(s) > 0, lambda: sym.tanh(sym.dot(x, s)), either)

    def stepped(count: Any, state: Any) -> Any:
        return [], (count + 1, sym.tanh(sym.dot(w, state)))

    _, (_, last) = contrib.while_loop(more, stepped, (started, s), max_iterations=5)
    return {
        "_foreach": sym.Group(list(contrib.foreach(step, x, s))),
        "_while_loop": sym.Group([*contrib.while_loop(more, turn, (started, s), max_iterations=5)[0], sym.sum(x)]),
        "_while_loop without outputs": sym.broadcast_add(last, sym.sum(x)),
        "_cond": sym.broadcast_mul(chosen, sym.sum(w)),
    }


@pytest.mark.parametrize("case", ["_foreach", "_while_loop", "_while_loop without outputs", "_cond"])
def test_operators_with_networks_inside(case: str) -> None:
    shapes = {"x": (4, 3), "s": (3,), "w": (3, 3)}
    symbol, name = loops()[case], case.partition(" ")[0]
    graph = symbol_to_graph(symbol, {n: TensorType(s, DType.F64) for n, s in shapes.items()})
    assert any(node.op.name == f"mx.{name}" for node in graph.nodes)
    rng = np.random.default_rng(0)
    arrays = tuple(rng.uniform(0.2, 0.9, v.type.shape) for v in graph.inputs)
    node = next(node for node in graph.nodes if node.op.name == f"mx.{name}")
    assert isinstance(node.op, Operator)
    call = Call(graph, tuple(range(len(arrays))), arrays)
    parts = training_graphs(graph, call.wrt, CONTEXT)
    cotangents = [rng.standard_normal(v.type.shape) for v in seeded(call)]
    gradients = backward(call, parts, cotangents)[1]
    for found, wanted in zip(backward(call, parts, cotangents, on_cpu)[1], gradients, strict=True):
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-9)
    if name != "_foreach":  # in which a gradient is stopped
        check_derivative(call, parts, cotangents, call.wrt, rng)
