"""Programs that train modules of every kind, step by step and by `fit`: buckets, chains, Python code, SVRG."""

import os
import tempfile

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def examples(count=24, classes=3, width=4):
    random = np.random.RandomState(0)
    centres = random.randn(classes, width)
    labels = random.randint(0, classes, count)
    return (centres[labels] + random.randn(count, width) * 0.4).astype("float32"), labels.astype("float32")


def ramps(mx, named):
    """Values of arrays by the order of their names."""
    return {name: ramp(mx, *named[name].shape) * (1 + 0.1 * i) for i, name in enumerate(sorted(named))}


def set_values(mx, module):
    arguments, states = module.get_params()
    module.set_params(ramps(mx, arguments), {name: ramps(mx, states)[name] + 1.5 for name in states})


def shown(*groups):
    return [numbers(value) for named in groups for _, value in sorted(named.items())]


def classifier(mx, name="softmax"):
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="f1")
    x = mx.sym.BatchNorm(mx.sym.Activation(x, act_type="tanh"), fix_gamma=False, name="b1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="f2"), name=name)


def train(mx, module, batches, steps, **optimizer):
    """Run steps of training on a bound module. Returns outputs of each, and the parameters."""
    module.init_optimizer(**{"optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}, **optimizer})
    found = []
    for _ in range(steps):
        for batch in batches:
            module.forward_backward(batch)
            module.update()
            found.append(numbers(module.get_outputs()[0]))
    return [*found, *shown(*module.get_params())]


# -- buckets


def bucket_of(mx, key):
    embedded = mx.sym.Embedding(mx.sym.var("data"), input_dim=11, output_dim=3, name="embed")
    x = mx.sym.FullyConnected(embedded, num_hidden=4, flatten=False, name="fc")
    return mx.sym.SoftmaxOutput(mx.sym.sum(mx.sym.tanh(x), axis=1), name="softmax"), ("data",), ("softmax_label",)


def bucket_batch(mx, key, size=4):
    return mx.io.DataBatch(
        [mx.nd.array((np.arange(size * key) * 7).reshape(size, key) % 11)],
        [mx.nd.array(np.arange(size) % 4)],
        pad=0,
        bucket_key=key,
        provide_data=[mx.io.DataDesc("data", (size, key))],
        provide_label=[mx.io.DataDesc("softmax_label", (size,))],
    )


class Buckets:
    """An iterator over batches of several lengths."""

    def __init__(self, mx, keys):
        self.batches = [bucket_batch(mx, key) for key in keys]
        self.default_bucket_key, self.batch_size = max(keys), 4
        self.provide_data, self.provide_label = [("data", (4, max(keys)))], [("softmax_label", (4,))]
        self.resets = 0

    def __iter__(self):
        return iter(self.batches)

    def reset(self):
        self.resets += 1


def bucketing(mx, contexts=1, **options):
    context = [mx.cpu(i) for i in range(contexts)]
    return mx.mod.BucketingModule(lambda key: bucket_of(mx, key), default_bucket_key=6, context=context, **options)


@program
def bucketing_steps(mx):
    found = []
    for contexts, kvstore in ((1, "local"), (2, "local"), (2, "device")):
        module = bucketing(mx, contexts, fixed_param_names=["fc_bias"])
        module.bind([("data", (4, 6))], [("softmax_label", (4,))], inputs_need_grad=False)
        module.init_params(mx.init.One())
        set_values(mx, module)
        found += train(mx, module, [bucket_batch(mx, key) for key in (6, 3, 5)], 2, kvstore=kvstore)
        found.append([module._curr_bucket_key, sorted(module._buckets)])
    return found


@program
def bucketing_fit(mx):
    module, batches, seen = bucketing(mx), Buckets(mx, (6, 3, 6, 2)), []
    arguments = {"embed_weight": ramp(mx, 11, 3), "fc_weight": ramp(mx, 4, 3) * 0.5, "fc_bias": ramp(mx, 4) * 0.1}
    monitor = mx.mon.Monitor(1, stat_func=lambda a: seen.append(a.size) or a, pattern=".*fc.*")
    module.fit(
        batches,
        eval_metric=mx.metric.CrossEntropy(),
        num_epoch=2,
        arg_params=arguments,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.05},
        monitor=monitor,
        batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch]),
    )
    score = round(module.score(batches, "ce")[0][1], 4)
    return [*shown(*module.get_params()), score, batches.resets, [s for s in seen if isinstance(s, list)]]


@program
def bucketing_states(mx):
    """States that are set and read between batches, as in a truncated backpropagation."""

    def generate(key):
        state = mx.sym.var("state", shape=(2, 2))
        x = mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True)
        new = mx.sym.tanh(
            mx.sym.FullyConnected(x, num_hidden=2, name="i") + mx.sym.FullyConnected(state, num_hidden=2, name="h")
        )
        loss = mx.sym.SoftmaxOutput(new, name="softmax")
        return mx.sym.Group([loss, mx.sym.BlockGrad(new)]), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(generate, default_bucket_key=3, state_names=["state"])
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    set_values(mx, module)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.set_states(value=0)
    found = []
    for key in (3, 3, 2, 3):
        batch = mx.io.DataBatch(
            [ramp(mx, 2, key)],
            [mx.nd.array([0, 1])],
            bucket_key=key,
            provide_data=[("data", (2, key))],
            provide_label=[("softmax_label", (2,))],
        )
        module.forward(batch, is_train=True)
        states = module.get_outputs(merge_multi_context=False)[1:]
        module.backward()
        module.update()
        module.set_states(states=states)
        found += [numbers(module.get_outputs()[0]), [numbers(s[0]) for s in module.get_states(False)]]
    return [*found, *shown(*module.get_params()), failure(module.get_states)]


@program
def bucketing_gradients(mx):
    """Gradients by the data, given gradients of the outputs, added gradients, and iter_predict."""

    def generate(key):
        return mx.sym.FullyConnected(mx.sym.sum(mx.sym.var("data"), axis=1), num_hidden=2, name="f"), ("data",), None

    found = []
    for grad_req in ("write", "add"):
        module = mx.mod.BucketingModule(generate, default_bucket_key=4)
        module.bind([("data", (2, 4, 3))], inputs_need_grad=True, grad_req=grad_req)
        module.init_params(mx.init.One())
        set_values(mx, module)
        for key in (4, 2, 4):
            desc = [mx.io.DataDesc("data", (2, key, 3))]
            module.forward(mx.io.DataBatch([ramp(mx, 2, key, 3)], bucket_key=key, provide_data=desc))
            module.backward([ramp(mx, 2, 2)])
            found.append(numbers(module.get_input_grads()[0]))
            found += [numbers(g[0]) for g in module._curr_module._exec_group.grad_arrays]
    found += [failure(module.update), failure(module.get_input_grads, False)]
    return found


# -- chains and Python code


def loss_gradient(mx, scores, labels):
    """The gradient of softmax and cross entropy."""
    return mx.nd.softmax(scores) - mx.nd.one_hot(labels, scores.shape[1])


def chain(mx, contexts=1):
    context = [mx.cpu(i) for i in range(contexts)]
    first = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="a"), act_type="tanh")
    second = mx.sym.FullyConnected(
        mx.sym.BatchNorm(mx.sym.var("x"), fix_gamma=False, name="bn"), num_hidden=3, name="b"
    )
    return (
        mx.mod.SequentialModule()
        .add(mx.mod.Module(first, label_names=None, context=context))
        .add(mx.mod.Module(second, data_names=["x"], label_names=None, context=context), auto_wiring=True)
        .add(
            mx.mod.PythonLossModule(grad_func=lambda scores, labels: loss_gradient(mx, scores, labels)),
            take_labels=True,
            auto_wiring=True,
        )
    )


def chain_batch(mx):
    data, labels = examples(8)
    return mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(labels)], pad=0)


@program
def sequential_steps(mx):
    found = []
    for contexts in (1, 2):
        module = chain(mx, contexts)
        module.bind([("data", (8, 4))], [("softmax_label", (8,))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        set_values(mx, module)
        found += train(mx, module, [chain_batch(mx)], 3)
        found.append(numbers(module._modules[0].get_input_grads()[0]))  # its own method fails in MXNet
        metric = mx.metric.create("acc")
        module.update_metric(metric, chain_batch(mx).label)
        found.append(metric.get()[1])
    return found


@program
def sequential_fit(mx):
    data, labels = examples()
    module, seen = chain(mx), []
    monitor = mx.mon.Monitor(1, stat_func=lambda a: seen.append(a.size) or a)
    arguments = {"a_weight": ramp(mx, 5, 4), "a_bias": ramp(mx, 5), "bn_gamma": mx.nd.ones((5,))}
    arguments.update(bn_beta=mx.nd.zeros((5,)), b_weight=ramp(mx, 3, 5) * 0.3, b_bias=mx.nd.zeros((3,)))
    for monitored in (None, monitor):
        try:
            module.fit(
                mx.io.NDArrayIter(data, labels, 8),
                mx.io.NDArrayIter(data, labels, 8),
                num_epoch=2,
                initializer=mx.init.Xavier(),
                arg_params=arguments,
                allow_missing=True,
                monitor=monitored,
                optimizer_params={"learning_rate": 0.05},
                force_rebind=True,
                force_init=True,
            )
        except NotImplementedError:
            seen.append("NotImplementedError")
    return [*shown(module.get_params()[0]), [s for s in seen if isinstance(s, str)]]


class Squares:
    """Makes a PythonModule that squares its input."""

    def __new__(cls, mx):
        class Module(mx.mod.PythonModule):
            def _compute_output_shapes(self):
                return [("out", self._data_shapes[0][1])]

            def forward(self, data_batch, is_train=None):
                self.given = data_batch.data[0]

            def get_outputs(self, merge_multi_context=True):
                return [self.given * self.given]

            def backward(self, out_grads=None):
                self.grads = [2 * self.given * out_grads[0]]

            def get_input_grads(self, merge_multi_context=True):
                return self.grads

        return Module(["x"], None, ["out"])


@program
def python_modules(mx):
    first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="a"), label_names=None)
    module = mx.mod.SequentialModule().add(first).add(Squares(mx), auto_wiring=True)
    module.bind([("data", (3, 4))], inputs_need_grad=True)
    module.init_params(mx.init.One())
    set_values(mx, first)
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    found = []
    for _ in range(2):
        module.forward(mx.io.DataBatch([ramp(mx, 3, 4)]), is_train=True)
        module.backward([ramp(mx, 3, 2)])
        module.update()
        found += [numbers(module.get_outputs()[0]), numbers(first.get_input_grads()[0])]
    found += shown(first.get_params()[0])
    loss = mx.mod.PythonLossModule(name="l", grad_func=lambda scores, labels: scores.asnumpy() * 3)
    loss.bind([("data", (2, 2))], [("softmax_label", (2,))])
    loss.init_params()
    loss.init_optimizer()
    loss.forward(mx.io.DataBatch([ramp(mx, 2, 2)], [mx.nd.zeros((2,))]), is_train=True)
    loss.backward()
    loss.update()
    found += [numbers(loss.get_input_grads()[0]), loss.output_shapes[0][0], list(loss.output_shapes[0][1])]
    found += [failure(loss.backward, [1]), failure(loss.install_monitor, None), list(loss.get_params())]
    metric = mx.metric.create("acc")
    found += [failure(loss.update_metric, metric, [[mx.nd.zeros((2,))]], True)]
    loss.update_metric(metric, [mx.nd.zeros((2,))])
    return [*found, metric.get()[1], failure(mx.mod.PythonLossModule().backward)]


# -- Module


@program
def module_gradients(mx):
    """grad_req as a list and as a dictionary, gradients of outputs, batches of a list, and a step after a reshape."""
    names = ["data", "f_weight", "f_bias"]
    found = []
    for grad_req in ("add", ["null", "write", "add"], {"f_weight": "add", "f_bias": "write"}):
        net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
        module = mx.mod.Module(net, label_names=None)
        module.bind([("data", (4, 3))], grad_req=grad_req)
        module.init_params(mx.init.One())
        set_values(mx, module)
        for size in (4, 2, 4):
            module.forward(mx.io.DataBatch([ramp(mx, size, 3)]), is_train=True)
            module.backward([ramp(mx, size, 2)])
            grads = module._exec_group.execs[0].grad_dict
            found += [None if grads[n] is None else numbers(grads[n]) for n in names]
    return found


@program
def module_input_gradients(mx):
    found = []
    for contexts in (1, 2):
        net = mx.sym.broadcast_mul(mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=3, name="f"), mx.sym.var("b"))
        context = [mx.cpu(i) for i in range(contexts)]
        module = mx.mod.Module(net, ["a", "b"], None, context=context)
        module.bind([("a", (4, 2)), ("b", (4, 3))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        set_values(mx, module)
        module.forward(mx.io.DataBatch([ramp(mx, 4, 2), ramp(mx, 4, 3)]))
        module.backward([ramp(mx, 4, 3)])
        found += [numbers(g) for g in module.get_input_grads()]
        found += [[numbers(g) for g in parts] for parts in module.get_input_grads(merge_multi_context=False)]
        found += [numbers(g) for grads in module._exec_group.grad_arrays for g in grads]
    return found


@program
def module_monitor(mx):
    """A monitor in training sees what an executor computes, and the gradients that the module names."""
    module = mx.mod.Module(classifier(mx))
    module.bind([("data", (8, 4))], [("softmax_label", (8,))])
    module.init_params(mx.init.One())
    set_values(mx, module)
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    pattern = "f2.*|softmax_(output|label|backward_output0)|b1_moving.*"  # MXNet does not initialise a label's gradient
    monitor = mx.mon.Monitor(2, stat_func=lambda x: x.sum(), pattern=pattern, sort=True)
    module.install_monitor(monitor)
    found = []
    for _ in range(3):
        monitor.tic()
        module.forward_backward(chain_batch(mx))
        module.update()
        found.append([[step, name, round(float(text), 3)] for step, name, text in monitor.toc()])
    return [*found, *shown(*module.get_params())]


@program
def module_predictions_after_training(mx):
    data, labels = examples()
    module = mx.mod.Module(classifier(mx))
    module.bind([("data", (8, 4))], [("softmax_label", (8,))])
    module.init_params(mx.init.One())
    set_values(mx, module)
    found = train(mx, module, [chain_batch(mx)], 3)
    batches = mx.io.NDArrayIter(data[:20], labels[:20], 8)
    found += [numbers(outputs[0]) for outputs, _, _ in module.iter_predict(batches)]
    return [*found, numbers(module.predict(batches)), round(module.score(batches, "ce")[0][1], 4)]


@program
def module_rebound(mx):
    """Bound for training, then for prediction on other shapes, and again for training."""
    module = mx.mod.Module(classifier(mx))
    module.bind([("data", (8, 4))], [("softmax_label", (8,))])
    module.init_params(mx.init.One())
    set_values(mx, module)
    found = train(mx, module, [chain_batch(mx)], 2)
    module.bind([("data", (3, 4))], for_training=False, force_rebind=True)
    module.forward(mx.io.DataBatch([ramp(mx, 3, 4)]))
    found += [numbers(module.get_outputs()[0]), failure(module.backward)]
    module.bind([("data", (8, 4))], [("softmax_label", (8,))], force_rebind=True)
    return found + train(mx, module, [chain_batch(mx)], 2)


# -- SVRG


def svrg(mx, **options):
    from importlib import import_module

    return import_module(mx.__name__ + ".contrib.svrg_optimization.svrg_module").SVRGModule(classifier(mx), **options)


def svrg_fit(mx, contexts, update_freq, optimizer="sgd", **options):
    data, labels = examples(22)
    module = svrg(mx, context=[mx.cpu(i) for i in range(contexts)], update_freq=update_freq)
    symbol = classifier(mx)
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=(8, 4))[0]))  # noqa: B905 (MXNet runs on Python 3.9)
    values = {n: mx.nd.zeros(s) for n, s in shapes.items() if n not in ("data", "softmax_label")}
    seen = []
    module.fit(
        mx.io.NDArrayIter(data, labels, 8),
        mx.io.NDArrayIter(data, labels, 8),
        eval_metric="ce",
        num_epoch=3,
        arg_params=ramps(mx, values),
        optimizer=optimizer,
        optimizer_params={"learning_rate": 0.1, **options},
        batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch, round(p.eval_metric.get()[1], 4)]),
    )
    return [*shown(*module.get_params()), seen, *shown(*module._param_dict)]


@program
def svrg_training(mx):
    found = svrg_fit(mx, 1, 1) + svrg_fit(mx, 1, 2, momentum=0.9, wd=0.01) + svrg_fit(mx, 1, 1, "adam")
    os.environ["MXNET_UPDATE_ON_KVSTORE"] = "0"
    try:
        return found + svrg_fit(mx, 2, 2)
    finally:
        del os.environ["MXNET_UPDATE_ON_KVSTORE"]


@program
def svrg_steps(mx):
    """Bound and run by hand, on other shapes, and saved."""
    data, labels = examples(16)
    batches = mx.io.NDArrayIter(data, labels, 8)
    module = svrg(mx, update_freq=3)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    set_values(mx, module)
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    module.update_full_grads(batches)
    batches.reset()
    for batch in batches:
        module.forward_backward(batch)
        module.update()
    found = shown(*module.get_params(), *module._param_dict)
    module.reshape([("data", (2, 4))], [("softmax_label", (2,))])
    module.forward(mx.io.DataBatch([ramp(mx, 2, 4)], [mx.nd.zeros((2,))]), is_train=True)
    module.backward()
    module.update()
    found += [numbers(module.get_outputs()[0]), *shown(*module.get_params())]
    with tempfile.TemporaryDirectory() as folder:
        module.save_checkpoint(folder + "/m", 1, True)
        again = mx.mod.Module.load(folder + "/m", 1)
        again.bind([("data", (2, 4))], for_training=False)
        again.forward(mx.io.DataBatch([ramp(mx, 2, 4)]))
        found.append(numbers(again.get_outputs()[0]))
    for wrong in (None, 0, -1, 1.5):
        found.append(failure(lambda wrong=wrong: svrg(mx, update_freq=wrong)))
    return found


# -- executors


@program
def executor_gradients(mx):
    """Gradients of several outputs: in a list, in a dictionary, one array; requests as a list and a dictionary."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    net = mx.sym.Group([mx.sym.broadcast_mul(a, b, name="p"), mx.sym.sin(a, name="s")])
    found = []
    for grad_req in ("write", "add", ["write", "null"], {"b": "add"}):
        bound = net.simple_bind(mx.cpu(), grad_req=grad_req, a=(2, 3), b=(2, 3))
        bound.arg_dict["a"][:], bound.arg_dict["b"][:] = ramp(mx, 2, 3), ramp(mx, 2, 3) + 1
        for given in ([ramp(mx, 2, 3), mx.nd.ones((2, 3))], [ramp(mx, 2, 3)] * 2):
            bound.forward(is_train=True)
            bound.backward(given)
            found += [None if g is None else numbers(g) for g in bound.grad_arrays]
    single = mx.sym.sin(a).bind(mx.cpu(), [ramp(mx, 3)], [mx.nd.zeros((3,))])
    for given in (ramp(mx, 3), [ramp(mx, 3) * 2]):
        single.forward(is_train=True)
        single.backward(given)
        found.append(numbers(single.grad_arrays[0]))
    bound = net.simple_bind(mx.cpu(), a=(2, 3), b=(2, 3))
    bound.forward(is_train=True)
    bound.backward({"p_output": mx.nd.ones((2, 3)), "s_output": mx.nd.ones((2, 3))})
    return [*found, *[numbers(g) for g in bound.grad_arrays]]


@program
def executor_reshaped(mx):
    """Executors on the memory of another, in training: smaller, partial, larger."""
    bound = classifier(mx).simple_bind(mx.cpu(), data=(6, 4))
    for name, value in ramps(mx, {n: a for n, a in bound.arg_dict.items() if "data" not in n}).items():
        bound.arg_dict[name][:] = value
    found = []

    def step(executor, rows, width=4):
        label = mx.nd.array(np.arange(rows) % 3)
        executor.forward(is_train=True, data=ramp(mx, rows, width), softmax_label=label)
        executor.backward()
        for name in ("f1_weight", "f2_bias", "b1_gamma"):
            executor.arg_dict[name][:] -= 0.1 * executor.grad_dict[name]
            found.append(numbers(executor.grad_dict[name]))
        found.append(numbers(executor.outputs[0]))

    step(bound, 6)
    step(bound.reshape(data=(2, 4), softmax_label=(2,)), 2)
    step(bound.reshape(allow_up_sizing=True, data=(9, 4), softmax_label=(9,)), 9)
    step(bound.reshape(partial_shaping=True, data=(6, 3)), 6, 3)
    larger = bound.reshape(partial_shaping=True, allow_up_sizing=True, data=(7, 5))
    larger.arg_dict["f1_weight"][:] = ramp(mx, 5, 5)  # a new array, which MXNet does not initialise
    step(larger, 7, 5)
    step(bound, 6)
    found += shown(bound.arg_dict, bound.aux_dict)
    found += [
        failure(bound.reshape, data=(9, 4)),
        failure(bound.reshape, data=(6, 3)),
        failure(bound.reshape, data=(6,)),
    ]
    return found


PATTERN = "f.*_backward_input0|(f.|b1|activation.*)_backward_output.*|f.*_data|softmax_(backward_output0|output)"


@program
def executor_monitor(mx):
    """A monitor of all operands in training. Of a gradient's operands only the first ones are compared."""
    bound = classifier(mx).simple_bind(mx.cpu(), data=(6, 4))
    for name, value in ramps(mx, {n: a for n, a in bound.arg_dict.items() if "data" not in n}).items():
        bound.arg_dict[name][:] = value
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x.sum(), pattern=PATTERN, sort=True, monitor_all=True)
    monitor.install(bound)
    monitor.tic()
    bound.forward(is_train=True, data=ramp(mx, 6, 4), softmax_label=mx.nd.array(np.arange(6) % 3))
    bound.backward()
    listed = [[name, round(float(text), 3)] for _, name, text in monitor.toc()]
    return [listed, *shown({n: g for n, g in bound.grad_dict.items() if "data" not in n and "label" not in n})]
