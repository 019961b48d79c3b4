"""Compiled programs raise errors about values: indices for `take(mode="raise")`, classes for `CTCLoss`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.parser import parse_graph

nd, autograd = mx.nd, mx.autograd
OUT = "take: indices are out of bounds for axis 0"
TABLE = [[1, 2], [3, 4]]


class Rows(mx.gluon.HybridBlock):
    """Two results, one of which does not depend on the checked indices."""

    def hybrid_forward(self, F: Any, table: Any, indices: Any) -> Any:
        return F.take(table * 3, indices, mode="raise"), table + 1


class Normalized(mx.gluon.HybridBlock):
    """Checks, moving statistics and random numbers in one graph."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.norm: Any = mx.gluon.nn.BatchNorm(in_channels=2)
            self.drop = mx.gluon.nn.Dropout(0.5)

    def hybrid_forward(self, F: Any, table: Any, indices: Any) -> Any:
        return self.drop(self.norm(F.take(table, indices, mode="raise")))


def indices(*numbers: float) -> Any:
    return nd.array(numbers)


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=str)
def test_hybridized_blocks(flags: Any) -> None:
    """With the first extent, and with others, which dynamic programs serve."""
    block = Rows()
    block.hybridize(**flags)
    for good, bad in (((0, 1), (0, 2)), ((1, 1, 0), (1, 1, -1)), ((1, 0, 0, 0), (2, 0, 0, 0))):
        for _ in range(2):
            rows, rest = block(nd.array(TABLE), indices(*good))
            assert np.array_equal(rows.asnumpy(), 3 * np.array(TABLE)[list(good)])
            assert rest.asnumpy().tolist() == [[2, 3], [4, 5]]
            with pytest.raises(mx.MXNetError, match=OUT):
                block(nd.array(TABLE), indices(*bad))


def test_recorded_calls() -> None:
    block = Rows()
    block.hybridize()
    table = nd.array(TABLE)
    table.attach_grad()
    for good, bad in (((0, 1), (0, 2)), ((1, 1, 0), (1, 1, 5))):
        with autograd.record():
            rows, _ = block(table, indices(*good))
        rows.backward()
        expected = np.zeros((2, 2))
        np.add.at(expected, list(good), 3)
        assert np.array_equal(table.grad.asnumpy(), expected)
        with autograd.record(), pytest.raises(mx.MXNetError, match=OUT):
            block(table, indices(*bad))


def test_executors() -> None:
    taken: Any = mx.sym.take(mx.sym.var("table"), mx.sym.var("indices"), mode="raise")
    symbol = taken * 2
    given = {"table": nd.array(TABLE), "indices": indices(0, 1)}
    executor = symbol.bind(mx.cpu(), given, args_grad={"table": nd.zeros((2, 2))}, grad_req={"table": "write"})
    for training in (False, True, False):
        with pytest.raises(mx.MXNetError, match=OUT):
            executor.forward(is_train=training, indices=indices(0, 2))
        result = executor.forward(is_train=training, indices=indices(1, 1))[0]
        assert result.asnumpy().tolist() == [[6, 8], [6, 8]]
        if training:
            executor.backward(nd.ones((2, 2)))
            assert executor.grad_dict["table"].asnumpy().tolist() == [[0, 0], [4, 4]]


def test_checks_beside_states_and_random_numbers() -> None:
    net: Any = Normalized()
    net.initialize()
    net.hybridize()
    table = nd.array([[0, 8], [4, 0]])
    table.attach_grad()
    for step in (1, 2):
        with autograd.record():
            y = net(table, indices(0, 1, 1, 0))
        y.backward()
        expected = 2 * (1 - 0.9**step)
        assert net.norm.running_mean.data()[0].asscalar() == pytest.approx(expected)
        with autograd.record(), pytest.raises(mx.MXNetError, match=OUT):
            net(table, indices(0, 1, 1, 2))
    with pytest.raises(mx.MXNetError, match=OUT):
        net(table, indices(0, 3))


def test_second_gradients() -> None:
    class Squared(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, table: Any, indices: Any) -> Any:
            return F.take(table * table * table, indices, mode="raise")

    block = Squared()
    block.hybridize()
    table = nd.array(TABLE)
    table.attach_grad()
    with autograd.record():
        y = block(table, indices(0, 0))
        (slope,) = autograd.grad(y, [table], create_graph=True)
    slope.backward()
    assert table.grad.asnumpy().tolist() == [[12, 24], [0, 0]]


def test_the_reference_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_TARGET", "reference")
    block = Rows()
    block.hybridize()
    assert block(nd.array([*TABLE, [5, 6]]), indices(2))[0].asnumpy().tolist() == [[15, 18]]
    with pytest.raises(mx.MXNetError, match=OUT):
        block(nd.array([*TABLE, [5, 6]]), indices(3))


def test_ctc_loss() -> None:
    loss = mx.gluon.loss.CTCLoss()
    loss.hybridize()
    data = nd.array(np.random.RandomState(0).randn(2, 6, 4))
    data.attach_grad()
    assert np.isfinite(loss(data, nd.array([[0, 2, -1], [1, -1, 9]])).asnumpy()).all()
    with autograd.record():
        value = loss(data, nd.array([[0, 2, -1], [1, -1, 9]]))
    value.backward()
    assert np.isfinite(data.grad.asnumpy()).all()
    for mode in (autograd.pause(), autograd.record()):
        with mode, pytest.raises(mx.MXNetError, match="label has a class that data does not have"):
            loss(data, nd.array([[0, 4, -1], [1, -1, 9]]))


def test_text_of_a_graph_with_checks() -> None:
    from mxforge.frontend.symbol.function import SymbolFunction
    from mxforge.ir.target import REFERENCE
    from mxforge.ir.types import DType, TensorType
    from mxforge.passes.decompose import Decompose
    from mxforge.passes.manager import Context, Options, run_passes

    symbol = mx.sym.take(mx.sym.var("table"), mx.sym.var("indices"), mode="raise")
    types = [TensorType((2, 2), DType.F32), TensorType((3,), DType.F32)]
    graph = run_passes((Decompose(),), SymbolFunction(symbol).graph(types), Context(REFERENCE, Options()))
    assert [check.message for check in graph.checks] == [OUT] and graph.num_results == 1
    again = parse_graph(str(graph))
    assert again.checks == graph.checks and str(again) == str(graph)


def test_compiled_folders(tmp_path: Path) -> None:
    from mxforge.tools import main

    symbol = mx.sym.take(mx.sym.var("table"), mx.sym.var("data"), mode="raise")
    symbol.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:table": nd.array(TABLE)})
    assert main.main(["compile", str(tmp_path / "net"), "-o", str(tmp_path / "out"), "--input-shape", "data=2"]) == 0
    model = mx.load_compiled(str(tmp_path / "out"))
    assert model(np.array([1, 0], "float32"))[0].tolist() == [[3, 4], [1, 2]]
    with pytest.raises(mx.MXNetError, match=OUT):
        model(np.array([1, 2], "float32"))


@pytest.mark.usefixtures("simulated_gpus")
def test_other_devices() -> None:
    block = Rows()
    block.hybridize()
    table = nd.array(TABLE, ctx=mx.gpu(0))
    for _ in range(2):
        rows, _ = block(table, nd.array([1, 0], ctx=mx.gpu(0)))
        assert rows.context == mx.gpu(0) and rows.asnumpy().tolist() == [[9, 12], [3, 6]]
        with pytest.raises(mx.MXNetError, match=OUT):
            block(table, nd.array([1, 2], ctx=mx.gpu(0)))


def test_bisection_leaves_checks_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mxforge.tools import main

    rows = mx.sym.take(mx.sym.var("table"), mx.sym.var("data"), mode="raise")
    mx.sym.make_loss(mx.sym.sum(rows)).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:table": nd.array(TABLE)})
    np.savez(tmp_path / "in.npz", data=np.array([0, 1, 1], "float32"))
    for flags in ([], ["--training"]):
        command = ["bisect", str(tmp_path / "net"), "--input", str(tmp_path / "in.npz"), *flags]
        assert main.main(command) == 0, capsys.readouterr().out
