"""Golden cases of operators on arrays: elementwise, broadcasting, reductions, shapes, indexing, ordering, products."""

from __future__ import annotations

from golden_case import Case, a, case, distinct, r

# Operator -> the interval of arguments that shows it.
UNARY = {
    "abs": (-2, 2),
    "arccos": (-1, 1),
    "arccosh": (1, 4),
    "arcsin": (-1, 1),
    "arcsinh": (-3, 3),
    "arctan": (-3, 3),
    "arctanh": (-0.95, 0.95),
    "cbrt": (-3, 3),
    "ceil": (-3, 3),
    "cos": (-4, 4),
    "cosh": (-3, 3),
    "degrees": (-3, 3),
    "erf": (-3, 3),
    "erfinv": (-0.95, 0.95),
    "exp": (-4, 4),
    "expm1": (-2, 2),
    "fix": (-3, 3),
    "floor": (-3, 3),
    "gamma": (0.25, 5),
    "gammaln": (0.25, 8),
    "log": (0.1, 8),
    "log10": (0.1, 8),
    "log1p": (-0.5, 4),
    "log2": (0.1, 8),
    "logical_not": (-0.05, 0.05),
    "negative": (-2, 2),
    "radians": (-180, 180),
    "rcbrt": (0.25, 4),
    "reciprocal": (0.25, 4),
    "relu": (-2, 2),
    "rint": (-3, 3),
    "round": (-3, 3),
    "rsqrt": (0.25, 4),
    "sigmoid": (-5, 5),
    "sign": (-0.1, 0.1),
    "sin": (-4, 4),
    "sinh": (-3, 3),
    "softsign": (-3, 3),
    "sqrt": (0, 8),
    "square": (-3, 3),
    "tan": (-1.25, 1.25),
    "tanh": (-3, 3),
    "trunc": (-3, 3),
}
SIMPLE = (
    "identity",
    "_copy",
    "BlockGrad",
    "stop_gradient",
    "make_loss",
    "ones_like",
    "zeros_like",
    "shape_array",
    "size_array",
)
BROADCAST = """
    add sub mul div mod power maximum minimum hypot equal not_equal greater greater_equal lesser lesser_equal
    logical_and logical_or logical_xor
""".split()
SCALAR = """
    _plus_scalar _minus_scalar _rminus_scalar _mul_scalar _div_scalar _rdiv_scalar _mod_scalar _rmod_scalar
    _power_scalar _rpower_scalar _maximum_scalar _minimum_scalar _hypot_scalar _equal_scalar _not_equal_scalar
    _greater_scalar _greater_equal_scalar _lesser_scalar _lesser_equal_scalar _logical_and_scalar _logical_or_scalar
    _logical_xor_scalar
""".split()
ELEMENTWISE = """
    elemwise_add elemwise_sub elemwise_mul elemwise_div _mod _power _maximum _minimum _hypot _equal _not_equal
    _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or _logical_xor _grad_add
""".split()
PAD_MODES = ("constant", "edge", "reflect")
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "nansum", "nanprod")
HALVES = a([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -0.0, 3.0])
SPECIAL = a([float("nan"), float("inf"), -float("inf"), -0.0, 1.0])


def unary() -> list[Case]:
    plain = [case(op, r(3, 4, low=low, high=high)) for op, (low, high) in UNARY.items()]
    double = [case(op, r(5, low=low, high=high, dtype="float64")) for op, (low, high) in UNARY.items()]
    halves = [case(op, HALVES) for op in ("rint", "round", "fix", "trunc", "ceil", "floor", "sign")]
    special = [
        case(op, SPECIAL)
        for op in ("relu", "sign", "abs", "exp", "sqrt", "log", "tanh", "sigmoid", "logical_not", "erf")
    ]
    integers = [case(op, r(6, low=-3, high=3, dtype="int32")) for op in ("abs", "negative", "square", "sign", "relu")]
    half = [
        case(op, r(6, low=0.25, high=2, dtype="float16")) for op in ("exp", "log", "sqrt", "tanh", "sigmoid", "relu")
    ]
    simple = [case(op, r(2, 3)) for op in SIMPLE] + [case(op, r(2, 3, dtype="int32", high=5)) for op in SIMPLE[-4:]]
    return plain + double + halves + special + integers + half + simple


def scalars() -> list[Case]:
    plain = [case(op, r(3, 4, low=0.25, high=4), scalar=2.0) for op in SCALAR]
    signed = [case(op, distinct(9), scalar=-0.75) for op in SCALAR if "power" not in op]
    integers = [case(op, r(6, low=1, high=5, dtype="int32"), scalar=3.0) for op in SCALAR]
    fraction = [
        case(op, r(6, low=1, high=5, dtype="int32"), scalar=2.5, is_int=False) for op in ("_plus_scalar", "_mul_scalar")
    ]
    half = [
        case(op, r(6, low=1, high=5, dtype="float16"), scalar=0.5)
        for op in ("_plus_scalar", "_div_scalar", "_power_scalar")
    ]
    return [
        *plain, *signed, *integers, *fraction, *half,
        case("clip", r(3, 4, low=-4, high=4), a_min=-1.5, a_max=2),
        case("clip", r(5, low=-4, high=4, dtype="int32"), a_min=-1, a_max=2),
        case("clip", SPECIAL, a_min=-1, a_max=2),
        case("smooth_l1", r(3, 4, low=-4, high=4), scalar=1.0),
        case("smooth_l1", r(3, 4, low=-4, high=4), scalar=2.0),
    ]  # fmt: skip


def binary() -> list[Case]:
    elementwise = [case(op, r(3, 4, low=1, high=4), r(3, 4, low=1, high=4)) for op in ELEMENTWISE]
    broadcast = [case(f"broadcast_{op}", r(2, 1, 4, low=0, high=3), r(3, 1, low=0.25, high=3)) for op in BROADCAST]
    ranks = [
        case(f"broadcast_{op}", r(2, 3, 1, low=-2, high=2), r(2, 1, 4, low=1, high=2))
        for op in ("add", "sub", "div", "mod")
    ]
    integers = [
        case(f"broadcast_{op}", r(2, 3, low=-4, high=4, dtype="int32"), r(1, 3, low=1, high=3, dtype="int32"))
        for op in BROADCAST
        if op != "hypot"
    ]
    equal = [case(f"broadcast_{op}", a([1, 2, 3, 0]), a([[2], [0]])) for op in BROADCAST[9:]]
    return [
        *elementwise, *broadcast, *ranks, *integers, *equal,
        case("broadcast_mod", a([5, -5, 5, -5, 0, 5.5]), a([3, 3, -3, -3, 2, 0])),
        case("broadcast_power", a([-2, -2, 0, 4]), a([2, 3, 0, -0.5])),
        case("broadcast_add", r(2, 3, dtype="float16"), r(1, 3, dtype="float16")),
        case("broadcast_div", r(2, 3, low=1, high=3, dtype="float64"), r(2, 1, low=1, high=3, dtype="float64")),
        case("add_n", r(2, 3), r(2, 3), r(2, 3), num_args=3),
        case("add_n", r(2, 3), num_args=1),
        case("where", a([[0, 1], [-1, 0]]), r(2, 2), r(2, 2)),
        case("where", a([0, 1]), r(2, 3), r(2, 3)),
        case("where", a([0, 2, 0], "int32"), r(3, dtype="float64"), r(3, dtype="float64")),
        *[case(op, r(2, 3, low=-3, high=3), dtype=dtype)
          for op in ("Cast", "amp_cast") for dtype in ("float16", "float32", "float64")],
        *[case("Cast", r(2, 3, low=-3, high=3), dtype=dtype) for dtype in ("int32", "int64", "int8")],
        case("Cast", r(2, 3, low=0, high=300), dtype="uint8"),
        case("Cast", r(2, 3, low=0, high=3), dtype="bool"),
        case("Cast", r(2, 3, low=0, high=200, dtype="int32"), dtype="int8"),
        case("amp_multicast", r(2, 3), r(2, 3, dtype="float16"), num_outputs=2),
        case("amp_multicast", r(2, 3), r(2, 3, dtype="float16"), num_outputs=2, cast_narrow=True),
    ]  # fmt: skip


def reductions() -> list[Case]:
    x = r(2, 3, 4, low=0.25, high=2)
    options = ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"axis": -1, "exclude": True}, {"axis": ()})
    many = [case(op, x, **option) for op in REDUCTIONS for option in options]
    missing = a([[1, float("nan"), 3], [float("nan"), 2, 4]])
    order = [
        case(op, distinct(3, 4, 2), **option)
        for op in ("argmax", "argmin")
        for option in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True})
    ]
    norms = [case("norm", r(2, 3, 4), ord=order_, **option) for order_ in (1, 2)
             for option in ({}, {"axis": 1}, {"axis": (0, 2)}, {"axis": (1, 2), "keepdims": True})]  # fmt: skip
    return [
        *many, *order, *norms,
        *[case(op, missing, axis=1) for op in ("nansum", "nanprod", "sum", "max", "min")],
        *[case(op, r(3, 4, low=-5, high=9, dtype="int32"), axis=1) for op in ("sum", "mean", "prod", "max", "min")],
        *[case(op, r(3, 4, dtype="float64"), axis=0) for op in ("sum", "mean", "max", "norm")],
        case("sum", r(4, 5, dtype="float16"), axis=1),
        case("mean", r(4, 5, dtype="float16")),
        *[case(op, x, axis=1) for op in ("sum_axis", "max_axis", "min_axis")],
        case("argmax", a([[1, 3, 3], [2, 2, 1]]), axis=1),
        case("argmin", a([[1, 0, 0], [2, 2, 5]]), axis=1),
        case("argmax_channel", distinct(3, 5)),
        case("argmax_channel", distinct(2, 3, 4)),
        case("cumsum", r(3, 4)),
        case("cumsum", r(3, 4), axis=0),
        case("cumsum", r(2, 3, 4), axis=2, dtype="float64"),
        case("cumsum", r(5, low=-3, high=9, dtype="int32")),
    ]  # fmt: skip


def shapes() -> list[Case]:
    x = distinct(2, 3, 4)
    codes = (
        (4, 6),
        (0, -1),
        (-1, 2),
        (-2,),
        (0, 0, -2),
        (-3, 4),
        (-3, -2),
        (0, -4, 1, 3, -2),
        (-4, -1, 2, 0, 0),
        (0, -3),
        (2, 0, 4, 1),
    )
    backwards = ((-1, 0), (0, -3), (-3, 0), (-1, 0, 0))
    return [
        *[case("Reshape", x, shape=shape) for shape in codes],
        *[case("Reshape", x, shape=shape, reverse=True) for shape in backwards],
        case("Reshape", distinct(10, 5, 4), shape=(-1, 0), reverse=True),
        case("reshape", x, shape=(-1,)),
        case("reshape_like", x, distinct(4, 6)),
        case("reshape_like", distinct(30, 7), distinct(15, 2, 4), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2),
        case("Flatten", x),
        case("Flatten", distinct(5)),
        case("expand_dims", x, axis=0),
        case("expand_dims", x, axis=-1),
        case("expand_dims", x, axis=2),
        case("squeeze", distinct(1, 3, 1, 2)),
        case("squeeze", distinct(1, 3, 1, 2), axis=2),
        case("squeeze", distinct(1, 3, 1, 2), axis=(0, -2)),
        case("squeeze", distinct(1, 1)),
        case("transpose", x),
        case("transpose", x, axes=(1, 0, 2)),
        case("transpose", distinct(2, 3, 2, 2, 2), axes=(4, 2, 0, 1, 3)),
        case("SwapAxis", x, dim1=0, dim2=2),
        case("SwapAxis", x, dim1=1, dim2=-1),
        case("flip", x, axis=1),
        case("reverse", x, axis=(0, 2)),
        case("tile", distinct(2, 3), reps=(2, 2)),
        case("tile", distinct(2, 3), reps=(2, 1, 2)),
        case("tile", x, reps=(2,)),
        case("repeat", distinct(2, 3), repeats=2),
        case("repeat", distinct(2, 3), repeats=3, axis=1),
        case("repeat", distinct(2, 3), repeats=2, axis=-2),
        *[case("Pad", r(1, 2, 3, 4), mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 2, 1)) for mode in PAD_MODES],
        case("Pad", r(1, 2, 3, 4), mode="constant", pad_width=(0, 0, 0, 0, 0, 1, 1, 0), constant_value=-2.5),
        *[case("Pad", r(1, 1, 3, 3, 2), mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 2, 1, 1, 1)) for mode in PAD_MODES],
        case("broadcast_to", distinct(2, 1, 4), shape=(2, 3, 4)),
        case("broadcast_to", distinct(2, 1, 4), shape=(0, 3, 0)),
        case("broadcast_axis", distinct(2, 1, 1), axis=(1, 2), size=(3, 2)),
        case("broadcast_axes", distinct(1, 3), axis=0, size=2),
        case("broadcast_like", distinct(2, 1, 4), distinct(2, 3, 4)),
        case("broadcast_like", distinct(2, 1, 4), distinct(5, 6), lhs_axes=(1,), rhs_axes=(0,)),
        case("depth_to_space", distinct(1, 8, 2, 3), block_size=2),
        case("space_to_depth", distinct(1, 2, 4, 6), block_size=2),
        case("Concat", distinct(2, 3), distinct(2, 2), num_args=2),
        case("Concat", distinct(2, 3), distinct(1, 3), distinct(3, 3), num_args=3, dim=0),
        case("Concat", distinct(2, 3, 1), distinct(2, 3, 2), num_args=2, dim=-1),
        case("concat", distinct(2, 3, dtype="int32"), distinct(2, 2, dtype="int32"), num_args=2, dim=1),
        case("stack", distinct(2, 3), distinct(2, 3), num_args=2),
        case("stack", distinct(2, 3), distinct(2, 3), distinct(2, 3), num_args=3, axis=-1),
        case("SliceChannel", distinct(2, 4, 3), num_outputs=2),
        case("SliceChannel", distinct(2, 4, 3), num_outputs=3, axis=2, squeeze_axis=True),
        case("split", distinct(6, 2), num_outputs=3, axis=0),
        case("split", distinct(6, 2), num_outputs=1, axis=-1),
        case("_split_v2", distinct(7, 2), indices=(0, 2, 5), axis=0),
        case("_split_v2", distinct(6, 2), indices=(), sections=3, axis=0),
        case("_split_v2", distinct(3, 2), indices=(0, 1, 2), axis=0, squeeze_axis=True),
        case("diag", distinct(3)),
        case("diag", distinct(3), k=-1),
        case("diag", distinct(3, 4)),
        case("diag", distinct(3, 4), k=1),
        case("diag", distinct(2, 3, 4), k=-1, axis1=1, axis2=2),
        case("diag", distinct(2, 3, 4)),
        case("_contrib_arange_like", distinct(2, 3)),
        case("_contrib_arange_like", distinct(2, 3), start=1.5, step=0.5, axis=1),
        case("_contrib_arange_like", distinct(2, 4), repeat=2),
        case("_zeros", shape=(2, 3)),
        case("_ones", shape=(2, 3), dtype="int32"),
        case("_full", shape=(2, 3), value=2.5),
        case("_eye", N=3, M=4, k=1),
        case("_arange", start=1, stop=4, step=0.5),
        case("_arange", start=0, stop=6, step=2, repeat=2, dtype="int32"),
        case("_linspace", start=0, stop=1, num=5),
        case("_linspace", start=0, stop=1, num=5, endpoint=False),
    ]  # fmt: skip


def slices() -> list[Case]:
    x = distinct(4, 5, 3)
    bounds = [
        {"begin": (1, 0), "end": (3, 4)},
        {"begin": (None, 1), "end": (None, None)},
        {"begin": (-3, -4, None), "end": (-1, -1, None)},
        {"begin": (0, None), "end": (4, None), "step": (2, 3)},
        {"begin": (None, 4), "end": (None, 0), "step": (-1, -2)},
        {"begin": (3, None), "end": (None, None), "step": (-2, -1)},
        {"begin": (1,), "end": (100,)},
        {"begin": (None, None, 2), "end": (None, None, -4), "step": (None, None, -1)},
    ]
    return [
        *[case("slice", x, **bound) for bound in bounds],
        case("crop", x, begin=(1, 1, 0), end=(3, 2, 3)),
        case("slice_axis", x, axis=1, begin=1, end=4),
        case("slice_axis", x, axis=-1, begin=-2, end=None),
        case("slice_axis", x, axis=0, begin=0, end=-1),
        case("slice_like", x, distinct(2, 3, 2)),
        case("slice_like", x, distinct(2, 3, 2), axes=(0, 2)),
        case("slice_like", x, distinct(2, 3), axes=(0, -2)),
        case("_slice_assign", x, distinct(2, 5, 3), begin=(1,), end=(3,)),
        case("_slice_assign", x, distinct(2, 2, 3), begin=(0, 1), end=(4, 5), step=(2, 2)),
        case("_slice_assign_scalar", x, begin=(1, None), end=(3, None), scalar=7.0),
    ]


def indexing() -> list[Case]:
    x = distinct(4, 3, 2)
    return [
        case("take", x, a([[0, 2], [3, 1]])),
        *[case("take", x, a([-1, 5, 1, -6]), mode=mode) for mode in ("clip", "wrap")],
        case("take", x, a([2, 0], "int32"), axis=1),
        case("take", x, a([[1], [0]]), axis=-1),
        case("take", x, a([1, 0]), axis=1, mode="raise"),
        case("take", distinct(4, dtype="int32"), a([3, 0, 1])),
        case("batch_take", distinct(4, 3), a([0, 2, 1, 5], "int32")),
        case("pick", distinct(4, 3), a([0, 2, 1, 0])),
        case("pick", distinct(4, 3), a([-1, 7, 1, -5])),
        case("pick", distinct(4, 3), a([-1, 7, 1, -5]), mode="wrap"),
        case("pick", distinct(4, 3), a([0, 3, 1]), axis=0),
        case("pick", x, r(4, 2, low=0, high=2), axis=1, keepdims=True),
        case("pick", x, r(4, 1, 2, low=0, high=2, dtype="int32"), axis=1, keepdims=True),
        case("choose_element_0index", distinct(4, 3), a([0, 2, 1, 0])),
        case("fill_element_0index", distinct(4, 3), r(4), a([0, 2, 1, 0])),
        case("gather_nd", x, a([[0, 3, 1], [2, 0, 1]])),
        case("gather_nd", x, a([[0, 3], [2, 0], [1, 1]], "int32")),
        case("gather_nd", x, a([[-1, 2]])),
        case("scatter_nd", r(3), a([[0, 3, 1], [2, 0, 1]]), shape=(4, 3)),
        case("scatter_nd", r(3, 2), a([[0, 3, 1]], "int32"), shape=(4, 2)),
        case("one_hot", a([1, 0, 2]), depth=3),
        case("one_hot", a([[1, -1], [5, 2]]), depth=4, on_value=2.5, off_value=-1),
        case("one_hot", a([1, 0], "int32"), depth=2, dtype="int32"),
        case("ravel_multi_index", a([[3, 6, 6], [4, 5, 1]]), shape=(7, 6)),
        case("ravel_multi_index", a([[3, 6, 6], [4, 5, 1]], "int64"), shape=(-1, 6)),
        case("unravel_index", a([22, 41, 37]), shape=(7, 6)),
        case("unravel_index", a([[22, 41], [37, 0]], "int32"), shape=(7, 6)),
    ]


def ordering() -> list[Case]:
    x = distinct(3, 5)
    kinds = ("indices", "value", "mask", "both")
    return [
        *[case("topk", x, k=2, ret_typ=kind) for kind in kinds],
        *[case("topk", x, k=2, ret_typ=kind, is_ascend=True, axis=0) for kind in kinds],
        case("topk", distinct(2, 3, 4), k=0, axis=1, ret_typ="value"),
        case("topk", distinct(2, 6), k=3, axis=None, ret_typ="both"),
        case("topk", x, k=1),
        case("topk", x, k=3, dtype="int32", ret_typ="both"),
        case("topk", distinct(2, 5, dtype="int32"), k=2, ret_typ="value"),
        case("topk", distinct(2, 5, dtype="float64"), k=2, ret_typ="both", dtype="int64"),
        case("sort", x),
        case("sort", x, is_ascend=False, axis=0),
        case("sort", x, axis=None),
        case("sort", distinct(7, dtype="int32")),
        case("argsort", x),
        case("argsort", x, is_ascend=False, axis=0),
        case("argsort", x, axis=None, dtype="int32"),
        case("argsort", distinct(2, 3, 4), axis=1),
    ]


def counts() -> list[Case]:
    x = a([0, 1, 2, 3, 4, 5, 2.5, -1, 7, 5, 0.3])
    return [
        case("_histogram", x, bin_cnt=5, range=(0, 5)),
        case("_histogram", x, a([0, 1, 2.5, 5])),
        case("_histogram", r(4, 5, low=-3, high=9, dtype="int32"), bin_cnt=3, range=(-1, 8)),
        case("_histogram", r(3, 7, dtype="float64"), a([-0.5, 0, 0.125, 1], "float64")),
        case("_histogram", SPECIAL, bin_cnt=2, range=(-1, 1)),
    ]


def products() -> list[Case]:
    return [
        case("dot", r(3, 4), r(4, 2)),
        case("dot", r(4, 3), r(4, 2), transpose_a=True),
        case("dot", r(3, 4), r(2, 4), transpose_b=True),
        case("dot", r(4, 3), r(2, 4), transpose_a=True, transpose_b=True),
        case("dot", r(5), r(5)),
        case("dot", r(3, 4), r(4)),
        case("dot", r(4), r(4, 2)),
        case("dot", r(2, 3, 4), r(4, 5)),
        case("dot", r(2, 3), r(3, 4, 2)),
        case("dot", r(2, 3, 4), r(4, 2, 3)),
        case("dot", r(4, 2, 3), r(4, 2), transpose_a=True),
        case("dot", r(3, 4, dtype="float64"), r(4, 2, dtype="float64")),
        case("batch_dot", r(2, 3, 4), r(2, 4, 5)),
        case("batch_dot", r(2, 4, 3), r(2, 4, 5), transpose_a=True),
        case("batch_dot", r(2, 3, 4), r(2, 5, 4), transpose_b=True),
        case("batch_dot", r(2, 4, 3), r(2, 5, 4), transpose_a=True, transpose_b=True),
        case("khatri_rao", r(2, 3), r(4, 3), num_args=2),
        case("khatri_rao", r(2, 3), r(3, 3), r(2, 3), num_args=3),
    ]


def cases() -> list[Case]:
    """All cases of this file."""
    families = (unary, scalars, binary, reductions, shapes, slices, indexing, ordering, products, counts)
    return [found for family in families for found in family()]
