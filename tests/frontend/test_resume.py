"""Training that is stopped and resumed from files ends with the same parameters, bit for bit."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.optimizer.states import read_states

gluon, nn = mx.gluon, mx.gluon.nn
EPOCHS, STOPPED, BATCH, COUNT = 4, 2, 8, 40
STEPS = COUNT // BATCH
Arrays = dict[str, np.ndarray]
OPTIMIZERS = {
    "sgd": {"learning_rate": 0.2, "momentum": 0.9, "wd": 0.01},
    "adam": {"learning_rate": 0.02},
    "nadam": {"learning_rate": 0.02},
}


def examples() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, COUNT)
    return (random.randn(3, 5)[labels] + random.randn(COUNT, 5) * 0.4).astype("float32"), labels.astype("float32")


def values(named: dict[str, Any]) -> Arrays:
    return {name: array.asnumpy().copy() for name, array in named.items()}


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.tobytes() == expected[name].tobytes(), name


# -- Module


def symbol() -> Any:
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=6, name="f1")
    x = mx.sym.Dropout(mx.sym.BatchNorm(x, fix_gamma=False, name="b1"), p=0.3)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="f2"), name="softmax")


def shuffled(epoch: int) -> Any:
    """The iterator of a training whose order of samples depends on one seed, at the start of an epoch."""
    np.random.seed(1)
    batches = mx.io.NDArrayIter(*examples(), BATCH, shuffle=True)
    for _ in range(epoch):
        batches.reset()
    return batches


def seed_next(epoch: int, *_: Any) -> None:
    """Seed the random numbers of the epoch after this one: they do not depend on the epochs before."""
    mx.random.seed(epoch + 1)


def options_of(optimizer: str, **kwargs: Any) -> dict[str, Any]:
    """The parameters of an optimizer, whose learning rate halves every 7 steps."""
    rate = OPTIMIZERS[optimizer]["learning_rate"]
    schedule = mx.lr_scheduler.FactorScheduler(step=7, factor=0.5, base_lr=rate)
    return {**OPTIMIZERS[optimizer], "lr_scheduler": schedule, **kwargs}


def fit(module: Any, optimizer: str, begin: int, end: int, momentum: float | None = None, **kwargs: Any) -> Arrays:
    options = options_of(optimizer, begin_num_update=begin * STEPS)
    if momentum is not None:
        options["momentum"] = momentum
    mx.random.seed(begin)
    callbacks = [seed_next, *kwargs.pop("callbacks", [])]
    module.fit(
        shuffled(begin), optimizer=optimizer, optimizer_params=options, begin_epoch=begin, num_epoch=end,
        epoch_end_callback=callbacks, initializer=mx.init.Xavier(), **kwargs,
    )  # fmt: skip
    arguments, states = module.get_params()
    return values({**arguments, **states})


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_a_module_resumes_from_a_checkpoint(optimizer: str, contexts: int, tmp_path: Path) -> None:
    """As in MXNet, a module's files lack what the optimizer counts; `begin_num_update` sets it."""
    context = [mx.cpu(i) for i in range(contexts)]
    prefix = str(tmp_path / "m")
    module = mx.mod.Module(symbol(), context=context)
    save = mx.callback.module_checkpoint(module, prefix, save_optimizer_states=True)
    whole = fit(module, optimizer, 0, EPOCHS, callbacks=[save])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"m-symbol.json", *(f"m-{n:04d}.{end}" for n in range(1, 5) for end in ("params", "states"))}
    again = mx.mod.Module.load(prefix, STOPPED, load_optimizer_states=True, context=context)
    assert_same(fit(again, optimizer, STOPPED, EPOCHS), whole)


def test_a_module_resumes_from_parameters(tmp_path: Path) -> None:
    """Without states of the optimizer: plain SGD has none."""
    prefix = str(tmp_path / "m")
    whole = fit(mx.mod.Module(symbol()), "sgd", 0, EPOCHS, momentum=0.0, callbacks=[mx.callback.do_checkpoint(prefix)])
    net, arguments, states = mx.model.load_checkpoint(prefix, STOPPED)
    again = fit(mx.mod.Module(net), "sgd", STOPPED, EPOCHS, momentum=0.0, arg_params=arguments, aux_params=states)
    assert_same(again, whole)


def test_a_bucketing_module_resumes(tmp_path: Path) -> None:
    prefix = str(tmp_path / "m")

    def generate(key: int) -> Any:
        return symbol(), ("data",), ("softmax_label",)

    batch = mx.io.DataBatch(
        [mx.nd.array(examples()[0][:BATCH])],
        [mx.nd.array(examples()[1][:BATCH])],
        bucket_key=5,
        provide_data=[("data", (BATCH, 5))],
        provide_label=[("softmax_label", (BATCH,))],
    )

    def train(module: Any, steps: int) -> Arrays:
        module.bind(batch.provide_data, batch.provide_label)
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"learning_rate": 0.1})
        mx.random.seed(steps)
        for _ in range(steps):
            module.forward_backward(batch)
            module.update()
        arguments, states = module.get_params()
        return values({**arguments, **states})

    first = mx.mod.BucketingModule(generate, default_bucket_key=5)
    train(first, 2)
    first.save_checkpoint(prefix, 1)
    whole = train(mx.mod.BucketingModule.load(prefix, 1, generate, 5), 3)
    assert_same(train(mx.mod.BucketingModule.load(prefix, 1, generate, 5), 3), whole)


# -- Gluon


def network(contexts: int) -> Any:
    """On several contexts without moving statistics: `save_parameters` writes their mean over the contexts."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(6, activation="relu"), nn.BatchNorm() if contexts == 1 else nn.LayerNorm())
        net.add(nn.Dropout(0.3), nn.Dense(3))
    return net


class GluonRun:
    """A network with its trainer on one or more contexts."""

    def __init__(self, optimizer: str, contexts: int, hybridize: bool) -> None:
        self.context = [mx.cpu(i) for i in range(contexts)]
        self.net, self.optimizer = network(contexts), optimizer
        self.data = gluon.data.ArrayDataset(*examples())
        if hybridize:
            self.net.hybridize()

    def trainer(self) -> Any:
        schedule = mx.lr_scheduler.FactorScheduler(
            step=7, factor=0.5, base_lr=OPTIMIZERS[self.optimizer]["learning_rate"]
        )
        options = {**OPTIMIZERS[self.optimizer], "lr_scheduler": schedule}
        return gluon.Trainer(self.net.collect_params(), self.optimizer, options)

    def start(self) -> Any:
        mx.random.seed(100)
        self.net.initialize(mx.init.Xavier(), ctx=self.context)
        return self.trainer()

    def resume(self, parameters: Path, states: Path) -> Any:
        self.net.load_parameters(str(parameters), ctx=self.context)
        trainer = self.trainer()
        trainer.load_states(str(states))
        return trainer

    def train(self, trainer: Any, begin: int, end: int) -> Arrays:
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        loader = gluon.data.DataLoader(self.data, BATCH, shuffle=True)
        for epoch in range(begin, end):
            np.random.seed(epoch)
            mx.random.seed(epoch)
            for data, label in loader:
                parts = zip(*(gluon.utils.split_and_load(a, self.context) for a in (data, label)), strict=True)
                with mx.autograd.record():
                    losses = [loss(self.net(x), y) for x, y in parts]
                mx.autograd.backward(losses)
                trainer.step(BATCH)
        return values({name: p.data(self.context[0]) for name, p in self.net.collect_params().items()})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("contexts", "hybridize"), [(1, False), (1, True), (2, True)])
def test_a_gluon_training_resumes(optimizer: str, contexts: int, hybridize: bool, tmp_path: Path) -> None:
    run = GluonRun(optimizer, contexts, hybridize)
    trainer = run.start()
    run.train(trainer, 0, STOPPED)
    run.net.save_parameters(str(tmp_path / "net.params"))
    trainer.save_states(str(tmp_path / "net.states"))
    whole = run.train(trainer, STOPPED, EPOCHS)
    again = GluonRun(optimizer, contexts, hybridize)
    resumed = again.resume(tmp_path / "net.params", tmp_path / "net.states")
    assert_same(again.train(resumed, STOPPED, EPOCHS), whole)


def test_the_same_seed_gives_the_same_bits() -> None:
    runs = [GluonRun("sgd", 1, True) for _ in range(2)]
    first, second = (run.train(run.start(), 0, 2) for run in runs)
    assert_same(first, second)


# -- interrupted writes


def _module(path: Path) -> tuple[Callable[[], None], Callable[[], Arrays]]:
    module = mx.mod.Module(symbol())
    module.bind([("data", (2, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.Uniform(1))
    module.init_optimizer(optimizer="adam")

    def save() -> None:
        module.init_params(mx.init.Uniform(1), force_init=True)
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 5))], [mx.nd.zeros((2,))]))
        module.update()
        module.save_checkpoint(str(path), 1, save_optimizer_states=True)

    def load() -> Arrays:
        net, arguments, states = mx.model.load_checkpoint(str(path), 1)
        kept = read_states(Path(f"{path}-0001.states").read_bytes())
        named = {f"{i}{k}": a for i, parts in kept.items() for k, a in enumerate(parts)}
        return {"symbol": np.frombuffer(net.tojson().encode(), "uint8"), **values({**arguments, **states, **named})}

    return save, load


def _gluon(path: Path) -> tuple[Callable[[], None], Callable[[], Arrays]]:
    net = nn.Dense(3, in_units=5)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")

    def save() -> None:
        net.initialize(mx.init.Uniform(1), force_reinit=True)
        with mx.autograd.record():
            loss = net(mx.nd.ones((2, 5)))
        loss.backward()
        trainer.step(2)
        net.save_parameters(f"{path}.params")
        trainer.save_states(f"{path}.states")

    def load() -> Arrays:
        loaded = nn.Dense(3, in_units=5)
        loaded.load_parameters(f"{path}.params")
        gluon.Trainer(loaded.collect_params(), "adam").load_states(f"{path}.states")
        return {"states": np.fromfile(f"{path}.states", "uint8"), **values(dict(mx.nd.load(f"{path}.params")))}

    return save, load


@pytest.mark.parametrize("make", [_module, _gluon])
def test_an_interrupted_save_keeps_the_files_before(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing ends with an error after each number of complete files."""
    save, load = make(tmp_path / "m")
    save()
    before, names = load(), sorted(os.listdir(tmp_path))
    for complete in range(2):
        left = iter([True] * complete)

        def sync(descriptor: int, left: Any = left) -> None:
            if not next(left, False):
                raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises((OSError, mx.MXNetError), match="No space left"):
            patch.setattr(os, "fsync", sync)
            save()
        assert sorted(os.listdir(tmp_path)) == names
        if not complete:
            assert_same(load(), before)
        load()
    save()
    assert any(load()[name].tobytes() != array.tobytes() for name, array in before.items())
