"""The transforms of Winograd's minimal filtering F(m, r), m outputs of r taps, on vectors of channels.

With filters g, inputs d and outputs y, y = A^T [G g . B^T d], so the gradient of g is G^T [A dy . B^T d]. Two axes are
transformed one after the other; an axis with one tap is not transformed.

Polynomials are interpolated at 0, pairs +-p and, if their number m + r - 1 is even, infinity. The points are those with
the smallest errors. F(4, 3) at 0, +-1/sqrt2, +-sqrt2 and infinity takes as many operations as at the usual 0, +-1, +-2,
and the error is 2 to 5 times smaller (about that of direct convolution in float32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from ....ir.lazy_dataclass import dataclass
from ..arithmetic import Value
from ..emitter import FunctionBuilder

_PAIRS: dict[int, tuple[float, ...]] = {
    1: (),
    4: (1.0,),
    6: (0.5**0.5, 2.0**0.5),
    7: (0.55, 1.2, 3.0),
    9: (0.45, 0.9, 1.5, 3.0),
}
"""The positive points by the number of all points."""

Vector = list[Value]


@dataclass(frozen=True, slots=True)
class Filtering:
    """F(outputs, taps) along one axis: `size` elements give `outputs` sums of `taps` products."""

    outputs: int
    taps: int

    @property
    def size(self) -> int:
        return self.outputs + self.taps - 1

    @property
    def pairs(self) -> tuple[float, ...]:
        return _PAIRS[self.size]

    @property
    def has_infinity(self) -> bool:
        return self.size % 2 == 0


Tile = tuple[Filtering, Filtering]
"""The filterings along rows and columns of an image."""


def frequencies(tile: Tile) -> int:
    return tile[0].size * tile[1].size


def tile_name(tile: Tile) -> str:
    """A name for functions that transform such tiles."""
    return "x".join(f"{a.outputs}.{a.taps}" for a in tile)


def _even_polynomial(points: Sequence[float]) -> list[float]:
    """The coefficients of the product of (t^2 - p^2) as a polynomial in t^2, the constant first."""
    coefficients = [1.0]
    for p in points:
        square = p * p
        coefficients = [
            low - high * square for low, high in zip([0.0, *coefficients], [*coefficients, 0.0], strict=True)
        ]
    return [round(c) if abs(c - round(c)) < 1e-12 else c for c in coefficients]


def _others(a: Filtering, p: float) -> list[float]:
    return [q for q in a.pairs if q != p]


def filter_matrix(a: Filtering) -> list[list[float]]:
    """G, size x taps: the transform of a filter's taps g is G g."""
    scales = [(0.0, prod(p * p for p in a.pairs))]
    for p in a.pairs:
        scale = 2 * p * p * prod(p * p - q * q for q in _others(a, p))
        scales += [(p, scale), (-p, scale)]
    rows = [[p**j / scale for j in range(a.taps)] for p, scale in scales]
    return [*rows, [0.0] * (a.taps - 1) + [1.0]] if a.has_infinity else rows


def filter_transform(f: FunctionBuilder, a: Filtering, g: Vector) -> Vector:
    """G g for the taps g: `size` elements. The rows for +-p share their even part."""
    matrix = filter_matrix(a)
    transformed = [combine(f, matrix[0], g)]
    for k in range(1, 2 * len(a.pairs), 2):
        even, odd = combine(f, matrix[k][::2], g[::2]), list(zip(matrix[k][1::2], g[1::2], strict=True))
        for sign in (1, -1):
            value = even
            for weight, tap in odd:
                value = f.fma(tap, sign * weight, value)
            transformed.append(value)
    return [*transformed, combine(f, matrix[-1], g)] if a.has_infinity else transformed


def input_transform(f: FunctionBuilder, a: Filtering, d: Vector) -> Vector:
    """B^T d for `size` elements d. The rows for +-p share their even and odd parts."""
    whole = _even_polynomial(a.pairs)
    sign = -1 if len(a.pairs) % 2 else 1
    transformed = [combine(f, [sign * c for c in whole], d[: 2 * len(whole) - 1 : 2])]
    for p in a.pairs:
        rest = _even_polynomial(_others(a, p))
        even, odd = combine(f, rest, d[2 : 2 * len(whole) : 2]), combine(f, rest, d[1 : 2 * len(whole) - 1 : 2])
        transformed += [even + odd, even - odd] if p == 1 else [f.fma(odd, s * p, even) for s in (1, -1)]
    return [*transformed, combine(f, whole, d[1::2])] if a.has_infinity else transformed


def output_transform(f: FunctionBuilder, a: Filtering, d: Vector) -> Vector:
    """A^T d for `size` elements d: `outputs` sums."""
    pairs = [(d[2 * k + 1], d[2 * k + 2]) for k in range(len(a.pairs))]
    even, odd = [x + y for x, y in pairs], [x - y for x, y in pairs] if a.outputs > 1 else []
    outputs: Vector = []
    for n in range(a.outputs):
        weights, taps = [p**n for p in a.pairs], list(odd if n % 2 else even)
        ends = [d[0]] * (n == 0) + [d[-1]] * (a.has_infinity and n == a.outputs - 1)
        outputs.append(combine(f, [*weights, *(1.0 for _ in ends)], [*taps, *ends]))
    return outputs


def cotangent_transform(f: FunctionBuilder, a: Filtering, d: Vector) -> Vector:
    """A d for `outputs` cotangents d: `size` elements."""
    transformed = [d[0]]
    for p in a.pairs:
        powers = [p**n for n in range(a.outputs)]
        even, odd = combine(f, powers[::2], d[::2]), combine(f, powers[1::2], d[1::2])
        transformed += [even + odd, even - odd]
    return [*transformed, d[-1]] if a.has_infinity else transformed


def gradient_transform(f: FunctionBuilder, a: Filtering, d: Vector) -> Vector:
    """G^T d for `size` sums of products d: the gradients of the taps."""
    matrix = filter_matrix(a)
    pairs = range(1, 2 * len(a.pairs), 2)
    even, odd = [d[k] + d[k + 1] for k in pairs], [d[k] - d[k + 1] for k in pairs]
    taps: Vector = []
    for n in range(a.taps):
        ends = ([(matrix[0][0], d[0])] if n == 0 else []) + ([(1.0, d[-1])] if n == a.taps - 1 else [])
        weights = [*(matrix[k][n] for k in pairs), *(w for w, _ in ends)]
        taps.append(combine(f, weights, [*(odd if n % 2 else even), *(v for _, v in ends)]))
    return taps


Transform = Callable[[FunctionBuilder, Filtering, Vector], Vector]


def transform_tile(
    f: FunctionBuilder,
    tile: Tile,
    transform: Transform,
    read: Callable[[int, int], Value],
    size: tuple[int, int],
) -> list[list[Value]]:
    """The transform along columns, then along rows, of size[0] rows of size[1] elements: result[row][column]."""
    return list(transform_rows(f, tile, transform, read, size))


def transform_rows(
    f: FunctionBuilder,
    tile: Tile,
    transform: Transform,
    read: Callable[[int, int], Value],
    size: tuple[int, int],
) -> Iterator[Vector]:
    """The rows of `transform_tile`. Each is computed when it is taken, so that code which stores it at once needs few
    registers."""
    down, along = (_axis(f, transform, a) for a in tile)
    columns = [down([read(y, x) for y in range(size[0])]) for x in range(size[1])]
    return (along([c[y] for c in columns]) for y in range(len(columns[0])))


def _axis(f: FunctionBuilder, transform: Transform, a: Filtering) -> Callable[[Vector], Vector]:
    return lambda d: d if a.size == 1 else transform(f, a, d)


def combine(f: FunctionBuilder, weights: Sequence[float], taps: Sequence[Value]) -> Value:
    """sum(weights * taps): first those with weight 1, without those with weight 0."""
    terms = sorted(zip(weights, taps, strict=True), key=lambda term: term[0] != 1)
    total: Value | None = None
    for w, t in terms:
        if w == 1:
            total = t if total is None else total + t
        elif w:
            total = t * w if total is None else f.fma(t, w, total)
    assert total is not None
    return total
