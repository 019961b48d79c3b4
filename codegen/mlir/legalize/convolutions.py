"""Gives convolutions of StableHLO the order of axes that is scheduled: channels last, and filters as (*taps, in, out).

Graphs of mxforge have it from the pass `ChannelsLast`. Modules of other tools often have their channels second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .builder import Builder, Values


def lower_convolution(builder: Builder, op: Any) -> Values | None:
    """Transposes around a convolution with channels last; None if they already are."""
    x, w = op.operands
    numbers = builder.stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    space = len(numbers.input_spatial_dimensions)
    of_x = [numbers.input_batch_dimension, *numbers.input_spatial_dimensions, numbers.input_feature_dimension]
    features = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    of_w = [*numbers.kernel_spatial_dimensions, *features]
    of_y = [numbers.output_batch_dimension, *numbers.output_spatial_dimensions, numbers.output_feature_dimension]
    if all(axes == list(range(space + 2)) for axes in (of_x, of_w, of_y)):
        return None
    inner, last = list(range(1, space + 1)), space + 1
    plain = builder.stablehlo.ConvDimensionNumbers.get(0, last, inner, space, last, list(range(space)), 0, last, inner)
    attributes = {name: op.attributes[name] for name in op.attributes} | {"dimension_numbers": plain}
    result = op.results[0].type
    type = builder.ir.RankedTensorType.get([result.shape[k] for k in of_y], result.element_type)
    operands = [_transposed(builder, x, of_x), _transposed(builder, w, of_w)]
    convolved = builder.operation("stablehlo.convolution", type, operands, attributes)
    return [_transposed(builder, convolved, [of_y.index(k) for k in range(space + 2)])]


def _transposed(builder: Builder, x: Any, axes: Sequence[int]) -> Any:
    if list(axes) == sorted(axes):
        return x
    type = builder.ir.RankedTensorType.get([x.type.shape[k] for k in axes], x.type.element_type)
    order = {"permutation": builder.ir.DenseI64ArrayAttr.get(list(axes))}
    return builder.operation("stablehlo.transpose", type, [x], order)
