"""Builds core graphs: one method per primitive, and common combinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ...graph import Graph, Value
from ...rewrite import repeat
from ...scalar import ReduceOp
from ...symbolic import is_symbolic
from ...types import DType, Layout, Shape, TensorType
from .contraction import Conv, Dot
from .control import Call, Cond, While
from .creation import Constant, Iota, RandomBits, Size
from .factorization import LQ, LU, Cholesky, SymmetricEigen, TriangularSolve
from .host_callback import HostCallback, HostFunction, HostGradient
from .indexing import Gather, Scatter
from .ordering import ArgSort, Sort
from .own_gradient import OwnGradient, call_with_gradient, without_gradient
from .pointwise import Cast
from .primitive import storage
from .reduction import ArgReduce, Cumulative, Reduce
from .scalar_methods import ScalarMethods
from .scan import Scan
from .shape import Broadcast, Concat, Pad, Relayout, Reshape, Reverse, Slice, Transpose
from .sparse import CsrDot
from .window import ReduceWindow, SelectAndScatter

Axes = int | Sequence[int] | None


def normalize_axes(axes: Axes, rank: int) -> tuple[int, ...]:
    """Ascending axes for one axis, several axes, or None (all); negative axes count from the end."""
    if axes is None:
        return tuple(range(rank))
    several = (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(a + rank if a < 0 else a for a in several))


def broadcast_shape(a: Shape, b: Shape) -> Shape:
    """The common shape by NumPy's broadcasting rules; ValueError if the shapes are incompatible."""
    rank = max(len(a), len(b))
    pairs = list(zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True))
    if any(m != n and m != 1 and n != 1 for m, n in pairs):
        raise ValueError(f"shapes {a} and {b} cannot be broadcast together")
    return tuple(n if m == 1 else m for m, n in pairs)


def _reducer(op: ReduceOp) -> Callable[..., Value]:
    def method(self: CoreBuilder, x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        return self.reduce(op, x, axes, keepdims)

    method.__doc__ = f"Reduce by {op.value} over `axes`, all by default."
    return method


class CoreBuilder(ScalarMethods):
    """A GraphBuilder for core primitives. Methods return the result, or a tuple if there can be several results."""

    captured: Sequence[Value] = ()
    """Values of the outer graph that this nested graph reads, in the order of its last inputs."""

    def nested(self, name: str) -> CoreBuilder:
        """A builder for a graph that this graph calls."""
        return CoreBuilder(name)

    def adopt(self, inner: CoreBuilder, operands: Sequence[Value], states: Sequence[Value]) -> None:
        """Apply the state changes of a nested graph: `states` are its results after the requested ones."""

    # -- creation

    def constant(self, value: object, dtype: DType | None = None) -> Value:
        """A constant. Without a dtype arrays keep theirs, Python floats become F32, Python integers I64."""
        if is_symbolic(value):
            return self.add_node(Size(cast("int", value), dtype or DType.I64))
        if dtype is not None:
            return self.add_node(Constant(np.asarray(value).astype(storage(dtype)), dtype))
        array: np.ndarray[Any, Any] = np.asarray(value)
        if not isinstance(value, np.ndarray | np.generic) and array.dtype == np.float64:
            array = array.astype(np.float32)
        return self.add_node(Constant(array))

    def integers(self, numbers: Sequence[int], dtype: DType = DType.I64) -> Value:
        """Numbers, of which some can be symbolic, as a vector."""
        if not any(map(is_symbolic, numbers)):
            return self.constant(np.array(numbers, np.int64), dtype)
        return self.concat([self.reshape(self.constant(n, dtype), (1,)) for n in numbers], 0)

    def iota(self, shape: Sequence[int], dtype: DType, axis: int) -> Value:
        """0, 1, 2, ... along `axis`."""
        return self.add_node(Iota(tuple(shape), dtype, axis))

    def random_bits(self, key: Value, shape: Sequence[int]) -> Value:
        """Random u32 of this shape from a u32[4] key; see RandomBits."""
        return self.add_node(RandomBits(tuple(shape)), key)

    def cast(self, x: Value, dtype: DType) -> Value:
        """x in another dtype; x itself if it already has the dtype."""
        return x if x.type.dtype is dtype else self.add_node(Cast(dtype), x)

    # -- shape

    def broadcast(self, x: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
        """Axis i of x becomes axis `axes[i]` of the result; x itself if nothing changes."""
        if tuple(axes) == tuple(range(x.type.rank)) and x.type.shape == tuple(shape):
            return x
        return self.add_node(Broadcast(tuple(shape), tuple(axes)), x)

    def broadcast_to(self, x: Value, shape: Sequence[int]) -> Value:
        """NumPy's broadcasting: shapes are aligned at their last axes."""
        return self.broadcast(x, shape, tuple(range(len(shape) - x.type.rank, len(shape))))

    def broadcast_along(self, x: Value, shape: Sequence[int], axis: int) -> Value:
        """A vector along `axis` of the shape, repeated along the other axes."""
        return self.broadcast(x, shape, (axis % len(shape),))

    def broadcast_pair(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both tensors broadcast to their common shape."""
        if x.type.shape == y.type.shape:
            return x, y
        shape = broadcast_shape(x.type.shape, y.type.shape)
        return self.broadcast_to(x, shape), self.broadcast_to(y, shape)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """x with another shape, in which one extent can be -1; x itself if the shape is the same."""
        extents = tuple(shape)
        if -1 in extents:
            known = -prod(extents)
            extents = tuple(x.type.size // known if n == -1 and known > 0 else n for n in extents)
        return x if extents == x.type.shape else self.add_node(Reshape(extents), x)

    def transpose(self, x: Value, permutation: Sequence[int] | None = None) -> Value:
        """Axis i of the result is axis `permutation[i]` of x; by default the axes are reversed."""
        order = tuple(range(x.type.rank))[::-1] if permutation is None else tuple(permutation)
        return x if order == tuple(range(x.type.rank)) else self.add_node(Transpose(order), x)

    def slice(self, x: Value, start: Sequence[int], stop: Sequence[int], step: Sequence[int] | None = None) -> Value:
        """Elements start, start + step, ... below stop along each axis."""
        steps = (1,) * x.type.rank if step is None else tuple(step)
        return self.add_node(Slice(tuple(start), tuple(stop), steps), x)

    def slice_axis(self, x: Value, axis: int, begin: int, end: int) -> Value:
        """Elements `begin` to `end` (exclusive) along one axis."""
        start, stop = [0] * x.type.rank, list(x.type.shape)
        start[axis], stop[axis] = begin, end
        return self.slice(x, start, stop)

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        """x in reverse order along `axes`."""
        return self.add_node(Reverse(tuple(axes)), x) if axes else x

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """The tensors concatenated along `axis`."""
        return self.add_node(Concat(axis % max(xs[0].type.rank, 1)), *xs)

    def pad(
        self, x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
    ) -> Value:
        """x with `value` (a scalar) around it and between its elements; negative edges crop."""
        between = (0,) * x.type.rank if interior is None else tuple(interior)
        return self.add_node(Pad(tuple(low), tuple(high), between), x, value)

    def expand_dims(self, x: Value, axis: int) -> Value:
        """x with a new axis of extent 1 at position `axis` of the result."""
        at = axis % (x.type.rank + 1)
        return self.reshape(x, (*x.type.shape[:at], 1, *x.type.shape[at:]))

    def squeeze(self, x: Value, axes: Axes = None) -> Value:
        """x without `axes`, which have extent 1; without all such axes by default."""
        ones = [k for k, n in enumerate(x.type.shape) if n == 1]
        dropped = normalize_axes(ones if axes is None else axes, x.type.rank)
        return self.reshape(x, tuple(n for k, n in enumerate(x.type.shape) if k not in dropped))

    def relayout(self, x: Value, layout: Layout | None) -> Value:
        """The same tensor in another physical layout."""
        return self.add_node(Relayout(layout), x)

    # -- indexing

    def gather(self, x: Value, indices: Value, axes: Sequence[int], batch: int = 0) -> Value:
        """Elements at indices[..., len(axes)]; see Gather."""
        return self.add_node(Gather(tuple(axes), batch), x, indices)

    def take(self, x: Value, indices: Value, axis: int) -> Value:
        """Slices of x at integer `indices` along one axis, which the index axes replace; indices are clamped."""
        axis %= x.type.rank
        taken = self.gather(x, self.expand_dims(indices, -1), (axis,))
        k = indices.type.rank
        return self.transpose(taken, (*range(k, k + axis), *range(k), *range(k + axis, taken.type.rank)))

    def take_along(self, x: Value, positions: Value, axis: int) -> Value:
        """The elements of x at `positions` along one axis: result[.., i, ..] = x[.., positions[.., i, ..], ..]."""
        axis %= x.type.rank
        if axis == x.type.rank - 1:
            return self.gather(x, self.expand_dims(positions, -1), (axis,), axis)
        last = [*(k for k in range(x.type.rank) if k != axis), axis]
        taken = self.take_along(self.transpose(x, last), self.transpose(positions, last), -1)
        return self.transpose(taken, [last.index(k) for k in range(x.type.rank)])

    def put_along(self, x: Value, positions: Value, updates: Value, axis: int) -> Value:
        """x with updates at `positions` along one axis: result[.., positions[.., i, ..], ..] = updates[.., i, ..]."""
        axis %= x.type.rank
        if axis == x.type.rank - 1:
            return self.scatter(x, self.expand_dims(positions, -1), updates, "set", (axis,), axis)
        last = [*(k for k in range(x.type.rank) if k != axis), axis]
        x, positions, updates = (self.transpose(v, last) for v in (x, positions, updates))
        put = self.put_along(x, positions, updates, -1)
        return self.transpose(put, [last.index(k) for k in range(x.type.rank)])

    def scatter(
        self, x: Value, indices: Value, updates: Value, op: str | ReduceOp, axes: Sequence[int], batch: int = 0
    ) -> Value:
        """x with updates stored ("set") or combined at the indices; see Scatter."""
        mnemonic = op.value if isinstance(op, ReduceOp) else op
        return self.add_node(Scatter(mnemonic, tuple(axes), batch), x, indices, updates)

    # -- reductions

    def reduce(self, op: ReduceOp, x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        """x combined over `axes`, by default all."""
        over = normalize_axes(axes, x.type.rank)
        result = self.add_node(Reduce(op, over), x) if over else x
        if not keepdims:
            return result
        return self.reshape(result, tuple(1 if k in over else n for k, n in enumerate(x.type.shape)))

    sum, prod = _reducer(ReduceOp.ADD), _reducer(ReduceOp.MUL)
    max, min = _reducer(ReduceOp.MAX), _reducer(ReduceOp.MIN)

    def mean(self, x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        """The sum over `axes` divided by the number of elements; in float32 if float16 may not hold these two."""
        dtype = x.type.dtype
        if dtype.is_float and dtype.bits < 32:
            return self.cast(self.mean(self.cast(x, DType.F32), axes, keepdims), dtype)
        count = prod(x.type.shape[a] for a in normalize_axes(axes, x.type.rank))
        return self.div(self.sum(x, axes, keepdims), count)

    def any(self, x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        """BOOL: true if any element is nonzero."""
        return self.reduce(ReduceOp.OR, self.cast(x, DType.BOOL), axes, keepdims)

    def all(self, x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        """BOOL: true if all elements are nonzero."""
        return self.reduce(ReduceOp.AND, self.cast(x, DType.BOOL), axes, keepdims)

    def arg_reduce(self, kind: str, x: Value, axis: int) -> Value:
        """The I64 position of the "max" or "min" along `axis`."""
        return self.add_node(ArgReduce(kind, axis % x.type.rank), x)

    def cumulative(self, op: ReduceOp, x: Value, axis: int, reverse: bool = False) -> Value:
        """The inclusive cumulative combination along `axis`."""
        return self.add_node(Cumulative(op, axis % x.type.rank, reverse), x)

    def csr_dot(self, data: Value, columns: Value, pointers: Value, dense: Value) -> Value:
        """The product of a matrix in compressed rows and a dense one; see CsrDot."""
        return self.add_node(CsrDot(), data, columns, pointers, dense)

    # -- windows and contractions

    def reduce_window(
        self,
        op: ReduceOp,
        x: Value,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int] | None = None,
    ) -> Value:
        """Each window combined; all parameters have one entry per axis of x."""
        spread = (1,) * x.type.rank if dilation is None else tuple(dilation)
        edges = tuple((lo, hi) for lo, hi in padding)
        return self.add_node(ReduceWindow(op, tuple(window), tuple(strides), edges, spread), x)

    def select_and_scatter(
        self,
        x: Value,
        cotangent: Value,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
    ) -> Value:
        """The gradient of the maximum over windows."""
        edges = tuple((lo, hi) for lo, hi in padding)
        return self.add_node(SelectAndScatter(tuple(window), tuple(strides), edges), x, cotangent)

    def windows(
        self,
        x: Value,
        value: float,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        dilation: Sequence[int],
    ) -> Value:
        """All windows of x padded with `value`: axes are the window's position, then one axis of its elements."""
        rank = x.type.rank
        low, high = zip(*padding, strict=True)
        result = self.pad(x, self.constant(value, x.type.dtype), low, high) if any(low + high) else x
        for k in reversed(range(rank)):
            n = result.type.shape[k]
            result = self.take(result, self._window_indices(n, window[k], strides[k], dilation[k]), k)
        order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
        return self.reshape(self.transpose(result, order), (*result.type.shape[::2], prod(window)))

    def _window_indices(self, n: int, window: int, stride: int, dilation: int) -> Value:
        """(positions, window): which of `n` elements are in the window at each position."""
        count = max(0, -(-(n - (window - 1) * dilation) // stride))
        if is_symbolic(count):
            place, element = (self.iota((count, window), DType.I64, axis) for axis in (0, 1))
            return self.add(self.mul(place, stride), self.mul(element, dilation))
        return self.constant(np.arange(count)[:, None] * stride + np.arange(window) * dilation)

    def dot(
        self,
        x: Value,
        y: Value,
        lhs_batch: Sequence[int],
        rhs_batch: Sequence[int],
        lhs_contract: Sequence[int],
        rhs_contract: Sequence[int],
        accumulator: DType | None = None,
    ) -> Value:
        """Sum of products; the result's axes: batch, free axes of x, free axes of y. See Dot."""
        axes = (tuple(lhs_batch), tuple(rhs_batch), tuple(lhs_contract), tuple(rhs_contract))
        return self.add_node(Dot(*axes, accumulator), x, y)

    def matmul(self, x: Value, y: Value, accumulator: DType | None = None) -> Value:
        """x[*batch, m, k] times y[*batch, k, n]."""
        batch = tuple(range(x.type.rank - 2))
        return self.dot(x, y, batch, batch, (x.type.rank - 1,), (y.type.rank - 2,), accumulator)

    def conv(
        self,
        x: Value,
        w: Value,
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        groups: int = 1,
        batch_groups: int = 1,
        accumulator: DType | None = None,
    ) -> Value:
        """x[N, C, *s] convolved with w[O, C / groups, *k]; see Conv."""
        ones = (1,) * (x.type.rank - 2)
        left = ones if lhs_dilation is None else tuple(lhs_dilation)
        right = ones if rhs_dilation is None else tuple(rhs_dilation)
        edges = tuple((lo, hi) for lo, hi in padding)
        return self.add_node(Conv(tuple(strides), edges, left, right, groups, batch_groups, accumulator), x, w)

    # -- factorizations

    def cholesky(self, x: Value) -> Value:
        """The lower triangular factor of each matrix; see Cholesky."""
        return self.add_node(Cholesky(), x)

    def triangular_solve(self, a: Value, y: Value, lower: bool = True, transpose: bool = False) -> Value:
        """x with a x = y, or with a^T x = y; see TriangularSolve."""
        return self.add_node(TriangularSolve(lower, transpose), a, y)

    def lu(self, x: Value) -> tuple[Value, ...]:
        """Packed factors of each matrix, and the row permutation; see LU."""
        return self.node(LU(), x).outputs

    def lq(self, x: Value) -> tuple[Value, ...]:
        """A lower triangular matrix and a matrix with orthonormal rows; see LQ."""
        return self.node(LQ(), x).outputs

    def symmetric_eigen(self, x: Value) -> tuple[Value, ...]:
        """Eigenvalues, and eigenvectors as rows; see SymmetricEigen."""
        return self.node(SymmetricEigen(), x).outputs

    # -- ordering and control

    def sort(
        self, xs: Value | Sequence[Value], axis: int, descending: bool = False, stable: bool = True
    ) -> tuple[Value, ...]:
        """The tensors permuted along `axis` to sort the first one."""
        operands = (xs,) if isinstance(xs, Value) else tuple(xs)
        return self.node(Sort(axis % operands[0].type.rank, descending, stable), *operands).outputs

    def argsort(self, x: Value, axis: int, descending: bool = False, count: int | None = None) -> Value:
        """The positions along `axis` of the elements in order, or of the first `count`; see ArgSort."""
        return self.add_node(ArgSort(axis % x.type.rank, descending, count), x)

    def call(
        self, body: Graph, *operands: Value, gradient: Graph | None = None, wrt: Sequence[int] | None = None
    ) -> tuple[Value, ...]:
        """The body's results, with `gradient` as the gradient if present; see Call."""
        return self.node(Call(body, gradient, None if wrt is None else tuple(wrt)), *operands).outputs

    def custom_gradient(
        self, forward: Callable[..., Value | Sequence[Value]], gradient: OwnGradient, *operands: Value
    ) -> tuple[Value, ...]:
        """The results of forward(b, *operands), whose gradient is `gradient`."""
        return call_with_gradient(self, forward, gradient, operands)

    def stop_gradient(self, x: Value) -> Value:
        """x, through which no cotangent passes back."""
        return without_gradient(self, x)

    def cond(self, pred: Value, then: Graph, otherwise: Graph, *operands: Value) -> tuple[Value, ...]:
        """The results of one of two graphs."""
        return self.node(Cond(then, otherwise), pred, *operands).outputs

    def while_(self, cond: Graph, body: Graph, *operands: Value, limit: int | None = None) -> tuple[Value, ...]:
        """The operands after the body was applied while the condition was true; see While."""
        return self.node(While(cond, body, limit), *operands).outputs

    def scan(
        self,
        body: Graph,
        carries: Sequence[Value],
        scanned: Sequence[Value],
        invariants: Sequence[Value],
        length: int,
        reverse: bool = False,
    ) -> tuple[Value, ...]:
        """The last carries, then the stacked results; see Scan."""
        op = Scan(body, length, len(carries), len(scanned), reverse)
        return self.node(op, *carries, *scanned, *invariants).outputs

    def host_callback(
        self,
        function: HostFunction,
        results: Sequence[TensorType],
        *operands: Value,
        gradient: HostGradient | None = None,
        writes: Sequence[int] = (),
    ) -> tuple[Value, ...]:
        """The results of a Python function on arrays. It is called after the callbacks that were added before."""
        before = next((n.outputs[-1] for n in reversed(self.nodes) if isinstance(n.op, HostCallback)), None)
        order = () if before is None else (before,)
        op = HostCallback(function, tuple(results), gradient, tuple(writes), bool(order))
        return self.node(op, *operands, *order).outputs[: len(results)]

    def inline(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        """The graph's outputs; its nodes are repeated here with these operands."""
        new = dict(zip(graph.inputs, operands, strict=True))
        repeat(self, graph.nodes, new)
        return [new[v] for v in graph.outputs]
