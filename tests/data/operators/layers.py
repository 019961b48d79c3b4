"""Golden cases of neural networks' operators: convolution, pooling, normalization, recurrence, detection, sequences."""

from __future__ import annotations

import numpy as np
from golden_case import Case, a, case, distinct, r


def convolutions() -> list[Case]:
    x1, x2, x3 = r(2, 4, 9), r(2, 4, 7, 6), r(1, 2, 5, 6, 4)
    w = {"num_filter": 6}
    return [
        case("Convolution", x1, r(6, 4, 3), r(6), kernel=(3,), **w),
        case(
            "Convolution",
            x1,
            r(6, 2, 3),
            kernel=(3,),
            stride=(2,),
            pad=(2,),
            dilate=(2,),
            num_group=2,
            no_bias=True,
            **w,
        ),
        case("Convolution", x2, r(6, 4, 3, 3), r(6), kernel=(3, 3), **w),
        case("Convolution", x2, r(6, 4, 3, 2), r(6), kernel=(3, 2), stride=(2, 1), pad=(1, 0), **w),
        case("Convolution", x2, r(6, 4, 1, 1), kernel=(1, 1), no_bias=True, **w),
        case("Convolution", x2, r(6, 4, 3, 3), r(6), kernel=(3, 3), dilate=(2, 2), pad=(2, 2), **w),
        case("Convolution", x2, r(6, 2, 3, 3), r(6), kernel=(3, 3), num_group=2, stride=(2, 2), pad=(1, 1), **w),
        case("Convolution", x2, r(4, 1, 3, 3), kernel=(3, 3), num_group=4, num_filter=4, pad=(1, 1), no_bias=True),
        case(
            "Convolution",
            r(2, 3, 5, 5, dtype="float64"),
            r(2, 3, 2, 2, dtype="float64"),
            r(2, dtype="float64"),
            kernel=(2, 2),
            num_filter=2,
        ),
        case("Convolution", x3, r(3, 2, 2, 3, 2), r(3), kernel=(2, 3, 2), num_filter=3),
        case(
            "Convolution",
            x3,
            r(4, 1, 2, 2, 2),
            kernel=(2, 2, 2),
            stride=(2, 1, 2),
            pad=(1, 1, 0),
            dilate=(1, 2, 1),
            num_group=2,
            num_filter=4,
            no_bias=True,
        ),
        case("Convolution_v1", x2, r(6, 4, 3, 3), r(6), kernel=(3, 3), pad=(1, 1), **w),
        case("Deconvolution", r(2, 4, 5), r(4, 3, 3), kernel=(3,), num_filter=3),
        case(
            "Deconvolution",
            r(2, 4, 5),
            r(4, 3, 4),
            r(3),
            kernel=(4,),
            stride=(2,),
            pad=(1,),
            num_filter=3,
            no_bias=False,
        ),
        case("Deconvolution", r(2, 4, 4, 5), r(4, 3, 3, 3), kernel=(3, 3), num_filter=3),
        case(
            "Deconvolution",
            r(2, 4, 4, 5),
            r(4, 3, 4, 4),
            r(3),
            kernel=(4, 4),
            stride=(2, 2),
            pad=(1, 1),
            num_filter=3,
            no_bias=False,
        ),
        case(
            "Deconvolution",
            r(2, 4, 4, 5),
            r(4, 3, 3, 3),
            kernel=(3, 3),
            stride=(2, 2),
            pad=(1, 1),
            adj=(1, 1),
            num_filter=3,
        ),
        case(
            "Deconvolution",
            r(2, 4, 4, 5),
            r(4, 3, 3, 3),
            kernel=(3, 3),
            stride=(2, 2),
            target_shape=(8, 10),
            num_filter=3,
        ),
        case(
            "Deconvolution",
            r(2, 4, 4, 5),
            r(4, 3, 4, 4),
            kernel=(4, 4),
            stride=(2, 2),
            target_shape=(8, 10),
            num_filter=3,
        ),
        case("Deconvolution", r(2, 4, 4, 5), r(4, 2, 3, 3), kernel=(3, 3), num_group=2, num_filter=4, dilate=(2, 1)),
        case("Deconvolution", r(1, 2, 3, 3, 2), r(2, 2, 2, 2, 2), kernel=(2, 2, 2), stride=(2, 1, 2), num_filter=2),
        case("im2col", r(2, 3, 6, 5), kernel=(3, 2), stride=(2, 1), pad=(1, 0), dilate=(1, 2)),
        case("im2col", r(1, 2, 4, 4), kernel=(2, 2)),
        case("col2im", r(2, 12, 6), output_size=(4, 3), kernel=(2, 2)),
        case("col2im", r(1, 18, 9), output_size=(5, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 1)),
    ]


def poolings() -> list[Case]:
    x = r(2, 3, 7, 6)
    edge = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
    types = [
        case("Pooling", x, pool_type=kind, pooling_convention=convention, **edge)
        for kind in ("max", "avg", "sum")
        for convention in ("valid", "full")
    ]
    return [
        *types,
        case("Pooling", x, kernel=(2, 2)),
        case("Pooling", x, kernel=(2, 3), stride=(2, 3), pool_type="max", pooling_convention="full"),
        case("Pooling", x, pool_type="avg", count_include_pad=False, **edge),
        case("Pooling", x, pool_type="avg", count_include_pad=False, pooling_convention="full", **edge),
        case("Pooling", x, pool_type="avg", count_include_pad=True, **edge),
        case("Pooling", x, pool_type="lp", p_value=2, kernel=(2, 2), stride=(2, 2)),
        case("Pooling", r(2, 3, 7, 6, low=0), pool_type="lp", p_value=3, **edge),
        case("Pooling", x, pool_type="lp", p_value=1, global_pool=True),
        *[case("Pooling", x, pool_type=kind, global_pool=True, kernel=(2, 2)) for kind in ("max", "avg", "sum")],
        case("Pooling", x, pool_type="avg", global_pool=True, stride=(2, 2), pad=(1, 1)),
        case("Pooling", r(2, 3, 9), kernel=(3,), stride=(2,), pad=(1,), pool_type="avg"),
        case("Pooling", r(2, 3, 9), kernel=(2,), pool_type="max"),
        case("Pooling", r(1, 2, 5, 4, 6), kernel=(2, 2, 3), stride=(2, 1, 2), pad=(1, 0, 1), pool_type="max"),
        case(
            "Pooling", r(1, 2, 5, 4, 6), kernel=(2, 2, 2), pool_type="avg", pooling_convention="full", stride=(2, 2, 2)
        ),
        case("Pooling", r(1, 2, 5, 4, 6), global_pool=True, pool_type="max"),
        case("Pooling", r(2, 5, 6, 3), kernel=(2, 2), stride=(2, 2), layout="NHWC", pool_type="max"),
        case("Pooling", r(1, 2, 5, 5, dtype="float64"), kernel=(2, 2), pool_type="avg"),
        case("Pooling_v1", x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        case("Pooling_v1", x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", pooling_convention="full"),
        case("Pooling_v1", x, kernel=(2, 2), pool_type="sum", global_pool=True),
        case("_contrib_AdaptiveAvgPooling2D", x),
        case("_contrib_AdaptiveAvgPooling2D", x, output_size=(3,)),
        case("_contrib_AdaptiveAvgPooling2D", x, output_size=(3, 4)),
        case("_contrib_AdaptiveAvgPooling2D", x, output_size=(9, 8)),
        case(
            "ROIPooling",
            r(2, 3, 8, 8),
            a([[0, 0, 0, 7, 7], [1, 2, 1, 6, 5], [0, 3, 3, 3, 3], [1, 6, 6, 12, 14]]),
            pooled_size=(2, 2),
            spatial_scale=1.0,
        ),
        case(
            "ROIPooling", r(2, 3, 8, 8), a([[0, 1, 3, 13, 10], [1, 5, 2, 9, 15]]), pooled_size=(3, 2), spatial_scale=0.5
        ),
        case(
            "_contrib_ROIAlign",
            r(2, 3, 8, 8),
            a([[0, 0, 0, 7, 7], [1, 2.5, 1, 6.25, 5]]),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            sample_ratio=2,
        ),
        case(
            "_contrib_ROIAlign",
            r(2, 3, 8, 8),
            a([[0, 1, 3, 13, 10], [1, 5, 2, 9, 15]]),
            pooled_size=(3, 2),
            spatial_scale=0.5,
        ),
        case(
            "_contrib_ROIAlign",
            r(2, 3, 8, 8),
            a([[0, 1, 3, 13, 10], [1, 5, 2, 9, 12]]),
            pooled_size=(2, 2),
            spatial_scale=0.5,
            sample_ratio=2,
            aligned=True,
        ),
        case(
            "_contrib_ROIAlign",
            r(1, 8, 6, 6),
            a([[0, 0, 0, 5, 5]]),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            sample_ratio=2,
            position_sensitive=True,
        ),
    ]


def normalizations() -> list[Case]:
    x, positive = r(2, 3, 4, 5), r(3, low=0.5, high=1.5)
    channels = (x, positive, r(3), r(3), r(3, low=0.5, high=1.5))
    last = (r(2, 4, 3), positive, r(3), r(3), r(3, low=0.5, high=1.5))
    cases = []
    for op in ("BatchNorm", "_contrib_BatchNormWithReLU", "_contrib_SyncBatchNorm"):
        extra = {"key": "shared"} if op == "_contrib_SyncBatchNorm" else {}
        cases += [
            case(op, *channels, **extra),
            case(op, *channels, fix_gamma=False, eps=1e-5, **extra),
            case(op, *channels, fix_gamma=False, train=True, **extra),
            case(op, *channels, fix_gamma=False, use_global_stats=True, train=True, **extra),
        ]
    return [
        *cases,
        case("BatchNorm", *channels, output_mean_var=True, fix_gamma=False),
        case("BatchNorm", *channels, output_mean_var=True, fix_gamma=False, train=True),
        case("BatchNorm", *last, axis=2, fix_gamma=False),
        case("BatchNorm", *last, axis=-1, fix_gamma=True, train=True),
        case("BatchNorm", r(6, 3), positive, r(3), r(3), r(3, low=0.5, high=1.5), fix_gamma=False),
        case("BatchNorm_v1", x, positive, r(3), r(3), r(3, low=0.5, high=1.5), fix_gamma=False),
        case("LayerNorm", r(3, 4, 5), r(5), r(5)),
        case("LayerNorm", r(3, 4, 5), r(4), r(4), axis=1, eps=1e-3),
        case("LayerNorm", r(3, 4, 5), r(5), r(5), output_mean_var=True),
        case("GroupNorm", r(2, 6, 3, 2), r(3), r(3), num_groups=3),
        case("GroupNorm", r(2, 6, 5), r(2), r(2), num_groups=2, eps=1e-3),
        case("GroupNorm", r(2, 6, 5), r(1), r(1), num_groups=1, output_mean_var=True),
        case("InstanceNorm", x, r(3), r(3)),
        case("InstanceNorm", r(2, 3, 6), r(3), r(3), eps=1e-2),
        case("L2Normalization", x),
        case("L2Normalization", x, mode="channel", eps=1e-3),
        case("L2Normalization", x, mode="spatial"),
        case("L2Normalization", r(3, 5), mode="instance"),
        case("LRN", r(2, 7, 3, 4, low=-4, high=4), nsize=5),
        case("LRN", r(2, 7, 3, 4, low=-4, high=4), nsize=3, alpha=0.1, beta=0.5, knorm=1.0),
        case("moments", x, axes=(0, 2, 3)),
        case("moments", x, axes=(1,), keepdims=True),
        case("moments", x, axes=(0, 1, 2, 3)),
        case("moments", x, axes=(-1, 0)),
    ]


def activations() -> list[Case]:
    x = r(3, 4, low=-4, high=4)
    kinds = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    return [
        *[case("Activation", x, act_type=kind) for kind in kinds],
        case("Activation", r(3, 4, low=-40, high=40), act_type="softrelu"),
        case("Activation", r(3, 4, dtype="float64"), act_type="tanh"),
        *[case("LeakyReLU", x, act_type=kind) for kind in ("leaky", "elu", "selu", "gelu", "rrelu")],
        case("LeakyReLU", x, act_type="leaky", slope=0.01),
        case("LeakyReLU", x, act_type="elu", slope=0.5),
        case("LeakyReLU", r(2, 3, 4), r(3), act_type="prelu"),
        case("LeakyReLU", r(2, 3, 4), r(1), act_type="prelu"),
        case("LeakyReLU", r(2, 3, 2, 2), r(3), act_type="prelu"),
        case("hard_sigmoid", x),
        case("hard_sigmoid", x, alpha=0.5, beta=0.25),
        *[case(op, x) for op in ("softmax", "log_softmax", "softmin", "SoftmaxActivation")],
        *[case(op, x, axis=0) for op in ("softmax", "log_softmax", "softmin")],
        *[
            case(op, r(2, 3, 4, low=-4, high=4), axis=1, temperature=2.5)
            for op in ("softmax", "log_softmax", "softmin")
        ],
        case("softmax", r(3, 4, low=-90, high=90)),
        case("softmax", r(3, 4, dtype="float16"), dtype="float32"),
        case("softmax", r(3, 4, dtype="float64")),
        case("softmax", r(2, 5), a([2, 5], "int32"), use_length=True),
        case("softmax", r(2, 5, 3), a([[1, 5, 3], [2, 0, 4]], "int32"), use_length=True, axis=1),
        case("log_softmax", r(3, 4, dtype="float16"), dtype="float32"),
        case("SoftmaxActivation", r(2, 3, 4, 2), mode="channel"),
        case("SoftmaxActivation", r(2, 3, 4)),
        case("SoftmaxOutput", r(3, 4), a([0, 3, 1])),
        case("SoftmaxOutput", r(2, 3, 4), r(2, 4, low=0, high=2), multi_output=True),
        case("SoftmaxOutput", r(2, 3, 4), r(2, 3, low=0, high=3), preserve_shape=True),
        case("SoftmaxOutput", r(2, 3, 4), r(2, 3, low=0, high=3)),
        case("SoftmaxOutput", r(2, 4), a([1, 2]), grad_scale=2.0, use_ignore=True, normalization="valid"),
        case("Dropout", x),
        case("Dropout", x, p=0.3, axes=(0,)),
        case("Dropout", x, p=0.0, train=True),
    ]


def rnn(mode: str, layers: int = 1, directions: int = 1, state: int = 4, projection: int = 0, **more: object) -> Case:
    """A case of RNN over 5 steps, 2 sequences and 3 features; `state_size` is 4."""
    gates = {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}[mode]
    recurrent = projection or state
    widths = [3] + [recurrent * directions] * (layers - 1)
    per_direction = [gates * state * (width + recurrent + 2) + projection * state for width in widths]
    x, weights = r(5, 2, 3), r(directions * sum(per_direction))
    states = [r(layers * directions, 2, recurrent)] + [r(layers * directions, 2, state)] * (mode == "lstm")
    options = {"projection_size": projection} if projection else {}
    return case(
        "RNN",
        x,
        weights,
        *states,
        mode=mode,
        state_size=state,
        num_layers=layers,
        bidirectional=directions == 2,
        **options,
        **more,
    )


def recurrences() -> list[Case]:
    """No sequence lengths and no clipping of the cell: MXNet on a CPU takes both options and ignores them."""
    modes = ("rnn_relu", "rnn_tanh", "gru", "lstm")
    return [
        *[rnn(mode, state_outputs=True) for mode in modes],
        *[rnn(mode, layers=2, directions=2, state_outputs=True) for mode in modes],
        rnn("lstm"),
        rnn("gru", layers=3),
        rnn("lstm", directions=2, state_outputs=False),
        rnn("lstm", projection=2, state_outputs=True),
        rnn("lstm", layers=2, projection=3, state_outputs=True),
    ]


def heads() -> list[Case]:
    """Dense layers, embeddings, attention's products and resampling."""
    image = r(2, 3, 4, 5)
    return [
        case("FullyConnected", r(3, 5), r(4, 5), r(4), num_hidden=4),
        case("FullyConnected", r(2, 3, 5), r(4, 15), num_hidden=4, no_bias=True),
        case("FullyConnected", r(2, 3, 5), r(4, 5), r(4), num_hidden=4, flatten=False),
        case("FullyConnected", r(3, 5, dtype="float64"), r(4, 5, dtype="float64"), r(4, dtype="float64"), num_hidden=4),
        case("Embedding", a([[1, 0], [4, 2]]), r(5, 3), input_dim=5, output_dim=3),
        case("Embedding", a([-2, 7, 1.75]), r(5, 3), input_dim=5, output_dim=3),
        case("Embedding", a([[1], [3]], "int32"), r(5, 3), input_dim=5, output_dim=3),
        case("_contrib_interleaved_matmul_selfatt_qk", r(4, 2, 18), heads=2),
        case("_contrib_interleaved_matmul_selfatt_valatt", r(4, 2, 18), r(4, 4, 4), heads=2),
        case("_contrib_interleaved_matmul_encdec_qk", r(3, 2, 6), r(4, 2, 12), heads=2),
        case("_contrib_interleaved_matmul_encdec_valatt", r(4, 2, 12), r(4, 3, 4), heads=2),
        case("_contrib_div_sqrt_dim", r(3, 7)),
        case("UpSampling", image, scale=2, sample_type="nearest", num_args=1),
        case("UpSampling", r(1, 2, 4, 4), r(1, 3, 2, 2), scale=2, sample_type="nearest", num_args=2),
        case(
            "UpSampling",
            r(1, 2, 4, 4),
            r(1, 2, 2, 2),
            scale=2,
            sample_type="nearest",
            num_args=2,
            multi_input_mode="sum",
        ),
        case("UpSampling", image, r(3, 1, 4, 4), scale=2, sample_type="bilinear", num_filter=3, num_args=2),
        case("UpSampling", image, r(3, 1, 5, 5), scale=3, sample_type="bilinear", num_filter=3, num_args=2),
        case("_contrib_BilinearResize2D", image, height=7, width=9),
        case("_contrib_BilinearResize2D", image, height=2, width=3),
        case("_contrib_BilinearResize2D", image, height=7, width=9, align_corners=False),
        case("_contrib_BilinearResize2D", image, scale_height=2.0, scale_width=1.5),
        case("_contrib_BilinearResize2D", image, r(1, 1, 6, 7), mode="like"),
        *[
            case("_contrib_BilinearResize2D", image, mode=mode, scale_height=2.0, scale_width=2.0)
            for mode in ("odd_scale",)
        ],
        *[
            case("_contrib_BilinearResize2D", image, mode=mode)
            for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
        ],
        case("GridGenerator", r(2, 6), transform_type="affine", target_shape=(3, 4)),
        case("GridGenerator", r(2, 2, 3, 4), transform_type="warp"),
        case("BilinearSampler", image, r(2, 2, 3, 4, low=-1.5, high=1.5)),
        case(
            "SpatialTransformer", image, r(2, 6), target_shape=(3, 4), transform_type="affine", sampler_type="bilinear"
        ),
        case("Crop", r(1, 2, 6, 7), offset=(1, 2), h_w=(3, 4), num_args=1),
        case("Crop", r(1, 2, 6, 7), r(1, 1, 3, 4), num_args=2),
        case("Crop", r(1, 2, 6, 7), h_w=(3, 4), center_crop=True, num_args=1),
    ]


def corners(count: int, seed: int) -> np.ndarray:
    """`count` boxes (left, top, right, bottom) inside the unit square."""
    random = np.random.default_rng(seed)
    start, size = random.integers(0, 40, (count, 2)) / 64, random.integers(8, 24, (count, 2)) / 64
    return np.concatenate([start, start + size], axis=1).astype("float32")


def scored(count: int, classes: int, seed: int) -> np.ndarray:
    """`count` rows of class, distinct score and box."""
    random = np.random.default_rng(seed)
    score = (random.permutation(count) + 1) / (count + 1)
    return np.column_stack([random.integers(0, classes, count), score, corners(count, seed)]).astype("float32")


def detections() -> list[Case]:
    boxes = np.stack([scored(8, 2, 1), scored(8, 2, 2)])
    centred = boxes.copy()
    centred[..., 2:4], centred[..., 4:6] = (boxes[..., 2:4] + boxes[..., 4:6]) / 2, boxes[..., 4:6] - boxes[..., 2:4]
    anchors = corners(6, 3)[None]
    probabilities = np.random.default_rng(4).dirichlet((1, 1, 1), (2, 6)).transpose(0, 2, 1).astype("float32")
    detect = ("_contrib_MultiBoxDetection", probabilities, r(2, 24), anchors)
    return [
        case("_contrib_box_nms", boxes, overlap_thresh=0.3),
        case("_contrib_box_nms", boxes, overlap_thresh=0.3, id_index=0),
        case("_contrib_box_nms", boxes, overlap_thresh=0.3, id_index=0, force_suppress=True, topk=4),
        case("_contrib_box_nms", boxes, overlap_thresh=0.2, valid_thresh=0.4, id_index=0, background_id=0),
        case("_contrib_box_nms", centred, overlap_thresh=0.3, in_format="center", out_format="corner"),
        case("_contrib_box_nms", boxes[0], overlap_thresh=0.5, out_format="center"),
        case("_contrib_MultiBoxPrior", r(1, 3, 3, 4)),
        case("_contrib_MultiBoxPrior", r(1, 3, 3, 4), sizes=(0.5, 0.25), ratios=(1, 2, 0.5)),
        case(
            "_contrib_MultiBoxPrior",
            r(1, 3, 2, 3),
            sizes=(0.9,),
            ratios=(1, 3),
            clip=True,
            steps=(0.4, 0.3),
            offsets=(0.25, 0.75),
        ),
        case(*detect),
        case(*detect, nms_threshold=0.2, force_suppress=True, threshold=0.2),
        case(*detect, clip=False, nms_topk=3, variances=(0.2, 0.2, 0.1, 0.1), background_id=0),
    ]


def sequences() -> list[Case]:
    x, lengths = r(4, 3, 2), a([2, 4, 1])
    return [
        *[case(op, x) for op in ("SequenceMask", "SequenceLast", "SequenceReverse")],
        *[case(op, x, lengths, use_sequence_length=True) for op in ("SequenceMask", "SequenceLast", "SequenceReverse")],
        case("SequenceMask", r(3, 4, 2), lengths, use_sequence_length=True, axis=1, value=-7.5),
        case("SequenceLast", r(3, 4, 2), lengths, use_sequence_length=True, axis=1),
        case("SequenceLast", distinct(4, 3), lengths, use_sequence_length=True),
        case("SequenceMask", distinct(4, 3, dtype="int32"), a([2, 4, 0], "int32"), use_sequence_length=True),
    ]


def cases() -> list[Case]:
    """All cases of this file."""
    families = (convolutions, poolings, normalizations, activations, recurrences, heads, detections, sequences)
    return [found for family in families for found in family()]
