"""Operators without operands: zeros, ones, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...types import DType, TensorType
from .open_shapes import Shaped
from .operator import Operator, operator
from .parameters import (
    Bool,
    DTypeName,
    DTypeNameOrBool,
    Float,
    Int,
    OptionalFloat,
    OptionalInt,
    OptionalInts,
    Positive,
    Text,
)
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class _Filled(Shaped):
    """Shared arguments of several operators.

    Args:
        shape: Shape of the result.
        dtype: Dtype of the result.
    """

    def _fill(self, b: MxBuilder, value: float, dtype: str) -> Value:
        return b.full(self.known_shape(), value, DType.from_numpy(dtype))


@operator("_zeros")
class Zeros(_Filled):
    """An array of zeros.

    Returns:
        An array of `shape`.
    """

    shape: OptionalInts = ()
    ctx: Text = ""
    dtype: DTypeNameOrBool = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._fill(b, 0, self.dtype)


@operator("_zeros_without_dtype")
class ZerosWithoutDType(_Filled):
    """An array of zeros whose dtype can be unknown.

    Args:
        dtype: MXNet's number of the dtype; -1 for float32 or the dtype that inference finds.
    Returns:
        An array of `shape`.
    """

    shape: OptionalInts = None
    ctx: Text = ""
    dtype: Int = -1

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        names = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
        return self._fill(b, 0, names[max(self.dtype, 0)])


@operator("_ones")
class Ones(_Filled):
    """An array of ones.

    Returns:
        An array of `shape`.
    """

    shape: OptionalInts = ()
    ctx: Text = ""
    dtype: DTypeNameOrBool = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._fill(b, 1, self.dtype)


@operator("_full", aliases=("_npi_full",))
class Full(_Filled):
    """An array filled with one number.

    Args:
        value: The number.
    Returns:
        An array of `shape`.
    """

    shape: OptionalInts = None
    ctx: Text = ""
    dtype: DTypeNameOrBool = "float32"
    value: Float

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._fill(b, self.value, self.dtype)


@operator("_eye")
class Eye(Operator):
    """A matrix with ones on one diagonal.

        output[i, j] = 1 if j - i == k else 0

    Args:
        N: Number of rows.
        M: Number of columns; N by default.
        k: The diagonal: 0 for the main one, positive for upper ones, negative for lower ones.
    Returns:
        (N, M).
    Example:
        >>> nd.eye(2, 3, 1).asnumpy()
        array([[0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """

    inputs = ()
    N: Int
    M: Int = 0
    k: Int = 0
    ctx: Text = ""
    dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8", "uint8"] = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = (self.N, self.M if self.M > 0 else self.N)
        hit = b.eq(b.add(b.iota(shape, DType.I32, 0), self.k), b.iota(shape, DType.I32, 1))
        return b.cast(hit, DType.from_numpy(self.dtype))


def ramp(b: MxBuilder, count: int, start: float, step: float, repeat: int, dtype: DType) -> Value:
    """start, start + step, ... each `repeat` times, `count` elements in total, computed in at least float32.

    For integer dtypes, start and step are truncated first, as in NumPy and MXNet.
    """
    steps = b.iota((count,), DType.I64 if dtype.is_integer else DType.I32, 0)
    steps = b.div(steps, repeat) if repeat > 1 else steps
    if dtype.is_integer:
        return b.cast(b.add(b.mul(steps, int(step)), int(start)), dtype)
    steps = b.cast(steps, DType.F64 if dtype is DType.F64 else DType.F32)
    return b.cast(b.add(b.mul(steps, step), start), dtype)


@operator("_arange")
class ARange(Operator):
    """Evenly spaced numbers in a half-open interval.

        output = start, start + step, start + 2 * step, ... while less than stop

    Args:
        start: First number; without `stop` the end of an interval that starts at 0.
        stop: End of the interval (exclusive).
        step: Difference of neighbours.
        repeat: Number of copies of each number.
        infer_range: True if the number of elements follows from the consumers; in a graph.
    Returns:
        An array of one axis.
    Example:
        >>> nd.arange(1, 3, step=0.5).asnumpy()
        array([1. , 1.5, 2. , 2.5], dtype=float32)
    """

    inputs = ()
    start: Float
    stop: OptionalFloat = None
    step: Float = 1.0
    repeat: Positive = 1
    infer_range: Bool = False
    ctx: Text = ""
    dtype: DTypeName = "float32"

    def _bounds(self) -> tuple[float, float]:
        return (0.0, self.start) if self.stop is None else (self.start, self.stop)

    @property
    def is_open(self) -> bool:
        return self.infer_range and self.stop is None

    def resolve(self, types: Sequence[TensorType]) -> Operator:
        if not self.is_open:
            return self
        stop = self.start + self.step * (types[0].shape[0] // self.repeat)
        return self.resolved(stop=stop, infer_range=False)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if not self.infer_range:
            unify_at(outputs, 0, (self._count(),))

    def _count(self) -> int:
        start, stop = self._bounds()
        if not self.step or (stop - start) / self.step <= 0:
            raise ValueError(f"_arange: the interval from {start} to {stop} with step {self.step} is empty")
        return max(0, ceil((stop - start) / self.step)) * self.repeat

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if self.is_open:
            raise ValueError("_arange with infer_range: the length is unknown")
        return ramp(b, self._count(), self._bounds()[0], self.step, self.repeat, DType.from_numpy(self.dtype))


@operator("_linspace", aliases=("_npi_linspace",))
class LinSpace(Operator):
    """`num` evenly spaced numbers.

        output[i] = start + i * (stop - start) / (num - 1)

    MXNet lists _arange's parameters for this operator; these are the actual ones.

    Args:
        start: First number.
        stop: Last number.
        num: Number of elements.
        endpoint: False to exclude `stop` and divide by num.
    Returns:
        (num,).
    Example:
        >>> nd.linspace(0, 1, 5).asnumpy()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """

    inputs = ()
    start: Float
    stop: Float
    num: Int
    endpoint: Bool = True
    ctx: Text = ""
    dtype: DTypeName = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        values = np.linspace(self.start, self.stop, self.num, endpoint=self.endpoint)
        return b.constant(values, DType.from_numpy(self.dtype))


@operator("_contrib_arange_like", aliases=("_npx_arange_like",))
class ARangeLike(Operator):
    """Evenly spaced numbers in the shape of an array, or as many as the extent of an axis.

        output = start, start + step, start + 2 * step, ...

    Args:
        start: First number.
        step: Difference of neighbours.
        repeat: Number of copies of each number.
        axis: The axis whose extent is the number of elements; None for data's whole shape.
    Returns:
        data's shape, or the extent of the axis.
    Example:
        >>> nd.contrib.arange_like(nd.zeros((2, 3))).asnumpy()
        array([[0., 1., 2.],
               [3., 4., 5.]], dtype=float32)
    """

    start: Float = 0.0
    step: Float = 1.0
    repeat: Positive = 1
    ctx: Text = ""
    axis: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0].type
        shape = x.shape if self.axis is None else (x.shape[self.axis],)
        count = x.size if self.axis is None else shape[0]
        return b.reshape(ramp(b, count, self.start, self.step, self.repeat, x.dtype), shape)
