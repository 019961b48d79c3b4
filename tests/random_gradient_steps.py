"""The steps of random programs with gradients: those of random programs, products of any rank, layers and losses."""

from __future__ import annotations

import math
from typing import Any

from random_program_maker import Draw, Drawn, Maker, Value
from random_program_steps import EXACT, ROUNDED, binary, unary

GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


def floats(m: Maker, low: int, high: int) -> Value:
    """A value of floats with `low` to `high` axes."""
    return m.pick(lambda v: low <= v.rank <= high and v.is_float)


def vector(m: Maker, x: Value, extent: int) -> Value:
    return m.pick(lambda v: v.shape == (extent,) and v.dtype == x.dtype)


def any_dot(m: Maker) -> Drawn:
    """A product of operands of 1 to 3 axes."""
    x = floats(m, 1, 3)
    a, b = m.chance(0.25), m.chance(0.25)
    inner = x.shape[0 if a else -1]
    y = m.pick(lambda v: 1 <= v.rank <= 3 and v.dtype == x.dtype and v.shape[-1 if b else 0] == inner)
    return "dot", [x.number, y.number], {"transpose_a": a, "transpose_b": b}


def deep_dot(m: Maker) -> Drawn:
    """A product with an operand of 3 axes."""
    x = floats(m, 3, 3)
    a, b, left = m.chance(0.2), m.chance(0.3), m.chance(0.5)
    if left:
        y = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[-1 if b else 0] == x.shape[0 if a else -1])
        return "dot", [x.number, y.number], {"transpose_a": a, "transpose_b": b}
    y = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[0 if a else -1] == x.shape[-1 if b else 0])
    return "dot", [y.number, x.number], {"transpose_a": a, "transpose_b": b}


def sum_of_axes(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1)
    axes = tuple(i for i in range(x.rank) if m.chance(0.6)) or (0,)
    return m.one(["sum", "mean"]), [x.number], {"axis": axes, "keepdims": m.chance(0.3)}


def any_batch_dot(m: Maker) -> Drawn:
    x = floats(m, 3, 3)
    a, b = m.chance(0.5), m.chance(0.5)
    y = m.pick(
        lambda v: (
            v.rank == 3
            and v.dtype == x.dtype
            and v.shape[0] == x.shape[0]
            and v.shape[2 if b else 1] == x.shape[1 if a else 2]
        )
    )
    return "batch_dot", [x.number, y.number], {"transpose_a": a, "transpose_b": b}


def gemm(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1 and v.dtype in ("float32", "float64"))
    a, b = m.chance(0.5), m.chance(0.5)
    inner = x.shape[-2 if a else -1]
    y = m.pick(
        lambda v: (
            v.dtype == x.dtype
            and v.shape[:-2] == x.shape[:-2]
            and v.rank == x.rank
            and v.shape[-1 if b else -2] == inner
        )
    )
    return "linalg.gemm2", [x.number, y.number], {"transpose_a": a, "transpose_b": b, "alpha": 0.5}


def syrk(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1 and v.dtype in ("float32", "float64") and max(v.shape[-2:]) <= 40)
    return "linalg.syrk", [x.number], {"transpose": m.chance(0.5), "alpha": 0.5}


def dense_with_bias(m: Maker) -> Drawn:
    x = floats(m, 2, 4)
    flatten = m.chance(0.4)
    inner = math.prod(x.shape[1:]) if flatten else x.shape[-1]
    w = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[1] == inner and v.shape[0] > 0)
    bias = vector(m, x, w.shape[0])
    return "FullyConnected", [x.number, w.number, bias.number], {"num_hidden": w.shape[0], "flatten": flatten}


def line_convolution(m: Maker) -> Drawn:
    """A convolution along one axis."""
    x = floats(m, 3, 3)
    w = m.pick(lambda v: v.rank == 3 and v.dtype == x.dtype and v.shape[1] == x.shape[1] and 0 < v.shape[2] <= 5)
    dilate = m.integer(1, 2)
    parameters = {"kernel": w.shape[2:], "num_filter": w.shape[0], "stride": (m.integer(1, 2),), "no_bias": True}
    return "Convolution", [x.number, w.number], {**parameters, "pad": (m.integer(0, 2),), "dilate": (dilate,)}


def deconvolution(m: Maker) -> Drawn:
    x = floats(m, 4, 4)
    w = m.pick(lambda v: v.rank == 4 and v.dtype == x.dtype and v.shape[0] == x.shape[1] and max(v.shape[2:]) <= 4)
    parameters = {"kernel": w.shape[2:], "num_filter": w.shape[1], "stride": (m.integer(1, 2), m.integer(1, 2))}
    return "Deconvolution", [x.number, w.number], {**parameters, "no_bias": True}


def depthwise(m: Maker) -> Drawn:
    """A convolution with a group for each channel; its weights are rows of the image."""
    x = floats(m, 4, 4)
    c = x.shape[1]
    w = m.pick(lambda v: v.rank == 4 and v.dtype == x.dtype and v.shape[:2] == (c, 1) and max(v.shape[2:]) <= 5)
    return (
        "Convolution",
        [x.number, w.number],
        {"kernel": w.shape[2:], "num_filter": c, "num_group": c, "no_bias": True},
    )


def group_norm(m: Maker) -> Drawn:
    x = floats(m, 3, 4)
    gamma, beta = vector(m, x, x.shape[1]), vector(m, x, x.shape[1])
    groups = m.one([n for n in (1, 2, 3, 4, x.shape[1]) if n and x.shape[1] % n == 0])
    if m.chance(0.5):
        return "InstanceNorm", [x.number, gamma.number, beta.number], {"eps": 0.1}
    return "GroupNorm", [x.number, gamma.number, beta.number], {"num_groups": groups, "eps": 0.1}


def batch_norm(m: Maker) -> Drawn:
    """A batch normalization with the program's states, which one step reads at most."""
    mean, variance = (v for v in m.values if v.dtype == "state")
    if any(mean.number in s.operands for s in m.steps):
        raise LookupError
    x = m.pick(lambda v: v.rank > 1 and v.dtype == m.dtype and mean.shape[0] in v.shape)
    gamma, beta = vector(m, x, mean.shape[0]), vector(m, x, mean.shape[0])
    parameters = {
        "axis": x.shape.index(mean.shape[0]),
        "fix_gamma": m.chance(0.4),
        "use_global_stats": m.chance(0.15),
        "momentum": 0.75,
        "eps": 0.1,
    }
    return "BatchNorm", [x.number, gamma.number, beta.number, mean.number, variance.number], parameters


def lrn(m: Maker) -> Drawn:
    return "LRN", [floats(m, 4, 4).number], {"nsize": m.one([3, 5]), "alpha": 0.1}


def activation(m: Maker) -> Drawn:
    x = floats(m, 0, 4)
    if m.chance(0.5):
        return "Activation", [x.number], {"act_type": m.one(["relu", "sigmoid", "softrelu", "tanh", "softsign"])}
    return "LeakyReLU", [x.number], {"act_type": m.one(["leaky", "elu", "selu", "gelu"]), "slope": 0.2}


def prelu(m: Maker) -> Drawn:
    x = floats(m, 2, 4)
    return "LeakyReLU", [x.number, vector(m, x, x.shape[1]).number], {"act_type": "prelu"}


def smooth_l1(m: Maker) -> Drawn:
    return "smooth_l1", [floats(m, 0, 4).number], {"scalar": m.one([1.0, 2.0])}


def ratio(m: Maker) -> Drawn:
    x = floats(m, 0, 4)
    fits = [
        v
        for v in m.values
        if v.dtype == x.dtype
        and v.rank == x.rank
        and all(n == k or 1 in (n, k) for n, k in zip(v.shape, x.shape, strict=True))
    ]
    return m.one(["ratio", "ratio", "power"]), [x.number, m.one(fits).number], {}


def of_positive(m: Maker) -> Drawn:
    names = "sqrt rsqrt log log2 log10 log1p reciprocal gammaln cbrt rcbrt".split()
    return "of_positive", [floats(m, 0, 4).number], {"name": m.one(names)}


def of_moderate(m: Maker) -> Drawn:
    names = "exp expm1 sinh cosh tan arcsin arccos arctan arctanh arcsinh".split()
    return "of_moderate", [floats(m, 0, 4).number], {"name": m.one(names)}


def add_n(m: Maker) -> Drawn:
    x = floats(m, 1, 4)
    return "add_n", [x.number, *(m.like(x).number for _ in range(m.integer(1, 3)))], {}


def like(m: Maker) -> Drawn:
    x = m.pick(lambda v: 1 in v.shape)
    y = m.pick(lambda v: v.rank == x.rank and all(n in (1, k) for n, k in zip(x.shape, v.shape, strict=True)))
    return "broadcast_like", [x.number, y.number], {}


def slice_like(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 0)
    y = m.pick(lambda v: v.rank == x.rank and all(0 < n <= k for n, k in zip(v.shape, x.shape, strict=True)))
    return "slice_like", [x.number, y.number], {}


def prod(m: Maker) -> Drawn:
    x = floats(m, 1, 3)
    return m.one(["prod", "nansum"]), [x.number], {"axis": m.axis(x), "keepdims": m.chance(0.5)}


def rnn(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 3 and 0 < v.shape[0] <= 20 and math.prod(v.shape) > 0 and v.dtype == "float32")
    w = m.pick(lambda v: v.dtype == x.dtype and math.prod(v.shape) > 1)
    mode, hidden = m.one(list(GATES)), m.one([1, 3, 8, 10])
    _, batch, inner = x.shape
    count = GATES[mode] * hidden * (inner + hidden + 2)
    sizes = (count, -(-count // math.prod(w.shape)), batch, hidden)
    return "rnn", [x.number, w.number, m.pick(lambda v: v.dtype == x.dtype).number], {"sizes": sizes, "mode": mode}


def recurrent(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank in (2, 3) and 0 < v.shape[0] <= 33 and v.is_float)
    w = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[0] == x.shape[-1])
    return "recurrent", [x.number, w.number], {}


def repeated(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.dtype == "float32" and 0 < math.prod(v.shape) < 2000)
    return "repeated", [x.number, m.like(x).number], {"times": m.integer(1, 4)}


def view(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1 and v.shape[0] > 0 and v.shape[1] > 0)
    if m.chance(0.5):
        return "element", [x.number], {"number": m.integer(0, x.shape[0] - 1)}
    begin, end = m.interval(x.shape[1])
    return "columns", [x.number], {"begin": begin, "end": end}


def softmax_output(m: Maker) -> Drawn:
    x = floats(m, 2, 4)
    parameters: dict[str, Any] = {
        "grad_scale": m.one([1.0, 0.5]),
        "normalization": m.one(["null", "batch", "valid"]),
        "use_ignore": m.chance(0.3),
        "ignore_label": 1.0,
        "smooth_alpha": m.one([0.0, 0.0, 0.1]),
        "out_grad": m.chance(0.2),
    }
    if x.rank > 2 and m.chance(0.5):
        classes, shape = x.shape[1], (x.shape[0], *x.shape[2:])
        parameters["multi_output"] = True
    elif x.rank > 2:
        classes, shape = x.shape[-1], x.shape[:-1]
        parameters["preserve_shape"] = True
    else:
        classes, shape = x.shape[1], x.shape[:1]
    y = m.pick(lambda v: v.shape == shape and v.exact and v.dtype == x.dtype)
    return "softmax_output", [x.number, y.number], {"classes": classes, **parameters}


def class_loss(m: Maker) -> Drawn:
    x = floats(m, 2, 2)
    y = m.pick(lambda v: v.shape == x.shape[:1] and v.exact and v.dtype == x.dtype)
    if m.chance(0.5):
        return "cross_entropy", [x.number, y.number], {"classes": x.shape[1]}
    return "svm_output", [x.number, y.number], {"classes": x.shape[1], "margin": 0.7, "use_linear": m.chance(0.5)}


def regression(m: Maker) -> Drawn:
    x = floats(m, 1, 3)
    name = m.one(["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"])
    return name, [x.number, m.like(x).number], {"grad_scale": m.one([1.0, 0.5])}


def loss(m: Maker) -> Drawn:
    x = floats(m, 1, 3)
    if m.chance(0.5):
        return m.one(["make_loss", "BlockGrad", "BlockGrad"]), [x.number], {}
    parameters = {"grad_scale": 0.5, "normalization": m.one(["null", "batch", "valid"]), "valid_thresh": 0.1}
    return "MakeLoss", [x.number], parameters


LAYERS: list[Draw] = [
    *[any_dot] * 3,
    *[deep_dot] * 4,
    *[sum_of_axes] * 4,
    *[any_batch_dot] * 2,
    *[ratio] * 2,
    *(gemm, syrk, dense_with_bias, line_convolution, deconvolution, depthwise, group_norm, lrn, activation, prelu),
    *(smooth_l1, of_positive, of_moderate, add_n, prod, rnn, recurrent, repeated),
    *(softmax_output, softmax_output, class_loss, regression, loss),
    unary("written_out", floats=True),
    binary("elemwise_mul elemwise_add"),
]
MOVES: list[Draw] = [unary("written written_rows", floats=True), view, like, slice_like]
STEPS: list[tuple[Draw, bool]] = [
    *((draw, False) for draw in [*ROUNDED, *LAYERS]),
    *((draw, True) for draw in [*EXACT, *MOVES]),
]
"""Each with whether its results are exact if its operands are."""
WITH_STATES: list[tuple[Draw, bool]] = [(batch_norm, False)] * 20
"""Further steps of programs with states."""
