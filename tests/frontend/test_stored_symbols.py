"""Symbols on disk: a warm start infers no types and builds no graph, and equal results have equal bits."""

from __future__ import annotations

from pathlib import Path

import mxforge as mx
import pytest
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.frontend.symbol.stored_symbols import symbol_key
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.devices import HOST
from processes import run_apart

PROGRAM = """
import pathlib
import sys
import mxforge as mx
from mxforge.frontend.symbol import function

if "{kind}" == "warm":
    def forbidden(*_, **__):
        raise AssertionError("a warm start built a graph")
    function.symbol_to_graph = forbidden
net = mx.gluon.nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(mx.gluon.nn.Conv2D(4, 3, in_channels=2), mx.gluon.nn.BatchNorm(in_channels=4), mx.gluon.nn.Dense(3))
net.initialize(mx.init.Constant(0.25))
net.hybridize()
found = net(mx.nd.arange(2 * 2 * 6 * 6).reshape((2, 2, 6, 6))).asnumpy().tobytes()
file = pathlib.Path("{file}")
if "{kind}" == "cold":
    file.write_bytes(found)
assert file.read_bytes() == found
assert ("{kind}" == "warm") == ("mxforge.passes.fuse" not in sys.modules)
"""


def test_a_warm_start_builds_no_graph(tmp_path: Path) -> None:
    for kind in ("cold", "warm"):
        run_apart(PROGRAM.format(kind=kind, file=tmp_path / "result"), tmp_path / "cache")


def key(symbol: mx.sym.Symbol, shape: tuple[int, ...] = (2, 3), **changes: object) -> str | None:
    given = {"parameters": (), "training": False, "dtype": DType.F32, "name": ""} | changes
    function = SymbolFunction(symbol, given["parameters"], given["name"])  # type: ignore[arg-type]
    types = [TensorType(shape, given["dtype"]) for _ in function.names]  # type: ignore[arg-type]
    return symbol_key(function, types, Options(training=bool(given["training"])), HOST)


def test_keys_tell_symbols_and_signatures_apart() -> None:
    x, y = mx.sym.var("x"), mx.sym.var("y")
    sums = [
        mx.sym.elemwise_add(x, y, name="z"),
        mx.sym.elemwise_add(y, x, name="z"),
        mx.sym.elemwise_sub(x, y, name="z"),
    ]
    clips = [mx.sym.clip(x, a_min=0, a_max=n, name="z") for n in (1, 2)]
    several = [mx.sym.Group([sums[0], clips[0]]), mx.sym.Group([clips[0], sums[0]])]
    changed = [{"shape": (3, 2)}, {"parameters": ("y",)}, {"training": True}, {"dtype": DType.F16}, {"name": "other"}]
    found = [*map(key, [*sums, *clips, *several]), *(key(sums[0], **c) for c in changed)]  # type: ignore[arg-type]
    with mx.util.np_shape(True):
        found.append(key(sums[0]))
    assert None not in found and len(set(found)) == len(found)
    assert key(mx.sym.elemwise_add(mx.sym.var("x"), mx.sym.var("y"), name="z")) == found[0]


def test_bodies_of_loops_are_part_of_the_key() -> None:
    def loop(scale: float) -> mx.sym.Symbol:
        def step(item: mx.sym.Symbol, states: list[mx.sym.Symbol]) -> tuple[mx.sym.Symbol, list[mx.sym.Symbol]]:
            return mx.sym.clip(item, a_min=0, a_max=scale), states

        return mx.sym.contrib.foreach(step, mx.sym.var("x"), [], name="loop")[0]

    one, other = loop(2.0), loop(3.0)
    assert key(one) == key(one) != key(other)


def test_other_targets_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxforge.ir.settings import settings

    monkeypatch.setenv("MXFORGE_TARGET", "reference")
    settings.cache_clear()
    try:
        assert key(mx.sym.relu(mx.sym.var("x"))) is None
    finally:
        monkeypatch.undo()
        settings.cache_clear()
