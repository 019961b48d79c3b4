"""Region proposals: anchors moved by predictions, filtered and suppressed if they overlap."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from .contrib_detection import Corners, as_corners, column, columns, kept_first, rows_at, suppress
from .gradients import no_gradient
from .operator import Operator, operator
from .parameters import Bool, Float, Floats, Int
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class _Proposals(Operator):
    """Shared arguments of several operators.

    Args:
        cls_prob: (N, 2 * anchors, H, W), probabilities of background and object for each anchor.
        bbox_pred: (N, 4 * anchors, H, W), moves of the anchors.
        im_info: (N, 3), height, width and scale of each image.
        rpn_pre_nms_top_n: Number of best boxes before suppression.
        rpn_post_nms_top_n: Number of returned boxes.
        threshold: Intersection over union above which boxes suppress each other.
        rpn_min_size: Smaller boxes are removed.
        scales: Sizes of the anchors, relative to `feature_stride`.
        ratios: Ratios of height to width of the anchors.
        feature_stride: Pixels of the image per position.
        output_score: True to return the probabilities as well.
        iou_loss: True if the moves apply to the corners.
    """

    floats = True
    inputs = ("cls_prob", "bbox_pred", "im_info")
    outputs = ("output", "score")
    gradient = no_gradient
    rpn_pre_nms_top_n: Int = 6000
    rpn_post_nms_top_n: Int = 300
    threshold: Float = 0.699999988
    rpn_min_size: Int = 16
    scales: Floats = (4.0, 8.0, 16.0, 32.0)
    ratios: Floats = (0.5, 1.0, 2.0)
    feature_stride: Int = 16
    output_score: Bool = False
    iou_loss: Bool = False

    def check(self) -> None:
        if not self.scales or not self.ratios or min(self.ratios) <= 0 or min(self.scales) < 0:
            raise ValueError(f"{self.mx_name()}: scales={self.scales}, ratios={self.ratios}: must be positive numbers")
        if self.feature_stride < 1 or self.rpn_post_nms_top_n < 1:
            least = f"feature_stride={self.feature_stride}, rpn_post_nms_top_n={self.rpn_post_nms_top_n}"
            raise ValueError(f"{self.mx_name()}: {least}: must be at least 1")

    @property
    def visible_outputs(self) -> int:
        return 2 if self.output_score else 1

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        scores = inputs[0]
        if scores is None or len(scores) != 4:
            return
        batch, count, *size = scores
        unify_at(inputs, 1, (batch, 2 * count, *size))
        unify_at(inputs, 2, (batch, 3))
        rows = batch * self.rpn_post_nms_top_n
        unify_at(outputs, 0, (rows, 5))
        unify_at(outputs, 1, (rows, 1))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        scores, moves, info = inputs
        self._check(scores, moves, info)
        batch, _, height, width = scores.type.shape
        kinds = scores.type.shape[1] // 2
        foreground = b.slice_axis(scores, 1, kinds, 2 * kinds)
        score = b.reshape(b.transpose(foreground, (0, 2, 3, 1)), (batch, height * width * kinds))
        split = b.reshape(moves, (batch, kinds, 4, height, width))
        rows = b.reshape(b.transpose(split, (0, 3, 4, 1, 2)), (batch, height * width * kinds, 4))
        anchors = b.cast(self._anchors(b, height, width), scores.type.dtype)
        boxes = self._moved(b, b.broadcast_to(anchors, rows.type.shape), rows, info)
        boxes, score = self._filtered(b, boxes, score, info, (height, width))
        return self._best(b, columns(b, [*boxes, score]))

    def _check(self, scores: Value, moves: Value, info: Value) -> None:
        batch, count, *size = scores.type.shape if scores.type.rank == 4 else (0, 0, 0, 0)
        kinds = len(self.scales) * len(self.ratios)
        if count != 2 * kinds:
            raise ValueError(f"cls_prob should be (N, {2 * kinds}, H, W), got {scores.type.shape}")
        if moves.type.shape != (batch, 4 * kinds, *size) or info.type.shape != (batch, 3):
            expected = f"{(batch, 4 * kinds, *size)} and {(batch, 3)}"
            shapes = f"{moves.type.shape} and {info.type.shape}"
            raise ValueError(f"bbox_pred and im_info should be {expected}, got {shapes}")

    def _anchors(self, b: MxBuilder, height: int, width: int) -> Value:
        """Boxes of every ratio and scale around each cell: (height * width * kinds, 4), float32."""
        stride = self.feature_stride
        center, area = (stride - 1) / 2, stride * stride
        base: list[tuple[float, float, float, float]] = []
        for ratio in self.ratios:
            across = floor(sqrt(floor(area / ratio)) + 0.5)
            down = floor(across * ratio + 0.5)
            for scale in self.scales:
                half_x, half_y = (across * scale - 1) / 2, (down * scale - 1) / 2
                base.append((center - half_x, center - half_y, center + half_x, center + half_y))
        shape = height, width, len(base), 4
        boxes = b.broadcast(b.constant(np.array(base), DType.F32), shape, (2, 3))
        for axis, ends in ((1, (1, 0, 1, 0)), (0, (0, 1, 0, 1))):  # left and right move along x, top and bottom along y
            moved = b.broadcast(b.constant(np.array(ends) * stride, DType.F32), shape, (3,))
            boxes = b.add(boxes, b.mul(b.iota(shape, DType.F32, axis), moved))
        return b.reshape(boxes, (height * width * len(base), 4))

    def _moved(self, b: MxBuilder, anchors: Value, moves: Value, info: Value) -> Corners:
        """The predicted boxes, clipped to the image."""
        anchor, move = ([column(b, v, i) for i in range(4)] for v in (anchors, moves))
        if self.iou_loss:
            box = [b.add(a, m) for a, m in zip(anchor, move, strict=True)]
        else:
            box = [v for pair in zip(*(self._scaled(b, anchor, move, k) for k in range(2)), strict=True) for v in pair]
        limits = [self._info(b, info, 1 - k % 2, box[0]) for k in range(4)]
        return as_corners([b.maximum(b.minimum(v, b.sub(n, 1)), 0) for v, n in zip(box, limits, strict=True)])

    def _scaled(self, b: MxBuilder, anchor: list[Value], move: list[Value], axis: int) -> tuple[Value, Value]:
        """Start and end along one axis: the centre moves in anchor sizes, the size is scaled by exp."""
        size = b.add(b.sub(anchor[axis + 2], anchor[axis]), 1)
        center = b.add(anchor[axis], b.mul(b.sub(size, 1), 0.5))
        center = b.add(b.mul(move[axis], size), center)
        half = b.mul(b.sub(b.mul(b.exp(move[axis + 2]), size), 1), 0.5)
        return b.sub(center, half), b.add(center, half)

    def _info(self, b: MxBuilder, info: Value, which: int, like: Value) -> Value:
        """One number per image, broadcast to (images, boxes)."""
        return b.broadcast(column(b, info, which), like.type.shape, (0,))

    def _filtered(
        self, b: MxBuilder, boxes: Corners, score: Value, info: Value, size: tuple[int, int]
    ) -> tuple[Corners, Value]:
        """Enlarges boxes that are too small. Sets the score to -1 for them and for cells past the image's end."""
        height, width = size
        kinds = score.type.shape[1] // (height * width)
        for axis in range(2):
            cells = b.iota((height, width, kinds), score.type.dtype, axis)
            cell = b.broadcast_to(b.reshape(cells, score.type.shape[1:]), score.type.shape)
            real = b.floor(b.div(self._info(b, info, axis, score), self.feature_stride))
            score = b.select(b.lt(cell, real), score, b.full_like(score, -1))
        least = b.mul(self._info(b, info, 2, score), self.rpn_min_size)
        small = b.or_(*(b.lt(b.add(b.sub(boxes[k + 2], boxes[k]), 1), least) for k in range(2)))
        grown = b.select(small, b.mul(least, 0.5), b.full_like(least, 0))
        wider = [(b.sub if k < 2 else b.add)(v, grown) for k, v in enumerate(boxes)]
        return as_corners(wider), b.select(small, b.full_like(score, -1), score)

    def _best(self, b: MxBuilder, rows: Value) -> tuple[Value, Value]:
        batch, count, _ = rows.type.shape
        top_n = self.rpn_post_nms_top_n
        limit = min(self.rpn_pre_nms_top_n, count) if self.rpn_pre_nms_top_n > 0 else count
        score = column(b, rows, 4)
        ranked = rows_at(b, rows, b.argsort(score, 1, True, limit))
        most = min(top_n, limit)
        alive = b.full((batch, limit), True, DType.BOOL)
        keep = suppress(b, as_corners([column(b, ranked, i) for i in range(4)]), None, alive, self._conflict, most)
        kept = b.minimum(b.sum(b.cast(keep, DType.I32), (1,)), most)
        repeated = b.mod(b.iota((batch, top_n), DType.I32, 1), b.broadcast(kept, (batch, top_n), (0,)))
        places = b.gather(kept_first(b, keep), b.expand_dims(repeated, 2), (1,), 1)
        best = rows_at(b, ranked, places)
        images = b.iota((batch, top_n, 1), rows.type.dtype, 0)
        output = b.concat([images, b.slice_axis(best, 2, 0, 4)], 2)
        total = batch * top_n
        return b.reshape(output, (total, 5)), b.reshape(b.slice_axis(best, 2, 4, 5), (total, 1))

    def _conflict(self, b: MxBuilder, first: Corners, second: Corners) -> Value:
        """BOOL: true if boxes in whole pixels (ends inclusive) overlap by more than the threshold."""
        sides = [
            b.maximum(b.add(b.sub(b.minimum(first[k + 2], second[k + 2]), b.maximum(first[k], second[k])), 1), 0)
            for k in range(2)
        ]
        common = b.mul(*sides)
        areas = [b.mul(*(b.add(b.sub(v[k + 2], v[k]), 1) for k in range(2))) for v in (first, second)]
        return b.gt(b.div(common, b.sub(b.add(*areas), common)), self.threshold)


@operator("_contrib_Proposal")
class Proposal(_Proposals):
    """Regions of one image that are likely to contain an object, best first.

    Returns:
        output: (rpn_post_nms_top_n, 5): 0, then left, top, right and bottom in pixels.
        score: (rpn_post_nms_top_n, 1), with `output_score`.
    """

    def _check(self, scores: Value, moves: Value, info: Value) -> None:
        super()._check(scores, moves, info)
        if scores.type.shape[0] != 1:
            raise ValueError(f"takes one image, got cls_prob {scores.type.shape}: use MultiProposal")


@operator("_contrib_MultiProposal")
class MultiProposal(_Proposals):
    """Regions of each image that are likely to contain an object, best first.

    Returns:
        output: (N * rpn_post_nms_top_n, 5): number of the image, then left, top, right and bottom in pixels.
        score: (N * rpn_post_nms_top_n, 1), with `output_score`.
    """
