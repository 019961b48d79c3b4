"""Programs on mx.metric and mx.callback; see make_programs.py."""

import json
import logging
import pathlib
import re
import tempfile
from collections import namedtuple

import numpy as np
from program import failure, gather

PROGRAMS, program = gather()

Param = namedtuple("Param", ["epoch", "nbatch", "eval_metric", "locals"])


def plain(value):
    """A value that JSON can hold; NaN as text, numbers rounded to what float32 sums agree in."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value)
    return "nan" if np.isnan(number) else float(f"{number:.5g}")


def batches(mx, classes, count=3):
    """Lists of labels (n) and of probabilities (n, classes)."""
    draws = np.random.RandomState(7)
    for _ in range(count):
        scores = draws.rand(12, classes).astype("float32")
        labels = draws.randint(0, classes, 12).astype("float32")
        yield [mx.nd.array(labels)], [mx.nd.array(scores / scores.sum(1, keepdims=True))]


def values(mx, count=3):
    draws = np.random.RandomState(3)
    for _ in range(count):
        one = draws.randn(8, 3).astype("float32")
        yield [mx.nd.array(one)], [mx.nd.array(one * 0.5 + draws.randn(8, 3) * 0.3)]


def followed(metric, fed):
    """All that a metric says, after each batch, and after its local and full resets."""
    found = []
    for number, (labels, preds) in enumerate(fed):
        metric.update(labels, preds)
        found.append([metric.get(), metric.get_global(), metric.get_name_value(), metric.get_global_name_value()])
        if number == 1:
            metric.reset_local()
            found.append([metric.get(), metric.get_global(), metric.num_inst, metric.global_num_inst])
    found.append(str(metric)[:14])
    metric.reset()
    found.append([metric.get(), metric.get_global()])
    return plain(found)


@program
def of_classes(mx):
    made = ["acc", "accuracy", "ce", "cross-entropy", "nll_loss", "pcc"]
    metrics = [mx.metric.create(name) for name in made if name != "cross-entropy"]
    metrics += [mx.metric.create("top_k_accuracy", top_k=3), mx.metric.TopKAccuracy(2), mx.metric.Accuracy(axis=-1)]
    metrics += [mx.metric.Perplexity(None), mx.metric.Perplexity(ignore_label=2, axis=1)]
    metrics += [mx.metric.CrossEntropy(eps=1e-3, name="mine"), mx.metric.NegativeLogLikelihood(1e-2)]
    return {f"{i} {m.name}": followed(m, batches(mx, 5)) for i, m in enumerate(metrics)}


@program
def of_two_classes(mx):
    found = {}
    for average in ("macro", "micro"):
        for name in ("f1", "mcc"):
            found[name + average] = followed(mx.metric.create(name, average=average), batches(mx, 2))
    empty = mx.metric.MCC()
    empty.update([mx.nd.zeros((3,))], [mx.nd.array([[0.9, 0.1]] * 3)])
    return [found, plain(empty.get())]


@program
def of_values(mx):
    metrics = [mx.metric.create(name) for name in ("mae", "mse", "rmse", "pearsonr", "pearsoncorrelation")]
    metrics.append(mx.metric.PearsonCorrelation(average="micro"))
    found = [followed(m, values(mx)) for m in metrics[:-1]]
    micro = metrics[-1]
    for labels, preds in values(mx):
        micro.update(labels, preds)
        found.append(plain(micro.get()))
    flat = [[mx.nd.array([1.0, 2, 4])], [mx.nd.array([1.5, 2, 2])]]
    for metric in (mx.metric.MAE(), mx.metric.MSE(), mx.metric.RMSE()):
        metric.update(*flat)
        found.append(plain(metric.get()))
    return found


@program
def of_losses(mx):
    metrics = [mx.metric.Loss(), mx.metric.Torch(), mx.metric.Caffe()]
    for metric in metrics:
        metric.update(None, [mx.nd.array([1, 2, 4]), mx.nd.array([[5, 7]])])
        metric.update(None, mx.nd.array([3]))
    return [plain(m.get()) for m in metrics]


@program
def of_functions(mx):
    def error(label, pred):
        return float(np.abs(label - pred).sum()), label.size

    def mean(label, pred):
        return float(np.abs(label - pred).mean())

    metrics = [
        mx.metric.create(error),
        mx.metric.np(mean),
        mx.metric.np(lambda x, y: 1.0),
        mx.metric.CustomMetric(mean, "m"),
    ]
    more = mx.metric.np(mean, allow_extra_outputs=True)
    more.update([mx.nd.ones((2,))], [mx.nd.zeros((2,)), mx.nd.zeros((3,))])
    strict = mx.metric.np(mean)
    failures = [
        failure(lambda: strict.update([mx.nd.ones((2,))], [mx.nd.zeros((2,)), mx.nd.zeros((3,))])),
        failure(strict.get_config),
    ]
    return [[m.name, followed(m, values(mx))] for m in metrics] + [plain(more.get()), failures]


@program
def composed(mx):
    both = mx.metric.create(["acc", "ce", mx.metric.TopKAccuracy(2)])
    nested = mx.metric.CompositeEvalMetric([both, "mae"], name="all")
    for labels, preds in batches(mx, 5):
        both.update(labels, preds)
    found = [plain(both.get()), plain(both.get_name_value()), plain(both.get_global()), both.name]
    found += [type(both.get_metric(1)).__name__, type(both.get_metric(9)).__name__, plain(nested.get())]
    both.reset_local()
    found += [plain(both.get()), plain(both.get_global())]
    named = mx.metric.CompositeEvalMetric(["acc"], output_names=["out"], label_names=["l"])
    labels, preds = next(batches(mx, 5))
    named.update_dict({"l": labels[0], "other": preds[0]}, {"out": preds[0], "extra": labels[0]})
    one = mx.metric.Accuracy(output_names=["out"], label_names=["l"])
    one.update_dict({"l": labels[0], "other": preds[0]}, {"out": preds[0], "extra": labels[0]})
    every = mx.metric.Accuracy()
    every.update_dict({"l": labels[0]}, {"out": preds[0]})
    return found + [plain(m.get()) for m in (named, one, every)] + [both.get_config(), one.get_config()]


@program
def made_by_name(mx):
    config = mx.metric.TopKAccuracy(4, name="best").get_config()
    found = [mx.metric.create(name).name for name in ("ACC", "rmse")]
    found += [mx.metric.create("topkaccuracy", top_k=2).name, mx.metric.create('["acc", {"axis": 0}]').axis]
    found += [mx.metric.create("acc", name="other").name, json.dumps(config, sort_keys=True)]

    @mx.metric.register
    @mx.metric.alias("second_name")
    class Counted(mx.metric.EvalMetric):
        def __init__(self, name="counted", **kwargs):
            super().__init__(name, **kwargs)

        def update(self, labels, preds):
            self.num_inst += 1
            self.sum_metric += 2

    own = mx.metric.create("second_name", start=3)
    own.update(None, None)
    found += [plain(own.get()), plain(own.get_global()), own.get_config(), type(mx.metric.create("counted")).__name__]
    found += [plain(own.get_global_name_value()), str(own)]
    failures = [
        failure(lambda: mx.metric.create("nonsense")),
        failure(lambda: mx.metric.create(3)),
        failure(mx.metric.TopKAccuracy),
        failure(lambda: mx.metric.EvalMetric("m").update(None, None)),
        failure(lambda: mx.metric.create("acc").update([mx.nd.ones((3,))], [])),
        failure(lambda: mx.metric.create("acc").update([mx.nd.ones((3,))], [mx.nd.ones((2, 4))])),
        failure(lambda: mx.metric.create("f1").update([mx.nd.array([0, 1, 2])], [mx.nd.ones((3, 2))])),
        failure(lambda: mx.metric.create("mse").update([mx.nd.ones((3,))], [mx.nd.ones((2, 4))])),
        failure(lambda: mx.metric.create("ce").update([mx.nd.ones((3,))], [mx.nd.ones((2, 4))])),
        failure(lambda: mx.metric.Perplexity(None).update([mx.nd.ones((3,))], [mx.nd.ones((2, 4))])),
        failure(lambda: mx.metric.create(mx.metric.MAE(), name="x")),
        failure(lambda: mx.metric.create("pearsonr").update([mx.nd.ones((3,))], [mx.nd.ones((2, 4))])),
        failure(lambda: mx.metric.check_label_shapes([1], [1, 2])),
    ]
    return [*found, failures]


class Kept(logging.Handler):
    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        self.lines.append(re.sub(r"(?<=\.\d{4})\d+|[\d.]+(?= samples)", "", record.getMessage()))


def logged(run):
    """What `run` logs."""
    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        run()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return handler.lines


@program
def callbacks(mx):
    labels, preds = next(batches(mx, 5))

    def run():
        callbacks = [mx.callback.Speedometer(4, 2), mx.callback.Speedometer(4, 2, auto_reset=False)]
        callbacks += [mx.callback.log_train_metric(2, auto_reset=True), mx.callback.ProgressBar(5, length=10)]
        callbacks.append(mx.callback.LogValidationMetricsCallback())
        for callback in callbacks:
            metric = mx.metric.create(["acc", "ce"])
            for epoch in range(2):
                for nbatch in range(5):
                    metric.update(labels, preds)
                    callback(Param(epoch, nbatch, metric, None))
            callback(Param(0, 2, None, None))

    return logged(run)


@program
def checkpoint_callbacks(mx):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(mx.init.One())
    with tempfile.TemporaryDirectory() as folder:
        first = mx.callback.do_checkpoint(folder + "/a", period=2)
        second = mx.callback.module_checkpoint(module, folder + "/b", period=0)
        for epoch in range(4):
            first(epoch, net, *module.get_params())
            second(epoch)
        return sorted(path.name for path in pathlib.Path(folder).iterdir())
