"""Training targets of detectors: matching of boxes, and the targets computed from matches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from ...graph import Graph, Value
from ...scalar import ReduceOp
from ...types import DType, TensorType
from .builder import MxBuilder
from .contrib_detection import Corners, as_corners, center_to_corner, column, columns, corner_to_center, rows_at
from .gradients import no_gradient
from .nn_softmax import softmax
from .operator import Operator, operator
from .parameters import Bool, Float, Floats, Int


def match_best(b: MxBuilder, scores: Value, threshold: float, most: int) -> tuple[Value, Value]:
    """Greedy matching of rows and columns of scores (B, R, C): the best pair, then the best of the rest, and so on.

    Returns the column of each row (B, R) and the row of each column (B, C), -1 for none, for up to `most` pairs with
    scores above the threshold. Of equal scores the first in row-major order wins.
    """
    batch, rows, count = scores.type.shape
    flat = b.reshape(scores, (batch, rows * count))
    marks = [b.full((batch, n), -1, DType.I32) for n in (rows, count)]
    best = _best(b, flat)
    state = [b.full((), 0, DType.I32), *marks, *best, flat]
    types = [v.type for v in state]
    most = min(most, rows, count)
    matched = b.while_(_more_pairs(types, threshold, most), _pair_step(types, threshold, rows, count), *state)
    return matched[1], matched[2]


def _best(b: MxBuilder, flat: Value) -> tuple[Value, Value]:
    """The largest number of each row, and its position."""
    return b.max(flat, (1,)), b.cast(b.arg_reduce("max", flat, 1), DType.I32)


def _more_pairs(types: list[TensorType], threshold: float, most: int) -> Graph:
    b = MxBuilder("more_pairs")
    done, _, _, best, *_ = [b.input(t) for t in types]
    return b.build([b.and_(b.lt(done, most), b.any(b.gt(best, threshold)))])


def _pair_step(types: list[TensorType], threshold: float, rows: int, count: int) -> Graph:
    b = MxBuilder("pair")
    done, of_rows, of_columns, best, place, flat = [b.input(t) for t in types]
    row, column = b.div(place, count), b.mod(place, count)
    good = b.gt(best, threshold)

    def here(which: Value, shape: Sequence[int], axis: int) -> Value:
        chosen = b.eq(b.iota(shape, DType.I32, axis), b.broadcast(which, shape, (0,)))
        return b.and_(chosen, b.broadcast(good, shape, (0,)))

    of_rows, of_columns = (
        b.select(here(mine, marks.type.shape, 1), b.broadcast(other, marks.type.shape, (0,)), marks)
        for marks, mine, other in ((of_rows, row, column), (of_columns, column, row))
    )
    space = (flat.type.shape[0], rows, count)
    taken = b.reshape(b.or_(here(row, space, 1), here(column, space, 2)), flat.type.shape)
    flat = b.select(taken, b.full_like(flat, -np.inf), flat)
    return b.build([b.add(done, 1), of_rows, of_columns, *_best(b, flat), flat])


@operator("_contrib_bipartite_matching")
class BipartiteMatching(Operator):
    """Matches rows and columns of scores, best pair first.

    Args:
        data: (..., rows, columns), the scores.
        is_ascend: True if the lowest score is the best.
        threshold: Pairs with a worse score are not matched.
        topk: If positive, matching stops after topk + 1 pairs, as in MXNet.
    Returns:
        output0: The column of each row, -1 for none.
        output1: The row of each column, -1 for none.
    """

    floats = True
    gradient = no_gradient
    outputs = ("output0", "output1")
    is_ascend: Bool = False
    threshold: Float
    topk: Int = -1

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        (scores,) = inputs
        if scores.type.rank < 2:
            raise ValueError(f"requires scores of rows and columns, got {scores.type.shape}")
        *lead, rows, count = scores.type.shape
        flat = b.reshape(scores, (prod(lead), rows, count))
        sign = -1 if self.is_ascend else 1
        most = self.topk + 1 if self.topk > 0 else rows
        pairs = match_best(b, b.mul(flat, sign) if sign < 0 else flat, sign * self.threshold, most)
        of_rows, of_columns = (b.cast(v, scores.type.dtype) for v in pairs)
        return b.reshape(of_rows, (*lead, rows)), b.reshape(of_columns, (*lead, count))


@operator("_contrib_box_encode")
class BoxEncode(Operator):
    """Targets of a detector: the position of each anchor's object relative to the anchor.

    Args:
        samples: (B, N), 1 for anchors with an object.
        matches: (B, N), the object of each anchor.
        anchors: (B, N, 4), corners.
        refs: (B, M, 4), the objects' corners.
        means: (4,), subtracted from the targets.
        stds: (4,), divisors of the targets.
    Returns:
        output0: The targets, (B, N, 4).
        output1: A mask of the anchors with an object, (B, N, 4).
    """

    floats = True
    inputs = ("samples", "matches", "anchors", "refs", "means", "stds")
    outputs = ("output0", "output1")
    gradient = no_gradient

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        samples, matches, anchors, refs, means, stds = inputs
        shapes = [v.type.shape for v in inputs]
        boxes = all(len(s) == 3 and s[2] == 4 for s in shapes[2:4])
        if not boxes or shapes[0] != shapes[2][:2] or shapes[1] != shapes[0] or shapes[4:] != [(4,), (4,)]:
            raise ValueError(f"requires (B, N), (B, N), (B, N, 4), (B, M, 4), (4,), (4,), got {shapes}")
        at = b.expand_dims(b.cast(matches, DType.I32), 2)
        moves = columns(b, moves_between(b, _box(b, anchors), _box(b, b.gather(refs, at, (1,), 1))))
        shape = moves.type.shape
        normal = b.div(b.sub(moves, b.broadcast_to(means, shape)), b.broadcast_to(stds, shape))
        positive = b.broadcast(b.gt(samples, 0.5), shape, (0, 1))
        zeros = b.full_like(normal, 0)
        return b.select(positive, normal, zeros), b.select(positive, b.full_like(normal, 1), zeros)


def _box(b: MxBuilder, rows: Value) -> Corners:
    return as_corners([column(b, rows, i) for i in range(4)])


def moves_between(b: MxBuilder, anchor: Corners, box: Corners) -> Corners:
    """The box's centre relative to the anchor's, in anchor sizes, and the logarithms of the size ratios."""
    x, y, width, height = corner_to_center(b, anchor)
    to_x, to_y, to_width, to_height = corner_to_center(b, box)
    across, down = b.div(b.sub(to_x, x), width), b.div(b.sub(to_y, y), height)
    return across, down, b.log(b.div(to_width, width)), b.log(b.div(to_height, height))


@operator("_contrib_box_decode")
class BoxDecode(Operator):
    """Boxes of a detector: the inverse of box_encode.

    Args:
        data: (B, N, 4), moves of the anchors.
        anchors: (1, N, 4), the anchors.
        std0: Factor of the first move.
        std1: Factor of the second move.
        std2: Factor of the third move.
        std3: Factor of the fourth move.
        clip: Largest exponent of the sizes; no limit if negative.
        format: Format of the anchors: "corner" (left, top, right, bottom) or "center" (x, y, width, height).
    Returns:
        (B, N, 4), corners.
    """

    floats = True
    inputs = ("data", "anchors")
    gradient = no_gradient
    std0: Float = 1.0
    std1: Float = 1.0
    std2: Float = 1.0
    std3: Float = 1.0
    clip: Float = -1.0
    format: Literal["center", "corner"] = "center"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, anchors = inputs
        shape = data.type.shape
        if len(shape) != 3 or shape[2] != 4 or anchors.type.shape != (1, *shape[1:]):
            raise ValueError(f"requires data (B, N, 4) and anchors (1, N, 4), got {shape} and {anchors.type.shape}")
        anchor = _box(b, b.broadcast_to(anchors, data.type.shape))
        x, y, width, height = corner_to_center(b, anchor) if self.format == "corner" else anchor
        stds = (self.std0, self.std1, self.std2, self.std3)
        across, down, wider, higher = (b.mul(column(b, data, i), std) for i, std in enumerate(stds))
        if self.clip > 0:
            wider, higher = b.minimum(wider, self.clip), b.minimum(higher, self.clip)
        center = b.add(b.mul(across, width), x), b.add(b.mul(down, height), y)
        size = b.mul(b.exp(wider), width), b.mul(b.exp(higher), height)
        return columns(b, center_to_corner(b, (*center, *size)))


@operator("_contrib_MultiBoxTarget", aliases=("_npx_multibox_target",))
class MultiBoxTarget(Operator):
    """Targets of a single-shot detector. Each object is matched with the anchor that overlaps it most. Each other
    anchor is matched with the object that it overlaps most, if the overlap exceeds `overlap_threshold`.

    Args:
        anchor: (1, A, 4), corners.
        label: (N, objects, 5 or more): class and corners, up to the first row of class -1.
        cls_pred: (N, classes, A), scores, from which negatives are selected.
        overlap_threshold: Intersection over union above which an anchor is matched.
        ignore_label: Class of ignored anchors.
        negative_mining_ratio: Number of negatives per positive; all if -1.
        negative_mining_thresh: Anchors that overlap an object more are not negatives.
        minimum_negative_samples: Smallest number of negatives.
        variances: Divisors of the four moves.
    Returns:
        loc_target: Moves from anchors to objects, (N, A * 4).
        loc_mask: 1 for anchors with an object, (N, A * 4).
        cls_target: Classes, (N, A); 0 is the background.
    """

    floats = True
    inputs = ("anchor", "label", "cls_pred")
    outputs = ("loc_target", "loc_mask", "cls_target")
    gradient = no_gradient
    overlap_threshold: Float = 0.5
    ignore_label: Float = -1.0
    negative_mining_ratio: Float = -1.0
    negative_mining_thresh: Float = 0.5
    minimum_negative_samples: Int = 0
    variances: Floats = (0.1, 0.1, 0.2, 0.2)

    def check(self) -> None:
        if len(self.variances) != 4:
            raise ValueError(f"_contrib_MultiBoxTarget: variances={self.variances}: must be four numbers")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        anchors, labels, predictions = inputs
        self._check_shapes(anchors, labels, predictions)
        shape = (labels.type.shape[0], anchors.type.shape[1])  # images, anchors
        real = self._real_labels(b, labels)
        overlaps = self._overlaps(b, anchors, labels, real)
        matched = match_best(b, overlaps, 1e-6, labels.type.shape[1])[0]
        nearest = b.cast(b.arg_reduce("max", overlaps, 2), DType.I32)
        most = b.max(overlaps, (2,))
        own = b.ge(matched, 0)
        near = b.and_(b.not_(own), b.gt(most, self.overlap_threshold))
        positive = b.or_(own, near) if self.overlap_threshold > 0 else own
        some = b.broadcast(b.any(real, (1,)), shape, (0,))
        positive = b.and_(positive, some)
        negative = b.and_(some, self._negative(b, predictions, positive, most))
        chosen = rows_at(b, labels, b.select(own, matched, nearest))
        return self._targets(b, anchors, chosen, positive, negative)

    def _check_shapes(self, anchors: Value, labels: Value, predictions: Value) -> None:
        fits = anchors.type.rank == labels.type.rank == predictions.type.rank == 3
        fits = fits and anchors.type.shape[::2] == (1, 4) and labels.type.shape[2] >= 5
        if not fits or predictions.type.shape[::2] != (labels.type.shape[0], anchors.type.shape[1]):
            shapes = ", ".join(str(v.type.shape) for v in (anchors, labels, predictions))
            raise ValueError(
                f"requires anchors (1, A, 4), labels (B, L, 5 or more), predictions (B, classes, A), got {shapes}"
            )

    def _real_labels(self, b: MxBuilder, labels: Value) -> Value:
        """BOOL (B, L): the rows before the first row of class -1."""
        is_label = b.cast(b.ne(column(b, labels, 0), -1), DType.I32)
        return b.gt(b.cumulative(ReduceOp.MUL, is_label, 1), 0)

    def _overlaps(self, b: MxBuilder, anchors: Value, labels: Value, real: Value) -> Value:
        """Intersection over union (B, A, L); -1 for rows that are not labels."""
        space = (labels.type.shape[0], anchors.type.shape[1], labels.type.shape[1])
        flat = b.reshape(anchors, anchors.type.shape[1:])
        mine = [b.broadcast(column(b, flat, i), space, (1,)) for i in range(4)]
        theirs = [b.broadcast(column(b, labels, i + 1), space, (0, 2)) for i in range(4)]
        sides = [
            b.maximum(b.sub(b.minimum(mine[k + 2], theirs[k + 2]), b.maximum(mine[k], theirs[k])), 0) for k in range(2)
        ]
        common = b.mul(*sides)
        areas = [b.mul(b.sub(v[2], v[0]), b.sub(v[3], v[1])) for v in (mine, theirs)]
        union = b.sub(b.add(*areas), common)
        share = b.select(b.eq(union, 0), b.full_like(union, 0), b.div(common, union))
        return b.select(b.broadcast(real, space, (0, 2)), share, b.full_like(share, -1))

    def _negative(self, b: MxBuilder, predictions: Value, positive: Value, most: Value) -> Value:
        """The anchors used as background: all others, or those with the lowest background probability."""
        if self.negative_mining_ratio <= 0:
            return b.not_(positive)
        shape, count = positive.type.shape, positive.type.shape[1]
        positives = b.sum(b.cast(positive, DType.I32), (1,))
        quota = b.cast(b.mul(b.cast(positives, DType.F32), self.negative_mining_ratio), DType.I32)
        quota = b.minimum(quota, b.sub(count, positives))
        candidate = b.and_(b.not_(positive), b.lt(most, self.negative_mining_thresh))
        background = column(b, b.transpose(softmax(b, predictions, 1), (0, 2, 1)), 0)
        key = b.select(candidate, background, b.full_like(background, np.inf))
        rank = b.argsort(b.argsort(key, 1), 1)
        return b.and_(candidate, b.lt(rank, b.broadcast(quota, shape, (0,))))

    def _targets(
        self, b: MxBuilder, anchors: Value, chosen: Value, positive: Value, negative: Value
    ) -> tuple[Value, ...]:
        shape = positive.type.shape
        flat = b.reshape(anchors, anchors.type.shape[1:])
        anchor = as_corners([b.broadcast(column(b, flat, i), shape, (1,)) for i in range(4)])
        box = as_corners([column(b, chosen, i) for i in range(1, 5)])
        parts = [b.div(v, s) for v, s in zip(moves_between(b, anchor, box), self.variances, strict=True)]
        moves = columns(b, parts)
        mask = b.broadcast(positive, moves.type.shape, (0, 1))
        zeros = b.full_like(moves, 0)
        targets = b.select(mask, moves, zeros), b.select(mask, b.full_like(moves, 1), zeros)
        label = b.add(column(b, chosen, 0), 1)
        others = b.select(negative, b.full_like(label, 0), b.full_like(label, self.ignore_label))
        rows = (shape[0], shape[1] * 4)
        return *(b.reshape(v, rows) for v in targets), b.select(positive, label, others)
