"""Gluon in the NumPy mode: layers, cells, losses, metrics, loaders and trainers take and give `mx.np` arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxforge as mx
import numpy as onp
import pytest
from mxforge import autograd, gluon, metric, np, npx

loss, nn, rnn, transforms = gluon.loss, gluon.nn, gluon.rnn, gluon.data.vision.transforms


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    mx.random.seed(1)
    yield
    npx.reset_np()


def images() -> Any:
    return np.random.uniform(size=(2, 4, 8, 8))


def sequence() -> Any:
    return np.random.uniform(size=(3, 2, 5))


def flat(value: Any) -> list[Any]:
    return [v for item in value for v in flat(item)] if isinstance(value, list | tuple) else [value]


def stacked() -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(3))
    return net


LAYERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "stacked": (stacked, images),
    "deconvolution": (lambda: nn.Conv2DTranspose(3, 3), images),
    "pooling": (nn.MaxPool2D, images),
    "instance norm": (nn.InstanceNorm, images),
    "group norm": (lambda: nn.GroupNorm(2), images),
    "layer norm": (nn.LayerNorm, sequence),
    "prelu": (nn.PReLU, images),
    "gelu": (nn.GELU, images),
    "padding": (lambda: nn.ReflectionPad2D(1), images),
    "lambda": (lambda: nn.HybridLambda(lambda F, x: F.np.exp(x)), sequence),
    "lstm": (lambda: rnn.LSTM(6, 2), sequence),
    "gru": (lambda: rnn.GRU(6, bidirectional=True, layout="NTC"), sequence),
    "rnn": (lambda: rnn.RNN(6), sequence),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_eager_hybridized_and_recorded(name: str) -> None:
    make, data = LAYERS[name]
    net, x = make(), data()
    net.initialize()
    x.attach_grad()
    eager = net(x)
    net.hybridize()
    with autograd.record(train_mode=False):
        result = net(x)
        total = result.sum()
    total.backward()
    assert type(eager) is type(result) is type(net(x)) is type(x.grad) is np.ndarray
    assert onp.allclose(eager.asnumpy(), result.asnumpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("cell", [rnn.RNNCell, rnn.LSTMCell, rnn.GRUCell])
@pytest.mark.parametrize("hybridized", [False, True])
def test_cells(cell: Any, hybridized: bool) -> None:
    net, x = cell(6), sequence()
    net.initialize()
    net.hybridize(hybridized)
    outputs, states = net.unroll(3, x, layout="TNC", merge_outputs=True)
    one, _ = net(x[0], net.begin_state(2))
    masked, _ = net.unroll(3, x, layout="TNC", valid_length=np.array([1, 3]), merge_outputs=False)
    assert all(type(a) is np.ndarray for a in flat([outputs, states, one, masked]))


LOSSES = {
    "L2Loss": 2,
    "L1Loss": 2,
    "SigmoidBCELoss": 2,
    "KLDivLoss": 2,
    "HuberLoss": 2,
    "HingeLoss": 2,
    "LogisticLoss": 2,
    "TripletLoss": 3,
    "PoissonNLLLoss": 2,
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    arrays = [np.random.uniform(size=(3, 4)) for _ in range(LOSSES[name])]
    function = getattr(loss, name)()
    eager = function(*arrays)
    function.hybridize()
    assert type(eager) is type(function(*arrays)) is np.ndarray
    assert onp.allclose(eager.asnumpy(), function(*arrays).asnumpy(), 1e-5)


@pytest.mark.parametrize("name", ["Accuracy", "CrossEntropy", "NegativeLogLikelihood"])
def test_metrics_of_classes(name: str) -> None:
    measured = getattr(metric, name)()
    measured.update([np.array([0, 1, 3])], [np.random.uniform(size=(3, 4))])
    assert measured.get()[1] == measured.get()[1]


@pytest.mark.parametrize("name", ["MAE", "MSE", "RMSE", "PearsonCorrelation", "Loss"])
def test_metrics_of_numbers(name: str) -> None:
    x, measured = np.random.uniform(size=(3, 4)), getattr(metric, name)()
    measured.update([x + 1], [x])
    assert measured.get()[1] == measured.get()[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_give_arrays_of_numpy(workers: int) -> None:
    for data in (np.arange(20).reshape(10, 2), onp.ones((10, 2), "float32")):
        for x, y in gluon.data.DataLoader(gluon.data.ArrayDataset(data, data[:, 0]), 4, num_workers=workers):
            assert type(x) is type(y) is np.ndarray and x.shape[1:] == (2,)


def test_transforms() -> None:
    image = np.array(onp.arange(192).reshape(8, 8, 3), dtype="uint8")
    chain = transforms.Compose([transforms.Resize(6), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    for transform in (transforms.ToTensor(), transforms.CenterCrop(4), transforms.RandomFlipLeftRight(), chain):
        assert type(transform(image)) is np.ndarray


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "lamb"])
def test_trainers_and_files(optimizer: str, tmp_path: Any) -> None:
    net, x = nn.Dense(2), np.random.uniform(size=(2, 5))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01})
    for _ in range(2):
        with autograd.record():
            total = (net(x) ** 2).sum()
        total.backward()
        trainer.step(1)
    net.save_parameters(str(tmp_path / "net.params"))
    other = nn.Dense(2)
    other.load_parameters(str(tmp_path / "net.params"))
    assert type(other.weight.data()) is np.ndarray and onp.allclose(other(x).asnumpy(), net(x).asnumpy())


def test_utils_and_functions() -> None:
    parts = gluon.utils.split_and_load(np.ones((4, 2)), [mx.cpu(0), mx.cpu(1)])
    assert all(type(part) is np.ndarray for part in parts)
    gradients = [np.array([3]), np.array([4])]
    assert gluon.utils.clip_global_norm(gradients, 1) == 5 and abs(gradients[0].item() - 0.6) < 1e-6

    class Exponential(autograd.Function):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            self.save_for_backward(x)
            return np.exp(x)

        def backward(self, dy: Any) -> Any:  # type: ignore[override]
            return dy * np.exp(self.saved_tensors[0])

    x = np.ones(3)
    x.attach_grad()
    with autograd.record():
        y = Exponential()(x).sum()
        [slope] = autograd.grad((x**3).sum(), [x], create_graph=True)
        z = (slope**2).sum()
    y.backward()
    assert type(slope) is np.ndarray and onp.allclose(x.grad.asnumpy(), onp.e)
    z.backward()
    assert onp.allclose(x.grad.asnumpy(), 36)
