"""The operators that are methods of arrays. Written by tools/make_stubs.py: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from .ndarray import NDArray


METHODS: list[str]

class Fluent:
    def abs(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The absolute value."""
    def arccos(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse cosine."""
    def arccosh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse hyperbolic cosine."""
    def arcsin(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse sine."""
    def arcsinh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse hyperbolic sine."""
    def arctan(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse tangent."""
    def arctanh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse hyperbolic tangent."""
    def argmax(self, axis: int | None = ..., keepdims: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The position of the largest element along an axis; the first of equal elements. Floats, as in MXNet."""
    def argmax_channel(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The position of the largest element along axis 1."""
    def argmin(self, axis: int | None = ..., keepdims: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The position of the smallest element along an axis; the first of equal elements. Floats, as in MXNet."""
    def argsort(self, axis: int | None = ..., is_ascend: bool = ..., dtype: Any = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The positions that sort the elements along an axis."""
    def broadcast_axes(self, axis: int | Sequence[int | None] = ..., size: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Repeats data along axes of extent 1."""
    def cbrt(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The cube root."""
    def ceil(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds up to an integer."""
    def clip(self, a_min: float = ..., a_max: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Limits each element to an interval."""
    def cos(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The cosine of an angle in radians."""
    def cosh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The hyperbolic cosine."""
    def degrees(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Converts radians to degrees."""
    def depth_to_space(self, block_size: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Moves channels into blocks of positions."""
    def exp(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The exponential function."""
    def expm1(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The exponential function minus 1, exact for small elements."""
    def fix(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds towards zero."""
    def flip(self, axis: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Reverses the order of the elements along axes."""
    def floor(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds down to an integer."""
    def log(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The natural logarithm."""
    def log10(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The logarithm to base 10."""
    def log1p(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The logarithm of 1 + data, exact for small elements."""
    def log2(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The logarithm to base 2."""
    def log_softmax(self, axis: int = ..., temperature: float | None = ..., dtype: Any = ..., use_length: bool | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The logarithm of softmax along an axis, computed without overflow."""
    def max(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The largest element over axes."""
    def mean(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The mean over axes: the sum divided by the number of elements."""
    def min(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The smallest element over axes."""
    def nanprod(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The product over axes, where NaN counts as 1."""
    def nansum(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The sum over axes, where NaN counts as 0."""
    def norm(self, ord: int = ..., axis: int | Sequence[int | None] | None = ..., out_dtype: Any = ..., keepdims: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The length of vectors: the L1 or L2 norm over axes."""
    def one_hot(self, depth: int = ..., on_value: float = ..., off_value: float = ..., dtype: Any = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Vectors that are `on_value` at one index and `off_value` elsewhere."""
    def ones_like(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Ones in the shape and dtype of data."""
    def pad(self, mode: str = ..., pad_width: int | Sequence[int | None] = ..., constant_value: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Adds elements before and after axes."""
    def pick(self, index: NDArray | None = ..., axis: int | None = ..., keepdims: bool = ..., mode: str = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """One element along an axis for each position of the other axes."""
    def prod(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The product over axes."""
    def radians(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Converts degrees to radians."""
    def rcbrt(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The reciprocal of the cube root."""
    def reciprocal(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The reciprocal."""
    def relu(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The rectifier: negative elements become 0."""
    def repeat(self, repeats: int = ..., axis: int | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Repeats each element along an axis."""
    def reshape_like(self, rhs: NDArray | None = ..., lhs_begin: int | None = ..., lhs_end: int | None = ..., rhs_begin: int | None = ..., rhs_end: int | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Reshapes an array to the shape of another, or replaces a range of its axes by a range of the other's."""
    def rint(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds to the nearest integer, halves down."""
    def round(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds to the nearest integer, halves away from zero."""
    def rsqrt(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The reciprocal of the square root."""
    def shape_array(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The shape of an array as an array of int64."""
    def sigmoid(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The logistic function."""
    def sign(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The sign."""
    def sin(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The sine of an angle in radians."""
    def sinh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The hyperbolic sine."""
    def size_array(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The number of elements of an array as an array of one int64."""
    def slice(self, begin: int | Sequence[int | None] = ..., end: int | Sequence[int | None] = ..., step: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A part of an array, with the semantics of Python's slices."""
    def slice_axis(self, axis: int = ..., begin: int = ..., end: int | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A part of an array along one axis. An axis of extent 0 is not changed."""
    def slice_like(self, shape_like: NDArray | None = ..., axes: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The leading part of an array with the extents of another array."""
    def softmax(self, length: NDArray | None = ..., axis: int = ..., temperature: float | None = ..., dtype: Any = ..., use_length: bool | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Exponentials divided by their sum along an axis."""
    def softmin(self, axis: int = ..., temperature: float | None = ..., dtype: Any = ..., use_length: bool | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The softmax of -data along an axis: the smallest element has the largest share."""
    def sort(self, axis: int | None = ..., is_ascend: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Sorts the elements along an axis."""
    def space_to_depth(self, block_size: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Moves blocks of positions into channels: the inverse of depth_to_space."""
    def split(self, num_outputs: int = ..., axis: int = ..., squeeze_axis: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> Any: """Splits an array into equal parts along an axis."""
    def sqrt(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The square root."""
    def square(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The square."""
    def sum(self, axis: int | Sequence[int | None] | None = ..., keepdims: bool = ..., exclude: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The sum over axes."""
    def swapaxes(self, dim1: int = ..., dim2: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Swaps two axes."""
    def take(self, indices: NDArray | None = ..., axis: int = ..., mode: str = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Slices of an array along one axis, at given indices."""
    def tan(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The tangent of an angle in radians."""
    def tanh(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The hyperbolic tangent."""
    def tile(self, reps: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Repeats a whole array along each axis."""
    def topk(self, axis: int | None = ..., k: int = ..., ret_typ: str = ..., is_ascend: bool = ..., dtype: Any = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> Any: """The k largest elements along an axis, or the k smallest."""
    def transpose(self, axes: int | Sequence[int | None] = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Permutes the axes."""
    def trunc(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Rounds towards zero."""
    def zeros_like(self, out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Zeros in the shape and dtype of data."""
    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray: ...
    def broadcast_like(self, other: NDArray) -> NDArray: ...
    def diag(self, k: int = 0, **kwargs: Any) -> NDArray: ...
    def flatten(self, inplace: bool = False) -> NDArray: ...
    def squeeze(self, axis: Any = None, inplace: bool = False) -> NDArray: ...
    def broadcast_to(self, shape: Any) -> NDArray: ...
    def split_v2(self, *args: Any, **kwargs: Any) -> Any: ...
