"""The steps of random programs: their operands and parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from random_program_maker import Draw, Drawn, Maker, Value
from random_programs import Program


def unary(names: str, *, floats: bool = False) -> Draw:
    """A function of one value, which has floats if `floats` is True."""
    choices = names.split()
    return lambda m: (m.one(choices), [m.pick(lambda v: v.is_float or not floats).number], {})


def jump(m: Maker) -> Drawn:
    """A discontinuous function: a rounding error can change its result by 1."""
    return m.one("floor ceil rint sign trunc logical_not".split()), [m.pick(lambda v: v.exact).number], {}


def binary(names: str, *, broadcast: bool = False) -> Draw:
    choices = names.split()

    def draw(m: Maker) -> Drawn:
        x = m.pick()
        y = m.pick(lambda v: v.dtype == x.dtype and _broadcasts(v.shape, x.shape)) if broadcast else m.like(x)
        return m.one(choices), [x.number, y.number] if m.chance(0.5) else [y.number, x.number], {}

    return draw


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) and all(n == m or 1 in (n, m) for n, m in zip(a, b, strict=True))


def exact_compare(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact)
    y = m.pick(lambda v: v.exact and v.shape == x.shape and v.dtype == x.dtype)
    names = ["broadcast_greater", "broadcast_equal", "broadcast_lesser_equal", "broadcast_logical_and"]
    return m.one(names), [x.number, y.number], {}


def select(m: Maker) -> Drawn:
    c = m.pick(lambda v: v.exact)
    x = m.pick(lambda v: v.shape == c.shape)
    return "where", [c.number, x.number, m.like(x).number], {}


def scalar(m: Maker) -> Drawn:
    names = ["_plus_scalar", "_mul_scalar", "_rminus_scalar", "_maximum_scalar", "_minimum_scalar", "_div_scalar"]
    return f"_internal.{m.one(names)}", [m.pick().number], {"scalar": float(m.one([-2, -1, 0.5, 2, 3]))}


def clip(m: Maker) -> Drawn:
    return "clip", [m.pick().number], {"a_min": -1.0, "a_max": 1.5}


def reduce(m: Maker) -> Drawn:
    x = m.pick()
    axes: Any = m.axis(x) if m.chance(0.6) else tuple(sorted({m.axis(x), m.axis(x)}))
    parameters = {"axis": axes, "keepdims": m.chance(0.4)}
    if m.chance(0.15):
        parameters["exclude"] = True
    return m.one(["sum", "mean", "max", "min", "sum", "max"]), [x.number], parameters


def norm(m: Maker) -> Drawn:
    x = m.pick()
    return "norm", [x.number], {"ord": m.integer(1, 2), "axis": m.axis(x), "keepdims": m.chance(0.5)}


def softmax(m: Maker) -> Drawn:
    x = m.pick()
    return m.one(["softmax", "log_softmax", "softmin"]), [x.number], {"axis": m.axis(x)}


def exact_index(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact and v.rank > 0)
    return m.one(["argmax", "argmin"]), [x.number], {"axis": m.axis(x), "keepdims": m.chance(0.5)}


def rank(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact)
    return "rank", [x.number], {"axis": m.axis(x)}


def sort(m: Maker) -> Drawn:
    x = m.pick()
    return "sort", [x.number], {"axis": m.axis(x), "is_ascend": m.chance(0.5)}


def topk(m: Maker) -> Drawn:
    x = m.pick()
    axis = m.axis(x)
    k = m.integer(1, max(1, x.shape[axis]))
    return "topk", [x.number], {"axis": axis, "k": k, "ret_typ": "value", "is_ascend": m.chance(0.5)}


def topk_both(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact)
    axis = m.axis(x)
    return "topk", [x.number], {"axis": axis, "k": m.integer(1, max(1, x.shape[axis])), "ret_typ": "both"}


def cumsum(m: Maker) -> Drawn:
    x = m.pick()
    return "cumsum", [x.number], {"axis": m.axis(x)}


def transpose(m: Maker) -> Drawn:
    x = m.pick()
    return "transpose", [x.number], {"axes": tuple(int(i) for i in m.rng.permutation(x.rank))}


def swap(m: Maker) -> Drawn:
    x = m.pick()
    return "swapaxes", [x.number], {"dim1": m.axis(x), "dim2": m.axis(x)}


def reshape(m: Maker) -> Drawn:
    x = m.pick()
    k, shape = m.axis(x), x.shape
    if k + 1 < len(shape) and m.chance(0.5):
        return "reshape", [x.number], {"shape": (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])}
    factor = next((f for f in (2, 3, 5) if shape[k] % f == 0), 1)
    if m.chance(0.3):
        return "reshape", [x.number], {"shape": (-1, *shape[k + 1 :])}
    return "reshape", [x.number], {"shape": (*shape[:k], factor, shape[k] // factor, *shape[k + 1 :])}


def expand(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank < 5)
    return "expand_dims", [x.number], {"axis": m.integer(0, x.rank)}


def squeeze(m: Maker) -> Drawn:
    x = m.pick(lambda v: 1 in v.shape and v.rank > 1)
    return "squeeze", [x.number], {"axis": x.shape.index(1)}


def slice_axis(m: Maker) -> Drawn:
    x = m.pick()
    axis = m.axis(x)
    begin = m.integer(0, max(0, x.shape[axis] - 1))
    return (
        "slice_axis",
        [x.number],
        {"axis": axis, "begin": begin, "end": m.integer(begin + 1, max(begin + 1, x.shape[axis]))},
    )


def rows(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.shape[0] > 0)
    begin, end = m.interval(x.shape[0])
    return "rows", [x.number], {"begin": begin, "end": end}


def slices(m: Maker) -> Drawn:
    x = m.pick()
    begin = tuple(m.integer(0, max(0, n - 1)) for n in x.shape)
    end = tuple(m.integer(b + 1, max(b + 1, n)) for b, n in zip(begin, x.shape, strict=True))
    step = tuple(m.integer(1, 2) for _ in begin)
    return (
        "slice",
        [x.number],
        {"begin": begin, "end": end, "step": step} if m.chance(0.4) else {"begin": begin, "end": end},
    )


def split(m: Maker) -> Drawn:
    x = m.pick()
    axis = m.axis(x)
    parts = [n for n in (2, 3, 5) if x.shape[axis] and x.shape[axis] % n == 0]
    if not parts:
        raise LookupError
    return "split", [x.number], {"num_outputs": m.one(parts), "axis": axis, "squeeze_axis": m.chance(0.3)}


def concat(m: Maker) -> Drawn:
    x = m.pick()
    axis = m.axis(x)
    fits = [v for v in m.values if v.dtype == x.dtype and v.rank == x.rank and _same_but(v.shape, x.shape, axis)]
    chosen = [x, *(m.one(fits) for _ in range(m.integer(1, 2)))]
    return "concat", [chosen[int(i)].number for i in m.rng.permutation(len(chosen))], {"dim": axis}


def _same_but(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :]


def stack(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank < 4)
    return "stack", [x.number, m.like(x).number], {"axis": m.integer(0, x.rank)}


def flip(m: Maker) -> Drawn:
    x = m.pick()
    return "flip", [x.number], {"axis": m.axis(x)}


def tile(m: Maker) -> Drawn:
    x = m.pick()
    if m.chance(0.5):
        return "tile", [x.number], {"reps": tuple(m.integer(1, 2) for _ in x.shape)}
    return "repeat", [x.number], {"repeats": m.integer(1, 3), "axis": m.axis(x)}


def broadcast(m: Maker) -> Drawn:
    x = m.pick(lambda v: 1 in v.shape)
    return "broadcast_to", [x.number], {"shape": tuple(m.integer(1, 4) if n == 1 else n for n in x.shape)}


def pad(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank in (4, 5))
    width = [0, 0, 0, 0, *(m.integer(0, 2) for _ in range(2 * (x.rank - 2)))]
    mode = m.one(["constant", "edge", "reflect"])
    return "pad", [x.number], {"mode": mode, "pad_width": tuple(width), "constant_value": 0.25}


def take(m: Maker) -> Drawn:
    x = m.pick()
    index = m.pick(lambda v: v.exact and v.rank < 3 and v.shape != () and math.prod(v.shape) < 40)
    return "take", [x.number, index.number], {"axis": m.axis(x), "mode": m.one(["clip", "wrap"])}


def pick_elements(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1)
    axis = m.axis(x)
    index = m.pick(lambda v: v.exact and v.shape == (*x.shape[:axis], *x.shape[axis + 1 :]))
    return "pick", [x.number, index.number], {"axis": axis, "keepdims": m.chance(0.5)}


def one_hot(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact and v.rank < 3)
    return "one_hot", [x.number], {"depth": m.integer(1, 6)}


def embedding(m: Maker) -> Drawn:
    w = m.pick(lambda v: v.rank == 2)
    index = m.pick(lambda v: v.exact and v.rank < 3)
    return "Embedding", [index.number, w.number], {"input_dim": w.shape[0], "output_dim": w.shape[1]}


def index_copy(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.dtype == "float32" and v.shape[0] > 0)
    new = m.pick(
        lambda v: v.dtype == x.dtype and v.shape[1:] == x.shape[1:] and v.rank == x.rank and v.shape[0] <= x.shape[0]
    )
    rows = m.rng.permutation(x.shape[0])[: new.shape[0]]
    return "index_copy", [x.number, new.number], {"rows": tuple(int(r) for r in rows)}


def scatter(m: Maker) -> Drawn:
    x = m.pick(lambda v: 0 < v.shape[0] < 8)
    size = x.shape[0] + m.integer(0, 3)
    rows = m.rng.permutation(size)[: x.shape[0]]
    return "scatter", [x.number], {"rows": tuple(int(r) for r in rows), "shape": (size, *x.shape[1:])}


def sequence(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1)
    length = m.pick(lambda v: v.exact and v.shape == x.shape[1:2])
    return m.one(["SequenceReverse", "SequenceMask"]), [x.number, length.number], {"use_sequence_length": True}


def dot(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 2)
    a, b = m.chance(0.4), m.chance(0.4)
    inner = x.shape[0 if a else 1]
    y = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[1 if b else 0] == inner)
    return "dot", [x.number, y.number], {"transpose_a": a, "transpose_b": b}


def batch_dot(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 3)
    y = m.pick(lambda v: v.rank == 3 and v.dtype == x.dtype and (v.shape[0], v.shape[2]) == (x.shape[0], x.shape[2]))
    return "batch_dot", [x.number, y.number], {"transpose_b": True}


def dense(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1)
    flatten = m.chance(0.5)
    inner = int(np.prod(x.shape[1:])) if flatten else x.shape[-1]
    w = m.pick(lambda v: v.rank == 2 and v.dtype == x.dtype and v.shape[1] == inner and v.shape[0] > 0)
    return "FullyConnected", [x.number, w.number], {"num_hidden": w.shape[0], "no_bias": True, "flatten": flatten}


def convolution(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 4)
    w = m.pick(lambda v: v.rank == 4 and v.dtype == x.dtype and v.shape[1] == x.shape[1] and v.shape[2] <= 5)
    kernel = w.shape[2:]
    parameters = {
        "kernel": kernel,
        "num_filter": w.shape[0],
        "stride": (m.integer(1, 2), m.integer(1, 2)),
        "pad": tuple(m.integer(0, k // 2) for k in kernel),
        "no_bias": True,
    }
    return "Convolution", [x.number, w.number], parameters


def filters(m: Maker) -> Drawn:
    """Weights of a convolution, 3 x 3 or 1 x 1: a slice of an image."""
    x = m.pick(lambda v: v.rank == 4 and min(v.shape[2:]) >= 3)
    k = m.one([1, 3])
    return "slice", [x.number], {"begin": (0, 0, 0, 0), "end": (*x.shape[:2], k, k)}


def pooling(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank in (3, 4))
    spatial = x.rank - 2
    kernel = tuple(m.integer(1, 3) for _ in range(spatial))
    parameters = {
        "kernel": kernel,
        "pool_type": m.one(["max", "avg", "sum"]),
        "stride": tuple(m.integer(1, 2) for _ in kernel),
        "pad": tuple(m.integer(0, k // 2) for k in kernel),
        "pooling_convention": m.one(["valid", "full"]),
    }
    return "Pooling", [x.number], parameters


def normalize(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1 and v.is_float)
    axis = m.axis(x)
    vectors = [v for v in m.values if v.shape == (x.shape[axis],) and v.dtype == x.dtype]
    if vectors:
        return "LayerNorm", [x.number, m.one(vectors).number, m.one(vectors).number], {"axis": axis, "eps": 0.1}
    return "L2Normalization", [x.number], {"mode": m.one(["instance", "channel", "spatial"]), "eps": 0.1}


def depth(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 4)
    return m.one(["depth_to_space", "space_to_depth"]), [x.number], {"block_size": 2}


def upsample(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank == 4 and v.is_float)
    return "UpSampling", [x.number], {"scale": 2, "sample_type": "nearest"}


def triangle(m: Maker) -> Drawn:
    x = m.pick(_matrix)
    return m.one(["linalg.extracttrian", "linalg.sumlogdiag"]), [x.number], {}


def _matrix(v: Value) -> bool:
    return v.rank > 1 and v.dtype in ("float32", "float64") and max(v.shape[-2:]) <= 20


def positive(m: Maker) -> Drawn:
    return "positive", [m.pick(_matrix).number], {}


def of_positive(m: Maker) -> Drawn:
    """A factorization of a result of `positive`."""
    made = [s for s in m.steps if s.name == "positive"]
    if not made:
        raise LookupError
    numbers = np.cumsum([len(m.inputs), *m.counts])
    x = int(numbers[m.steps.index(m.one(made))])
    name = m.one(["linalg.potrf", "linalg.inverse", "linalg.det", "linalg.slogdet"])
    return name, [x], {}


def solve(m: Maker) -> Drawn:
    x = m.pick(_matrix)
    y = m.pick(lambda v: v.dtype == x.dtype and v.shape[:-1] == x.shape[:-1])
    return "solve", [x.number, y.number], {}


def eigenvalues(m: Maker) -> Drawn:
    return "eigenvalues", [m.pick(_matrix).number], {}


def gelqf(m: Maker) -> Drawn:
    """gelqf of an input of the program. Its rows are independent; otherwise the factors are not unique."""
    x = m.pick(lambda v: _matrix(v) and v.number < len(m.inputs) and 0 < v.shape[-2] <= v.shape[-1] - 1)
    return "linalg.gelqf", [x.number], {}


def loop(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.rank > 1 and 0 < v.shape[0] <= 8 and v.is_float)
    return "row_cumulative", [x.number], {}


def halved(m: Maker) -> Drawn:
    """The loop runs at least one step: without steps an eager loop returns an empty list, as in MXNet, and a hybridized
    loop cannot."""
    bound = float(m.one([0.3, 0.7, 2]))
    x = m.pick(lambda v: v.exact and v.dtype == "float32" and bool(np.abs(v.array.asnumpy()).max(initial=0) > bound))
    return "halved", [x.number], {"bound": bound}


def branch(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact and v.dtype == "float32" and 0 < math.prod(v.shape) < 500)
    return "branch", [x.number, m.like(x).number], {}


def bfloat(m: Maker) -> Drawn:
    return "bfloat", [m.pick(lambda v: v.exact and v.dtype == "float32").number], {}


def custom(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.is_float)
    return "custom", [x.number, m.like(x).number], {}


def cast(m: Maker) -> Drawn:
    x = m.pick(lambda v: v.exact)
    return "cast", [x.number], {"dtype": m.one(["float32", "float32", "float64", "int32", "float16", "uint8"])}


ROUNDED: list[Draw] = [
    *[unary("sigmoid tanh sin cos square softsign erf", floats=True)] * 3,  # of integers: rounded to integers
    *[binary("elemwise_add elemwise_sub elemwise_mul")] * 2,
    *[binary("broadcast_add broadcast_sub broadcast_mul", broadcast=True)] * 2,
    *(scalar, scalar, reduce, reduce, norm, softmax, softmax, cumsum, cumsum, dot, dot, batch_dot, dense),
    *(convolution, convolution, pooling, normalize, triangle, positive, of_positive, solve, eigenvalues, gelqf),
    *(loop, halved, branch, custom, bfloat),
]
EXACT: list[Draw] = [
    *[unary("relu abs negative identity")] * 3,
    unary("shape_array size_array"),
    jump,
    binary("broadcast_maximum broadcast_minimum", broadcast=True),
    *(clip, exact_compare, select, exact_index, rank, sort, sort, topk, topk, topk_both, transpose, transpose, swap),
    *(reshape, reshape, expand, squeeze, slice_axis, rows, slices, split, split, *[concat] * 4, stack, stack, flip),
    *(tile, broadcast, pad, take, pick_elements, one_hot, embedding, index_copy, scatter, sequence, filters, depth),
    *(upsample, cast),
]
"""Steps whose results are exact if their operands are."""


def make_program(seed: int) -> Program:
    """The program of a seed. The caller must select the reference target."""
    maker = Maker(seed)
    steps = [*((draw, False) for draw in ROUNDED), *((draw, True) for draw in EXACT)]
    return maker.program(maker.integer(4, 18), steps)
