"""Makes random core graphs, reproducibly by seed, for property tests of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType

SHAPES = [(3, 8, 5, 5), (2, 20, 4, 3), (4, 6), (5, 17), (2, 3, 4), (33,), (1, 16, 6, 6), (2, 1, 7)]
LIMIT = 6000  # the largest number of elements of a value, so that graphs are quick to interpret


class Maker:
    """Adds random nodes that read existing values. All values are within about [-4, 4]."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = CoreBuilder(f"random{seed}")
        count = int(self.rng.integers(2, 4))
        shapes = [SHAPES[int(i)] for i in self.rng.integers(0, len(SHAPES), count)]
        self.values: list[Value] = [self.b.input(TensorType(s, DType.F32)) for s in shapes]
        self.inputs = [self.normal(*s) for s in shapes]
        self.b.parameters = {count - 1} if self.rng.random() < 0.3 else set()

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def integer(self, low: int, high: int) -> int:
        """A random integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def pick(self) -> Value:
        """A random value; later values are more likely."""
        n = len(self.values)
        return self.values[n - 1 - min(n - 1, int(self.rng.exponential(4)))]

    def pick_like(self, x: Value) -> Value:
        found = [v for v in self.values if v.type == x.type]
        return found[self.integer(0, len(found) - 1)]

    def axis(self, x: Value) -> int:
        return self.integer(0, x.type.rank - 1)

    def graph(self, size: int) -> Graph:
        while len(self.b.nodes) < size:
            made = STEPS[self.integer(0, len(STEPS) - 1)](self)
            if made is not None and 0 < made.type.size <= LIMIT:
                self.values.append(made)
        read = {v for n in self.b.nodes for v in n.inputs}
        results = [v for v in self.values if v.node is not None and (v not in read or self.rng.random() < 0.1)]
        return self.b.build(results[-6:])


def unary(m: Maker) -> Value:
    x, b = m.pick(), m.b
    return [b.tanh, b.neg, b.sigmoid, b.abs, b.sin][m.integer(0, 4)](x)


def binary(m: Maker) -> Value:
    x = m.pick()
    y, b = m.pick_like(x), m.b
    return [b.sub, b.maximum, lambda p, q: b.tanh(b.add(p, q)), lambda p, q: b.mul(b.sin(p), q)][m.integer(0, 3)](x, y)


def select(m: Maker) -> Value:
    x = m.pick()
    y = m.pick_like(x)
    return m.b.select(m.b.gt(x, y), x, m.b.full_like(x, 0.5) if m.rng.random() < 0.5 else y)


def broadcast(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank > 3 or x.type.size * 4 > LIMIT:
        return None
    axis = m.integer(0, x.type.rank)
    shape = (*x.type.shape[:axis], m.integer(2, 4), *x.type.shape[axis:])
    return m.b.broadcast(x, shape, tuple(k for k in range(len(shape)) if k != axis))


def normalize(m: Maker) -> Value:
    """x - mean(x), which becomes one region."""
    x = m.pick()
    axis = m.axis(x)
    return m.b.sub(x, m.b.broadcast_to(m.b.mean(x, axis, keepdims=True), x.type.shape))


def reduce(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank < 2:
        return None
    keepdims = m.rng.random() < 0.5
    return [m.b.mean, m.b.max, m.b.min][m.integer(0, 2)](x, m.axis(x), keepdims=keepdims)


def transpose(m: Maker) -> Value:
    x = m.pick()
    return m.b.transpose(x, tuple(int(i) for i in m.rng.permutation(x.type.rank)))


def reshape(m: Maker) -> Value:
    """Merge two neighbouring axes, or add an axis of extent 1."""
    x = m.pick()
    k, shape = m.axis(x), x.type.shape
    if k + 1 < len(shape) and m.rng.random() < 0.7:
        return m.b.reshape(x, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
    return m.b.reshape(x, (*shape[:k], 1, *shape[k:])) if len(shape) < 5 else m.b.neg(x)


def split(m: Maker) -> Value | None:
    x = m.pick()
    k, shape = m.axis(x), x.type.shape
    factor = next((f for f in (2, 3, 5) if shape[k] % f == 0), 1)
    return m.b.reshape(x, (*shape[:k], factor, shape[k] // factor, *shape[k + 1 :])) if len(shape) < 5 else None


def slices(m: Maker) -> Value:
    x = m.pick()
    start = [m.integer(0, (n - 1) // 2) for n in x.type.shape]
    stop = [m.integer(s + 1, n) for s, n in zip(start, x.type.shape, strict=True)]
    whole = m.axis(x)
    if m.rng.random() < 0.5:  # along one axis only: often a view
        start = [s if k == whole else 0 for k, s in enumerate(start)]
        stop = [s if k == whole else n for k, (s, n) in enumerate(zip(stop, x.type.shape, strict=True))]
    step = [m.integer(1, 2) if m.rng.random() < 0.2 else 1 for _ in start]
    return m.b.slice(x, start, stop, step)


def reverse(m: Maker) -> Value:
    x = m.pick()
    return m.b.reverse(x, (m.axis(x),))


def concat(m: Maker) -> Value:
    x = m.pick()
    axis = m.axis(x)
    fits = [v for v in m.values if _same_but(v, x, axis)]
    chosen = [fits[m.integer(0, len(fits) - 1)] for _ in range(m.integer(1, 2))]
    return m.b.concat([x, *chosen] if m.rng.random() < 0.5 else [*chosen, x], axis)


def _same_but(v: Value, x: Value, axis: int) -> bool:
    mine, its = v.type.shape, x.type.shape
    return len(mine) == len(its) and all(n == m for k, (n, m) in enumerate(zip(mine, its, strict=True)) if k != axis)


def pad(m: Maker) -> Value:
    x, rank = m.pick(), 0
    rank = x.type.rank
    low, high = ([m.integer(-1, 2) if n > 2 else m.integer(0, 1) for n in x.type.shape] for _ in range(2))
    interior = [m.integer(0, 1) if m.rng.random() < 0.1 else 0 for _ in range(rank)]
    return m.b.pad(x, m.b.constant(np.float32(0.25)), low, high, interior)


def gather(m: Maker) -> Value:
    x = m.pick()
    axis = m.axis(x)
    indices = m.rng.integers(0, x.type.shape[axis], m.integer(1, 6)).astype(np.int32)
    return m.b.take(x, m.b.constant(indices), axis)


def window(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank < 3 or min(x.type.shape[2:]) < 2:
        return None
    spatial = x.type.rank - 2
    sizes = (1, 1, *(m.integer(1, 2) for _ in range(spatial)))
    strides = (1, 1, *(m.integer(1, 2) for _ in range(spatial)))
    padding = ((0, 0), (0, 0), *((m.integer(0, n - 1), m.integer(0, n - 1)) for n in sizes[2:]))
    op = ReduceOp.MAX if m.rng.random() < 0.6 else ReduceOp.MIN
    pooled = m.b.reduce_window(op, x, sizes, strides, padding, (1,) * x.type.rank)
    return m.b.select(m.b.is_finite(pooled), pooled, m.b.full_like(pooled, 1))


def matmul(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank < 2:
        return None
    inner = x.type.shape[-1]
    partners = [v for v in m.values if v.type.rank == 2 and inner in v.type.shape]
    if partners and m.rng.random() < 0.6:
        y = partners[m.integer(0, len(partners) - 1)]
    else:
        y = m.b.constant(m.normal(inner, m.integer(1, 20)))
    scaled = m.b.mul(y, 1 / np.sqrt(inner))
    return m.b.tanh(m.b.dot(x, scaled, [], [], [x.type.rank - 1], [y.type.shape.index(inner)]))


def attention(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank != 3:
        return None
    return m.b.tanh(m.b.mul(m.b.dot(x, x, [0], [0], [2], [2]), 1 / x.type.shape[2]))


def conv(m: Maker) -> Value | None:
    x = m.pick()
    if x.type.rank not in (3, 4):
        return None
    channels = x.type.shape[1]
    groups = 2 if channels % 2 == 0 and m.rng.random() < 0.3 else 1
    groups = channels if m.rng.random() < 0.2 else groups
    filters = channels if groups == channels else groups * m.integer(1, 10)
    spatial = x.type.shape[2:]
    taps = tuple(min(3, n) if m.rng.random() < 0.6 else 1 for n in spatial)
    strides = tuple(m.integer(1, 2) for _ in spatial)
    padding = [(m.integer(0, k - 1), m.integer(0, k - 1)) for k in taps]
    w = m.normal(filters, channels // groups, *taps) / np.float32(np.sqrt(channels // groups * prod(taps)))
    dilation = tuple(2 if m.rng.random() < 0.1 else 1 for _ in spatial)
    y = m.b.conv(x, m.b.constant(w), strides, padding, lhs_dilation=dilation, groups=groups)
    return m.b.maximum(y, m.b.full_like(y, 0)) if m.rng.random() < 0.5 else y


STEPS: list[Callable[[Maker], Value | None]] = [
    *(unary, binary, binary, select, broadcast, normalize, reduce, transpose, reshape, split),
    *(slices, slices, reverse, concat, concat, concat, pad, gather, window, matmul, attention, conv, conv),
]


def random_graph(seed: int, size: int = 30) -> tuple[Graph, list[np.ndarray]]:
    """A graph of about `size` nodes, and arrays for its inputs."""
    maker = Maker(seed)
    graph = maker.graph(size)
    return graph, maker.inputs


def joined_graphs(seeds: range) -> tuple[Graph, list[np.ndarray]]:
    """The random graphs of these seeds as one graph, and its inputs."""
    b = CoreBuilder("random")
    graphs = [random_graph(seed) for seed in seeds]
    operands = [[b.input(v.type) for v in graph.inputs] for graph, _ in graphs]
    outputs = [y for (graph, _), xs in zip(graphs, operands, strict=True) for y in b.inline(graph, xs)]
    return b.build(outputs), [x for _, arrays in graphs for x in arrays]
