"""Training runs: the losses of 20 steps and the final parameters, through Gluon, Module and executors."""

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()
STEPS = 20


def batches(*shape, classes=5):
    """Batches of points around as many centres as there are classes."""
    random = np.random.RandomState(0)
    centres = random.randn(classes, *shape[1:])
    for _ in range(STEPS):
        labels = random.randint(0, classes, shape[0])
        yield (centres[labels] + random.randn(*shape) * 0.4).astype("float32"), labels.astype("float32")


def drawn(named):
    """Values of parameters by their names: small numbers, scales around 1."""
    random = np.random.RandomState(1)
    return {
        name: (random.randn(*shape) * 0.1 + name.endswith("gamma")).astype("float32") for name, shape in sorted(named)
    }


def train(mx, net, shape, optimizer, hybridize, **options):
    """The losses, and the parameters at the end."""
    net.initialize()
    parameters = net.collect_params()
    net(mx.nd.zeros(shape))
    trained = {name: p for name, p in parameters.items() if p.grad_req != "null"}
    for name, value in drawn([(name, p.shape) for name, p in trained.items()]).items():
        parameters[name].set_data(mx.nd.array(value))
    if hybridize:
        net.hybridize()
    loss, losses = mx.gluon.loss.SoftmaxCrossEntropyLoss(), []
    trainer = mx.gluon.Trainer(parameters, optimizer, options)
    for data, label in batches(*shape):
        with mx.autograd.record():
            found = loss(net(mx.nd.array(data)), mx.nd.array(label))
        found.backward()
        trainer.step(shape[0])
        losses.append(found.mean().asscalar())
    return [numbers(mx.nd.array(losses)), *[numbers(parameters[name].data()) for name in sorted(parameters.keys())]]


def mlp(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="mlp_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="relu"), nn.Dense(8, activation="tanh"), nn.Dense(5))
    return net


def lenet(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="lenet_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(6, 3, use_bias=False))
        net.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(2, 2), nn.Flatten(), nn.Dense(5))
    return net


def resnet(mx):
    """Two residual blocks."""
    nn = mx.gluon.nn

    class Block(mx.gluon.HybridBlock):
        def __init__(self, channels, stride, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm())
                self.body.add(nn.Activation("relu"), nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm())
                self.shortcut = nn.Conv2D(channels, 1, stride, use_bias=False)

        def hybrid_forward(self, F, x):
            return F.relu(self.body(x) + self.shortcut(x))

    net = nn.HybridSequential(prefix="resnet_")
    with net.name_scope():
        net.add(Block(4, 1), Block(8, 2), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5))
    return net


def lstm(mx):
    gluon = mx.gluon
    net = gluon.nn.HybridSequential(prefix="lstm_")
    with net.name_scope():
        net.add(gluon.rnn.LSTM(6, 2, layout="NTC"), gluon.nn.Flatten(), gluon.nn.Dense(5))
    return net


NETWORKS = {
    "mlp": (mlp, (16, 12)),
    "lenet": (lenet, (8, 1, 12, 12)),
    "resnet": (resnet, (8, 3, 8, 8)),
    "lstm": (lstm, (8, 5, 4)),
}


def gluon_program(name, hybridize):
    def run(mx):
        make, shape = NETWORKS[name]
        return train(mx, make(mx), shape, "sgd", hybridize, learning_rate=0.1, momentum=0.9, wd=1e-3)

    run.__name__ = f"{name}_{'hybridized' if hybridize else 'eager'}"
    program(run)


for one in NETWORKS:
    gluon_program(one, False)
    gluon_program(one, True)


@program
def optimizers(mx):
    found = {}
    for name in ("sgd", "nag", "adam", "rmsprop", "adagrad", "adadelta", "ftrl", "signum", "lamb", "adamax", "nadam"):
        found[name] = train(mx, mlp(mx), (16, 12), name, True, learning_rate=0.01)
    return found


def symbol(mx):
    sym = mx.sym
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    x = sym.Activation(sym.BatchNorm(x, fix_gamma=False, name="bn"), act_type="relu")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def symbol_parameters(mx, shape):
    net = symbol(mx)
    shapes, _, _ = net.infer_shape(data=shape)
    every = dict(zip(net.list_arguments(), shapes))  # noqa: B905 (MXNet runs on Python 3.9)
    named = [(n, s) for n, s in every.items() if n not in ("data", "softmax_label")]
    arguments = {name: mx.nd.array(value) for name, value in drawn(named).items()}
    auxiliary = {n: mx.nd.ones((4,)) * n.endswith("var") for n in net.list_auxiliary_states()}
    return net, arguments, auxiliary


@program
def module(mx):
    shape = (8, 2, 6, 6)
    net, arguments, auxiliary = symbol_parameters(mx, shape)
    made = mx.mod.Module(net)
    made.bind([("data", shape)], [("softmax_label", (shape[0],))])
    made.init_params(arg_params=arguments, aux_params=auxiliary)
    made.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    metric = mx.metric.CrossEntropy()
    losses = []
    for data, label in batches(*shape):
        batch = mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(label)])
        made.forward_backward(batch)
        made.update()
        metric.reset()
        made.update_metric(metric, batch.label)
        losses.append(metric.get()[1])
    arguments, auxiliary = made.get_params()
    return [numbers(mx.nd.array(losses)), *[numbers(v) for _, v in sorted({**arguments, **auxiliary}.items())]]


@program
def module_fit(mx):
    """Two epochs on two contexts, with a callback and a validation set."""
    shape = (8, 2, 6, 6)
    net, arguments, auxiliary = symbol_parameters(mx, shape)
    pairs = list(batches(*shape))
    data, labels = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
    train_data, eval_data = mx.io.NDArrayIter(data, labels, 8), mx.io.NDArrayIter(data[:32], labels[:32], 8)
    made = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
    epochs, seen = [], []
    made.fit(
        train_data,
        eval_data,
        eval_metric="ce",
        num_epoch=2,
        optimizer_params={"learning_rate": 0.05},
        arg_params=arguments,
        aux_params=auxiliary,
        epoch_end_callback=lambda epoch, symbol, a, b: epochs.append([epoch, numbers(a["fc_weight"])]),
        batch_end_callback=lambda param: seen.append(param.nbatch),
    )
    arguments, auxiliary = made.get_params()
    score = made.score(eval_data, "ce")[0][1]
    return [epochs, len(seen), numbers(mx.nd.array([score])), numbers(auxiliary["bn_moving_mean"])]


@program
def executor(mx):
    shape = (8, 2, 6, 6)
    net, arguments, auxiliary = symbol_parameters(mx, shape)
    bound = net.simple_bind(mx.cpu(), data=shape)
    bound.copy_params_from(arguments, auxiliary)
    losses = []
    for data, label in batches(*shape):
        output = bound.forward(is_train=True, data=mx.nd.array(data), softmax_label=mx.nd.array(label))[0]
        bound.backward()
        for name in arguments:
            bound.arg_dict[name][:] -= 0.02 * bound.grad_dict[name]
        losses.append(-mx.nd.log(mx.nd.pick(output, mx.nd.array(label))).mean().asscalar())
    named = {**{n: bound.arg_dict[n] for n in arguments}, **bound.aux_dict}
    return [numbers(mx.nd.array(losses)), *[numbers(v) for _, v in sorted(named.items())]]


@program
def monitored_fit(mx):
    shape = (8, 2, 6, 6)
    net, arguments, auxiliary = symbol_parameters(mx, shape)
    pairs = list(batches(*shape))
    data, labels = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
    made, seen = mx.mod.Module(net), []

    def watched(array):
        seen.append(array.size)
        return array

    made.fit(
        mx.io.NDArrayIter(data, labels, 8),
        num_epoch=1,
        optimizer_params={"learning_rate": 0.05},
        arg_params=arguments,
        aux_params=auxiliary,
        monitor=mx.mon.Monitor(1, stat_func=watched, pattern=".*fc.*"),
    )
    arguments, auxiliary = made.get_params()
    return [len(seen) > 0, *[numbers(v) for _, v in sorted({**arguments, **auxiliary}.items())]]
