"""Lowers the calls by which exported modules contain the factorizations that StableHLO does not have: LU, LQ and the
eigenvalues of symmetric matrices. They are computed in float64; `ir/dialects/core/factorization.py` defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ir.dialects.core import LQ, LU, Primitive, SymmetricEigen
from ....ir.types import DType, TensorType
from ...stablehlo.upstream import UpstreamError, place_of
from .builder import Builder, Values
from .floats import Floats

_SWEEPS = 60
"""The most rotations of each pair of axes. Few matrices need more than ten."""

_CONVERGED = 1e-15
"""The size of what is left beside the diagonal, relative to the matrix."""


def lower_call(builder: Builder, op: Any) -> Values | None:
    """What replaces a call of one of these factorizations; None for other calls. UpstreamError for other types than
    those of the primitive: upstream does not check them."""
    name = op.attributes["call_target_name"].value
    if name not in CALLS:
        return None
    primitive, rule = CALLS[name]
    try:
        types = [_tensor_type(v.type) for v in op.operands]
        expected = [str(t) for t in primitive.infer(*types)]
    except (TypeError, ValueError) as error:
        raise UpstreamError(f"the call of {name}{place_of(builder.ir, op.location)}: {error}") from None
    declared = [str(r.type) for r in op.results]
    if declared != expected:
        place = place_of(builder.ir, op.location)
        raise UpstreamError(f"the call of {name}{place} has results {', '.join(declared)}, not {', '.join(expected)}")
    return rule(builder, op)


def _tensor_type(type: Any) -> TensorType:
    return TensorType(tuple(type.shape), DType(str(type.element_type)))


class _Matrices:
    """Access to matrices of float64, whose values follow each other as tensors."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.floats = Floats(builder, builder.ir.F64Type.get())

    def new(self, *shape: int) -> Any:
        return self.builder.empty(shape, self.floats.type)

    def read(self, x: Any, at: Values) -> Any:
        """An element of a tensor of any float type."""
        return self.floats.converted(self.builder.extract(x, at))

    def write(self, element: Any, x: Any, at: Values) -> Any:
        """A tensor of any float type with an element."""
        return self.builder.insert(Floats(self.builder, x.type.element_type).converted(element), x, at)

    def filled(self, x: Any, element: Callable[[Values], Any]) -> Any:
        """A tensor with a function of the position everywhere."""

        def visit(at: Values, carried: Values) -> Values:
            return [self.write(element(at), carried[0], at)]

        return self.builder.nest(list(x.type.shape), [x], visit)[0]

    def copied(self, x: Any, source: Any, outer: Values) -> Any:
        return self.filled(x, lambda at: self.read(source, [*outer, *at]))

    def identity(self, x: Any) -> Any:
        one, zero = self.floats.constant(1.0), self.floats.constant(0.0)
        return self.filled(x, lambda at: self.builder.select(self.builder.equal(*at), one, zero))

    def stored(self, result: Any, outer: Values, shape: Sequence[int], element: Callable[[Values], Any]) -> Any:
        """A batch of results with one that is a function of the position."""

        def visit(at: Values, carried: Values) -> Values:
            return [self.write(element(at), carried[0], [*outer, *at])]

        return self.builder.nest(shape, [result], visit)[0]

    def total(self, begin: Any, end: Any, term: Callable[[Any], Any]) -> Any:
        """The sum of a function of the index."""
        zero = self.floats.constant(0.0)
        return self.builder.loop(begin, end, [zero], lambda k, x: [self.floats.add(x[0], term(k))])[0]

    def product(self, x: Any, i: Any, y: Any, k: Any, begin: Any, end: Any) -> Any:
        """The scalar product of a row of x and a row of y."""
        return self.total(begin, end, lambda j: self.floats.mul(self.read(x, [i, j]), self.read(y, [k, j])))

    def less_row(self, x: Any, i: Any, factor: Any, row: Callable[[Any, Any], Any], begin: Any, end: Any) -> Any:
        """x, from whose row i a multiple of another row is subtracted: a function of x and the column."""

        def subtract(j: Any, carried: Values) -> Values:
            (x,) = carried
            rest = self.floats.sub(self.read(x, [i, j]), self.floats.mul(factor, row(x, j)))
            return [self.write(rest, x, [i, j])]

        return self.builder.loop(begin, end, [x], subtract)[0]


# -- LU


def _lower_lu(builder: Builder, op: Any) -> Values:
    (x,) = op.operands
    *batch, n, _ = x.type.shape
    m = _Matrices(builder)

    def factor(outer: Values, carried: Values) -> Values:
        packed, order, work = carried
        work = m.copied(work, x, outer)
        order = builder.loop(0, n, [order], lambda i, c: [builder.insert(builder.to_i32(i), c[0], [*outer, i])])[0]

        def step(k: Any, carried: Values) -> Values:
            order, work = carried
            pivot = _pivot_row(m, work, k, n)
            order, work = _exchanged(m, order, work, outer, k, pivot)
            return [order, _eliminated(m, work, k, n)]

        order, work = builder.loop(0, n, [order, work], step)
        return [m.stored(packed, outer, [n, n], lambda at: m.read(work, at)), order, work]

    results = [builder.empty(r.type.shape, r.type.element_type) for r in op.results]
    return builder.nest(batch, [*results, m.new(n, n)], factor)[:2]


def _pivot_row(m: _Matrices, work: Any, k: Any, n: int) -> Any:
    """The first row from k on whose element in column k is largest; NaN is larger than numbers."""
    builder, floats = m.builder, m.floats

    def compare(i: Any, carried: Values) -> Values:
        best, row = carried
        size = floats.absolute(m.read(work, [i, k]))
        is_first_nan = builder.both(floats.is_nan(size), builder.negation(floats.is_nan(best)))
        is_better = builder.either(floats.greater(size, best), is_first_nan)
        return [builder.select(is_better, size, best), builder.select(is_better, i, row)]

    return builder.loop(k, n, [floats.constant(-1.0), k], compare)[1]


def _exchanged(m: _Matrices, order: Any, work: Any, outer: Values, k: Any, pivot: Any) -> tuple[Any, Any]:
    """Two rows exchanged, and their numbers."""
    builder = m.builder
    first, second = (builder.extract(order, [*outer, i]) for i in (k, pivot))
    order = builder.insert(second, order, [*outer, k])
    order = builder.insert(first, order, [*outer, pivot])

    def exchange(j: Any, carried: Values) -> Values:
        upper, lower = (m.read(carried[0], [i, j]) for i in (k, pivot))
        return [m.write(upper, m.write(lower, carried[0], [k, j]), [pivot, j])]

    return order, builder.loop(0, work.type.shape[1], [work], exchange)[0]


def _eliminated(m: _Matrices, work: Any, k: Any, n: int) -> Any:
    """Column k divided by its pivot, unless that is zero, and multiples of row k subtracted from the rows below."""
    builder, floats = m.builder, m.floats
    pivot, below = m.read(work, [k, k]), builder.add(k, 1)
    is_zero = floats.equal(pivot, floats.constant(0.0))

    def eliminate(i: Any, carried: Values) -> Values:
        element = m.read(carried[0], [i, k])
        factor = builder.select(is_zero, element, floats.div(element, pivot))
        work = m.write(factor, carried[0], [i, k])
        return [m.less_row(work, i, factor, lambda x, j: m.read(x, [k, j]), below, n)]

    return builder.loop(below, n, [work], eliminate)[0]


# -- LQ


def _lower_lq(builder: Builder, op: Any) -> Values:
    """Each reflection makes a row zero behind the diagonal."""
    (x,) = op.operands
    *batch, rows, columns = x.type.shape
    m = _Matrices(builder)

    def reflect(x: Any, vectors: Any, scale: Any, k: Any) -> Any:
        def row(i: Any, carried: Values) -> Values:
            factor = m.floats.mul(scale, m.product(carried[0], i, vectors, k, k, columns))
            return [m.less_row(carried[0], i, factor, lambda _, j: m.read(vectors, [k, j]), k, columns)]

        return builder.loop(k, rows, [x], row)[0]

    def factor(outer: Values, carried: Values) -> Values:
        lower, q, work, vectors, scales, rotated = carried

        def step(k: Any, carried: Values) -> Values:
            work, vectors, scales = carried
            vectors, scale = _reflection(m, work, vectors, k, columns)
            return [reflect(work, vectors, scale, k), vectors, m.write(scale, scales, [k])]

        work, vectors, scales = builder.loop(0, rows, [m.copied(work, x, outer), vectors, scales], step)

        def undo(step: Any, carried: Values) -> Values:
            k = builder.sub(rows - 1, step)
            return [reflect(carried[0], vectors, m.read(scales, [k]), k)]

        rotated = builder.loop(0, rows, [m.identity(rotated)], undo)[0]
        zero = m.floats.constant(0.0)

        def of_lower(at: Values) -> Any:
            return builder.select(builder.less(at[0], at[1]), zero, m.read(work, at))

        lower = m.stored(lower, outer, [rows, rows], of_lower)
        q = m.stored(q, outer, [rows, columns], lambda at: m.read(rotated, at))
        return [lower, q, work, vectors, scales, rotated]

    results = [builder.empty(r.type.shape, r.type.element_type) for r in op.results]
    memory = [m.new(rows, columns), m.new(rows, columns), m.new(rows), m.new(rows, columns)]
    return builder.nest(batch, [*results, *memory], factor)[:2]


def _reflection(m: _Matrices, work: Any, vectors: Any, k: Any, columns: int) -> tuple[Any, Any]:
    """The vector of a reflection as row k, and its scale: zero if the row is zero behind the diagonal. The row is
    divided by its largest element first, because its squares can be out of range."""
    builder, floats = m.builder, m.floats
    zero, one, behind = floats.constant(0.0), floats.constant(1.0), builder.add(k, 1)

    def larger(j: Any, carried: Values) -> Values:
        size = floats.absolute(m.read(work, [k, j]))
        return [builder.select(floats.greater(size, carried[0]), size, carried[0])]

    (largest,) = builder.loop(k, columns, [zero], larger)
    unit = builder.select(floats.equal(largest, zero), one, largest)

    def copy(j: Any, carried: Values) -> Values:
        element = m.read(work, [k, j])
        is_used = builder.either(carried[0], builder.both(builder.less(k, j), floats.unequal(element, zero)))
        return [is_used, m.write(floats.div(element, unit), carried[1], [k, j])]

    is_used, vectors = builder.loop(k, columns, [builder.truth(False), vectors], copy)
    head, rest = m.read(vectors, [k, k]), m.product(vectors, k, vectors, k, behind, columns)
    norm = floats.sqrt(floats.add(floats.mul(head, head), rest))
    first = builder.select(is_used, floats.add(head, floats.with_sign(norm, head)), head)
    square = floats.add(floats.mul(first, first), rest)
    scale = builder.select(is_used, floats.div(floats.constant(2.0), square), zero)
    return m.write(first, vectors, [k, k]), scale


# -- eigenvalues


def _lower_eigen(builder: Builder, op: Any) -> Values:
    """Jacobi's rotations: each makes a pair of elements beside the diagonal zero. NaN if an element is not finite."""
    (x,) = op.operands
    *batch, n, _ = x.type.shape
    m = _Matrices(builder)
    floats = m.floats

    def size(term: Callable[[Any, Any], Any]) -> Any:
        return m.total(0, n, lambda i: m.total(0, n, lambda j: term(i, j)))

    def solve(outer: Values, carried: Values) -> Values:
        values, vectors, a, v = carried
        whole = size(lambda i, j: floats.absolute(m.read(x, [*outer, i, j])))
        zero = floats.constant(0.0)

        def symmetric(at: Values) -> Any:
            return m.read(x, [*outer, builder.greatest(*at), builder.least(*at)])

        def more(sweep: Any, a: Any, v: Any) -> Any:
            def beside(i: Any, j: Any) -> Any:
                return builder.select(builder.equal(i, j), zero, floats.absolute(m.read(a, [i, j])))

            left = floats.greater(size(beside), floats.mul(whole, floats.constant(_CONVERGED)))
            return builder.both(left, builder.less(sweep, _SWEEPS))

        def sweep(number: Any, a: Any, v: Any) -> Values:
            def of_row(p: Any, carried: Values) -> Values:
                return builder.loop(builder.add(p, 1), n, carried, lambda q, c: _rotated(m, c[0], c[1], p, q, n))

            return [builder.add(number, 1), *builder.loop(0, n, [a, v], of_row)]

        start = [builder.index(0), m.filled(a, symmetric), m.identity(v)]
        _, a, v = builder.repeat(start, more, sweep)
        missing = floats.sub(whole, whole)
        values = m.stored(values, outer, [n], lambda at: floats.add(m.read(a, [at[0], at[0]]), missing))
        vectors = m.stored(vectors, outer, [n, n], lambda at: floats.add(m.read(v, at), missing))
        return [values, vectors, a, v]

    results = [builder.empty(r.type.shape, r.type.element_type) for r in op.results]
    return builder.nest(batch, [*results, m.new(n, n), m.new(n, n)], solve)[:2]


def _rotated(m: _Matrices, a: Any, v: Any, p: Any, q: Any, n: int) -> Values:
    """The matrix with zeros at (p, q) and (q, p), and the rows of v rotated."""
    builder, floats = m.builder, m.floats
    element = m.read(a, [p, q])
    zero, one = floats.constant(0.0), floats.constant(1.0)
    difference = floats.sub(m.read(a, [q, q]), m.read(a, [p, p]))
    ratio = floats.div(difference, floats.mul(floats.constant(2.0), element))
    root = floats.sqrt(floats.add(floats.mul(ratio, ratio), one))
    tangent = floats.div(floats.with_sign(one, ratio), floats.add(floats.absolute(ratio), root))
    tangent = builder.select(floats.equal(element, zero), zero, tangent)
    cosine = floats.div(one, floats.sqrt(floats.add(floats.mul(tangent, tangent), one)))
    sine = floats.mul(tangent, cosine)

    def rotate(x: Any, place: Callable[[Any, Any], Values]) -> Any:
        def visit(k: Any, carried: Values) -> Values:
            first, second = (m.read(carried[0], place(i, k)) for i in (p, q))
            new_first = floats.sub(floats.mul(cosine, first), floats.mul(sine, second))
            new_second = floats.add(floats.mul(sine, first), floats.mul(cosine, second))
            return [m.write(new_second, m.write(new_first, carried[0], place(p, k)), place(q, k))]

        return builder.loop(0, n, [x], visit)[0]

    a = rotate(rotate(a, lambda i, k: [k, i]), lambda i, k: [i, k])
    a = m.write(zero, m.write(zero, a, [p, q]), [q, p])
    return [a, rotate(v, lambda i, k: [i, k])]


CALLS: dict[str, tuple[Primitive, Callable[[Builder, Any], Values]]] = {
    "mxforge.lu": (LU(), _lower_lu),
    "mxforge.lq": (LQ(), _lower_lq),
    "mxforge.symmetric_eigen": (SymmetricEigen(), _lower_eigen),
}
"""The primitives and their rules by the names of the functions that exported modules call."""
