"""Layers of BERT as graphs of the mx dialect."""

from __future__ import annotations

import mxforge as mx
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType


class Layer(mx.gluon.HybridBlock):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        nn = mx.gluon.nn
        with self.name_scope():
            self.project = nn.Dense(3 * width, flatten=False, in_units=width)
            self.out = nn.Dense(width, flatten=False, in_units=width)
            self.up = nn.Dense(hidden, flatten=False, in_units=width)
            self.down = nn.Dense(width, flatten=False, in_units=hidden)
            self.first, self.second = nn.LayerNorm(in_channels=width), nn.LayerNorm(in_channels=width)

    def hybrid_forward(self, F, x):
        q, k, v = (self._heads(F, part) for part in F.split(self.project(x), num_outputs=3, axis=2))
        scores = F.batch_dot(q, k, transpose_b=True) * (self.width // self.heads) ** -0.5
        mixed = F.reshape(F.batch_dot(F.softmax(scores, axis=-1), v), (-4, -1, self.heads, 0, 0))
        x = self.first(x + self.out(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3))))
        return self.second(x + self.down(F.LeakyReLU(self.up(x), act_type="gelu")))

    def _heads(self, F, x):
        return F.reshape(F.transpose(F.reshape(x, (0, 0, self.heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))


def transformer(
    batch: int,
    time: int,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    hidden: int = 3072,
    dtype: DType = DType.F32,
) -> Graph:
    """BERT-base without embeddings, or a smaller one: (batch, time, width), then the parameters."""
    net = mx.gluon.nn.HybridSequential()
    net.add(*(Layer(width, heads, hidden) for _ in range(layers)))
    symbol = net(mx.sym.var("data"))
    shapes, _, _ = symbol.infer_shape(data=(batch, time, width))
    names = symbol.list_arguments()
    types = {name: TensorType(tuple(shape), dtype) for name, shape in zip(names, shapes, strict=True)}
    return symbol_to_graph(symbol, types, [name for name in names if name != "data"])
