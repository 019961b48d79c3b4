"""Detection boxes: priors, decoding and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

import numpy as np

from ...graph import Graph, Value
from ...types import DType, TensorType
from .builder import MxBuilder
from .gradients import identity_gradient, no_gradient
from .operator import Operator, operator
from .parameters import Bool, Float, Floats, Int

Corners = tuple[Value, Value, Value, Value]
Conflict = Callable[["MxBuilder", Corners, Corners], Value]


def column(b: MxBuilder, boxes: Value, index: int) -> Value:
    """One number per row: (..., N, K) -> (..., N)."""
    last = boxes.type.rank - 1
    return b.reshape(b.slice_axis(boxes, last, index, index + 1), boxes.type.shape[:-1])


def columns(b: MxBuilder, parts: Sequence[Value]) -> Value:
    """The inverse of `column`."""
    return b.concat([b.expand_dims(p, p.type.rank) for p in parts], parts[0].type.rank)


def overlap(b: MxBuilder, first: Corners, second: Corners) -> Value:
    """Intersection over union of boxes (left, top, right, bottom); 0 if the union is empty."""
    width = b.sub(b.minimum(first[2], second[2]), b.maximum(first[0], second[0]))
    height = b.sub(b.minimum(first[3], second[3]), b.maximum(first[1], second[1]))
    common = b.mul(b.maximum(width, 0), b.maximum(height, 0))
    union = b.sub(b.add(_area(b, first), _area(b, second)), common)
    return b.select(b.gt(union, 0), b.div(common, union), b.full_like(union, 0))


def _area(b: MxBuilder, box: Corners) -> Value:
    return b.mul(b.maximum(b.sub(box[2], box[0]), 0), b.maximum(b.sub(box[3], box[1]), 0))


def suppress(
    b: MxBuilder, boxes: Corners, classes: Value | None, alive: Value, conflict: Conflict, most: int | None = None
) -> Value:
    """BOOL (B, N): the boxes, sorted by score, that remain. Each remaining box removes later boxes that conflict with
    it; with `classes` only boxes of its own class. Only the first `most` remaining boxes are guaranteed to be right.

    A loop with one remaining box per step, for all images at once: their number is known only at run time.
    """
    tables = [*boxes, *([classes] if classes is not None else [])]
    images, count = alive.type.shape
    index = _next_alive(b, alive, b.full((images,), -1, DType.I32))
    state = [b.full((), 0, DType.I32), alive, index, *tables]
    types = [v.type for v in state]
    return b.while_(_more_boxes(types, most or count), _suppression_step(types, conflict), *state)[1]


def _next_alive(b: MxBuilder, alive: Value, index: Value) -> Value:
    """The first box after `index` that is alive, per image, or the number of boxes."""
    places = b.iota(alive.type.shape, DType.I32, 1)
    after = b.and_(alive, b.gt(places, b.broadcast(index, alive.type.shape, (0,))))
    return b.min(b.select(after, places, b.full_like(places, alive.type.shape[1])), (1,))


def _more_boxes(types: list[TensorType], most: int) -> Graph:
    b = MxBuilder("more_boxes")
    done, alive, index, *_ = [b.input(t) for t in types]
    return b.build([b.and_(b.lt(done, most), b.any(b.lt(index, alive.type.shape[1])))])


def _suppression_step(types: list[TensorType], conflict: Conflict) -> Graph:
    b = MxBuilder("suppress")
    done, alive, index, *tables = [b.input(t) for t in types]
    shape = alive.type.shape
    at = b.expand_dims(index, 1)
    current = [b.broadcast(b.gather(t, at, (1,), 1), shape, (0,)) for t in tables]
    later = b.gt(b.iota(shape, DType.I32, 1), b.broadcast(index, shape, (0,)))
    removed = b.and_(conflict(b, as_corners(current), as_corners(tables)), later)
    if len(tables) > 4:
        removed = b.and_(removed, b.eq(current[4], tables[4]))
    alive = b.and_(alive, b.not_(removed))
    return b.build([b.add(done, 1), alive, _next_alive(b, alive, index), *tables])


def overlap_above(threshold: float, closed: bool) -> Conflict:
    """A Conflict: true if boxes overlap by more than `threshold` (or as much, if `closed`)."""

    def conflict(b: MxBuilder, first: Corners, second: Corners) -> Value:
        return (b.ge if closed else b.gt)(overlap(b, first, second), threshold)

    return conflict


def as_corners(values: Sequence[Value]) -> Corners:
    return values[0], values[1], values[2], values[3]


def rows_at(b: MxBuilder, rows: Value, order: Value) -> Value:
    """Rows (B, N, K) in the order of positions (B, M)."""
    return b.gather(rows, b.expand_dims(order, 2), (1,), 1)


def kept_first(b: MxBuilder, keep: Value) -> Value:
    """Positions (B, N) that move the kept rows to the front and preserve the order."""
    return b.argsort(b.not_(keep), 1)


def take_flags(b: MxBuilder, flags: Value, order: Value) -> Value:
    """BOOL (B, N) at positions `order`."""
    return b.ne(b.gather(b.cast(flags, DType.I32), b.expand_dims(order, 2), (1,), 1), 0)


def filled(b: MxBuilder, rows: Value, keep: Value) -> Value:
    """Rows (B, N, K), -1 where not kept (B, N)."""
    return b.select(b.broadcast(keep, rows.type.shape, (0, 1)), rows, b.full_like(rows, -1))


BoxFormat = Literal["center", "corner"]


@operator("_contrib_box_nms", aliases=("_contrib_box_non_maximum_suppression",))
class BoxNMS(Operator):
    """Non-maximum suppression: keeps the best of overlapping boxes, best first. Rows of other boxes become -1.

    Args:
        data: (..., boxes, width), one row for each box with its coordinates, its score and optionally its class.
        overlap_thresh: Boxes of one class whose intersection over union exceeds it suppress each other.
        valid_thresh: Boxes with a lower score are removed.
        topk: Number of best boxes that are considered; all if -1.
        coord_start: Position of the first of four coordinates in a row.
        score_index: Position of the score.
        id_index: Position of the class; -1 if there is none.
        background_id: Class whose boxes are removed, -1 included; unused without `id_index`.
        force_suppress: True to suppress across classes too.
        in_format: "corner" (left, top, right, bottom) or "center" (x, y, width, height).
        out_format: Format of the result.
    Returns:
        output0: An array of data's shape.
    """

    floats = True

    outputs = ("output0", "output1")
    hidden = 1
    overlap_thresh: Float = 0.5
    valid_thresh: Float = 0.0
    topk: Int = -1
    coord_start: Int = 2
    score_index: Int = 1
    id_index: Int = -1
    background_id: Int = -1
    force_suppress: Bool = False
    in_format: BoxFormat = "corner"
    out_format: BoxFormat = "corner"

    def check(self) -> None:
        coordinates = range(self.coord_start, self.coord_start + 4)
        if self.coord_start < 0 or self.score_index < 0 or self.score_index in coordinates:
            raise ValueError(f"{self.mx_name()}: score_index={self.score_index} must be outside the coordinates")
        if self.id_index >= 0 and (self.id_index in coordinates or self.id_index == self.score_index):
            raise ValueError(f"{self.mx_name()}: id_index={self.id_index} must be outside coordinates and score")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        *lead, count, width = inputs[0].type.shape
        rows = b.reshape(inputs[0], (prod(lead), count, width))
        limit = count if self.topk < 0 else min(count, self.topk)
        source = self._source(b, rows)
        if limit == 0:
            return inputs[0], b.reshape(source, (*lead, count, 1))
        order, alive = self._candidates(b, rows, limit)
        ranked = rows_at(b, rows, order)
        classes = None if self.force_suppress or self.id_index < 0 else column(b, ranked, self.id_index)
        conflict = overlap_above(self.overlap_thresh, closed=False)
        keep = suppress(b, self._corners(b, ranked), classes, alive, conflict)
        final = kept_first(b, keep)
        keep = take_flags(b, keep, final)
        boxes = filled(b, rows_at(b, ranked, final), keep)
        output = b.custom_gradient(self._converted, identity_gradient, boxes)[0]
        record = filled(b, rows_at(b, rows_at(b, source, order), final), keep)
        return b.reshape(output, (*lead, count, width)), b.reshape(record, (*lead, count, 1))

    def _source(self, b: MxBuilder, rows: Value) -> Value:
        """The number of each row in the whole input."""
        batch, count, _ = rows.type.shape
        return b.reshape(b.iota((batch * count,), rows.type.dtype, 0), (batch, count, 1))

    def _candidates(self, b: MxBuilder, rows: Value, limit: int) -> tuple[Value, Value]:
        """Positions by descending score, valid rows first, and BOOL which of them are candidates."""
        score = column(b, rows, self.score_index)
        valid = b.gt(score, self.valid_thresh)
        if self.id_index >= 0:
            valid = b.and_(valid, b.ne(column(b, rows, self.id_index), self.background_id))
        key = b.select(valid, score, b.full_like(score, -np.inf))
        places = b.iota(score.type.shape, DType.I32, 1)
        order = b.argsort(key, 1, descending=True)
        return order, b.and_(take_flags(b, valid, order), b.lt(places, limit))

    def _corners(self, b: MxBuilder, rows: Value) -> Corners:
        box = as_corners([column(b, rows, self.coord_start + i) for i in range(4)])
        return center_to_corner(b, box) if self.in_format == "center" else box

    def _converted(self, b: MxBuilder, rows: Value) -> Value:
        """Boxes in the output's format. As in MXNet, boxes whose first number is negative are unchanged."""
        if self.in_format == self.out_format:
            return rows
        parts = [column(b, rows, i) for i in range(rows.type.shape[2])]
        box = as_corners(parts[self.coord_start : self.coord_start + 4])
        convert = center_to_corner if self.in_format == "center" else corner_to_center
        untouched = b.lt(box[0], 0)
        parts[self.coord_start : self.coord_start + 4] = [
            b.select(untouched, old, new) for old, new in zip(box, convert(b, box), strict=True)
        ]
        return columns(b, parts)


def center_to_corner(b: MxBuilder, box: Corners) -> Corners:
    x, y, width, height = box
    dx, dy = b.mul(width, 0.5), b.mul(height, 0.5)
    return b.sub(x, dx), b.sub(y, dy), b.add(x, dx), b.add(y, dy)


def corner_to_center(b: MxBuilder, box: Corners) -> Corners:
    left, top, right, bottom = box
    return b.mul(b.add(left, right), 0.5), b.mul(b.add(top, bottom), 0.5), b.sub(right, left), b.sub(bottom, top)


@operator("_contrib_MultiBoxPrior", aliases=("_npx_multibox_prior",))
class MultiBoxPrior(Operator):
    """Anchor boxes around each position of a feature map: every size with the first ratio, and every other ratio with
    the first size.

    Args:
        data: (N, C, H, W), only height and width are used.
        sizes: Edges of the boxes, relative to the image.
        ratios: Ratios of width to height.
        clip: True to limit the corners to the image.
        steps: Distances of the centres along y and x; evenly spaced if -1.
        offsets: Positions of the centres in a cell, y and x.
    Returns:
        (1, H * W * (sizes + ratios - 1), 4), corners relative to the image.
    """

    floats = True

    sizes: Floats = (1.0,)
    ratios: Floats = (1.0,)
    clip: Bool = False
    steps: Floats = (-1.0, -1.0)
    offsets: Floats = (0.5, 0.5)

    def check(self) -> None:
        if not self.sizes or not self.ratios:
            raise ValueError(f"{self.mx_name()}: sizes={self.sizes} and ratios={self.ratios}: must not be empty")
        for name, pair in (("steps", self.steps), ("offsets", self.offsets)):
            if len(pair) != 2:
                raise ValueError(f"{self.mx_name()}: {name}={pair}: must be two numbers")
        if not all(0 <= offset <= 1 for offset in self.offsets):
            raise ValueError(f"{self.mx_name()}: offsets={self.offsets}: must be in [0, 1]")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        height, width = inputs[0].type.shape[2:4]
        if not height or not width:
            raise ValueError(f"data of shape {inputs[0].type.shape} has no positions")
        step_y, step_x = self.steps if self.steps[0] > 0 else (1 / height, 1 / width)
        y = (np.arange(height) + self.offsets[0]) * step_y
        x = (np.arange(width) + self.offsets[1]) * step_x
        halves = np.array(self._halves(height / width))
        shape = (height, width, len(halves))
        center = np.broadcast_to(np.stack(np.meshgrid(x, y), -1)[:, :, None], (*shape, 2))
        with np.errstate(all="ignore"):
            boxes = np.concatenate([center - halves, center + halves], -1)
        boxes = np.clip(boxes, 0, 1) if self.clip else boxes
        return b.constant(boxes.reshape(1, -1, 4), inputs[0].type.dtype)

    def _halves(self, aspect: float) -> list[tuple[float, float]]:
        """Half of the width and height of each box; widths are relative to the image's width."""
        first = self.sizes[0]
        with np.errstate(all="ignore"):  # a ratio of 0 produces infinite boxes
            roots = np.sqrt(np.array(self.ratios))
            sized = [(size * aspect * roots[0] / 2, size / roots[0] / 2) for size in self.sizes]
            return sized + [(first * aspect * r / 2, first / r / 2) for r in roots[1:]]


def _count(b: MxBuilder, flags: Value) -> Value:
    """The number of true flags per row (B, N), broadcast to the shape of the flags."""
    return b.broadcast(b.sum(b.cast(flags, DType.I32), (1,)), flags.type.shape, (0,))


@operator("_contrib_MultiBoxDetection", aliases=("_npx_multibox_detection",))
class MultiBoxDetection(Operator):
    """Boxes of a single-shot detector: decodes predictions relative to anchors and suppresses overlaps.

    Args:
        cls_prob: (N, classes, anchors), probabilities; class 0 is the background.
        loc_pred: (N, anchors * 4), moves of the anchors.
        anchor: (1, anchors, 4), corners.
        clip: True to limit boxes to the image.
        threshold: Boxes with a lower probability are removed.
        background_id: Accepted for MXNet's programs; the background is always class 0.
        nms_threshold: Intersection over union above which boxes suppress each other.
        force_suppress: True to suppress across classes too.
        variances: Factors of the four moves.
        nms_topk: Number of best boxes that are considered; all if -1.
    Returns:
        (N, anchors, 6): class, probability and corners; class -1 for no box.
    """

    floats = True
    inputs = ("cls_prob", "loc_pred", "anchor")
    gradient = no_gradient
    clip: Bool = True
    threshold: Float = 0.00999999978
    background_id: Int = 0
    nms_threshold: Float = 0.5
    force_suppress: Bool = False
    variances: Floats = (0.1, 0.1, 0.2, 0.2)
    nms_topk: Int = -1

    def check(self) -> None:
        if len(self.variances) != 4:
            raise ValueError(f"_contrib_MultiBoxDetection: variances={self.variances}: must be four numbers")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        probabilities, locations, anchors = inputs
        batch, classes, count = probabilities.type.shape
        foreground = b.slice_axis(probabilities, 1, 1, classes)
        score = b.max(foreground, (1,))
        label = b.cast(b.arg_reduce("max", foreground, 1), score.type.dtype)
        boxes = self._decode(b, b.reshape(locations, (batch, count, 4)), anchors)
        valid = b.ge(score, self.threshold)
        rows = columns(b, [label, score, *boxes])
        if not 0 < self.nms_threshold <= 1:
            order = kept_first(b, valid)
            return filled(b, rows_at(b, rows, order), take_flags(b, valid, order))
        return self._suppressed(b, rows, score, valid)

    def _suppressed(self, b: MxBuilder, rows: Value, score: Value, valid: Value) -> Value:
        places = b.iota(score.type.shape, DType.I32, 1)
        key = b.select(valid, score, b.full_like(score, -np.inf))
        order = b.argsort(key, 1, descending=True)
        if self.nms_topk > 0:  # other rows keep the anchors' order
            order = b.select(b.lt(places, self.nms_topk), order, kept_first(b, valid))
        valid, rows = b.lt(places, _count(b, valid)), rows_at(b, rows, order)
        alive = b.and_(valid, b.lt(places, self.nms_topk)) if self.nms_topk > 0 else valid
        parts = [column(b, rows, i) for i in range(6)]
        classes = None if self.force_suppress else parts[0]
        conflict = overlap_above(self.nms_threshold, closed=True)
        keep = suppress(b, as_corners(parts[2:]), classes, alive, conflict)
        parts[0] = b.select(keep, parts[0], b.full_like(parts[0], -1))
        return filled(b, columns(b, parts), valid)

    def _decode(self, b: MxBuilder, locations: Value, anchors: Value) -> Corners:
        shape = locations.type.shape[:2]
        flat = b.reshape(anchors, (shape[1], 4))
        anchor = as_corners([b.broadcast_along(column(b, flat, i), shape, 1) for i in range(4)])
        x, y, width, height = corner_to_center(b, anchor)
        moves = [b.mul(column(b, locations, i), v) for i, v in enumerate(self.variances)]
        center = b.add(b.mul(moves[0], width), x), b.add(b.mul(moves[1], height), y)
        size = b.mul(b.exp(moves[2]), width), b.mul(b.exp(moves[3]), height)
        box = center_to_corner(b, (*center, *size))
        return as_corners([b.minimum(b.maximum(v, 0), 1) for v in box]) if self.clip else box
