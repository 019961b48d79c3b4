"""Hybridized blocks, executors and modules with inputs of several shapes: the first signature is specialised, further
ones run programs for dynamic shapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen import dynamic
from mxforge.codegen.statistics import statistics
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.caches import clear_caches
from mxforge.ir.graph import Graph
from mxforge.ir.settings import Settings
from mxforge.runtime import compile, idle, shape_family
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.function import SIGNATURES
from mxforge.runtime.prepared import PreparedPool
from processes import run_apart

nd: Any = mx.nd
nn: Any = mx.gluon.nn
SHAPES = ((2, 3, 20, 24), (3, 3, 28, 20), (4, 3, 24, 32), (5, 3, 40, 24))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Caches are empty, that on disk too."""
    disk = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(compile, "default_cache", lambda: disk)
    clear_caches()
    yield
    clear_caches()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that are compiled for dynamic shapes during the test, without eager calls."""
    names: list[str] = []
    original = dynamic.compile_dynamic

    def counted(graph: Any, *rest: Any) -> Any:
        names.extend([graph.name] if isinstance(graph, Graph) else [])
        return original(graph, *rest)

    monkeypatch.setattr(dynamic, "compile_dynamic", counted)
    return names


def network(prefix: str = "net_") -> Any:
    mx.random.seed(3)  # without a seed, a rare network differs by more than the tolerance
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(2))
        net.add(nn.Conv2D(8, 3, activation="relu"), nn.GlobalAvgPool2D(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return net


def image(shape: tuple[int, ...], seed: int = 0) -> Any:
    return nd.array(np.random.default_rng(seed).standard_normal(shape, np.float32))


def hybrid(net: Any, **flags: Any) -> Any:
    net.hybridize(**flags)
    return net


def assert_near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


def test_the_third_signature_compiles_nothing_and_builds_no_graph(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network()
    expected = [net(image(shape)) for shape in SHAPES]
    hybrid(net)
    for shape, result in zip(SHAPES[:2], expected, strict=False):
        assert_near(net(image(shape)), result)
    assert len(compiled) == 1

    def refuse(*_: Any) -> Any:
        raise AssertionError("builds a graph")

    monkeypatch.setattr(SymbolFunction, "graph", refuse)
    modules = statistics.modules
    for shape, result in zip(SHAPES[2:], expected[2:], strict=True):
        assert_near(net(image(shape)), result)
    assert (statistics.modules, len(compiled)) == (modules, 1)


def test_a_signature_gives_the_same_bits_at_every_call_also_after_eviction() -> None:
    net = hybrid(network())
    shapes = [*SHAPES, (1, 3, 33, 21)]
    first = [net(image(shape)).asnumpy() for shape in shapes]
    for batch in range(6, SIGNATURES + 8):
        net(image((batch, 3, 12, 12)))
    for shape, bits in zip([*reversed(shapes), *shapes], [*reversed(first), *first], strict=True):
        np.testing.assert_array_equal(net(image(shape)).asnumpy(), bits)


def test_first_signatures_and_static_shapes_are_specialised(compiled: list[str]) -> None:
    net = network()
    hybrid(net, static_alloc=True, static_shape=True)
    specialised = [net(image(shape)).asnumpy() for shape in SHAPES]
    assert not compiled
    for shape, bits in zip(SHAPES, specialised, strict=True):
        net._clear_cached_op()  # a function of its own
        np.testing.assert_array_equal(hybrid(net)(image(shape)).asnumpy(), bits)
    assert not compiled


def test_training_and_dtypes_are_families_of_their_own(compiled: list[str]) -> None:
    net = hybrid(nn.Dense(4, in_units=3))
    net.initialize()
    net(nd.ones((2, 3)))
    with mx.autograd.train_mode():
        net(nd.ones((5, 3)))
    net.cast("float64")
    net(nd.ones((7, 3), dtype="float64"))
    assert not compiled
    net(nd.ones((2, 3), dtype="float64"))
    assert len(compiled) == 1


def test_owners_of_parameters_of_equal_networks() -> None:
    """Equal networks share the dynamic program and the memory of packed weights, and each has its own parameters."""
    nets = [network(f"net{i}_") for i in range(2)]
    expected = [[net(image(shape)) for shape in SHAPES] for net in nets]
    for net in nets:
        hybrid(net)
    for turn in (0, 1):
        for k, shape in enumerate(SHAPES):
            for i, net in enumerate(nets):
                assert_near(net(image(shape)), expected[i][k])
        if turn == 0:
            nets[0][0].weight.set_data(nets[0][0].weight.data() * 2)
            nets[0].hybridize(False)
            expected[0] = [nets[0](image(shape)) for shape in SHAPES]
            hybrid(nets[0])


def test_static_alloc_keeps_packed_weights_of_dynamic_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    net, others = hybrid(network(), static_alloc=True), set(idle._holders)
    for shape in SHAPES:
        net(image(shape))
    kept = [pool for pool in idle._holders if isinstance(pool, PreparedPool) and pool not in others]
    assert kept
    monkeypatch.setattr(idle, "ALWAYS_KEPT", 0)
    monkeypatch.setattr(PreparedPool, "owners", lambda self: set())
    assert not set(kept) & set(idle._releasable(list(idle._holders)))


def test_state_is_replaced_for_every_shape() -> None:
    plain, net = network("plain_"), network("hybrid_")
    plain(image(SHAPES[0]))
    net(image(SHAPES[0]))
    for a, b in zip(plain.collect_params().values(), net.collect_params().values(), strict=True):
        b.set_data(a.data())
    hybrid(net)
    for step, shape in enumerate((*SHAPES, *SHAPES)):
        with mx.autograd.train_mode():
            assert_near(net(image(shape, step)), plain(image(shape, step)))
    for a, b in zip(plain.collect_params().values(), net.collect_params().values(), strict=True):
        assert_near(b.data(), a.data())


def test_draws_differ_from_call_to_call_and_follow_the_seed() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5))
    hybrid(net)
    for shape in ((40, 50), (30, 70), (100, 20)):
        x = nd.ones(shape)
        with mx.autograd.train_mode():
            mx.random.seed(7)
            first, second = net(x).asnumpy(), net(x).asnumpy()
            mx.random.seed(7)
            np.testing.assert_array_equal(net(x).asnumpy(), first)
        assert (first != second).any()
        assert set(np.unique(first)) == {0, 2}
        assert 0.4 < (first > 0).mean() < 0.6


def test_control_flow() -> None:
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            sums, _ = F.contrib.foreach(
                lambda row, state: (row + state, row + state), x, F.zeros_like(F.sum(x, axis=0))
            )
            halved = F.contrib.while_loop(
                cond=lambda v: F.max(v) > 1, func=lambda v: ([], [v / 2]), loop_vars=[x], max_iterations=9
            )[1][0]
            return sums, halved, F.contrib.cond(F.sum(x) > 30, lambda: x + 1, lambda: x - 1)

    net = hybrid(Net())
    for shape in ((3, 4), (5, 4), (9, 7), (2, 20)):
        x = np.random.default_rng(1).uniform(0, 3, shape).astype(np.float32)
        sums, halved, chosen = (y.asnumpy() for y in net(nd.array(x)))
        np.testing.assert_allclose(sums, x.cumsum(0), rtol=1e-5)
        np.testing.assert_array_equal(halved, x / 4 if x.max() / 2 > 1 else x / 2)
        np.testing.assert_array_equal(chosen, x + 1 if x.sum() > 30 else x - 1)


def test_branches_that_share_kernels_with_one_that_the_process_knows() -> None:
    """A function that is known is left out of the module, with its nested kernels; others may need those."""

    class Net(mx.gluon.HybridBlock):
        def __init__(self, other: bool) -> None:
            super().__init__()
            self.other = other

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            first = F.contrib.cond(F.sum(x) > 0, lambda: F.exp(x), lambda: F.cos(x))
            if not self.other:
                return first
            return first, F.contrib.cond(F.sum(x) > 1, lambda: F.exp(x), lambda: F.sin(x) + 1)

    for other in (False, True):
        net = hybrid(Net(other))
        for shape in ((2, 3), (4, 5)):
            found = net(nd.ones(shape))
            np.testing.assert_allclose((found[1] if other else found).asnumpy(), np.exp(np.ones(shape)), rtol=1e-5)


def test_executors_and_modules(compiled: list[str]) -> None:
    data = mx.sym.var("data")
    symbol = mx.sym.FullyConnected(mx.sym.relu(data), num_hidden=4, name="fc")
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(2, 3))
    executor.copy_params_from({"fc_weight": nd.ones((4, 3)), "fc_bias": nd.ones((4,))})
    module = mx.mod.Module(symbol, data_names=["data"], label_names=None)
    module.bind(data_shapes=[("data", (2, 3))], for_training=False)
    module.set_params({"fc_weight": nd.ones((4, 3)), "fc_bias": nd.ones((4,))}, {})
    for rows in (2, 5, 9):
        x = image((rows, 3))
        expected = np.maximum(x.asnumpy(), 0).sum(1, keepdims=True).repeat(4, 1) + 1
        reshaped = executor.reshape(allow_up_sizing=True, data=(rows, 3))
        np.testing.assert_allclose(reshaped.forward(data=x)[0].asnumpy(), expected, rtol=1e-6)
        module.forward(mx.io.DataBatch([x]))
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-6)
    assert len(compiled) == 1, "equal graphs share dynamic programs"


def test_shapes_that_do_not_fit_are_the_same_error_in_every_call() -> None:
    x, y = mx.sym.var("x"), mx.sym.var("y")
    symbol = mx.sym.broadcast_add(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), y, name="sum")

    def error(good: int) -> str:
        made = SymbolFunction(symbol, ("fc_weight", "fc_bias"))
        shapes = {"fc_weight": (4, 3), "fc_bias": (4,)}

        def call(**data: tuple[int, ...]) -> None:
            arrays = [nd.ones({**shapes, **data}[name]) for name in made.names]
            made.specialization_for(arrays).call(arrays, 0)

        for rows in range(2, 2 + good):
            call(x=(rows, 3), y=(rows, 4))
        with pytest.raises(mx.MXNetError) as raised:
            call(x=(5, 3), y=(6, 4))
        return str(raised.value)

    assert error(0) == error(1) == error(3)
    assert "sum" in error(3)


def test_what_has_no_dynamic_programs_is_specialised_with_a_note(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @mx.operator.register("hybrid_shapes_doubled")
    class DoubledProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
            class Doubled(mx.operator.CustomOp):
                def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
                    self.assign(out_data[0], req[0], in_data[0] * 2)

            return Doubled()

    assert DoubledProp
    monkeypatch.setattr(shape_family, "settings", lambda: Settings(debug=1))
    net = hybrid(nn.HybridLambda(lambda F, x: F.Custom(x, op_type="hybrid_shapes_doubled")))
    for rows in (2, 3, 4):
        np.testing.assert_array_equal(net(nd.ones((rows, 2))).asnumpy(), np.full((rows, 2), 2))
    assert not compiled
    assert (
        capsys.readouterr().err.count("is compiled for the shapes of this call alone: it calls Python functions") == 2
    )


@pytest.mark.usefixtures("simulated_gpus")
def test_other_devices_have_dynamic_programs(compiled: list[str]) -> None:
    """Of the shapes after the first, all run kernels of one compilation."""
    net, there = network(), network("there_")
    there.collect_params().initialize(ctx=mx.gpu(0), force_reinit=True)
    net(image((2, 3, 12, 12)))
    there(image((2, 3, 12, 12)).as_in_context(mx.gpu(0)))
    for here, other in zip(net.collect_params().values(), there.collect_params().values(), strict=True):
        other.set_data(here.data())
    hybrid(there)
    for shape in ((2, 3, 12, 12), (3, 3, 20, 16), (4, 3, 18, 24), (7, 3, 40, 12)):
        assert_near(there(image(shape).as_in_context(mx.gpu(0))), net(image(shape)))
    assert len(compiled) == 1


@pytest.mark.usefixtures("simulated_gpus")
def test_what_the_host_computes_for_a_gpu_is_dynamic_too(compiled: list[str]) -> None:
    net = hybrid(nn.HybridLambda(lambda F, x: F.sort(x) * 2))
    for columns in (2, 3, 4):
        found = net(nd.arange(columns, 0, -1, ctx=mx.gpu(0)).reshape((1, columns)))
        assert found.asnumpy().tolist() == [[2 * i for i in range(1, columns + 1)]]
    assert len(compiled) == 1


def test_dynamic_programs_come_from_the_disk_cache(compiled: list[str]) -> None:
    net = network()
    expected = [net(image(shape)) for shape in SHAPES]
    hybrid(net)
    for shape in SHAPES[:2]:
        net(image(shape))
    clear_caches()
    hybrid(net)
    modules = statistics.modules
    for shape, result in zip(SHAPES, expected, strict=True):
        assert_near(net(image(shape)), result)
    assert (statistics.modules, len(compiled)) == (modules, 1)


def test_another_process_compiles_nothing_for_a_new_shape(tmp_path: Path) -> None:
    code = """
import sys
import mxforge as mx
net = mx.gluon.nn.Dense(4, in_units=3, activation="relu", prefix="net_")
net.initialize(mx.init.One())
net.hybridize()
for rows in {rows}:
    y = net(mx.nd.ones((rows, 3))).asnumpy()
    assert y.shape == (rows, 4) and (y == 3).all()
assert ("llvmlite.binding" in sys.modules) == {compiles}
"""
    run_apart(code.format(rows=(2, 5), compiles=True), tmp_path)
    run_apart(code.format(rows=(2, 9, 5), compiles=False), tmp_path)
