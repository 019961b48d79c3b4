"""The transforms of Winograd's minimal filtering F(m x m, 3x3), m 2 or 4, on vectors of channels.

With filters g, inputs d and outputs y, y = A^T [G g . B^T d], so the gradient of g is G^T [A dy . B^T d].

F(4x4) interpolates at 0, +-1/sqrt2, +-sqrt2 and infinity. This takes as many operations as the usual 0, +-1, +-2, and
the error is 2 to 5 times smaller (about that of direct convolution in float32).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arithmetic import Value
from ..emitter import FunctionBuilder

_A, _B = 0.5**0.5, 2.0**0.5
Vector = list[Value]


def filter_matrix(m: int) -> list[list[float]]:
    """G, (m + 2) x 3: the transform of a filter's taps g is G g."""
    if m == 2:
        return [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    near, far = 2 * _A**2 * (_A**2 - _B**2), 2 * _B**2 * (_B**2 - _A**2)
    scales = ((0.0, (_A * _B) ** 2), (_A, near), (-_A, near), (_B, far), (-_B, far))
    return [*([p**j / d for j in range(3)] for p, d in scales), [0, 0, 1]]


def input_transform(f: FunctionBuilder, m: int, d: Vector) -> Vector:
    """B^T d for m + 2 elements d. The rows for +-p share their even and odd parts."""
    if m == 2:
        return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
    even_a, odd_a = f.fma(d[2], -_B * _B, d[4]), f.fma(d[1], -_B * _B, d[3])
    even_b, odd_b = f.fma(d[2], -_A * _A, d[4]), f.fma(d[1], -_A * _A, d[3])
    middle = -_A * _A - _B * _B
    return [
        f.fma(d[2], middle, d[0] + d[4]),
        *(f.fma(odd_a, s * _A, even_a) for s in (1, -1)),
        *(f.fma(odd_b, s * _B, even_b) for s in (1, -1)),
        f.fma(d[3], middle, d[1] + d[5]),
    ]


def output_transform(f: FunctionBuilder, m: int, d: Vector) -> Vector:
    """A^T d for m + 2 elements d: m outputs."""
    if m == 2:
        return [d[0] + d[1] + d[2], d[1] - d[2] - d[3]]
    even_a, odd_a, even_b, odd_b = d[1] + d[2], d[1] - d[2], d[3] + d[4], d[3] - d[4]

    def power(n: int, x: Value, y: Value) -> Value:
        return f.fma(y, _B**n, x * _A**n)

    return [d[0] + even_a + even_b, power(1, odd_a, odd_b), power(2, even_a, even_b), power(3, odd_a, odd_b) + d[5]]


def cotangent_transform(f: FunctionBuilder, m: int, d: Vector) -> Vector:
    """A d for 4 cotangents d: 6 elements."""
    assert m == 4
    found = [d[0]]
    for p in (_A, _B):
        even, odd = f.fma(d[2], p * p, d[0]), f.fma(d[3], p**3, d[1] * p)
        found += [even + odd, even - odd]
    return [*found, d[3]]


def gradient_transform(f: FunctionBuilder, m: int, d: Vector) -> Vector:
    """G^T d for 6 sums of products d: the gradients of 3 taps."""
    assert m == 4
    matrix = filter_matrix(m)
    near, far = matrix[1], matrix[3]
    even_a, odd_a, even_b, odd_b = d[1] + d[2], d[1] - d[2], d[3] + d[4], d[3] - d[4]
    return [
        f.fma(d[0], matrix[0][0], f.fma(even_b, far[0], even_a * near[0])),
        f.fma(odd_b, far[1], odd_a * near[1]),
        d[5] + f.fma(even_b, far[2], even_a * near[2]),
    ]


Transform = Callable[[FunctionBuilder, int, Vector], Vector]


def transform_square(
    f: FunctionBuilder, m: int, transform: Transform, read: Callable[[int, int], Value], size: int
) -> list[list[Value]]:
    """The transform along columns, then along rows, of a square of `size`: result[row][column]."""
    columns = [transform(f, m, [read(y, x) for y in range(size)]) for x in range(size)]
    return [transform(f, m, [c[y] for c in columns]) for y in range(len(columns[0]))]


def combine(f: FunctionBuilder, weights: Sequence[float], taps: Sequence[Value]) -> Value:
    """sum(weights * taps) without zero weights."""
    total: Value | None = None
    for w, t in zip(weights, taps, strict=True):
        if w:
            total = t * w if total is None else f.fma(t, w, total)
    assert total is not None
    return total
