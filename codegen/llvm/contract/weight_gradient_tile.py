"""The micro-kernel of weight gradients: computes a register tile, some weights times some registers of filters.

All sums of the tile are in registers for a part of the reduction. The reduction is a loop over two tables of offsets,
into the data and into the cotangent; each step reads `unroll` neighbouring positions. The weights are addresses in the
data too, from a table of offsets. So one body serves any window, stride, halo and shape, and the products of Winograd's
transforms.
"""

from __future__ import annotations

import hashlib

from ....ir.lazy_dataclass import dataclass
from ..arithmetic import Value
from ..emitter import ModuleBuilder
from ..types import I1, I32, I64, PTR, Type
from .micro import fence_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientTile:
    """`rows` weights times `vectors` registers. `data_step` and `step` are the distances between neighbouring positions
    of the data and of the cotangent, of whose blocks of filters each has `per_block` registers. The table of offsets
    into the cotangent is `table` entries after the other one; 0 if they are one.
    """

    element: str
    lanes: int
    rows: int
    vectors: int
    unroll: int
    data_step: int
    step: int
    per_block: int
    table: int

    @property
    def name(self) -> str:
        digest = hashlib.blake2s(repr(self).encode(), digest_size=6).hexdigest()
        return f"gradient.{self.rows}x{self.vectors}.{digest}"


PARAMETERS = {
    "n": I64,
    "steps": PTR,
    "data": PTR,
    "weights": PTR,
    "cotangent": PTR,
    "plane": I64,
    "sums": PTR,
    "first": I1,
}


def gradient_tile(module: ModuleBuilder, spec: GradientTile) -> str:
    """The symbol of the body. Its parameters are `PARAMETERS`: the number of steps, tables of their offsets, address of
    the data, table of the weights' offsets, address of the cotangent, distance between blocks of filters, sums
    [weight][filter], and whether the sums start at zero.
    """
    return module.helper(spec.name, lambda: _emit(module, spec))


def _emit(module: ModuleBuilder, spec: GradientTile) -> None:
    parameters = [(name, type, "") for name, type in PARAMETERS.items()]
    f = module.function(spec.name, None, parameters, linkage="internal", attributes="nounwind noinline")
    n, steps, data, weights, cotangent, plane, sums, first = f.args
    scalar = Type.of(spec.element)
    vector = scalar.with_lanes(spec.lanes)
    inputs = [f.gep(data, f.convert(f.load(f.gep(weights, i, I32), I32), "i64"), scalar) for i in range(spec.rows)]

    def filters(base: Value, j: int) -> Value:
        block, rest = divmod(j, spec.per_block)
        return f.gep(f.gep(base, plane * block, scalar) if block else base, rest * spec.lanes, scalar)

    zeros = [f.const(vector, 0.0)] * (spec.rows * spec.vectors)
    with f.carry_loop(0, n, zeros) as loop:
        acc = list(loop.values)
        step = f.gep(steps, loop.index, I32)
        into_data, into_cotangent = (f.convert(f.load(f.gep(step, k, I32), I32), "i64") for k in (0, spec.table))
        rows = [f.gep(p, into_data, scalar) for p in inputs]
        columns = [filters(f.gep(cotangent, into_cotangent, scalar), j) for j in range(spec.vectors)]
        for u in range(spec.unroll):
            fence_loads(f, always=True)
            dy = [f.load(f.gep(p, u * spec.step, scalar), vector) for p in columns]
            for i, row in enumerate(rows):
                x = f.splat(f.load(f.gep(row, u * spec.data_step, scalar), scalar), vector)
                for j in range(spec.vectors):
                    acc[i * spec.vectors + j] = f.fma(x, dy[j], acc[i * spec.vectors + j])
        loop.next(*acc)
    places = [f.gep(sums, k * spec.lanes, scalar) for k in range(spec.rows * spec.vectors)]
    totals = f.branch(
        first,
        lambda: loop.results,
        lambda: [f.add(total, f.load(p, vector)) for total, p in zip(loop.results, places, strict=True)],
    )
    for total, place in zip(totals, places, strict=True):
        f.store(total, place)
    f.ret()
