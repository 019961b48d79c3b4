"""Programs about executors and what is built on them: sharing, monitors, data parallelism, drawings."""

import contextlib
import io
import sys
import types

from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def network(mx):
    data = mx.sym.var("data")
    y = mx.sym.BatchNorm(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="bn")
    parts = mx.sym.split(y, num_outputs=3, name="parts")
    return mx.sym.Group([mx.sym.tanh(parts[0] + parts[1], name="t"), parts[2], data])


def bound(mx, rows=2, **options):
    executor = network(mx).simple_bind(mx.cpu(), data=(rows, 4), **options)
    for array in (*executor.arg_arrays, *executor.aux_arrays):
        array[:] = ramp(mx, *array.shape)
    return executor


@program
def a_monitor_sees_what_operators_give_and_take(mx):
    found = {}
    for monitor_all in (False, True):
        executor, names = bound(mx), []
        executor.set_monitor_callback(lambda name, array, names=names: names.append(name.decode()), monitor_all)
        outputs = executor.forward()
        found[str(monitor_all)] = [n for n in names if not n.startswith("t_in") and n != "t_data"]
        found[f"outputs {monitor_all}"] = [numbers(o) for o in outputs]
    return found


@program
def statistics_of_a_monitor(mx):
    executor = bound(mx)
    monitor = mx.mon.Monitor(2, pattern=".*fc.*|t_output", sort=True)
    monitor.install(executor)
    found = []
    for _ in range(3):
        monitor.tic()
        executor.forward()
        found.append([(step, name, round(float(text), 4)) for step, name, text in monitor.toc()])
    return found


@program
def names_of_an_executor(mx):
    executor = bound(mx)
    return [list(d) for d in (executor.arg_dict, executor.grad_dict, executor.aux_dict, executor.output_dict)]


@program
def gradients_that_are_asked_for(mx):
    found = {}
    for request in ("write", "add", "null", ["null"] * 4 + ["write"], {"fc_weight": "write"}):
        grads = network(mx).simple_bind(mx.cpu(), grad_req=request, data=(2, 4)).grad_arrays
        found[str(request)] = [None if g is None else numbers(g) for g in grads]
    return found


@program
def executors_that_share_memory(mx):
    buffer, names, found = {}, ["fc_weight", "fc_bias"], []
    first = bound(mx, 5, shared_buffer=buffer, shared_arg_names=names)
    for rows in (2, 9, 3):
        other = network(mx).simple_bind(
            mx.cpu(), data=(rows, 4), shared_buffer=buffer, shared_arg_names=names, shared_exec=first
        )
        arrays = (*other.arg_arrays, *other.aux_arrays)
        found.append([numbers(a) for a in arrays if a.shape != (9, 4)])
        found.append({name: list(buffer[name].shape) for name in sorted(buffer)})
    return found


@program
def without_a_buffer_nothing_is_shared(mx):
    first = bound(mx)
    other = network(mx).simple_bind(mx.cpu(), data=(2, 4), shared_exec=first, shared_arg_names=["fc_weight"])
    return [numbers(a) for a in (*other.arg_arrays, *other.aux_arrays)]


@program
def what_executors_refuse(mx):
    executor = bound(mx)
    return [
        failure(lambda: executor.copy_params_from({"other": mx.nd.ones((2,))})),
        failure(lambda: executor.copy_params_from({}, {"other": mx.nd.ones((2,))})),
        failure(lambda: executor.copy_params_from({"other": mx.nd.ones((2,))}, allow_extra_params=True)),
        failure(lambda: executor.forward(data=mx.nd.ones((3, 3)))),
        failure(lambda: executor.forward(other=mx.nd.ones((3, 3)))),
        failure(lambda: executor.forward(data=3)),
        failure(lambda: network(mx).bind(mx.cpu(), {"data": mx.nd.ones((2, 4))})),
        failure(lambda: network(mx).bind(mx.cpu(), [mx.nd.ones((2, 4))])),
        failure(lambda: network(mx).eval(data=mx.nd.ones((2, 4)))),
    ]


class Batches:
    """What tells a manager of executors names and shapes."""

    def __init__(self, mx, rows, width=4, key=None):
        self.batch_size, self.default_bucket_key, self.bucket_key = rows, key, key
        self.provide_data, self.provide_label = [("data", (rows, width))], [("softmax_label", (rows,))]
        self.data, self.label = [ramp(mx, rows, width)], [mx.nd.array([i % 3 for i in range(rows)])]


def classifier(mx, pieces=1):
    data = mx.sym.sum(mx.sym.reshape(mx.sym.var("data"), shape=(0, pieces, -1)), axis=1)
    hidden = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(mx.sym.BatchNorm(hidden, fix_gamma=False, name="bn"), name="softmax")


@program
def data_in_parallel(mx):
    symbol, batch = classifier(mx), Batches(mx, 5)
    params = ["fc_weight", "fc_bias", "bn_gamma", "bn_beta"]
    manager = mx.executor_manager.DataParallelExecutorManager(
        symbol, [mx.cpu(0), mx.cpu(1)], batch, symbol.list_arguments(), params, symbol.list_auxiliary_states(), [1, 2]
    )
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=(5, 4))[0]))  # noqa: B905  Python 3.9
    arguments = {name: ramp(mx, *shapes[name]) for name in params}
    states = {name: mx.nd.ones((3,)) for name in symbol.list_auxiliary_states()}
    manager.set_params(arguments, states)
    manager.load_data_batch(batch)
    manager.forward(is_train=False)
    copies = {name: mx.nd.zeros(array.shape) for name, array in arguments.items()}
    manager.copy_to(copies, {name: mx.nd.zeros((3,)) for name in states})
    return {
        "slices": [[s.start, s.stop] for s in manager.slices],
        "outputs": [numbers(e.outputs[0]) for e in manager.curr_execgrp.train_execs],
        "copies": {name: numbers(array) for name, array in copies.items()},
        "gradients": [[numbers(g) for g in block] for block in manager.grad_arrays],
    }


@program
def buckets_of_executors(mx):
    symbol = classifier(mx)
    params = ["fc_weight", "fc_bias", "bn_gamma", "bn_beta"]
    manager = mx.executor_manager.DataParallelExecutorManager(
        symbol,
        [mx.cpu()],
        Batches(mx, 4, 4, key=1),
        symbol.list_arguments(),
        params,
        symbol.list_auxiliary_states(),
        sym_gen=lambda key: classifier(mx, key),
    )
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=(4, 4))[0]))  # noqa: B905  Python 3.9
    states = {name: mx.nd.ones((3,)) for name in symbol.list_auxiliary_states()}
    manager.set_params({name: ramp(mx, *shapes[name]) for name in params}, states)
    found = []
    for key in (1, 2, 1):
        manager.load_data_batch(Batches(mx, 4, 4 * key, key=key))
        manager.forward()
        found.append(numbers(manager.curr_execgrp.train_execs[0].outputs[0]))
    return found


@program
def slices_of_batches(mx):
    split = mx.executor_manager._split_input_slice
    found = [[[s.start, s.stop] for s in split(*case)] for case in ((10, [1, 1, 1]), (7, [1, 3]), (2, [1, 1]))]
    return [found, failure(lambda: split(2, [1, 1, 1]))]


@program
def summaries(mx):
    data = mx.sym.var("data")
    y = mx.sym.Convolution(data, kernel=(3, 3), num_filter=8, name="conv")
    y = mx.sym.BatchNorm(mx.sym.Activation(y, act_type="relu", name="relu"), name="bn")
    side = mx.sym.Convolution(data, kernel=(1, 1), num_filter=8, no_bias=True, num_group=2, name="side")
    y = y + mx.sym.Pooling(side, kernel=(3, 3), pool_type="max", name="pool")
    y = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.flatten(y), num_hidden=5, name="fc"), name="softmax")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        mx.viz.print_summary(y)
        mx.viz.print_summary(y, shape={"data": (1, 4, 8, 8)})
        mx.viz.print_summary(y, shape={"data": (1, 4, 8, 8)}, line_length=80, positions=[30, 50, 60, 80])
    failures = [failure(lambda: mx.viz.print_summary(3)), failure(lambda: mx.viz.print_summary(y, shape={}))]
    return [printed.getvalue().splitlines(), failures]


class Drawing:
    """Stands for graphviz.Digraph, and writes down what it is asked to draw."""

    def __init__(self, name, format):
        self.lines = [[name, format]]

    def node(self, **attributes):
        self.lines.append(["node", attributes])

    def edge(self, **attributes):
        self.lines.append(["edge", attributes])


@program
def drawings(mx):
    y = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), stride=(2, 2), num_filter=8, name="conv")
    y = mx.sym.LeakyReLU(mx.sym.BatchNorm(y, name="bn"), act_type="leaky", name="leaky")
    y = mx.sym.Pooling(y, kernel=(2, 2), pool_type="avg", name="pool")
    parts = mx.sym.split(mx.sym.Activation(y, act_type="relu", name="relu"), num_outputs=2, name="parts")
    y = mx.sym.FullyConnected(mx.sym.concat(parts[0], parts[1], name="both"), num_hidden=5, name="fc")
    shape = {"data": (1, 4, 9, 9)}
    sys.modules["graphviz"] = types.SimpleNamespace(Digraph=Drawing)
    try:
        found = [
            mx.viz.plot_network(y).lines,
            mx.viz.plot_network(y, "title", "svg", shape, {"data": "float32"}, {"fixedsize": "false"}, False).lines,
            failure(lambda: mx.viz.plot_network(3)),
        ]
        sys.modules["graphviz"] = None
        return [*found, failure(lambda: mx.viz.plot_network(y))]
    finally:
        del sys.modules["graphviz"]
