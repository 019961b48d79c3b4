"""The programs with which users begin: common calls of operators, and steps of training of small networks.

The libraries of the package have the kernels of these programs (`make_kernels.py`), so that a first call compiles
nothing. A kernel of an eager call serves all shapes with the same axes after neighbours are merged, so one shape is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import product
from typing import Any

from ..frontend import autograd, gluon, initializer
from ..frontend import ndarray as nd
from ..frontend.gluon import nn, rnn

Program = Callable[[], object]

_SHAPE = (2, 3)
_FLOATS, _INTEGERS = ("float32", "float64"), ("int32", "int64")
_DTYPES = (*_FLOATS, *_INTEGERS)
_SHAPES = ((6,), (2, 3), (2, 3, 4), (2, 3, 4, 5))
_BROADCASTS = (
    *(((2, 3), (1, 3)), ((2, 3), (2, 1)), ((2, 3), (1, 1)), ((2, 1), (1, 3))),
    *(((2, 3, 4), (1, 3, 1)), ((2, 3, 4, 5), (1, 3, 1, 1))),
)
_UNARY = (
    *("abs", "sign", "square", "sqrt", "rsqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tanh"),
    *("floor", "ceil", "round", "negative", "reciprocal", "relu", "sigmoid", "softsign", "erf", "arctan"),
)
_CASTS = ("float32", "float64", "int32", "int64", "uint8")


def arithmetic() -> None:
    """Operators of Python on arrays and numbers, for each dtype, and broadcasts of float32."""
    for dtype in _DTYPES:
        x, y = nd.ones(_SHAPE, dtype=dtype), nd.ones(_SHAPE, dtype=dtype)
        _ = x + y, x - y, x * y, x / y, x + 1, x - 1, 1 - x, x * 2, x / 2, -x
        _ = x == y, x > y, x < y, x == 1, x > 1, x < 1
        x += y
        x += 1
        x *= 2
    x, y = nd.ones(_SHAPE), nd.ones(_SHAPE)
    x -= y
    x *= y
    x /= y
    x -= 1
    x /= 2
    _ = 1 / x, x**2, x**y, x % 2, x != y, x >= y, x <= y, x != 1, x >= 1, x <= 1
    _ = nd.maximum(x, y), nd.minimum(x, y), nd.maximum(x, 0), nd.minimum(x, 1), nd.clip(x, 0, 1), nd.where(x > 0, x, y)
    for left, right in _BROADCASTS:
        x, y = nd.ones(left), nd.ones(right)
        _ = x + y, x - y, x * y, x / y


def unary() -> None:
    """Functions of one array, and casts."""
    x = nd.ones(_SHAPE)
    for name in _UNARY:
        getattr(nd, name)(x)
    for name, dtype in product(("abs", "sqrt", "square"), ("float64", "int32")):
        getattr(nd, name)(x.astype(dtype))
    for source, target in product(_CASTS, repeat=2):
        nd.ones(_SHAPE, dtype=source).astype(target)


def reductions() -> None:
    """Sums, means and extreme values over axes, and functions of rows."""
    for shape in _SHAPES:
        x, axes = nd.ones(shape), range(len(shape))
        for reduce in (nd.sum, nd.mean, nd.max, nd.min):
            reduce(x)
            for axis in axes:
                reduce(x, axis=axis)
        for axis in axes:
            _ = nd.argmax(x, axis=axis), nd.softmax(x, axis=axis), nd.log_softmax(x, axis=axis)
    x, images = nd.ones(_SHAPE), nd.ones((2, 3, 4, 5))
    _ = nd.norm(x), nd.norm(x, axis=1), nd.argmin(x, axis=1), nd.prod(x)
    _ = nd.mean(images, axis=(2, 3)), nd.mean(images, axis=(0, 2, 3)), nd.sum(images, axis=(0, 2, 3))
    for dtype, reduce in product(("float64", "int32"), (nd.sum, nd.mean, nd.max)):
        x = nd.ones(_SHAPE, dtype=dtype)
        _ = reduce(x), reduce(x, axis=0), reduce(x, axis=1)


def orders() -> None:
    """Sorts of rows and of a long row, whose parts threads sort, and the first elements of both."""
    for dtype in ("uint8", "float16", *_DTYPES):
        rows, long = nd.ones((2, 80), dtype=dtype), nd.ones((1 << 15,), dtype=dtype)
        for x in (rows, long):
            _ = x.sort(), x.argsort(), x.topk(k=2), x.topk(k=2, ret_typ="both")
    nd.random.shuffle(nd.ones((4,)))


def moves() -> None:
    """Calls that copy elements to other places."""
    for shape in _SHAPES[1:]:
        x = nd.ones(shape)
        _ = x.T, x.copy(), x.flatten(), nd.swapaxes(x, 0, 1), nd.flip(x, axis=1), nd.tile(x, 2), nd.repeat(x, 2, axis=0)
        _ = nd.concat(x, x, dim=0), nd.concat(x, x, dim=1), nd.stack(x, x), nd.stack(x, x, axis=1)
        _ = nd.concat(x, x, x, dim=1), nd.slice_axis(x, axis=1, begin=0, end=2), nd.zeros_like(x), nd.ones_like(x)
        _ = x[0], x[0:1], x[:, 1], x[:, 0:2], x[:, ::2], x[1:, 1:]
    for axes in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)):
        nd.transpose(nd.ones((2, 3, 4)), axes)
    for axes in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (0, 1, 3, 2)):
        nd.transpose(nd.ones((2, 3, 4, 5)), axes)
    x = nd.ones((4, 6))
    _ = nd.split(x, 2, axis=1), nd.split(x, 2, axis=0), nd.broadcast_to(nd.ones((1, 3)), _SHAPE)
    _ = nd.arange(10), nd.arange(0, 10, 2), nd.eye(3)
    x[:] = 2
    x[0] = 1
    x[:, 1] = 3
    x[0:1] = x[1:2]


def lookups() -> None:
    """Calls with indices."""
    table = nd.ones((4, 3))
    for dtype, shape in product(("float32", "int32"), ((2,), _SHAPE)):
        i = nd.ones(shape, dtype=dtype)
        _ = nd.take(table, i), nd.Embedding(i, table, input_dim=4, output_dim=3), nd.one_hot(i, 4)
    for dtype in ("float32", "int32"):
        i = nd.ones((4,), dtype=dtype)
        _ = nd.pick(table, i, axis=1), table[i]
    nd.SequenceMask(nd.ones((3, 2, 4)), nd.ones((2,)), use_sequence_length=True)


def products() -> None:
    """Products of matrices, and dense layers."""
    for dtype in _FLOATS:
        a, b, v, p = (nd.ones(shape, dtype=dtype) for shape in (_SHAPE, (3, 4), (3,), (2, 3, 3)))
        _ = nd.dot(a, b), nd.dot(a, a, transpose_b=True), nd.dot(a, a, transpose_a=True), nd.dot(v, v), nd.dot(a, v)
        _ = nd.batch_dot(p, p), nd.batch_dot(p, p, transpose_b=True), nd.batch_dot(p, p, transpose_a=True)
    for rows, bias in product((1, 2, 32), ([nd.ones((4,))], [])):
        nd.FullyConnected(nd.ones((rows, 8)), nd.ones((4, 8)), *bias, num_hidden=4, no_bias=not bias)


def sparse_products() -> None:
    """Products of csr matrices, and sums along axes of any length."""
    for width in (1, 32):
        x, y = nd.ones((4, 40)).tostype("csr"), nd.ones((40, width))
        _ = nd.dot(x, y), nd.dot(x, nd.ones((4, width)), transpose_a=True)
    _ = nd.cumsum(nd.ones((4, 40)), axis=0), nd.cumsum(nd.ones((4, 40)), axis=1)


def layers() -> None:
    """Activations, poolings, normalisations and losses."""
    x, images, one = nd.ones(_SHAPE), nd.ones((2, 3, 8, 8)), nd.ones((3,))
    for type_of_layer in ("relu", "sigmoid", "tanh", "softrelu"):
        nd.Activation(x, act_type=type_of_layer)
    _ = nd.LeakyReLU(x, slope=0.1), nd.LeakyReLU(x, act_type="gelu"), nd.LayerNorm(x, one, one), nd.Dropout(x)
    for type_of_layer in ("max", "avg"):
        nd.Pooling(images, kernel=(2, 2), stride=(2, 2), pool_type=type_of_layer)
        nd.Pooling(images, kernel=(1, 1), global_pool=True, pool_type=type_of_layer)
    _ = nd.SoftmaxOutput(x, nd.ones((2,))), nd.softmax_cross_entropy(x, nd.ones((2,)))
    gluon.loss.SoftmaxCrossEntropyLoss()(x, nd.ones((2,)))
    for loss in (gluon.loss.L2Loss, gluon.loss.L1Loss, gluon.loss.SigmoidBinaryCrossEntropyLoss):
        loss()(x, x)


def draws() -> None:
    """Random numbers, and initial values."""
    for dtype in _FLOATS:
        _ = nd.random.uniform(shape=_SHAPE, dtype=dtype), nd.random.normal(shape=_SHAPE, dtype=dtype)
    _ = nd.random.randint(0, 10, shape=_SHAPE)
    for initial in (initializer.Xavier(), initializer.Normal(), initializer.Uniform(), initializer.One()):
        gluon.Parameter("p", shape=_SHAPE, init=initial).initialize()


_OPTIMIZERS: Sequence[tuple[str, dict[str, float]]] = (
    *(("sgd", {}), ("sgd", {"momentum": 0.9}), ("sgd", {"momentum": 0.9, "wd": 1e-4})),
    *(("adam", {}), ("rmsprop", {}), ("adagrad", {})),
)


def updates() -> None:
    """Gradients of functions of one array, and updates of its optimizers, one by one and together."""
    for (name, options), count in product(_OPTIMIZERS, (1, 2)):
        parameters = [gluon.Parameter(f"p{i}", shape=(2 + i, 3)) for i in range(count)]
        for p in parameters:
            p.initialize()
        trainer = gluon.Trainer({p.name: p for p in parameters}, name, options)
        with autograd.record():
            losses = [(p.data() * 2).sum() for p in parameters]
        autograd.backward(losses)
        trainer.step(1)
    x = nd.ones(_SHAPE)
    x.attach_grad()
    for compute in (lambda: x * x, lambda: nd.sum(x * x), lambda: 2 * nd.dot(x.T, x), lambda: nd.exp(x).mean()):
        with autograd.record():
            y = compute()
        y.backward()


def _train(
    net: nn.HybridBlock, data: nd.NDArray, optimizer: str, hybridize: bool, loss: gluon.loss.Loss | None = None
) -> None:
    """Two steps of training, and a prediction; of classes without another loss."""
    net.initialize(initializer.Xavier())
    loss, labels = loss or gluon.loss.SoftmaxCrossEntropyLoss(), nd.ones((len(data),))
    if hybridize:
        net.hybridize()
        loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer)
    for _ in range(2):
        with autograd.record():
            losses = loss(net(data), labels)
        losses.backward()
        trainer.step(len(data))
        losses.mean().asscalar()
    net(data).argmax(axis=1)


def _dense(*units: int) -> nn.HybridSequential:
    """A network of dense layers."""
    net = nn.HybridSequential()
    net.add(*[nn.Dense(n, activation="relu") for n in units[:-1]], nn.Dense(units[-1]))
    return net


def train_linear() -> None:
    """Regression, and a linear classifier of digits."""
    for hybridize in (False, True):
        _train(_dense(1), nd.ones((10, 2)), "sgd", hybridize, gluon.loss.L2Loss())
        _train(_dense(10), nd.ones((256, 784)), "sgd", hybridize)


def train_dense() -> None:
    """A network of dense layers on digits."""
    for optimizer, hybridize in product(("sgd", "adam"), (False, True)):
        _train(_dense(128, 64, 10), nd.ones((64, 784)), optimizer, hybridize)


def predict_dense() -> None:
    """Predictions of small networks that are not trained."""
    for units, rows in product(((64, 10), (16, 4), (32, 1)), (1, 32)):
        net = _dense(*units)
        net.initialize(initializer.Xavier())
        net.hybridize(static_alloc=True, static_shape=True)
        net(nd.ones((rows, 8)))


def _convolutions() -> nn.HybridSequential:
    """LeNet."""
    net = nn.HybridSequential()
    for channels in (20, 50):
        net.add(nn.Conv2D(channels, 5, activation="relu"), nn.MaxPool2D(2, 2))
    net.add(nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def train_convolutions() -> None:
    """LeNet on digits."""
    for hybridize in (False, True):
        _train(_convolutions(), nd.ones((64, 1, 28, 28)), "sgd", hybridize)


class _Recurrent(nn.HybridBlock):
    """An LSTM layer, and a dense layer on the mean of its states. The first two extents of the data are equal."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.layer, self.classes = rnn.LSTM(64), nn.Dense(10)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return self.classes(F.mean(self.layer(x), axis=0))


def train_recurrent() -> None:
    """An LSTM layer."""
    for hybridize in (False, True):
        _train(_Recurrent(), nd.ones((16, 16, 32)), "adam", hybridize)


def _sequences(layer: Callable[[], nn.HybridBlock]) -> nn.HybridBlock:
    """A layer on embedded words, whose next words a dense layer predicts."""
    net = nn.HybridSequential()
    net.add(nn.Embedding(50, 32), layer(), nn.Dense(50, flatten=False))
    return net


def _images() -> Generator[nn.HybridBlock]:
    """Small networks on images: each kind of convolution, pooling and normalisation that deep ones have."""
    for first, second in ((16, 32), (32, 64)):
        classifier = nn.HybridSequential()
        classifier.add(nn.Conv2D(first, 7, 2, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
        classifier.add(nn.Conv2D(second, 3, 1, 1), nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(second, 3, 2, 1))
        classifier.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(10))
        yield classifier
    blocks, thin = nn.HybridSequential(), nn.HybridSequential()
    for channels in (8, 16):
        blocks.add(nn.Conv2D(channels, 3, 1, 1, activation="relu"), nn.MaxPool2D(2, 2))
    blocks.add(nn.Conv2D(16, 1, activation="relu"), nn.Conv2DTranspose(4, 4, 2, 1))
    yield blocks
    thin.add(nn.Conv2D(16, 3, 2, 1), nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(16, 3, 1, 1, groups=16))
    thin.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(32, 1), nn.AvgPool2D(2, 2), nn.GlobalAvgPool2D())
    yield thin


class _Attention(nn.HybridBlock):
    """A layer of a transformer with one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.name_scope():
            self.joined, self.out = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
            self.wide, self.narrow = nn.Dense(2 * width, flatten=False), nn.Dense(width, flatten=False)
            self.before, self.after = nn.LayerNorm(), nn.LayerNorm()

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        q, k, v = F.split(self.joined(self.before(x)), 3, axis=-1)
        x = x + self.out(F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v))
        return x + self.narrow(F.LeakyReLU(self.wide(self.after(x)), act_type="gelu"))


def _step_of_each(net: nn.HybridBlock, batches: Sequence[nd.NDArray], optimizer: str = "sgd") -> None:
    """A step of training and a prediction for each batch. The first two shapes compile for themselves and for all."""
    net.initialize(initializer.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer)
    for data in batches:
        with autograd.record():
            outputs = net(data)
            losses = (outputs * outputs).mean()
        losses.backward()
        trainer.step(1)
        net(data).wait_to_read()


def train_any_images() -> None:
    """Networks on images of any size."""
    for net in _images():
        _step_of_each(net, [nd.ones((n, 3, size, size + 8)) for n, size in ((2, 40), (3, 56))])


def train_any_batch() -> None:
    """Dense layers on batches of any size."""
    for (inputs, *units), optimizer in product(((40, 64, 32, 10), (40, 8), (784, 128, 64, 10)), ("sgd", "adam")):
        _step_of_each(_dense(*units), [nd.ones((rows, inputs)) for rows in (32, 20)], optimizer)


def train_any_length() -> None:
    """Recurrent layers and attention on sequences of any length."""
    recurrent = (partial(kind, width) for kind, width in product((rnn.LSTM, rnn.GRU), (48, 128)))
    for layer in (*recurrent, partial(rnn.LSTM, 32, 2), partial(_Attention, 32)):
        _step_of_each(_sequences(layer), [nd.ones((steps, 4)) for steps in (12, 18)])


CALLS: Sequence[Program] = (
    arithmetic,
    unary,
    reductions,
    orders,
    moves,
    lookups,
    products,
    sparse_products,
    layers,
    draws,
    updates,
)
"""Calls of operators. Their kernels depend on the vectors of a processor alone."""

NETWORKS: Sequence[Program] = (
    *(train_linear, train_dense, predict_dense, train_convolutions, train_recurrent),
    *(train_any_batch, train_any_images, train_any_length),
)
"""Steps of training, and predictions. Schedules depend on the threads and the caches of a processor too."""
