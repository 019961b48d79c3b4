"""Programs that train modules and FeedForward by their loops: callbacks, evaluation, checkpoints."""

import pathlib
import tempfile
import warnings

import numpy as np
from program import failure, gather, numbers

PROGRAMS, program = gather()


def examples(count=40, classes=3, width=4):
    """Points around as many centres as there are classes, with their labels."""
    random = np.random.RandomState(0)
    centres = random.randn(classes, width)
    labels = random.randint(0, classes, count)
    return (centres[labels] + random.randn(count, width) * 0.4).astype("float32"), labels.astype("float32")


def net_of(mx, hidden=6):
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=hidden, name="f1")
    x = mx.sym.BatchNorm(mx.sym.Activation(x, act_type="tanh"), fix_gamma=False, name="b1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="f2"), name="softmax")


def first_values(mx, symbol, shape=(8, 4)):
    random = np.random.RandomState(1)
    shapes, _, _ = symbol.infer_shape(data=shape)
    named = sorted(pair for pair in zip(symbol.list_arguments(), shapes) if pair[0] not in ("data", "softmax_label"))  # noqa: B905 (MXNet runs on Python 3.9)
    return {n: mx.nd.array((random.randn(*s) * 0.3 + n.endswith("gamma")).astype("float32")) for n, s in named}


def shown(*groups):
    return [numbers(value) for named in groups for _, value in sorted(named.items())]


def old_model(mx, symbol, **kwargs):
    """FeedForward and its initialisation are deprecated; both warn."""
    warnings.simplefilter("ignore", DeprecationWarning)
    return mx.model.FeedForward(symbol, **kwargs)


def fit_iterators(mx, contexts, size, kvstore):
    """Train on `contexts` contexts, `size` batches an epoch; the calls of the callbacks and the parameters."""
    data, labels = examples()
    net, seen = net_of(mx), []
    model = old_model(
        mx,
        net,
        ctx=[mx.cpu(i) for i in range(contexts)],
        num_epoch=3,
        epoch_size=size,
        arg_params=first_values(mx, net),
        learning_rate=0.3,
        momentum=0.9,
        wd=0.01,
    )
    model.fit(
        mx.io.NDArrayIter(data, labels, 8),
        eval_data=mx.io.NDArrayIter(data[:16], labels[:16], 8),
        eval_metric="ce",
        kvstore=kvstore,
        epoch_end_callback=[lambda epoch, symbol, a, b: seen.append([epoch, sorted(a), sorted(b)])],
        batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch, p.locals["nbatch"], p.locals["epoch"]]),
        eval_end_callback=lambda p: seen.append([p.epoch, p.nbatch, round(p.eval_metric.get()[1], 4)]),
        eval_batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
    )
    score = model.score(mx.io.NDArrayIter(data, labels, 8), "ce")
    return [seen, *shown(model.arg_params, model.aux_params), round(score, 4)]


@program
def feed_forward_iterators(mx):
    """One and two contexts; epochs of fewer and of more batches than the data; callbacks in order."""
    settings = (1, None, "local"), (2, None, "local"), (2, 3, "device"), (1, 7, None)
    return [fit_iterators(mx, *setting) for setting in settings]


def fit_arrays(mx, data, labels, optimizer):
    np.random.seed(7)
    net, evaluated = net_of(mx), []
    model = old_model(mx, net, num_epoch=2, optimizer=optimizer, numpy_batch_size=8, arg_params=first_values(mx, net))
    model.fit(
        data,
        labels,
        eval_data=(data[:10].tolist() if isinstance(data, np.ndarray) else data[:10], labels[:10]),
        eval_end_callback=lambda p: evaluated.append(p.nbatch),
    )
    predicted = numbers(mx.nd.array(model.predict(data[:4])))
    return [*shown(model.arg_params, model.aux_params), evaluated, sorted(model.kwargs), predicted]


@program
def feed_forward_arrays(mx):
    """Arrays are shuffled with NumPy's random state; a batch that is left over moves to the next epoch."""
    data, labels = examples(30)
    return fit_arrays(mx, data, labels, "sgd") + fit_arrays(mx, mx.nd.array(data), mx.nd.array(labels), "adam")


@program
def feed_forward_resumed(mx):
    """A model that is loaded from a checkpoint continues with its epochs and an optimizer of the caller."""
    data, labels = examples()
    net, found = net_of(mx), []
    with tempfile.TemporaryDirectory() as folder:
        prefix = folder + "/m"
        first = old_model(mx, net, num_epoch=2, arg_params=first_values(mx, net), learning_rate=0.2)
        first.fit(mx.io.NDArrayIter(data, labels, 8), epoch_end_callback=mx.callback.do_checkpoint(prefix))
        found.append(sorted(path.name for path in pathlib.Path(folder).iterdir()))
        rate = mx.optimizer.SGD(learning_rate=0.2, rescale_grad=1 / 8)
        second = mx.model.FeedForward.load(prefix, 1, num_epoch=2, optimizer=rate)
        epochs = []
        second.fit(mx.io.NDArrayIter(data, labels, 8), epoch_end_callback=lambda epoch, *rest: epochs.append(epoch))
        found += [epochs, *shown(first.arg_params, first.aux_params), *shown(second.arg_params, second.aux_params)]
        found.append(sorted(rate.idx2name.items()))
    return found


@program
def feed_forward_created(mx):
    warnings.simplefilter("ignore", DeprecationWarning)
    data, labels = examples()
    net, seen = net_of(mx), []
    model = mx.model.FeedForward.create(
        net,
        mx.io.NDArrayIter(data, labels, 8),
        num_epoch=1,
        arg_params=first_values(mx, net),
        work_load_list=[1, 2],
        ctx=[mx.cpu(0), mx.cpu(1)],
    )
    monitor = mx.mon.Monitor(1, stat_func=lambda array: seen.append(array.size) or array)
    model.num_epoch = 2
    model.fit(mx.io.NDArrayIter(data, labels, 8), monitor=monitor)
    found = [*shown(model.arg_params, model.aux_params), len(seen) > 0]
    found += [failure(lambda: model.fit(data)), failure(lambda: model.fit(data, labels[:3])), failure(model.fit, 3)]
    for wrong in ((None, labels), 3):
        found.append(failure(lambda wrong=wrong: model.fit(data, labels, eval_data=wrong)))
    found.append(failure(lambda: model.fit(data, np.zeros((40, 2)))))
    return found


@program
def feed_forward_buckets(mx):
    """A function of the bucket instead of a symbol."""

    class Batches(mx.io.DataIter):
        def __init__(self):
            super().__init__(4)
            self.default_bucket_key, self.number = 3, 0
            self.provide_data, self.provide_label = [("data", (4, 3))], [("softmax_label", (4,))]

        def reset(self):
            self.number = 0

        def next(self):
            self.number += 1
            if self.number > 4:
                raise StopIteration
            key = 5 if self.number % 2 else 3
            data = mx.nd.array(np.sin(np.arange(4 * key) + self.number).reshape(4, key))
            return mx.io.DataBatch(
                [data],
                [mx.nd.array([0, 1, 0, 1])],
                0,
                bucket_key=key,
                provide_data=[("data", (4, key))],
                provide_label=self.provide_label,
            )

    def symbol_of(key):
        x = mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True)
        return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="f"), name="softmax")

    values = {"f_weight": mx.nd.array([[0.1], [0.2]]), "f_bias": mx.nd.array([0.1, 0.3])}
    model = old_model(mx, symbol_of, num_epoch=2, arg_params=values, learning_rate=0.1)
    model.fit(Batches())
    return [*shown(model.arg_params), model.symbol.list_arguments()]


@program
def module_checkpoints(mx):
    """Fit with checkpoints, resumed from each kind: from files, and from dictionaries."""
    data, labels = examples()

    def fit(module, begin, end, **kwargs):
        module.fit(
            mx.io.NDArrayIter(data, labels, 8),
            optimizer="adam",
            optimizer_params={"learning_rate": 0.02, "begin_num_update": begin * 5},
            begin_epoch=begin,
            num_epoch=end,
            **kwargs,
        )
        return shown(*module.get_params())

    warnings.simplefilter("ignore", UserWarning)
    net, found = net_of(mx), []
    with tempfile.TemporaryDirectory() as folder:
        prefix = folder + "/m"
        module = mx.mod.Module(net)
        saves = [mx.callback.module_checkpoint(module, prefix, 2, True), mx.callback.do_checkpoint(folder + "/d", 3)]
        found += fit(module, 0, 3, arg_params=first_values(mx, net), epoch_end_callback=saves)
        found.append(sorted(path.name for path in pathlib.Path(folder).iterdir()))
        found += fit(mx.mod.Module.load(prefix, 2, True), 2, 3)
        found += fit(mx.mod.Module.load(prefix, 2), 2, 3)
        symbol, arguments, states = mx.model.load_checkpoint(folder + "/d", 3)
        found += fit(mx.mod.Module(symbol), 3, 4, arg_params=arguments, aux_params=states)
        found.append(failure(lambda: mx.mod.Module(net).save_checkpoint(prefix, 9)))
        found.append(failure(lambda: fit(mx.mod.Module.load(prefix, 2), 2, None)))
    return found


@program
def trainer_states(mx):
    """Files of states with one context and with several, where the store updates the parameters."""
    found = []
    for contexts, update in ((1, None), (2, None), (2, False)):
        where = [mx.cpu(i) for i in range(contexts)]
        nets = []
        with tempfile.TemporaryDirectory() as folder:
            for again in (False, True):
                net = mx.gluon.nn.Dense(2, in_units=3, weight_initializer="ones", prefix="net_")
                net.initialize(ctx=where)
                trainer = mx.gluon.Trainer(
                    net.collect_params(), "adam", {"learning_rate": 0.1 + again}, update_on_kvstore=update
                )
                if again:
                    net.load_parameters(folder + "/p", ctx=where)
                    trainer.load_states(folder + "/s")
                for step in range(2):
                    with mx.autograd.record():
                        losses = [(net(mx.nd.ones((1, 3), ctx=c)) * (step + i + 1)).sum() for i, c in enumerate(where)]
                    mx.autograd.backward(losses)
                    trainer.step(contexts)
                net.save_parameters(folder + "/p")
                trainer.save_states(folder + "/s")
                nets.append([numbers(net.weight.data(where[-1])), trainer.learning_rate, trainer.optimizer.num_update])
        found.append(nets)
    return found
