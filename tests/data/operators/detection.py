"""Golden cases of detectors: boxes and their pairs, proposals, pooling of regions, deformable windows."""

from __future__ import annotations

import numpy as np
from golden_case import Case, a, case, distinct, r

RANDOM = np.random.default_rng(5)


def boxes(*shape: int, size: float = 1.0) -> np.ndarray:
    """Corners of boxes inside of [0, size]."""
    corners = np.sort(RANDOM.uniform(0, 1, (*shape, 2, 2)), -2) + np.array([[0, 0], [0.1, 0.1]])
    return (corners.reshape(*shape, 4) * size / 1.1).astype("float32")


def labels(images: int, rows: int, real: list[int]) -> np.ndarray:
    """Rows of class and corners; only the first rows of each image are real."""
    kinds = RANDOM.integers(0, 3, (images, rows, 1)).astype("float32")
    made = np.concatenate([kinds, boxes(images, rows)], -1)
    for image, count in enumerate(real):
        made[image, count:] = -1
    return made


def pairs() -> list[Case]:
    tied = a([[0.5, 0.5, 0.1], [0.5, 0.2, 0.2]])
    cases = [
        case("_contrib_bipartite_matching", a([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]), threshold=1e-12),
        case("_contrib_bipartite_matching", a([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]), threshold=100, is_ascend=True),
        case("_contrib_bipartite_matching", distinct(2, 3, 4, 5), threshold=-3.0, topk=1),
        case("_contrib_bipartite_matching", distinct(2, 6, 4, dtype="float64"), threshold=2.0),
        case("_contrib_bipartite_matching", distinct(2, 6, 4), threshold=2.0, is_ascend=True, topk=2),
        case("_contrib_bipartite_matching", tied, threshold=0.15),
        case("_contrib_box_decode", r(2, 3, 4), boxes(1, 3), std0=0.1, std1=0.1, std2=0.2, std3=0.2),
        case("_contrib_box_decode", r(2, 3, 4), boxes(1, 3), format="corner", clip=0.25),
    ]
    samples, matches = a([[1, 0, -1, 1], [0.25, 1, 1, 0]]), a([[0, 2, 1, 1], [2, 1, 0, 0]])
    means, stds = a([0, 0.1, 0, 0.05]), a([0.1, 0.1, 0.2, 0.2])
    cases.append(case("_contrib_box_encode", samples, matches, boxes(2, 4), boxes(2, 3), means, stds))
    return cases


def targets() -> list[Case]:
    anchors = boxes(1, 12)
    several = labels(3, 4, [2, 0, 4])
    scores = r(3, 4, 12)
    options = [
        {},
        {"overlap_threshold": 0.2, "variances": (0.5, 0.25, 0.1, 1.0)},
        {"overlap_threshold": -1.0, "ignore_label": 7.0},
        {"negative_mining_ratio": 1.5, "negative_mining_thresh": 0.4},
        {"negative_mining_ratio": 0.5, "overlap_threshold": 0.3, "minimum_negative_samples": 2},
    ]
    made = [case("_contrib_MultiBoxTarget", anchors, several, scores, **given) for given in options]
    wide = np.concatenate([labels(1, 2, [1]), np.zeros((1, 2, 1), "float32")], -1)
    return [*made, case("_contrib_MultiBoxTarget", anchors, wide, r(1, 2, 12))]


def proposals() -> list[Case]:
    scores, moves = distinct(1, 8, 5, 4), r(1, 16, 5, 4, low=-0.5, high=0.5)
    small = {"scales": (1, 3), "ratios": (0.5, 1.5), "feature_stride": 8, "rpn_min_size": 4}
    options = [
        {"rpn_post_nms_top_n": 6, "output_score": True},
        {"rpn_post_nms_top_n": 90, "threshold": 0.3},
        {"rpn_pre_nms_top_n": 7, "rpn_post_nms_top_n": 4, "threshold": 0.1, "output_score": True},
        {"rpn_pre_nms_top_n": -1, "rpn_post_nms_top_n": 5, "iou_loss": True, "rpn_min_size": 12},
    ]
    info = a([[38, 30, 1.25]])
    made = [case("_contrib_Proposal", scores, moves, info, **{**small, **given}) for given in options]
    several = distinct(2, 8, 3, 4), r(2, 16, 3, 4), a([[24, 32, 1], [16, 25, 2]])
    made += [case("_contrib_MultiProposal", *several, **{**small, **given}) for given in options[:3]]
    return [*made, case("_contrib_Proposal", distinct(1, 24, 4, 4), r(1, 48, 4, 4), a([[64, 64, 1]]))]


def regions() -> list[Case]:
    data = r(2, 18, 9, 7)
    rois = a([[0, 1, 1, 10, 9], [1, 0.4, 2.5, 5.5, 16], [1, 6, 6, 6, 6], [0, 20, 20, 30, 30]])
    turned = a([[0, 5, 4, 8, 3, 30], [1, 2, 3.5, 4, 6, -70], [1, 6, 6, 0.5, 0.25, 0]])
    cut = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3}
    return [
        case("_contrib_PSROIPooling", data, rois, **cut),
        case(
            "_contrib_PSROIPooling", r(2, 8, 9, 7), rois, spatial_scale=0.5, output_dim=2, pooled_size=3, group_size=2
        ),
        case("_contrib_DeformablePSROIPooling", data, rois, group_size=3, no_trans=True, sample_per_part=2, **cut),
        case(
            "_contrib_DeformablePSROIPooling",
            data,
            rois,
            r(4, 4, 2, 2),
            group_size=3,
            part_size=2,
            sample_per_part=3,
            trans_std=0.25,
            **cut,
        ),
        case("_contrib_DeformablePSROIPooling", data, rois, r(4, 2, 3, 3), group_size=3, trans_std=0.5, **cut),
        case("_contrib_RROIAlign", r(2, 3, 9, 7), turned, pooled_size=(2, 3), spatial_scale=1.0, sampling_ratio=2),
        case("_contrib_RROIAlign", r(2, 3, 9, 7), turned, pooled_size=(2, 3), spatial_scale=0.5),
    ]


def deformed() -> list[Case]:
    data = r(2, 4, 7, 6)
    plain = {"kernel": (3, 3), "num_filter": 6}
    other = {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "dilate": (1, 2), "pad": (1, 2)}
    far = {"low": -4, "high": 4}
    return [
        case("_contrib_DeformableConvolution", data, r(2, 18, 5, 4), r(6, 4, 3, 3), r(6), **plain),
        case(
            "_contrib_DeformableConvolution",
            data,
            r(2, 24, 4, 8, **far),
            r(4, 2, 3, 2),
            num_group=2,
            num_deformable_group=2,
            no_bias=True,
            **other,
        ),
        case(
            "_contrib_ModulatedDeformableConvolution", data, r(2, 18, 5, 4), r(2, 9, 5, 4), r(6, 4, 3, 3), r(6), **plain
        ),
        case(
            "_contrib_ModulatedDeformableConvolution",
            data,
            r(2, 24, 4, 8, **far),
            r(2, 12, 4, 8),
            r(4, 2, 3, 2),
            num_group=2,
            num_deformable_group=2,
            no_bias=True,
            **other,
        ),
    ]


def correlations() -> list[Case]:
    pair = r(2, 3, 6, 7), r(2, 3, 6, 7)
    options = [
        {},
        {"kernel_size": 1, "max_displacement": 2, "pad_size": 2},
        {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 3},
        {"kernel_size": 3, "max_displacement": 3, "stride2": 2, "pad_size": 4, "is_multiply": False},
    ]
    return [case("Correlation", *pair, **given) for given in options]


def cases() -> list[Case]:
    return [*pairs(), *targets(), *proposals(), *regions(), *deformed(), *correlations()]
