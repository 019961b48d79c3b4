"""The calls whose gradients are recorded: some of those in operators/, ties and bounds, operators without others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from golden_case import Case, a, case, distinct, r

GROUPS = ("alignment", "arrays", "densities", "detection", "heads", "images", "layers", "linalg")
OFTEN = 2
"""How many calls of an operator are taken from each group."""
ALL = {
    *(
        "BatchNorm",
        "BilinearSampler",
        "CTCLoss",
        "Convolution",
        "Correlation",
        "Deconvolution",
        "GridGenerator",
        "L2Normalization",
    ),
    *(
        "LeakyReLU",
        "Pooling",
        "RNN",
        "SVMOutput",
        "SoftmaxOutput",
        "SpatialTransformer",
        "UpSampling",
        "clip",
        "norm",
        "pick",
    ),
    *("_contrib_box_nms", "_linalg_det", "_linalg_slogdet", "_linalg_syevd", "softmax", "take", "topk", "where"),
}
"""Operators of which all calls are taken."""


def recorded_calls() -> Iterator[Case]:
    """Calls of operators/ that have floats."""
    import make_goldens

    for group in GROUPS:
        count: dict[str, int] = {}
        for call in make_goldens.cases_of(group):
            floats = any(np.dtype(x.dtype).kind == "f" for x in call.inputs)
            count[call.op] = count.get(call.op, 0) + floats
            if floats and (count[call.op] <= OFTEN or call.op in ALL):
                yield call


def cases() -> list[Case]:
    return [*recorded_calls(), *ties(), *pooling_ties(), *window_ties(), *heads(), *others(), *without_gradient()]


EDGES = a([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, -0.0])
TIED = a([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.5, -1.0, 0.5]])


def ties() -> list[Case]:
    """Functions where they have no derivative."""
    plain = "relu sigmoid hard_sigmoid abs sign square cbrt softsign smooth_l1 round floor rint".split()
    pairs = "broadcast_maximum broadcast_minimum broadcast_mod _maximum _minimum _mod".split()
    scalars = "_maximum_scalar _minimum_scalar _mod_scalar _rmod_scalar".split()
    reduced = "max min sum mean prod norm".split()
    left, right = a([0.0, 1.0, 2.0, -1.0, 0.5]), a([0.0, 1.0, 1.0, 2.0, 3.0])
    right_of_mod = a([1.0, 1.0, 1.0, 2.0, 3.0])
    return [
        *(case(op, EDGES) for op in plain),
        case("hard_sigmoid", a([-2.5, 2.5, 0.0, -3.0, 3.0])),
        case("hard_sigmoid", a([-2.0, 2.0, 0.0]), alpha=0.25, beta=0.5),
        case("smooth_l1", a([-1.0, 1.0, 0.0, 0.25, -0.25]), scalar=2.0),
        *(case("Activation", EDGES, act_type=kind) for kind in ("relu", "softrelu", "softsign")),
        *(case("LeakyReLU", EDGES.reshape(1, -1), act_type=kind) for kind in ("leaky", "elu", "gelu", "selu")),
        case("LeakyReLU", EDGES.reshape(1, -1), a([0.25]), act_type="prelu"),
        case("clip", EDGES, a_min=-1, a_max=1),
        *(case(op, left, right_of_mod if op.endswith("mod") else right) for op in pairs),
        *(case(op, EDGES, scalar=1.0) for op in scalars),
        *(case(op, TIED, axis=1) for op in reduced),
        *(case(op, TIED) for op in reduced),
        case("norm", a([[0.0, 0.0], [1.0, 0.0]]), axis=1),
        case("sort", TIED, axis=1),
        case("sort", TIED, axis=1, is_ascend=False),
        case("topk", TIED, axis=1, k=2, ret_typ="value"),
        case("scatter_nd", a([1.0, 2.0, 3.0]), a([[0, 2, 0]]), shape=(4,)),
        case("gather_nd", TIED, a([[0, 0, 2], [1, 1, 0]])),
        case("take", TIED, a([0, 0, 5, -1]), mode="clip"),
        case("take", TIED, a([0, 0, 5, -1]), mode="wrap"),
        case("pick", TIED, a([0, 2, 9]), axis=1),
        case("where", a([0.0, 1.0, -1.0]), a([1.0, 2.0, 3.0]), a([4.0, 5.0, 6.0])),
    ]


def pooling_ties() -> list[Case]:
    plateau = a([[[[1, 1, 0], [1, 1, 2], [2, 2, 2]]]])
    return [
        case("Pooling", plateau, kernel=(2, 2), pool_type="max"),
        case("Pooling", plateau, kernel=(2, 2), pool_type="max", global_pool=True),
        case("Pooling", np.swapaxes(plateau, 1, 3), kernel=(2, 2), pool_type="max", global_pool=True, layout="NHWC"),
        case("Pooling", np.zeros((1, 1, 2, 2), np.float32), kernel=(2, 2), pool_type="lp", p_value=2),
        case("Pooling", r(1, 2, 4, 4), kernel=(2, 2), pool_type="lp", p_value=3),
        case("Pooling_v1", plateau, kernel=(2, 2), pool_type="max"),
        case("Pooling_v1", plateau - 2, kernel=(2, 2), pool_type="max", pad=(1, 1)),
        case("Pooling_v1", plateau, kernel=(2, 2), pool_type="max", global_pool=True),
        case("ROIPooling", np.ones((1, 2, 4, 4), np.float32), ROIS, pooled_size=(2, 2), spatial_scale=1.0),
    ]


ROIS = a([[0, 0, 0, 3, 3], [0, 1, 1, 2.5, 3.7]])


def window_ties() -> list[Case]:
    """Positions at whole numbers and at edges."""
    images, same = r(1, 2, 4, 4), np.ones((1, 2, 4, 4), np.float32)
    offsets = np.array(np.random.default_rng(0).integers(-4, 5, (1, 8, 3, 3)), np.float32)
    return [
        case("BilinearSampler", r(1, 1, 3, 3), a([[[[-1, 0, 1]], [[0, 1, 2]]]])),
        case("BilinearSampler", r(1, 1, 3, 3), a([[[[-1.2, 0.3, 1.1]], [[0.1, 0.9, -1]]]])),
        case("_contrib_ROIAlign", images, ROIS, pooled_size=(2, 2), spatial_scale=1.0),
        case("_contrib_ROIAlign", images, ROIS, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2),
        case(
            "_contrib_DeformableConvolution",
            r(1, 1, 4, 4),
            offsets,
            r(1, 1, 2, 2),
            kernel=(2, 2),
            num_filter=1,
            no_bias=True,
        ),
        case("Correlation", same, same, kernel_size=1, max_displacement=1, is_multiply="False", pad_size=1),
        case(
            "_contrib_BatchNormWithReLU",
            np.ones((2, 3, 2, 1), np.float32),
            a([1, 2, 3]),
            a([0, 0, 0]),
            a([0, 0, 0]),
            a([1, 1, 1]),
            fix_gamma="False",
        ),
        case("BatchNorm", r(2, 3, 2), a([1, 2, 3]), a([0, 0, 0]), a([0, 0, 0]), a([1, 1, 1])),
        case("InstanceNorm", np.ones((2, 2, 3), np.float32), a([1, 1]), a([0, 0])),
    ]


def heads() -> list[Case]:
    """Operators that define the gradient themselves."""
    labels, rows = a([[0, 1, 2, 1], [0, 0, 1, 2]]), a([[0, 1, 2], [0, 0, 1]])
    return [
        case("LinearRegressionOutput", r(3, 4), r(3, 4), grad_scale=2),
        case("LinearRegressionOutput", r(3), r(3)),
        case("MAERegressionOutput", r(3, 4), r(3, 4)),
        case("MAERegressionOutput", a([[1, 2], [0.5, 0]]), a([[1, 1], [1, 0]])),
        case("LogisticRegressionOutput", r(3, 1), r(3)),
        case("MakeLoss", r(3, 4), grad_scale=2),
        case("MakeLoss", r(3, 4), normalization="batch"),
        case("MakeLoss", r(3, 4), normalization="valid", valid_thresh=0.25),
        case("SoftmaxOutput", r(3, 4), a([0, 3, 1]), out_grad="True", grad_scale=2, normalization="batch"),
        case("SoftmaxOutput", r(3, 4), a([0, 3, 1]), use_ignore="True", ignore_label=3, normalization="valid"),
        case("SoftmaxOutput", r(3, 4), a([0, 3, 1]), smooth_alpha=0.2),
        case("SoftmaxOutput", r(3, 4), r(3, 4)),
        case(
            "SoftmaxOutput",
            r(2, 3, 4),
            labels,
            multi_output="True",
            use_ignore="True",
            ignore_label=1,
            normalization="valid",
        ),
        case("SoftmaxOutput", r(2, 3, 4), labels, multi_output="True", normalization="batch", out_grad="True"),
        case("SoftmaxOutput", r(2, 3, 4), rows, preserve_shape="True", normalization="batch", grad_scale=3),
        case(
            "SoftmaxOutput", r(2, 3, 4), rows, preserve_shape="True", out_grad="True", use_ignore="True", ignore_label=0
        ),
        case("SoftmaxOutput", r(3, 4), r(3, 4), out_grad="True"),
        case("SoftmaxOutput", r(2, 3, 4), rows, normalization="batch"),
        case("SoftmaxOutput", r(2, 3, 4), rows, normalization="valid", use_ignore="True", ignore_label=1),
        case("SoftmaxActivation", r(2, 3, 4), mode="channel"),
        case("_contrib_gradientmultiplier", r(2, 3), scalar=-0.5),
        case("_contrib_round_ste", r(5, low=-3, high=3)),
        case("_contrib_sign_ste", r(5)),
        case("_image_random_flip_left_right", r(3, 4, 1)),
        case("_image_random_flip_top_bottom", r(3, 4, 1)),
        case("_image_random_brightness", r(3, 4, 3), min_factor=0.5, max_factor=0.5),
        case("_image_random_contrast", r(3, 4, 3), min_factor=0.5, max_factor=0.5),
        case("_image_random_saturation", r(3, 4, 3), min_factor=0.5, max_factor=0.5),
        case("_image_random_hue", r(3, 4, 3), min_factor=0.5, max_factor=0.5),
        case("_image_random_lighting", r(3, 4, 3), alpha_std=0.5),
        case("_image_random_color_jitter", r(3, 4, 3), brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1),
    ]


def others() -> list[Case]:
    """Operators that have no recorded call elsewhere."""
    return [
        case("_scatter_elemwise_div", r(2, 3), r(2, 3, low=1, high=2)),
        case("_scatter_plus_scalar", r(2, 3), scalar=2),
        case("_scatter_minus_scalar", r(2, 3), scalar=2),
        case("_identity_with_attr_like_rhs", r(2, 3), r(2, 3)),
        case("_contrib_index_copy", r(4, 2), a([2, 0], "int32"), r(2, 2)),
        case("_rnn_param_concat", r(4), r(3), dim=0, num_args=2),
        case("_contrib_quadratic", r(5), a=2, b=3, c=1),
        case("softmax_cross_entropy", r(3, 4), a([0, 3, 1])),
        case("cast_storage", r(3, 2), stype="default"),
        case(
            "_contrib_hawkesll",
            r(2, 3, low=1, high=2),
            r(3, low=0.5),
            r(3, low=1, high=2),
            r(2, 3, low=0),
            r(2, 4, low=0.1),
            a([[0, 1, 2, 1], [1, 1, 0, 2]], "int32"),
            a([3, 4]),
            a([5, 6]),
        ),
        case("Dropout", r(4, 5), p=0.0),
        case("max", distinct(3, 4), axis=1, keepdims="True"),
    ]


def without_gradient() -> list[Case]:
    """Operators whose results depend on their operands, and whose gradient is zero all the same."""
    positive = r(3, low=1, high=2)
    samples = [
        *(("uniform", r(3, low=0), positive), ("normal", r(3), positive), ("gamma", positive, positive)),
        *(("exponential", positive), ("poisson", positive)),
        ("negative_binomial", a([1, 2, 3]), r(3, low=0.5)),
        ("generalized_negative_binomial", positive, r(3, low=0.5)),
    ]
    like = "uniform normal gamma exponential poisson negative_binomial generalized_negative_binomial".split()
    return [
        *(case(f"_sample_{kind}", *inputs) for kind, *inputs in samples),
        *(case(f"_random_{kind}_like", r(3)) for kind in like),
        case("_sample_multinomial", a([[0.25, 0.75], [0.5, 0.5]])),
        case("_contrib_box_iou", r(2, 4, low=0), r(3, 4, low=0)),
        case("_contrib_index_array", r(2, 3)),
    ]
