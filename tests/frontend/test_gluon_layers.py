"""Every layer of Gluon agrees with its hybridized form, also for later shapes and dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd
from mxforge.frontend.gluon import HybridBlock

gluon = mx.gluon
nn, rnn, loss, contrib = gluon.nn, gluon.rnn, gluon.loss, gluon.contrib

Shapes = tuple[tuple[int, ...], ...]


def chain(cls: Callable[..., Any], *parts: Any) -> Any:
    made = cls()
    with made.name_scope():
        for part in parts:
            made.add(part)
    return made


def symbolic() -> Any:
    x = mx.sym.var("x")
    return gluon.SymbolBlock(mx.sym.FullyConnected(x, num_hidden=3, name="fc"), x)


LAYERS: dict[str, tuple[Callable[[], Any], Shapes]] = {
    "Activation": (lambda: nn.Activation("tanh"), ((2, 3),)),
    "AvgPool1D": (nn.AvgPool1D, ((2, 3, 6),)),
    "AvgPool2D": (nn.AvgPool2D, ((2, 3, 6, 4),)),
    "AvgPool3D": (nn.AvgPool3D, ((1, 2, 4, 4, 4),)),
    "BatchNorm": (nn.BatchNorm, ((2, 3, 4),)),
    "BatchNormReLU": (nn.BatchNormReLU, ((2, 3, 4),)),
    "Conv1D": (lambda: nn.Conv1D(4, 3), ((2, 3, 6),)),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(4, 3), ((2, 3, 6),)),
    "Conv2D": (lambda: nn.Conv2D(4, 3, activation="relu"), ((2, 3, 6, 5),)),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(4, 3), ((1, 3, 4, 5),)),
    "Conv3D": (lambda: nn.Conv3D(2, 2), ((1, 2, 3, 4, 3),)),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 2), ((1, 2, 2, 3, 2),)),
    "Dense": (lambda: nn.Dense(4, activation="relu"), ((2, 3),)),
    "Dropout": (lambda: nn.Dropout(0.5), ((2, 3),)),
    "ELU": (nn.ELU, ((2, 3),)),
    "Embedding": (lambda: nn.Embedding(4, 3), ((2, 3),)),
    "Flatten": (nn.Flatten, ((2, 3, 4),)),
    "GELU": (nn.GELU, ((2, 3),)),
    "GlobalAvgPool1D": (nn.GlobalAvgPool1D, ((2, 3, 4),)),
    "GlobalAvgPool2D": (nn.GlobalAvgPool2D, ((2, 3, 4, 4),)),
    "GlobalAvgPool3D": (nn.GlobalAvgPool3D, ((1, 2, 3, 4, 4),)),
    "GlobalMaxPool1D": (nn.GlobalMaxPool1D, ((2, 3, 4),)),
    "GlobalMaxPool2D": (nn.GlobalMaxPool2D, ((2, 3, 4, 4),)),
    "GlobalMaxPool3D": (nn.GlobalMaxPool3D, ((1, 2, 3, 4, 4),)),
    "GroupNorm": (lambda: nn.GroupNorm(2), ((2, 4, 3),)),
    "HybridLambda": (lambda: nn.HybridLambda(lambda F, x: F.square(x) + 1), ((2, 3),)),
    "HybridSequential": (lambda: chain(nn.HybridSequential, nn.Dense(3), nn.Swish()), ((2, 3),)),
    "InstanceNorm": (nn.InstanceNorm, ((2, 3, 4),)),
    "LayerNorm": (nn.LayerNorm, ((2, 3, 4),)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.1), ((2, 3),)),
    "MaxPool1D": (nn.MaxPool1D, ((2, 3, 6),)),
    "MaxPool2D": (nn.MaxPool2D, ((2, 3, 6, 4),)),
    "MaxPool3D": (nn.MaxPool3D, ((1, 2, 4, 4, 4),)),
    "PReLU": (nn.PReLU, ((2, 3),)),
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(1), ((1, 2, 3, 3),)),
    "SELU": (nn.SELU, ((2, 3),)),
    "Swish": (nn.Swish, ((2, 3),)),
    "SymbolBlock": (symbolic, ((2, 3),)),
    "GRU": (lambda: rnn.GRU(3, bidirectional=True), ((4, 2, 3),)),
    "LSTM": (lambda: rnn.LSTM(3, num_layers=2), ((4, 2, 3),)),
    "RNN": (lambda: rnn.RNN(3, layout="NTC"), ((2, 4, 3),)),
    "CTCLoss": (loss.CTCLoss, ((2, 5, 4), (2, 3))),
    "DeformableConvolution": (lambda: contrib.cnn.DeformableConvolution(3, 3), ((1, 2, 5, 5),)),
    "ModulatedDeformableConvolution": (lambda: contrib.cnn.ModulatedDeformableConvolution(3, 3), ((1, 2, 5, 5),)),
    "CosineEmbeddingLoss": (loss.CosineEmbeddingLoss, ((2, 3), (2, 3), (2,))),
    "HingeLoss": (loss.HingeLoss, ((2, 3), (2, 3))),
    "HuberLoss": (loss.HuberLoss, ((2, 3), (2, 3))),
    "KLDivLoss": (lambda: loss.KLDivLoss(from_logits=False), ((2, 3), (2, 3))),
    "L1Loss": (loss.L1Loss, ((2, 3), (2, 3))),
    "L2Loss": (loss.L2Loss, ((2, 3), (2, 3))),
    "LogisticLoss": (loss.LogisticLoss, ((2, 3), (2, 3))),
    "PoissonNLLLoss": (loss.PoissonNLLLoss, ((2, 3), (2, 3))),
    "SigmoidBCELoss": (loss.SigmoidBCELoss, ((2, 3), (2, 3), (2, 1), (2, 3))),
    "SigmoidBinaryCrossEntropyLoss": (loss.SigmoidBinaryCrossEntropyLoss, ((2, 3), (2, 3))),
    "SoftmaxCELoss": (loss.SoftmaxCELoss, ((2, 3), (2,))),
    "SoftmaxCrossEntropyLoss": (lambda: loss.SoftmaxCrossEntropyLoss(sparse_label=False), ((2, 3), (2, 3))),
    "SquaredHingeLoss": (loss.SquaredHingeLoss, ((2, 3), (2, 3))),
    "TripletLoss": (loss.TripletLoss, ((2, 3), (2, 3), (2, 3))),
    "HybridConcurrent": (
        lambda: chain(contrib.nn.HybridConcurrent, nn.Dense(2), contrib.nn.Identity()),
        ((2, 3),),
    ),
    "Identity": (contrib.nn.Identity, ((2, 3),)),
    "PixelShuffle1D": (lambda: contrib.nn.PixelShuffle1D(2), ((1, 4, 3),)),
    "PixelShuffle2D": (lambda: contrib.nn.PixelShuffle2D(2), ((1, 4, 3, 2),)),
    "PixelShuffle3D": (lambda: contrib.nn.PixelShuffle3D(2), ((1, 8, 3, 2, 2),)),
    "SyncBatchNorm": (lambda: contrib.nn.SyncBatchNorm(num_devices=1), ((2, 3, 4),)),
}
CELLS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "RNNCell": (lambda: rnn.RNNCell(3), (2, 3)),
    "LSTMCell": (lambda: rnn.LSTMCell(3), (2, 3)),
    "GRUCell": (lambda: rnn.GRUCell(3), (2, 3)),
    "HybridSequentialRNNCell": (
        lambda: chain(rnn.HybridSequentialRNNCell, rnn.RNNCell(3), rnn.DropoutCell(0.2), rnn.GRUCell(2)),
        (2, 3),
    ),
    "DropoutCell": (lambda: rnn.DropoutCell(0.2), (2, 3)),
    "ZoneoutCell": (lambda: rnn.ZoneoutCell(rnn.LSTMCell(3), 0.2, 0.2), (2, 3)),
    "ResidualCell": (lambda: rnn.ResidualCell(rnn.RNNCell(3, "relu")), (2, 3)),
    "VariationalDropoutCell": (lambda: contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(3), 0.2, 0.2, 0.2), (2, 3)),
    "LSTMPCell": (lambda: contrib.rnn.LSTMPCell(4, 3), (2, 3)),
    **{
        f"Conv{n}D{kind}Cell": (
            lambda n=n, kind=kind: getattr(contrib.rnn, f"Conv{n}D{kind}Cell")((2, *(4,) * n), 3, 3, 3),
            (2, 2, *(4,) * n),
        )
        for n in (1, 2, 3)
        for kind in ("RNN", "LSTM", "GRU")
    },
}
ELSEWHERE = {
    "Block": "an interface",
    "HybridBlock": "an interface",
    "HybridRecurrentCell": "an interface",
    "ModifierCell": "an interface",
    "Loss": "an interface",
    "BidirectionalCell": "works by unroll alone: tests/data/programs/gluon_cells.py",
    "SDMLLoss": "asks for shapes, so it does not hybridize, as in MXNet",
}


def test_every_layer_is_tested() -> None:
    modules = (nn, rnn, loss, contrib.nn, contrib.rnn, contrib.cnn)
    there = {
        name
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and issubclass(thing, HybridBlock) and not name.startswith("_")
    }
    assert there == {*LAYERS, *CELLS, *ELSEWHERE} - {"Block"}


def inputs(shapes: Shapes, dtype: str = "float32") -> list[Any]:
    """Values between 0 and 2; integers are class numbers or rows of tables."""
    random = np.random.default_rng(0)
    return [mx.nd.array(np.round(random.random(shape) * 8) / 4, dtype=dtype) for shape in shapes]


def numbers(found: Any) -> list[np.ndarray]:
    if isinstance(found, list | tuple):
        return [array for part in found for array in numbers(part)]
    return [found.asnumpy()]


def assert_same(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    for x, y in zip(numbers(one), numbers(other), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        assert np.abs(x - y).max() <= tolerance * max(np.abs(y).max(), 1e-3)


@pytest.mark.parametrize("name", LAYERS)
def test_hybridized_layers_agree_with_eager_layers(name: str) -> None:
    mx.random.seed(7)
    make, shapes = LAYERS[name]
    block = make()
    block.initialize(mx.init.Uniform(0.5))
    larger = tuple((shape[0] + 1, *shape[1:]) for shape in shapes)
    if name in ("GRU", "LSTM"):
        larger = tuple((shape[0] + 1, shape[1] + 1, *shape[2:]) for shape in shapes)
    uses = [inputs(shapes), inputs(larger)]
    eager = [block(*use) for use in uses]
    block.hybridize()
    for _ in range(2):  # compiled, then the fast path
        for use, expected in zip(uses, eager, strict=True):
            assert_same(block(*use), expected)
    block.hybridize(False)
    assert_same(block(*uses[0]), eager[0])


@pytest.mark.parametrize("name", CELLS)
def test_hybridized_cells_agree_with_eager_cells(name: str) -> None:
    mx.random.seed(7)
    make, shape = CELLS[name]
    cell = make()
    cell.initialize(mx.init.Uniform(0.5))
    x = inputs((shape,))[0]

    def steps() -> Any:
        cell.reset()
        states = cell.begin_state(func=mx.nd.zeros, batch_size=shape[0])
        first, states = cell(x, states)
        second, states = cell(first if first.shape == x.shape else x, states)
        return [first, second, *states]

    eager = steps()
    cell.hybridize()
    assert_same(steps(), eager)


@pytest.mark.parametrize("name", ["Dense", "Conv2D", "BatchNorm", "LSTM"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_layers_accept_other_dtypes(name: str, dtype: str) -> None:
    make, shapes = LAYERS[name]
    block = make()
    block.initialize(mx.init.Uniform(0.5))
    block.hybridize()
    block(*inputs(shapes))
    block.cast(dtype)
    compiled = block(*inputs(shapes, dtype))
    block.hybridize(False)
    assert_same(compiled, block(*inputs(shapes, dtype)), 1e-5 if dtype == "float64" else 5e-3)


def test_parts_of_a_net_can_be_hybridized() -> None:
    net = chain(nn.Sequential, nn.Dense(3), chain(nn.HybridSequential, nn.Dense(4), nn.BatchNorm()), nn.Dense(2))
    net.initialize()
    x = inputs(((2, 3),))[0]
    expected = net(x)
    net[1].hybridize()
    assert_same(net(x), expected)
    assert net[1]._cached_op is not None and net[0]._cached_op is None


def test_constructors_have_the_defaults_of_mxnet() -> None:
    shown = {name: str(inspect.signature(getattr(nn, name))) for name in ("Conv2D", "Conv1D", "MaxPool2D", "AvgPool3D")}
    assert "strides: 'Sizes' = (1, 1)" in shown["Conv2D"] and "layout: 'str | None' = 'NCHW'" in shown["Conv2D"]
    assert "strides: 'Sizes' = 1" in shown["Conv1D"] and "= 'NCW'" in shown["Conv1D"]
    assert "pool_size: 'Sizes' = (2, 2)" in shown["MaxPool2D"] and "padding: 'Sizes' = 0" in shown["MaxPool2D"]
    assert list(inspect.signature(nn.AvgPool3D).parameters)[3:5] == ["ceil_mode", "layout"]
    with pytest.raises(TypeError, match="colour"):
        nn.Conv2D(2, 3, colour=1)


@pytest.mark.parametrize("value", [0.1, 3.3, -7.77, 1000.7])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("operator", ["GroupNorm", "InstanceNorm"])
def test_normalised_constants_are_zero(operator: str, hybridize: bool, value: float) -> None:
    """The rounding error of the mean, divided by the root of eps, was up to 0.02, and 1 in the gradient by gamma."""

    class Norm(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
            groups = {"num_groups": 2} if operator == "GroupNorm" else {}
            return getattr(F, operator)(x, gamma, beta, **groups)

    net = Norm()
    if hybridize:
        net.hybridize()
    x = nd.full((4, 32, 7, 7), value)
    count = 2 if operator == "GroupNorm" else 32
    gamma, beta = nd.ones(count), nd.zeros(count)
    gamma.attach_grad()
    with mx.autograd.record():
        y = net(x, gamma, beta)
    y.backward(nd.random.normal(shape=y.shape))
    assert not y.asnumpy().any() and gamma.grad is not None and not gamma.grad.asnumpy().any()


@pytest.mark.parametrize("value", [1, 0.3])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("norm", [nn.GroupNorm, lambda: nn.GroupNorm(2), nn.InstanceNorm, nn.LayerNorm])
def test_normalised_constants_have_the_gradient_zero(norm: Callable[[], Any], hybridize: bool, value: float) -> None:
    """As in MXNet for GroupNorm: the mean of the cotangent is subtracted before it is divided by the root of eps."""
    for shape in ((2, 10, 10, 10), (2, 30, 5, 3)):
        net = norm()
        net.initialize()
        if hybridize:
            net.hybridize()
        x = nd.full(shape, value)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        assert x.grad is not None and not x.grad.asnumpy().any()


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_batch_norm_passes_nothing_of_a_constant_cotangent_back(hybridize: bool) -> None:
    """The rounding errors of means that were left in the gradient depended on the order of sums."""
    conv, norm = nn.Conv2D(96, 1), nn.BatchNorm()
    net = nn.HybridSequential()
    net.add(conv, nn.HybridLambda(lambda F, x: F.slice(x, begin=(0, 0, 0, 0), end=(4, 64, 32, 32))), norm)
    net.initialize()
    if hybridize:
        net.hybridize()
    x = nd.random.uniform(shape=(8, 64, 64, 64))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert x.grad is not None and np.abs(x.grad.asnumpy()).max() < 5e-7
