"""Functions of single arrays in MXNet: some write into `out`; the shape of some results depends on values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Float, Int
from .shapes import UNKNOWN, PartialShape, unify, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("_set_value")
class SetValue(Operator):
    """Fills `out` with a number. Exists only in `nd`: without `out` there is no result.

    Args:
        src: The number.
    """

    inputs = ()
    src: Float

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        raise ValueError("_set_value requires the argument out")


@operator("_onehot_encode")
class OnehotEncode(Operator):
    """Rows that are 1 at one index each and 0 elsewhere; an index out of range produces a row of zeros.

    Args:
        lhs: (N,), the indices.
        rhs: (N, depth), an array with the shape of the result.
    Returns:
        (N, depth).
    """

    inputs = ("lhs", "rhs")
    own_dtypes = frozenset(("lhs",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[1] = outputs[0] = unify(inputs[1], outputs[0])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        places, like = inputs
        shape = like.type.shape
        if len(shape) != 2 or places.type.shape != shape[:1]:
            raise ValueError(f"_onehot_encode takes (rows,) and (rows, classes), got {places.type.shape} and {shape}")
        column = b.broadcast(b.cast(places, DType.I64), shape, (0,))
        return b.cast(b.eq(column, b.iota(shape, DType.I64, 1)), like.type.dtype)


@operator("_contrib_boolean_mask", aliases=("_npi_boolean_mask",))
class BooleanMask(Operator):
    """The slices along the first axis where `index` is not 0.

    Their number depends on values, so no compiled program has this operator: the operators of symbols and hybridized
    blocks that contain it run one by one.

    Args:
        data: Array of any shape.
        index: (data.shape[0],).
        axis: 0, the only axis that MXNet supports.
    Returns:
        (number of elements of index that are not 0, *data.shape[1:]).
    Example:
        >>> nd.contrib.boolean_mask(nd.array([[1, 2], [3, 4]]), nd.array([0, 1])).asnumpy()
        array([[3., 4.]], dtype=float32)
    """

    inputs = ("data", "index")
    own_dtypes = frozenset(("index",))
    sized_by_values = True
    axis: Int = 0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        data = inputs[0]
        if data is not None:
            unify_at(inputs, 1, data[:1])
            unify_at(outputs, 0, (UNKNOWN, *data[1:]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        raise ValueError("the extent of the result depends on the values of index, so it has no compiled program")
