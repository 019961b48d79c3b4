"""d2l 0.17: networks, losses and steps of the book "Dive into Deep Learning", on arrays of `mx.np`."""

import sys
import types

import cases
import numpy as onp
from mxnet import autograd, gluon, init, np, npx
from mxnet.gluon import nn, rnn


class Absent(types.ModuleType):
    """A module for plots and files, of which nothing is used."""

    __path__ = []

    def __getattr__(self, name):
        return Absent(name)


for name in "IPython IPython.display matplotlib matplotlib.pyplot matplotlib_inline requests pandas".split():
    sys.modules.setdefault(name, Absent(name))
sys.modules.setdefault("matplotlib_inline.backend_inline", sys.modules["matplotlib_inline"])

from d2l import mxnet as d2l  # noqa: E402

npx.set_np()


def ramp(*shape, number=0):
    return np.array(onp.random.RandomState(number).uniform(-1, 1, shape).astype("float32"))


def words(*shape, most=10, number=0):
    return np.array(onp.random.RandomState(number).randint(0, most, shape).astype("float32"))


def filled(block, *inputs):
    """The block with parameters that depend on their places; the inputs give their shapes."""
    block.initialize()
    if inputs:
        block(*inputs)
    for number, parameter in enumerate(block.collect_params().values()):
        values = onp.random.RandomState(number).uniform(-1, 1, parameter.shape)
        if parameter.name.endswith(("gamma", "var")):
            values = 1 + 0.3 * values
        elif values.ndim > 1:
            values *= (4 / onp.prod(parameter.shape[1:])) ** 0.5
        parameter.set_data(np.array(values.astype("float32")))
    return block


def steps(net, loss, inputs, optimizer="sgd", count=4, rate=0.1):
    """Losses of some steps, and parameters after them."""
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate})
    losses = []
    for _ in range(count):
        with autograd.record():
            found = loss(net, *inputs)
        found.backward()
        trainer.step(inputs[0].shape[0])
        losses.append(float(found.mean()))
    return [onp.array(losses), *[p.data() for p in list(net.collect_params().values())[:8]]]


def from_scratch():
    """Linear regression by hand."""
    x, y = ramp(40, 2), ramp(40, 1, number=1)
    w, b = ramp(2, 1, number=2), np.zeros(1)
    w.attach_grad()
    b.attach_grad()
    for i in range(0, 40, 10):
        with autograd.record():
            loss = d2l.squared_loss(d2l.linreg(x[i : i + 10], w, b), y[i : i + 10])
        loss.backward()
        d2l.sgd([w, b], 0.03, 10)
    return [w, b, loss]


def softmax_regression():
    x, y = ramp(32, 4, 4), np.array(onp.arange(32) % 5, dtype="int32")
    w, b = ramp(16, 5, number=1), np.zeros(5)
    w.attach_grad()
    b.attach_grad()

    def softmax(values):
        powers = np.exp(values)
        return powers / powers.sum(1, keepdims=True)

    def net(values):
        return softmax(np.dot(values.reshape((-1, 16)), w) + b)

    def loss(found, labels):
        return -np.log(found[range(len(found)), labels])

    figures = [d2l.train_epoch_ch3(net, [(x, y)] * 2, loss, lambda size: d2l.sgd([w, b], 0.1, size)) for _ in range(2)]
    return [w, b, onp.array(figures), d2l.accuracy(net(x), y)]


def concise():
    net = nn.Sequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(1))
    filled(net, ramp(10, 4))
    return steps(net, lambda net, x, y: gluon.loss.L2Loss()(net(x), y), (ramp(10, 4), ramp(10, 1, number=1)), "adam")


def lenet():
    net = nn.Sequential()
    net.add(
        nn.Conv2D(6, 5, padding=2, activation="sigmoid"), nn.AvgPool2D(2, 2), nn.Conv2D(16, 5, activation="sigmoid")
    )
    net.add(nn.AvgPool2D(2, 2), nn.Dense(20, activation="sigmoid"), nn.Dense(10))
    x, y = ramp(8, 1, 28, 28), words(8, number=1)
    filled(net, x)
    return steps(net, lambda net, x, y: gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y), (x, y))


def residual():
    blocks = [d2l.Residual(3), d2l.Residual(6, use_1x1conv=True, strides=2)]
    return [filled(block, ramp(4, 3, 6, 6))(ramp(4, 3, 6, 6)) for block in blocks]


def resnet():
    x = ramp(2, 3, 32, 32)
    net = filled(d2l.resnet18(10), x)
    found = [net(x)]
    net.hybridize()
    return [*found, net(x)]


def recurrent():
    net = filled(d2l.RNNModel(rnn.LSTM(16), 12), words(3, 4), d2l.RNNModel(rnn.LSTM(16), 12).begin_state(3))
    found, state = net(words(3, 4, most=12), net.begin_state(batch_size=3))
    return [found, *state]


def clipping():
    w = ramp(4, 3)
    w.attach_grad()
    with autograd.record():
        loss = (w * 5).sum()
    loss.backward()
    net = types.SimpleNamespace(params=[w])
    d2l.grad_clipping(net, 1)
    return w.grad


def attention():
    queries, keys = ramp(2, 1, 20), ramp(2, 10, 2, number=1)
    values, lengths = np.arange(40).reshape(1, 10, 4).repeat(2, axis=0), np.array([2, 6])
    additive = filled(d2l.AdditiveAttention(8, 0.1), queries, keys, values, lengths)
    product = d2l.DotProductAttention(0.5)
    product.initialize()
    many = d2l.MultiHeadAttention(20, 5, 0.5)
    same = ramp(2, 6, 20, number=2)
    filled(many, same, same, same, lengths)
    masked = d2l.masked_softmax(ramp(2, 2, 4), np.array([[1, 3], [2, 4]]))
    return [
        additive(queries, keys, values, lengths),
        product(keys[:, :1], keys, values, lengths),
        many(same, same, same, lengths),
        masked,
    ]


def transformer():
    encoder = d2l.TransformerEncoder(50, 24, 48, 8, 2, 0.5)
    x, lengths = words(2, 10, most=50), np.array([3, 2])
    filled(encoder, x, lengths)
    position = d2l.PositionalEncoding(20, 0)
    position.initialize()
    return [encoder(x, lengths), position(np.zeros((1, 60, 20)))]


def translation():
    encoder = filled(d2l.Seq2SeqEncoder(10, 8, 16, 2), np.zeros((4, 7)))
    found, state = encoder(words(4, 7))
    loss = d2l.MaskedSoftmaxCELoss()
    values, labels = ramp(3, 4, 10), words(3, 4)
    values.attach_grad()
    with autograd.record():
        masked = loss(values, labels, np.array([4, 2, 0]))
    masked.backward()
    return [found, *state, masked, values.grad]


def bert():
    net = d2l.BERTModel(100, 16, 32, 2, 2, 0.1, max_len=20)
    inputs = words(2, 8, most=100), np.zeros((2, 8)), None, np.array([[1, 5], [2, 3]])
    filled(net, *inputs)
    return list(net(*inputs))


def boxes():
    anchors = np.array(
        [
            [0, 0.1, 0.2, 0.3],
            [0.15, 0.2, 0.4, 0.4],
            [0.63, 0.05, 0.88, 0.98],
            [0.66, 0.45, 0.8, 0.8],
            [0.57, 0.3, 0.92, 0.9],
        ]
    )
    truth = np.array([[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88]])
    chances = np.array([[0.0] * 4, [0.9, 0.8, 0.7, 0.1], [0.1, 0.2, 0.3, 0.9]])
    found = np.array(
        [[0.1, 0.08, 0.52, 0.92], [0.08, 0.2, 0.56, 0.95], [0.15, 0.3, 0.62, 0.91], [0.55, 0.2, 0.9, 0.88]]
    )
    rows = d2l.multibox_detection(chances[None], np.zeros((1, 16)), found[None], nms_threshold=0.5)
    return [
        d2l.multibox_prior(ramp(1, 3, 6, 6), sizes=[0.75, 0.5], ratios=[1, 2]),
        *d2l.multibox_target(anchors[None], truth[None]),
        rows,
        d2l.box_iou(anchors, truth[:, 1:]),
    ]


def adversaries():
    generator, judge = nn.Sequential(), nn.Sequential()
    generator.add(nn.Dense(2))
    judge.add(nn.Dense(5, activation="tanh"), nn.Dense(3, activation="tanh"), nn.Dense(1))
    x, noise = ramp(8, 2), ramp(8, 2, number=1)
    filled(generator, noise)
    filled(judge, x)
    loss = gluon.loss.SigmoidBCELoss()
    trainers = [gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}) for net in (judge, generator)]
    figures = []
    for _ in range(3):
        figures.append(float(d2l.update_D(x, noise, judge, generator, loss, trainers[0])))
        figures.append(float(d2l.update_G(noise, judge, generator, loss, trainers[1])))
    return [onp.array(figures), generator(noise), judge(x)]


def initializers():
    net = nn.Sequential()
    net.add(nn.Dense(4), nn.Dense(2))
    net.initialize(init.Constant(0.5))
    return net(ramp(3, 5))


CASES = {
    "linear regression": from_scratch,
    "softmax regression": softmax_regression,
    "concise": concise,
    "lenet": lenet,
    "residual": residual,
    "resnet": resnet,
    "recurrent": recurrent,
    "clipping": clipping,
    "attention": attention,
    "transformer": transformer,
    "translation": translation,
    "bert": bert,
    "boxes": boxes,
    "adversaries": adversaries,
    "initializers": initializers,
}

if __name__ == "__main__":
    cases.run(CASES)
