"""Training through gluon.contrib.estimator: logs, warnings, metrics, files and final parameters."""

import logging
import os
import re
import tempfile
import warnings

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()


class Lines(logging.Handler):
    """The lines of a log, without spaces, durations and the names of temporary folders."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        self.found.append(f"{record.levelname} {squeezed(record.getMessage())}")


def squeezed(text):
    text = re.sub(r"(in|interval:) \d+\.\d+s", r"\1 _s", text)
    text = re.sub(r"total \d+s", "total _s", text)
    return re.sub(r"\s", "", re.sub(r"/\S*tmp\w+", "FOLDER", text))


def loader(mx, rows=20, batch=6, seed=0):
    """Points of three classes."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 3, rows)
    points = np.random.RandomState(9).randn(3, 4)[labels] + random.randn(rows, 4) * 0.5
    data = mx.gluon.data.ArrayDataset(points.astype("float32"), labels.astype("float32"))
    return mx.gluon.data.DataLoader(data, batch_size=batch)


def network(mx, hybridize=True):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(5, activation="tanh", in_units=4), nn.Dense(3, in_units=5))
    if hybridize:
        net.hybridize()
    return net


def drawn(mx, net):
    for i, param in enumerate(net.collect_params().values()):
        param.set_data(mx.nd.array(np.sin(np.arange(np.prod(param.shape)) * 0.9 + i).reshape(param.shape) * 0.5))
    return net


def estimator(mx, rate=0.1, momentum=0.9, context=None, net=None, **options):
    """An estimator of a network with fixed parameters, and the lines of its log."""
    net = net or network(mx)
    net.initialize(ctx=context or mx.cpu())
    drawn(mx, net)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "momentum": momentum})
    loss = options.pop("loss", None) or mx.gluon.loss.SoftmaxCrossEntropyLoss()
    made = mx.gluon.contrib.estimator.Estimator(net, loss, trainer=trainer, context=context, **options)
    return made, watched(made)


def watched(made):
    lines = Lines()
    made.logger.handlers = [lines]
    return lines.found


def state(made):
    """The metrics and the parameters of an estimator."""
    metrics = {m.name: numbers_of(m.get()[1]) for m in made.train_metrics + made.val_metrics}
    return {"metrics": metrics, "parameters": [numbers(p.list_data()[0]) for p in made.net.collect_params().values()]}


def numbers_of(value):
    return {"shape": [1], "values": [float(value)]} if value == value else "nan"


def metric(made, name):
    return next(m for m in made.train_metrics + made.val_metrics if m.name == name)


def caught(function):
    """The result of a function, and the warnings of its call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function()
    texts = [str(w.message) for w in found if issubclass(w.category, (UserWarning, RuntimeWarning))]
    return result, [squeezed(text) for text in texts]


@program
def epochs(mx):
    made, log = estimator(mx)
    made.fit(loader(mx), epochs=3)
    return {"log": log, **state(made)}


@program
def batches_with_validation(mx):
    handlers = mx.gluon.contrib.estimator
    made, log = estimator(mx)
    logs = handlers.LoggingHandler(log_interval=2, metrics=made.train_metrics)
    made.fit(loader(mx), val_data=loader(mx, 10, seed=1), batches=7, event_handlers=[logs])
    checked = handlers.ValidationHandler(loader(mx, 10, seed=1), made.evaluate, epoch_period=None, batch_period=3)
    made.fit(loader(mx), epochs=2, event_handlers=checked)
    return {"log": log, **state(made)}


@program
def contexts(mx):
    made, log = estimator(mx, context=[mx.cpu(0), mx.cpu(1)])
    made.fit(loader(mx), val_data=loader(mx, 12, seed=1), epochs=2)
    return {"log": log, **state(made)}


@program
def metrics(mx):
    """Metrics of the user, composites, and another network and loss for the validation."""
    given = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.TopKAccuracy(2)])
    made, log = estimator(
        mx,
        train_metrics=given,
        val_metrics=[mx.metric.Loss("mine"), mx.metric.CrossEntropy()],
        val_loss=mx.gluon.loss.L2Loss(),
        val_net=mx.gluon.nn.HybridLambda(lambda F, x: F.softmax(F.slice_axis(x, axis=1, begin=0, end=3))),
        loss=mx.gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=True, prefix="named12"),
    )
    names = [m.name for m in made.train_metrics + made.val_metrics]
    made.val_loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    made.fit(loader(mx), val_data=loader(mx, 10, seed=1), epochs=1)
    plain, _ = estimator(mx, loss=mx.gluon.loss.L2Loss(prefix="squares7_"))
    return {
        "names": names,
        "log": log,
        "plain": [m.name for m in plain.train_metrics + plain.val_metrics],
        **state(made),
    }


def recorder(mx):
    """A handler of all events that records them, and stops where it is asked to."""
    parts = mx.gluon.contrib.estimator

    class Recorder(
        parts.TrainBegin, parts.TrainEnd, parts.EpochBegin, parts.EpochEnd, parts.BatchBegin, parts.BatchEnd
    ):
        def __init__(self, found, name, priority=0, batches=99, epochs=99):
            self.found, self.name, self.priority = found, name, priority
            self.batches, self.epochs = batches, epochs

        def train_begin(self, estimator, *args, **kwargs):
            self.found.append(f"{self.name} train begin {sorted(kwargs)}")

        def train_end(self, estimator, *args, **kwargs):
            self.found.append(f"{self.name} train end {sorted(kwargs)}")

        def epoch_begin(self, estimator, *args, **kwargs):
            self.found.append(f"{self.name} epoch begin {sorted(kwargs)}")

        def epoch_end(self, estimator, *args, **kwargs):
            self.epochs -= 1
            self.found.append(f"{self.name} epoch end {sorted(kwargs)}")
            return self.epochs == 0

        def batch_begin(self, estimator, *args, **kwargs):
            self.found.append(f"{self.name} batch begin {[x.shape for x in kwargs['batch']]}")

        def batch_end(self, estimator, *args, **kwargs):
            self.batches -= 1
            shapes = [kwargs["pred"][0].shape, kwargs["label"][0].shape, kwargs["loss"][0].shape]
            self.found.append(f"{self.name} batch end {sorted(kwargs)} {shapes}")
            return self.batches == 0

    return Recorder


@program
def events(mx):
    kind, found = recorder(mx), []
    made, _ = estimator(mx)
    made.fit(loader(mx, 8, 4), epochs=2, event_handlers=[kind(found, "late", 5), kind(found, "early", -5000)])
    made.fit(loader(mx, 12, 4), epochs=2, event_handlers=kind(found, "batch", batches=2))
    made.fit(loader(mx, 4, 4), epochs=5, event_handlers=kind(found, "epoch", epochs=2))
    made.evaluate(loader(mx, 8, 4), event_handlers=[kind(found, "evaluated", 0)])
    return found


@program
def own_batches(mx):
    """A batch processor of the user, and a handler of updates of the user."""
    parts = mx.gluon.contrib.estimator

    class Doubled(parts.BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
            with mx.autograd.record():
                pred = [estimator.net(x * 2) for x in data]
                loss = [estimator.loss(p, y) for p, y in zip(pred, label)]  # noqa: B905
            mx.autograd.backward(loss)
            return data, label, pred, loss

    class Every(parts.GradientUpdateHandler):
        def batch_end(self, estimator, *args, **kwargs):
            estimator.trainer.step(3)

    made, log = estimator(mx, batch_processor=Doubled())
    made.fit(loader(mx), epochs=1, event_handlers=[Every()])
    return {"log": log, **state(made)}


def files(folder):
    return sorted(os.listdir(folder))


@program
def checkpoints(mx):
    parts, found = mx.gluon.contrib.estimator, {}
    with tempfile.TemporaryDirectory() as folder:
        made, log = estimator(mx)
        loss = metric(made, "training softmaxcrossentropyloss")
        saved = parts.CheckpointHandler(folder, "m", loss, verbose=1, save_best=True, mode="min", max_checkpoints=2)
        made.fit(loader(mx), epochs=4, event_handlers=[saved])
        found["epochs"] = [files(folder), log]
    with tempfile.TemporaryDirectory() as folder:
        made, log = estimator(mx, net=network(mx, False))
        saved = parts.CheckpointHandler(folder + "/new/sub", epoch_period=None, batch_period=3, verbose=1)
        made.fit(loader(mx), batches=10, event_handlers=saved)
        found["batches"] = [files(folder + "/new/sub"), log]
    found["epochs"][1] = [line for line in found["epochs"][1] if "improvedfrom" not in line]
    return found


@program
def resumed(mx):
    """Trainings that go on from the last checkpoint; the second estimator starts with other parameters."""
    parts, found = mx.gluon.contrib.estimator, {}
    for name, options, lengths in [
        ("epochs", {}, ({"epochs": 2}, {"epochs": 5}, {"epochs": 5})),
        ("batches", {"epoch_period": None, "batch_period": 2}, ({"batches": 4}, {"batches": 9}, {"batches": 8})),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            for i, length in enumerate(lengths):
                made, log = estimator(mx, rate=0.1 if i == 0 else 7.0)
                saved = parts.CheckpointHandler(folder, resume_from_checkpoint=True, verbose=1, **options)
                try:
                    made.fit(loader(mx), event_handlers=[saved], **length)
                    failed = ""
                except ValueError as error:
                    failed = squeezed(str(error))
                found[f"{name}{i}"] = [failed, files(folder), log, state(made)["parameters"]]
    return found


@program
def early_stopping(mx):
    parts, found = mx.gluon.contrib.estimator, {}
    for name, options in {
        "min": {"mode": "min"},
        "max": {"mode": "max", "patience": 2},
        "delta": {"mode": "min", "min_delta": 0.2, "patience": 1},
        "baseline": {"mode": "min", "baseline": 0.1, "patience": 2},
        "auto": {},
        "word": {"mode": "best"},
    }.items():
        made, log = estimator(mx)
        monitor = metric(made, "training softmaxcrossentropyloss")
        handler, warned = caught(lambda m=monitor, o=options: parts.EarlyStoppingHandler(m, **o))
        made.fit(loader(mx), epochs=6, event_handlers=[handler])
        found[name] = [log, handler.stopped_epoch, handler.stop_training, handler.current_epoch, warned]
    return found


@program
def default_trainer(mx):
    """What is chosen where nothing is given, with MXNet's warnings."""
    estimate = mx.gluon.contrib.estimator.Estimator
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    made, warned = caught(lambda: estimate(network(mx), loss))
    found = [[str(c) for c in made.context], type(made.trainer.optimizer).__name__, made.trainer.learning_rate, warned]
    net = network(mx)
    made, warned = caught(lambda: estimate(net, loss, initializer=mx.init.One()))
    found += [numbers(net[0].weight.data()), warned]
    made, warned = caught(lambda: estimate(net, loss, initializer=mx.init.Zero(), trainer=made.trainer))
    return [*found, numbers(net[0].weight.data()), warned]


def failure(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        text = re.sub(r" at 0x\w+|<[\w.]+>|mx\w+", "", str(error))
        return [type(error).__name__, squeezed(text)]
    return ["none"]


@program
def mistakes(mx):
    parts, gluon = mx.gluon.contrib.estimator, mx.gluon
    made, _ = estimator(mx)
    data, loss, estimate = loader(mx), gluon.loss.L2Loss(), parts.Estimator
    net, unknown = made.net, mx.metric.Accuracy()
    monitor = metric(made, "training accuracy")
    calls = [
        lambda: estimate(net, "loss"),
        lambda: estimate(net, loss, train_metrics=[1]),
        lambda: estimate(net, loss, trainer="sgd"),
        lambda: estimate(net, loss, trainer=made.trainer, context="cpu"),
        lambda: estimate(net, loss, trainer=made.trainer, context=[mx.cpu(), 1]),
        lambda: estimate(net, loss, trainer=made.trainer, context=mx.gpu(3)),
        lambda: estimate(net, loss, trainer=made.trainer, batch_processor=object()),
        lambda: estimate(net, loss, trainer=made.trainer, val_loss=1),
        lambda: made.fit([1], epochs=1),
        lambda: made.fit(data),
        lambda: made.fit(data, epochs=1, batches=1),
        lambda: made.fit(data, epochs=1, event_handlers=[1]),
        lambda: made.fit(data, epochs=1, event_handlers=parts.MetricHandler(metrics=unknown)),
        lambda: made.evaluate(None),
        lambda: made.evaluate(data, event_handlers=parts.MetricHandler(metrics=made.train_metrics)),
        lambda: parts.LoggingHandler(log_interval="batch"),
        lambda: parts.LoggingHandler(metrics=["accuracy"]),
        lambda: parts.EarlyStoppingHandler("accuracy"),
        lambda: parts.EarlyStoppingHandler(mx.metric.CompositeEvalMetric(["acc"])),
        lambda: parts.CheckpointHandler(tempfile.gettempdir(), save_best=True),
        lambda: made.fit(
            data, batches=2, event_handlers=parts.CheckpointHandler(tempfile.gettempdir(), resume_from_checkpoint=True)
        ),
    ]
    found = [failure(call) for call in calls]
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "model-epochXbatch3.params"), "w").close()
        saved = parts.CheckpointHandler(folder, monitor=monitor, resume_from_checkpoint=True)
        found.append(failure(made.fit, data, epochs=2, event_handlers=saved))
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "model-epoch0batch3.params"), "w").close()
        saved = parts.CheckpointHandler(folder, resume_from_checkpoint=True)
        found.append(failure(made.fit, data, epochs=2, event_handlers=saved))
    return found
