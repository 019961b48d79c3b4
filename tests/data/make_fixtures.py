"""Writes, with real MXNet 1.9.1, the models and arrays in tests/data/fixtures.

usage: python make_fixtures.py OUT_DIR      in an environment with mxnet==1.9.1 and numpy<1.24

Each NAME-symbol.json and NAME-0000.params comes with NAME.npz: its inputs and outputs. The three networks of the model
zoo are megabytes and are not kept here; they are made first all the same, because they draw from the random numbers of
the others. Two files in fixtures are not made here: save_000800.json and legacy_ndarray.v0 are real files of MXNet 0.8
and before 0.9, from the tests of MXNet itself. All else comes out the same again, up to the rounding of training.
"""

import pickle
import sys

import mxnet as mx
import numpy as np
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision

out = sys.argv[1]
mx.random.seed(0)
np.random.seed(0)


def real_statistics(net):
    """Give BatchNorm statistics and affine parameters that a fold must get right."""
    for k, p in net.collect_params().items():
        low, high = (-0.1, 0.1) if k.endswith(("running_mean", "beta")) else (0.5, 1.5)
        if k.endswith(("running_mean", "running_var", "gamma", "beta")):
            p.set_data(mx.nd.random.uniform(low, high, shape=p.shape))


def export(name, net, *xs):
    net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    net.hybridize()
    net(*xs)
    real_statistics(net)
    ys = net(*xs)
    ys = [
        a for y in (ys if isinstance(ys, (list, tuple)) else [ys]) for a in (y if isinstance(y, (list, tuple)) else [y])
    ]
    net.export(f"{out}/{name}")
    np.savez(
        f"{out}/{name}.npz",
        **{f"x{i}": x.asnumpy() for i, x in enumerate(xs)},
        **{f"y{i}": y.asnumpy() for i, y in enumerate(ys)},
    )
    print(name, [y.shape for y in ys], float(ys[0].asnumpy().std()))


image = mx.nd.random.uniform(-1, 1, shape=(1, 3, 224, 224))
export("squeezenet1.1", vision.squeezenet1_1(), image)
export("mobilenet0.25", vision.mobilenet0_25(), image)
export("mobilenetv2_0.25", vision.mobilenet_v2_0_25(), image)

small = nn.HybridSequential(prefix="convnet_")
with small.name_scope():
    small.add(
        nn.Conv2D(8, 3, padding=1, use_bias=False),
        nn.BatchNorm(scale=False),
        nn.Activation("relu"),
        nn.MaxPool2D(),
        nn.Conv2D(16, 3, strides=2, groups=4),
        nn.LeakyReLU(0.1),
        nn.Conv2DTranspose(8, 4, 2, 1),
        nn.BatchNorm(axis=1),
        nn.GlobalAvgPool2D(),
        nn.Flatten(),
        nn.Dense(10),
    )
export("convnet", small, mx.nd.random.uniform(-1, 1, shape=(2, 3, 32, 32)))


class Tagger(mx.gluon.HybridBlock):
    """Embedding, bidirectional LSTM, layer norm and a dense head over a sequence (T, N)."""

    def __init__(self, **kw):
        super().__init__(**kw)
        with self.name_scope():
            self.embed = nn.Embedding(50, 16)
            self.lstm = rnn.LSTM(12, 2, bidirectional=True, input_size=16)
            self.norm = nn.LayerNorm(in_channels=24)
            self.head = nn.Dense(7, flatten=False, in_units=24)

    def hybrid_forward(self, F, x):
        return F.log_softmax(self.head(self.norm(self.lstm(self.embed(x)))), axis=-1)


export("tagger", Tagger(prefix="tagger_"), mx.nd.array(np.random.randint(0, 50, (9, 3))))

# A Module checkpoint as mx.model writes it, with a SoftmaxOutput head and trained for a few steps.
data = mx.sym.Variable("data")
net = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=16, name="fc1"), act_type="relu", name="relu1")
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4, name="fc2"), name="softmax")
x, y = np.random.rand(64, 12).astype("f"), np.random.randint(0, 4, 64).astype("f")
it = mx.io.NDArrayIter(x, y, 16, label_name="softmax_label")
mod = mx.mod.Module(net)
mod.fit(
    it,
    num_epoch=3,
    optimizer="sgd",
    optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
    initializer=mx.init.Xavier(),
)
mod.save_checkpoint(f"{out}/mlp", 3, save_optimizer_states=True)
it.reset()
np.savez(f"{out}/mlp.npz", x0=x, y0=mod.predict(it).asnumpy())

# Containers of arrays: dict and list, every dtype, sparse storage, a scalar-like and an empty name.
arrays = {
    d: mx.nd.array(np.arange(6).reshape(2, 3), dtype=d)
    for d in ("float16", "float32", "float64", "uint8", "int8", "int32", "int64")
}
arrays["csr"] = mx.nd.array([[0, 1, 0], [2, 0, 3]]).tostype("csr")
arrays["row_sparse"] = mx.nd.array([[0, 0, 0], [1, 2, 3], [0, 0, 0]]).tostype("row_sparse")
mx.nd.save(f"{out}/arrays_dict.params", arrays)
mx.nd.save(f"{out}/arrays_list.params", [mx.nd.ones((2, 2)), mx.nd.zeros((3,))])

# A pickle of arrays and of a context.
dense = mx.nd.arange(6).reshape((3, 2))
pickled = {"a": dense, "c": dense.tostype("csr"), "r": dense.tostype("row_sparse"), "k": mx.cpu(1)}
mx.nd.waitall()
with open(f"{out}/arrays.pickle", "wb") as file:
    pickle.dump(pickled, file, 2)

adam = mx.optimizer.create(
    "adam", lr_scheduler=mx.lr_scheduler.PolyScheduler(10, base_lr=0.001), param_idx2name={0: "w"}
)
updater = mx.optimizer.get_updater(adam)
updater(0, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
with open(f"{out}/adam.states", "wb") as file:
    file.write(updater.get_states(dump_optimizer=True))
