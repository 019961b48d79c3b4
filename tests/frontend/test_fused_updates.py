"""Updates of all weights in one native call: the numbers of updates one by one, and what must be updated one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.statistics import statistics
from mxforge.frontend.optimizer import fused
from mxforge.runtime.host.executable import Executable
from mxforge.runtime.modes import hooks

opt: Any = mx.optimizer
SHAPES = [(3, 4), (7,), (2, 3, 5), (40, 50), (1,), (9, 8)]
NAMES = {i: f"layer{i}_{'bias' if i % 2 else 'weight'}" for i in range(len(SHAPES))}

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"wd": 0.1}),
    "sgd_mom": ("sgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3}),
    "nag": ("nag", {"momentum": 0.9}),
    "nag_plain": ("nag", {}),
    "signum": ("signum", {"wd_lh": 0.1}),
    "signsgd": ("signum", {"momentum": 0.0}),
    "sgld": ("sgld", {"wd": 0.1}),
    "dcasgd": ("dcasgd", {"wd": 0.1}),
    "dcasgd_mom": ("dcasgd", {"momentum": 0.5}),
    "lbsgd": ("lbsgd", {"momentum": 0.9, "warmup_epochs": 1, "updates_per_epoch": 2}),
    "lbsgd_lars": ("lbsgd", {"warmup_strategy": "lars", "wd": 0.1}),
    "lars": ("lars", {"momentum": 0.9, "wd": 0.1, "eta": 0.1}),
    "lamb": ("lamb", {"wd": 0.1, "upper_bound": 10.0}),
    "adam": ("adam", {"wd": 0.1, "clip_gradient": 0.5}),
    "adamax": ("adamax", {"wd": 0.1}),
    "nadam": ("nadam", {"clip_gradient": 0.5}),
    "adagrad": ("adagrad", {"wd": 0.1}),
    "adadelta": ("adadelta", {"wd": 0.1}),
    "rmsprop": ("rmsprop", {"clip_weights": 1.5}),
    "rmsprop_centered": ("rmsprop", {"centered": True, "wd": 0.1}),
    "ftml": ("ftml", {"clip_gradient": 0.5}),
    "ftrl": ("ftrl", {"lamda1": 0.1}),
    "test": ("test", {}),
}


class Runs:
    """Counts the runs of programs."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    seen, run = Runs(), Executable.run

    def counted(self: Executable, *args: Any) -> None:
        seen.count += 1
        run(self, *args)

    monkeypatch.setattr(Executable, "run", counted)
    monkeypatch.setattr(Executable, "_is_direct", False)  # new programs run by `run`
    yield seen


def arrays(seed: int, dtype: str = "float32") -> list[Any]:
    random = np.random.RandomState(seed)
    return [mx.nd.array(random.randn(*shape), dtype=dtype) for shape in SHAPES]


def made(name: str, half: bool) -> Any:
    kind, options = OPTIMIZERS[name]
    schedule = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.05)
    created = opt.create(
        kind, lr_scheduler=schedule, param_idx2name=NAMES, rescale_grad=0.5, multi_precision=half, **options
    )
    created.set_lr_mult({"layer2_weight": 0.5})
    created.set_wd_mult({"layer3_bias": 2.0})
    if kind == "lars":
        created.aggregate_num = 1  # a change of the rate then corrects the momentum of one weight
    return created


def flat(state: Any) -> list[np.ndarray]:
    if state is None:
        return []
    return [x for part in state for x in flat(part)] if isinstance(state, list | tuple) else [state.asnumpy()]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_of_all_weights_equal_updates_one_by_one(name: str, half: bool, runs: Runs) -> None:
    dtype = "float16" if half else "float32"
    together, alone = opt.get_updater(made(name, half)), opt.get_updater(made(name, half))
    weights, others = arrays(0, dtype), arrays(0, dtype)
    for step in range(4):
        grads, same = arrays(step + 1, dtype), arrays(step + 1, dtype)
        mx.random.seed(step)
        before = runs.count
        together(list(NAMES), grads, weights)
        if step == 3:
            assert runs.count == before + 1
        mx.random.seed(step)
        for i in NAMES:
            alone(i, same[i], others[i])
    for i in NAMES:
        limit = 2e-3 if half else 2e-6
        np.testing.assert_allclose(weights[i].asnumpy(), others[i].asnumpy(), limit, limit)
        for one, other in zip(flat(together.states[i]), flat(alone.states[i]), strict=True):
            np.testing.assert_allclose(one, other, limit, limit)
    assert together.optimizer._index_update_count == alone.optimizer._index_update_count
    assert together.optimizer.num_update == alone.optimizer.num_update


def test_noise_of_langevin_dynamics() -> None:
    rate, size = 0.04, 40_000
    grads = [mx.nd.ones(size) * 3, mx.nd.ones(size)]
    found: list[list[np.ndarray]] = []
    for _ in range(2):
        mx.random.seed(5)
        weights = [mx.nd.zeros(size), mx.nd.zeros(size)]
        opt.get_updater(opt.SGLD(learning_rate=rate))([0, 1], grads, weights)
        found.append([w.asnumpy() for w in weights])
    for weight, grad in zip(found[0], (3, 1), strict=True):
        assert abs(weight.mean() + rate / 2 * grad) < 4 * (rate / size) ** 0.5
        assert abs(weight.var() / rate - 1) < 0.05
    assert abs(np.corrcoef(found[0])[0, 1]) < 0.05
    assert all((one == other).all() for one, other in zip(*found, strict=True))


def test_matrices_with_one_history_for_each_row() -> None:
    weights, grads = ([mx.nd.array(np.ones((n, 3)) * k) for n in (2, 5)] for k in (1, 2))
    updater = opt.get_updater(opt.create("groupadagrad", learning_rate=0.1))
    updater([0, 1], grads, weights)
    expected = 1 - 0.1 * 2 / np.sqrt(4 + 1e-5)
    for weight in weights:
        np.testing.assert_allclose(weight.asnumpy(), expected, 1e-6)


def test_other_numbers_compile_nothing_and_make_no_program() -> None:
    updater, weights = opt.get_updater(opt.Adam(learning_rate=0.1, wd=0.1)), arrays(0)
    indices, grads = list(NAMES), arrays(1)
    updater(indices, grads, weights)
    (program,) = updater._fused
    before = statistics.modules
    for step in range(5):
        updater.optimizer.lr, updater.optimizer.wd, updater.optimizer.rescale_grad = 0.1 / (step + 2), step, 0.5**step
        updater.optimizer.clip_gradient = None if step % 2 else 0.1
        updater(indices, grads, weights)
    assert updater._fused == [program] and statistics.modules == before
    assert len(program._runs) == 1


def test_factors_change_between_updates() -> None:
    optimizer = opt.SGD(learning_rate=1.0)
    updater, weights, grads = opt.get_updater(optimizer), [mx.nd.zeros(2) for _ in range(3)], [mx.nd.ones(2)] * 3
    grads = [mx.nd.ones(2) for _ in range(3)]
    for factors in ({}, {1: 0.5}, {1: 0.5, 2: 0.25}, {}):
        before = [w.asnumpy()[0] for w in weights]
        optimizer.set_lr_mult(factors)
        updater([0, 1, 2], grads, weights)
        assert [b - w.asnumpy()[0] for b, w in zip(before, weights, strict=True)] == [
            factors.get(i, 1) for i in range(3)
        ]


def test_weights_are_counted_apart() -> None:
    updater, weights, grads = opt.get_updater(opt.Adam(begin_num_update=3)), arrays(0), arrays(1)
    updater([0, 1, 2], grads[:3], weights[:3])
    updater([0, 1], grads[:2], weights[:2])
    updater([0, 1, 2, 3], grads[:4], weights[:4])
    assert updater.optimizer._index_update_count == {0: 6, 1: 6, 2: 5, 3: 4}
    other, copies = opt.get_updater(opt.Adam(begin_num_update=3)), arrays(0)
    for count in (3, 2, 4):
        for i in range(count):
            other(i, grads[i], copies[i])
    for weight, copied in zip(weights, copies, strict=True):
        np.testing.assert_allclose(weight.asnumpy(), copied.asnumpy(), 1e-6)


def test_weights_that_share_memory_are_updated_one_after_the_other() -> None:
    both = mx.nd.zeros(6)
    weights, grads = [both[0:4], both[2:6]], [mx.nd.ones(4), mx.nd.ones(4)]
    updater = opt.get_updater(opt.SGD(learning_rate=1.0))
    updater([0, 1], grads, weights)
    assert both.asnumpy().tolist() == [-1, -1, -2, -2, -1, -1]
    assert updater._fused == []


def test_gradients_can_share_memory() -> None:
    grads = mx.nd.arange(6)
    weights = [mx.nd.zeros(4), mx.nd.zeros(4)]
    updater = opt.get_updater(opt.SGD(learning_rate=1.0))
    updater([0, 1], [grads[0:4], grads[1:5]], weights)
    assert [w.asnumpy().tolist() for w in weights] == [[0, -1, -2, -3], [-1, -2, -3, -4]]
    assert len(updater._fused) == 1


@pytest.mark.parametrize("part", ["_update_impl", "_get_lrs", "_get_wds", "_update_count"])
def test_optimizers_of_users_update_one_by_one(part: str) -> None:
    called: list[str] = []

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        called.append(part)
        return getattr(opt.SGD, part)(self, *args, **kwargs)

    updater = opt.get_updater(type("Mine", (opt.SGD,), {part: own})())
    updater([0, 1], arrays(1)[:2], arrays(0)[:2])
    assert called and updater._fused == []


def test_a_wrong_gradient_is_named_and_changes_nothing() -> None:
    updater, weights = opt.get_updater(opt.SGD()), arrays(0)
    with pytest.raises(mx.MXNetError, match=r"sgd_update: grad has the shape \(2,\), the weight \(7,\)"):
        updater([0, 1], [mx.nd.ones((3, 4)), mx.nd.ones(2)], weights[:2])
    assert (weights[0].asnumpy() == arrays(0)[0].asnumpy()).all()
    with pytest.raises(AssertionError, match="must be NDArrays"):
        updater([0, 1], [1, 2], weights[:2])


def test_arrays_without_elements() -> None:
    with mx.util.np_shape():
        weights, grads = ([mx.nd.ones((0, 3)), mx.nd.ones(2)] for _ in range(2))
    opt.get_updater(opt.SGD(learning_rate=1.0))([0, 1], grads, weights)
    assert weights[1].asnumpy().tolist() == [0, 0]


def test_observers_see_one_call() -> None:
    class Seen:
        names: list[str] = []

        def before_call(self, call: Any) -> None:
            self.names.append(call.specialization.name)

        def after_call(self, call: Any, results: Any) -> None:
            pass

    seen = Seen()
    updater, weights, grads = opt.get_updater(opt.Adam()), arrays(0), arrays(1)
    updater(list(NAMES), grads, weights)
    hooks.add(seen)
    try:
        updater(list(NAMES), grads, weights)
    finally:
        hooks.remove(seen)
    assert seen.names == ["adam_update"]


def test_updates_are_visible_to_programs_that_packed_a_weight() -> None:
    net = mx.gluon.nn.Dense(8, in_units=16, use_bias=True)
    net.initialize(mx.init.One())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    x = mx.nd.ones((4, 16))
    for _ in range(3):
        with mx.autograd.record():
            net(x).sum().backward()
        trainer.step(4)
    weight, bias = (p.data().asnumpy() for p in net.collect_params().values())
    expected = x.asnumpy() @ weight.T + bias
    np.testing.assert_allclose(net(x).asnumpy(), expected, 1e-5)


def trained(net: Any, trainer: Any) -> None:
    with mx.autograd.record():
        net(mx.nd.ones((2, 3))).sum().backward()
    trainer.step(2)


def test_a_trainer_follows_changes_of_its_parameters(runs: Runs) -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.Dense(2, in_units=4))
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    trained(net, trainer)
    first: Any = net[0].weight
    first.grad_req = "null"
    kept = first.data().asnumpy()
    trained(net, trainer)
    assert (first.data().asnumpy() == kept).all()
    first.grad_req = "write"
    trained(net, trainer)
    assert (first.data().asnumpy() != kept).all()
    first.set_data(mx.nd.ones((4, 3)))
    first.lr_mult = 0.0
    trained(net, trainer)
    assert (first.data().asnumpy() == 1).all()
    net.cast("float16")
    net.cast("float32")
    trained(net, trainer)
    with pytest.raises(UserWarning, match="has not been updated by backward"):
        trainer.step(1)
    before = runs.count
    trainer.step(1, ignore_stale_grad=True)
    assert runs.count == before


def test_only_fresh_gradients_update_their_weights() -> None:
    one, two = (mx.gluon.Parameter(name, shape=(2,)) for name in "ab")
    for p in (one, two):
        p.initialize(mx.init.Zero())
    trainer = mx.gluon.Trainer([one, two], "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        (one.data() * 2).sum().backward()
    trainer.step(1, ignore_stale_grad=True)
    assert one.data().asnumpy().tolist() == [-2, -2] and two.data().asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize("on_store", [True, False])
def test_several_contexts(on_store: bool, runs: Runs) -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    params = [mx.gluon.Parameter(f"p{i}", shape=(3,)) for i in range(4)]
    for p in params:
        p.initialize(mx.init.Zero(), ctx=contexts)
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 1.0}, update_on_kvstore=on_store)
    for _ in range(2):
        with mx.autograd.record():
            losses = [sum((p.data(c) * (k + 1)).sum() for p in params) for k, c in enumerate(contexts)]
        mx.autograd.backward(losses)
        trainer.step(1)
    for p in params:
        assert [p.data(c).asnumpy().tolist() for c in contexts] == [[-6.0] * 3] * 2


def test_an_updater_can_be_copied() -> None:
    updater, weights = opt.get_updater(opt.SGD(momentum=0.5)), arrays(0)
    updater(list(NAMES), arrays(1), weights)
    other = copy.deepcopy(updater)
    others = [w.copy() for w in weights]
    for one, its in ((updater, weights), (other, others)):
        one(list(NAMES), arrays(2), its)
    assert all((w.asnumpy() == o.asnumpy()).all() for w, o in zip(weights, others, strict=True))


def test_patterns_are_bounded() -> None:
    updater, weights, grads = opt.get_updater(opt.SGD()), arrays(0)[:2], arrays(1)[:2]
    for number in range(fused._PATTERNS + 4):
        updater.optimizer.set_lr_mult({0: number})
        updater([0, 1], grads, weights)
    assert len(updater._fused) == 1
