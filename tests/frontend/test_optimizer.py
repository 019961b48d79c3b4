"""Optimizers beyond the recorded programs: files of states, weights by name, checks of Trainer."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.optimizer.states import read_states, write_states
from state_cases import Run  # pyright: ignore[reportMissingImports]

DATA = Path(__file__).resolve().parents[1] / "data"
FIXTURES = DATA / "fixtures"
opt, gluon = mx.optimizer, mx.gluon


def test_states_that_mxnet_wrote_are_read() -> None:
    updater = opt.get_updater(opt.SGD())
    updater.set_states((FIXTURES / "adam.states").read_bytes())
    assert isinstance(updater.optimizer, opt.Adam) and updater.optimizer.num_update == 1
    assert isinstance(updater.optimizer.lr_scheduler, mx.lr_scheduler.PolyScheduler)
    mean, variance = updater.states[0]
    assert np.allclose(mean.asnumpy(), 0.1) and np.allclose(variance.asnumpy(), 0.001)
    weight = mx.nd.ones((2, 3))
    updater(0, mx.nd.ones((2, 3)), weight)
    assert updater.optimizer.num_update == 2 and weight.asnumpy().max() < 1


def test_states_of_a_module_are_read() -> None:
    found = read_states((FIXTURES / "mlp-0003.states").read_bytes())
    assert [found[i].shape for i in sorted(found)] == [(16, 12), (16,), (4, 16), (4,)]


def test_states_are_written_under_the_names_of_mxnet() -> None:
    updater = opt.get_updater(opt.Adam(lr_scheduler=mx.lr_scheduler.FactorScheduler(3)))
    updater(0, mx.nd.ones((2,)), mx.nd.ones((2,)))
    data = updater.get_states(dump_optimizer=True)
    for name in (b"cmxnet.ndarray.ndarray\nNDArray\n", b"cmxnet.optimizer.optimizer\nAdam\n"):
        assert name in data
    assert b"mxforge" not in data
    other = opt.get_updater(opt.SGD())
    other.set_states(data)
    assert other.optimizer.__dict__.keys() == updater.optimizer.__dict__.keys()
    assert np.array_equal(other.states[0][0].asnumpy(), updater.states[0][0].asnumpy())


RECORDED = json.loads((DATA / "states.json").read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_updates_go_on_from_the_states_of_mxnet(name: str) -> None:
    """`make_states.py check` tests the other direction."""
    known = RECORDED[name]
    found = Run(mx, name).resume(known["before"], zlib.decompress(base64.b64decode(known["states"])))
    for weight, expected in zip(found, known["after"], strict=True):
        np.testing.assert_allclose(weight, expected, 1e-5, 2e-5)


class Hostile:
    def __reduce__(self) -> Any:
        return print, ("run",)


@pytest.mark.parametrize(
    "data", [pickle.dumps(Hostile()), pickle.dumps(pickle.loads), pickle.dumps([1]), b"", b"garbage", b"\x80\x02K"]
)
def test_foreign_pickles_are_refused(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pickle.UnpicklingError):
        opt.get_updater(opt.SGD()).set_states(data)
    assert capsys.readouterr().out == ""


def test_damaged_states_are_refused() -> None:
    whole = (FIXTURES / "adam.states").read_bytes()
    for end in range(0, len(whole), 37):
        with pytest.raises(pickle.UnpicklingError):
            read_states(whole[:end])


def test_plain_values_are_preserved() -> None:
    value = {0: (None, [1.5, np.float32(2)], "text", b"bytes"), "k": mx.cpu(1)}
    assert read_states(write_states(value)) == value


def test_optimizers_of_users_are_registered_and_pickled() -> None:
    @opt.register
    class Halving(opt.Optimizer):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            weight[:] = weight / 2

    try:
        weight = mx.nd.ones((2,))
        opt.get_updater(opt.create("halving"))(0, weight, weight)
        assert weight.asnumpy().tolist() == [0.5, 0.5]
        with pytest.warns(UserWarning, match="overriding"):
            opt.register(Halving)
    finally:
        del opt.Optimizer.opt_registry["halving"]


def test_trainer_checks_its_arguments(tmp_path: Path) -> None:
    net = gluon.nn.Dense(2, in_units=3, prefix="d_")
    with pytest.raises(RuntimeError, match="not been initialized"):
        gluon.Trainer(net.collect_params(), "sgd")
    net.initialize()
    for wrong in (net, [1]):
        with pytest.raises(ValueError, match="list or dict of Parameters"):
            gluon.Trainer(wrong, "sgd")
    with pytest.raises(AssertionError, match="optimizer_params must be None"):
        gluon.Trainer(net.collect_params(), opt.SGD(), {"learning_rate": 1})
    other = gluon.Parameter("a", shape=(2,))
    other.initialize(ctx=mx.cpu(1))
    with pytest.raises(AssertionError, match="same set of contexts"):
        gluon.Trainer([other, net.weight], "sgd")
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.3})
    assert [p.name for p in trainer._params] == ["d_bias", "d_weight"]
    trainer.set_learning_rate(0.1)
    trainer.save_states(tmp_path / "states")
    trainer.set_learning_rate(0.2)
    trainer.load_states(tmp_path / "states")
    assert trainer.learning_rate == 0.1 and isinstance(trainer.optimizer, opt.Adam)
    assert trainer.optimizer.param_dict == {0: net.bias, 1: net.weight}
    with pytest.raises(UserWarning, match="has not been updated by backward since last `step`"):
        trainer.step(1)


def test_schedules_fix_the_rate_of_a_trainer() -> None:
    param = gluon.Parameter("a", shape=(2,))
    param.initialize()
    schedule = mx.lr_scheduler.FactorScheduler(2, base_lr=0.001)
    trainer = gluon.Trainer([param], "adam", {"lr_scheduler": schedule})
    with pytest.raises(UserWarning, match="already been defined"):
        trainer.set_learning_rate(0.1)


def test_sparse_parameters_have_one_trainer() -> None:
    table = gluon.contrib.nn.SparseEmbedding(4, 2)
    table.initialize(mx.init.One())
    gluon.Trainer(table.collect_params(), "sgd")
    assert table(mx.nd.array([1, 3])).asnumpy().tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="More than one trainers"):
        gluon.Trainer(table.collect_params(), "sgd")
