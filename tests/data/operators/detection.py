"""Golden cases of detectors: boxes and their pairs, proposals, pooling of regions, deformable windows."""

from __future__ import annotations

import numpy as np
from golden_case import Case, a, case, distinct, r

RANDOM = np.random.default_rng(5)


def boxes(*shape: int, size: float = 1.0) -> np.ndarray:
    """Corners of boxes inside of [0, size]."""
    corners = np.sort(RANDOM.uniform(0, 1, (*shape, 2, 2)), -2) + [[0, 0], [0.1, 0.1]]
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


def cases() -> list[Case]:
    return [*pairs(), *targets()]
