"""Programs on modules, buckets and FeedForward in inference; see make_programs.py."""

import pathlib
import tempfile
import warnings

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def net_of(mx, hidden=4):
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=hidden, name="f1")
    x = mx.sym.Activation(x, act_type="tanh", name="a1")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="b1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="f2"), name="softmax")


def set_values(mx, module):
    arguments, states = module.get_params()
    given = []
    for part in (arguments, states):
        names = sorted(part)
        given.append({n: ramp(mx, *part[n].shape) + 0.1 * i + ("var" in n) * 1.5 for i, n in enumerate(names)})
    module.set_params(*given)


def bound(mx, batch=6, contexts=1, **kwargs):
    context = [mx.cpu(i) for i in range(contexts)] if contexts > 1 else mx.cpu()
    module = mx.mod.Module(net_of(mx), context=context, **kwargs)
    module.bind([("data", (batch, 5))], [("softmax_label", (batch,))], for_training=False)
    module.init_params()
    set_values(mx, module)
    return module


def shown(desc):
    return None if desc is None else [[d[0], list(d[1])] for d in desc]


def attributes(module):
    return {
        "data_names": list(module.data_names),
        "output_names": list(module.output_names),
        "data_shapes": shown(module.data_shapes),
        "label_shapes": shown(module.label_shapes),
        "output_shapes": shown(module.output_shapes),
        "flags": [module.binded, module.params_initialized, module.for_training, module.inputs_need_grad],
        "optimizer": module.optimizer_initialized,
    }


@program
def module_shapes(mx):
    module = bound(mx)
    found = [attributes(module), module.label_names, sorted(module.get_params()[0]), sorted(module.get_params()[1])]
    for batch in (6, 3, 9, 6):
        module.forward(mx.io.DataBatch([ramp(mx, batch, 5)], [mx.nd.zeros((batch,))]))
        found += [numbers(module.get_outputs()[0]), attributes(module)]
    module.reshape([("data", (2, 5))], [("softmax_label", (2,))])
    found.append(attributes(module))
    group = module._exec_group
    found += [group.batch_size, [[s.start, s.stop] for s in group.slices], group.param_names, group.data_names]
    return found


@program
def module_contexts(mx):
    found = []
    for contexts, work in ((2, None), (3, [1, 2, 3])):
        module = bound(mx, 12, contexts, work_load_list=work)
        batch = mx.io.DataBatch([ramp(mx, 12, 5)], [mx.nd.array(np.arange(12) % 3)])
        module.forward(batch)
        merged, parts = module.get_outputs(), module.get_outputs(merge_multi_context=False)
        metric = mx.metric.create(["acc", "ce"])
        module.update_metric(metric, batch.label)
        found += [numbers(merged[0]), [numbers(p) for p in parts[0]], [str(p.context) for p in parts[0]]]
        found += [[round(v, 5) for v in metric.get()[1]], metric.metrics[0].num_inst]
        found.append([[s.start, s.stop] for s in module._exec_group.slices])
    halves = bound(mx, 8, 2)
    halves.forward([mx.io.DataBatch([ramp(mx, 4, 5) * i], [mx.nd.zeros((4,))]) for i in (1, 2)])
    metric = mx.metric.create("acc")
    halves.update_metric(metric, [[mx.nd.zeros((4,))], [mx.nd.ones((4,))]], pre_sliced=True)
    found += [numbers(halves.get_outputs()[0]), metric.get()[1]]
    found.append(failure(lambda: bound(mx, 2, 3)))
    found.append(failure(lambda: bound(mx, 4, 2, work_load_list=[1])))
    return found


@program
def module_iterators(mx):
    module = bound(mx)
    data, label = ramp(mx, 15, 5), np.arange(15) % 3
    batches = mx.io.NDArrayIter(data, label, batch_size=6)
    found = [numbers(module.predict(batches)), len(module.predict(batches, num_batch=2, merge_batches=False))]
    found.append([numbers(x) for x in module.predict(batches, always_output_list=True)])
    found.append([[number, outs[0].shape[0], batch.pad] for outs, number, batch in module.iter_predict(batches)])
    seen = []

    def note(param):
        seen.append([param.epoch, param.nbatch, round(param.eval_metric.get()[1], 5), sorted(param.locals)[:2]])

    for metric in ("acc", "ce", mx.metric.TopKAccuracy(2), ["acc", "ce"]):
        values = module.score(batches, metric, batch_end_callback=None)
        found.append([[name, round(value, 5)] for name, value in values])
    module.score(batches, "acc", num_batch=2, batch_end_callback=[note], score_end_callback=note, epoch=4)
    found.append([s[:3] for s in seen])
    batches.reset()
    next(batches)
    found.append([list(v) for v in module.score(batches, "acc", reset=False)])
    found += [
        numbers(module.predict(data[:6])),
        failure(lambda: module.predict(data)),
        failure(lambda: module.predict("text")),
    ]
    found.append(failure(lambda: module.score(batches, "nonsense")))
    return found


@program
def module_states(mx):
    state = mx.sym.var("state")
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="f") + state
    found = []
    for contexts in ([mx.cpu()], [mx.cpu(0), mx.cpu(1)]):
        module = mx.mod.Module(net, label_names=None, state_names=["state"], context=contexts)
        module.bind([("data", (4, 2))], for_training=False)
        module.init_params(mx.init.One())
        module.set_states(value=2)
        module.forward(mx.io.DataBatch([ramp(mx, 4, 2)]))
        found += [numbers(module.get_outputs()[0]), [len(s) for s in module.get_states(False)]]
        module.set_states(states=module.get_outputs(merge_multi_context=False))
        module.forward(mx.io.DataBatch([ramp(mx, 4, 2)]))
        found += [numbers(module.get_outputs()[0]), sorted(module.get_params()[0])]
        found += [
            failure(module.get_states),
            failure(module.set_states),
            failure(lambda m=module: m.set_states(states=[], value=1)),
        ]
    return found


@program
def module_initialization(mx):
    module = mx.mod.Module(net_of(mx), fixed_param_names=["f1_weight"])
    found = [failure(module.init_params), failure(module.get_params), failure(lambda: module.data_shapes)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module.bind([("data", (6, 5))])
    found.append(len([w for w in seen if "label_shapes" in str(w.message)]))
    module.init_params(mx.init.One())
    found.append({n: float(a.sum().asscalar()) for n, a in module.get_params()[0].items()})
    some = {"f1_weight": mx.nd.ones((4, 5)) * 3}
    found.append(failure(lambda: module.init_params(mx.init.One(), arg_params=some, force_init=True)))
    module.init_params(mx.init.Zero(), arg_params=some, allow_missing=True, force_init=True)
    found.append({n: float(a.sum().asscalar()) for n, a in module.get_params()[0].items()})
    module.set_params({"f2_bias": mx.nd.ones((3,)) * 7}, {}, allow_missing=True)
    found.append({n: float(a.sum().asscalar()) for n, a in module.get_params()[0].items()})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module.init_params(mx.init.One())
        module.set_params({}, {}, force_init=False)
    found += [len(seen), [list(g.shape) if g is not None else None for (g,) in module._exec_group.grad_arrays]]
    with tempfile.TemporaryDirectory() as folder:
        module.save_params(folder + "/p.params")
        module.init_params(mx.init.One(), force_init=True)
        module.load_params(folder + "/p.params")
        module.save_checkpoint(folder + "/m", 3)
        again = mx.mod.Module.load(folder + "/m", 3)
        again.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False)
        found.append({n: float(a.sum().asscalar()) for n, a in again.get_params()[0].items()})
        found.append(sorted(p.name for p in pathlib.Path(folder).iterdir()))
    failures = [
        failure(lambda: mx.mod.Module(net_of(mx), data_names=["nothing"])),
        failure(lambda: mx.mod.Module(net_of(mx), state_names=["nothing"])),
        failure(lambda: again.bind([("other", (2, 5))], force_rebind=True)),
        failure(lambda: again.bind([("data", (2, 5))], for_training=False, inputs_need_grad=True, force_rebind=True)),
        failure(lambda: mx.mod.BaseModule().forward(None)),
        failure(lambda: mx.mod.BaseModule().data_names),
    ]
    return [*found, failures]


@program
def module_sharing(mx):
    first = bound(mx)
    second = mx.mod.Module(net_of(mx))
    second.bind([("data", (3, 5))], [("softmax_label", (3,))], for_training=False, shared_module=first)
    batch = mx.io.DataBatch([ramp(mx, 3, 5)], [mx.nd.zeros((3,))])
    second.forward(batch)
    found = [numbers(second.get_outputs()[0]), second.params_initialized]
    first._exec_group.execs[0].arg_dict["f2_bias"][:] = 5 * mx.nd.arange(3)
    second.forward(batch)
    return [*found, numbers(second.get_outputs()[0])]


@program
def monitored(mx):
    module = bound(mx)
    monitor = mx.mon.Monitor(2, stat_func=lambda x: x.sum(), pattern="softmax_output|.*weight", sort=True)
    module.install_monitor(monitor)
    found = []
    for _ in range(3):
        monitor.tic()
        module.forward(mx.io.DataBatch([ramp(mx, 6, 5)], [mx.nd.zeros((6,))]), is_train=False)
        found.append([[step, name, round(float(text), 3)] for step, name, text in monitor.toc()])
    return found


def buckets(mx, key):
    data = mx.sym.var("data")
    embedded = mx.sym.Embedding(data, input_dim=11, output_dim=3, name="embed")
    x = mx.sym.FullyConnected(embedded, num_hidden=4, flatten=False, name="fc")
    x = mx.sym.sum(x, axis=1)
    return mx.sym.SoftmaxOutput(x, name="softmax"), ("data",), ("softmax_label",)


def bucket_batch(mx, key, size=2):
    data = mx.nd.array(np.arange(size * key).reshape(size, key) % 11)
    return mx.io.DataBatch(
        [data],
        [mx.nd.zeros((size,))],
        pad=0,
        bucket_key=key,
        provide_data=[mx.io.DataDesc("data", (size, key))],
        provide_label=[mx.io.DataDesc("softmax_label", (size,))],
    )


@program
def bucketing(mx):
    module = mx.mod.BucketingModule(lambda key: buckets(mx, key), default_bucket_key=8)
    found = [list(module.data_names), module.output_names, failure(lambda: module.data_shapes)]
    module.bind([("data", (2, 8))], [("softmax_label", (2,))], for_training=False)
    module.init_params(mx.init.One())
    set_values(mx, module)
    metric = mx.metric.create("acc")
    for key in (8, 3, 5, 3, 8):
        batch = bucket_batch(mx, key)
        module.forward(batch, is_train=False)
        module.update_metric(metric, batch.label)
        found += [numbers(module.get_outputs()[0]), shown(module.data_shapes), shown(module.output_shapes)]
    found += [metric.get()[1], sorted(module._buckets), module._curr_bucket_key, sorted(module.get_params()[0])]
    module.prepare(bucket_batch(mx, 4))
    found += [sorted(module._buckets), module._curr_bucket_key]
    module.switch_bucket(4, None)
    found += [shown(module.data_shapes), module.symbol.list_arguments()]
    module.set_params({"fc_bias": mx.nd.ones((4,))}, {}, allow_missing=True)
    module.forward(bucket_batch(mx, 5), is_train=False)
    found.append(numbers(module.get_outputs()[0]))
    with tempfile.TemporaryDirectory() as folder:
        module.save_checkpoint(folder + "/b", 2)
        found.append(sorted(p.name for p in pathlib.Path(folder).iterdir()))
        again = mx.mod.BucketingModule.load(folder + "/b", 2, lambda key: buckets(mx, key), 8)
        again.bind([("data", (2, 8))], [("softmax_label", (2,))], for_training=False)
        again.forward(bucket_batch(mx, 3), is_train=False)
        found.append(numbers(again.get_outputs()[0]))
    given = {key: buckets(mx, key)[0] for key in (8, 3)}
    third = mx.mod.BucketingModule.load_dict(given, lambda key: buckets(mx, key), 8, *module.get_params())
    third.bind([("data", (2, 8))], [("softmax_label", (2,))], for_training=False)
    third.forward(bucket_batch(mx, 3), is_train=False)
    found.append(numbers(third.get_outputs()[0]))
    return [*found, failure(lambda: mx.mod.BucketingModule(lambda key: buckets(mx, key)))]


@program
def chained(mx):
    first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="a"), label_names=None)
    data = mx.sym.var("x")
    second = mx.mod.Module(
        mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="b"), name="softmax"), data_names=["x"]
    )
    chain = mx.mod.SequentialModule().add(first).add(second, take_labels=True, auto_wiring=True)
    found = [chain.data_names, chain.output_names, failure(lambda: chain.output_shapes)]
    chain.bind([("data", (4, 5))], [("softmax_label", (4,))], for_training=False)
    chain.init_params(mx.init.One())
    set_values(mx, chain)
    chain.init_params(mx.init.One())
    batches = mx.io.NDArrayIter(ramp(mx, 10, 5), np.arange(10) % 3, batch_size=4)
    arguments, _ = chain.get_params()
    found += [attributes(chain), sorted(arguments), numbers(chain.predict(batches))]
    found.append([[n, round(v, 5)] for n, v in chain.score(batches, ["acc", "ce"])])
    found.append(failure(lambda: chain.add(first, nonsense=True)))
    found.append(failure(lambda: mx.mod.SequentialModule().bind([("data", (1, 1))])))
    return found


@program
def python_modules(mx):
    loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores - 1)
    loss.bind([("data", (3, 2))], [("softmax_label", (3,))])
    loss.forward(mx.io.DataBatch([ramp(mx, 3, 2)], [mx.nd.ones((3,))]))
    loss.backward()
    metric = mx.metric.Loss()
    loss.update_metric(metric, [mx.nd.ones((3,))])
    found = [loss.data_names, loss.output_names, shown(loss.output_shapes), numbers(loss.get_outputs()[0])]
    found += [numbers(loss.get_input_grads()[0]), round(metric.get()[1], 5), list(loss.get_params())]
    plain = mx.mod.PythonModule(("data",), None, ["out"])
    found += [failure(lambda: plain.bind([("data", (1, 2))])), failure(lambda: loss.bind([("no", (1, 2))]))]

    class Doubled(mx.mod.PythonModule):
        def _compute_output_shapes(self):
            return [("out", self._data_shapes[0][1])]

        def forward(self, data_batch, is_train=None):
            self.out = data_batch.data[0] * 2

        def get_outputs(self, merge_multi_context=True):
            return [self.out]

    first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="a"), label_names=None)
    chain = mx.mod.SequentialModule().add(first).add(Doubled(["y"], None, ["out"]), auto_wiring=True)
    chain.bind([("data", (3, 2))], for_training=False)
    chain.init_params(mx.init.One())
    chain._modules[1].binded = chain._modules[1].params_initialized = True
    chain.forward(mx.io.DataBatch([ramp(mx, 3, 2)]))
    return [*found, numbers(chain.get_outputs()[0]), chain.output_names]


@program
def feed_forward(mx):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = bound(mx)
        arguments, states = module.get_params()
        model = mx.model.FeedForward(net_of(mx), arg_params=arguments, aux_params=states, numpy_batch_size=4)
        data = ramp(mx, 10, 5).asnumpy()
        batches = mx.io.NDArrayIter(data, np.arange(10) % 3, batch_size=4)
        found = [
            model.predict(data).round(4).tolist(),
            round(model.score(batches), 5),
            round(model.score(batches, "ce"), 4),
        ]
        outputs, inputs, labels = model.predict(batches, return_data=True)
        found += [outputs.round(4).tolist(), list(inputs.shape), labels.tolist()]
        found.append(list(model.predict(batches, num_batch=1).shape))
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder + "/m", 4)
            again = mx.model.FeedForward.load(folder + "/m", 4)
            found += [again.predict(data[:3]).round(4).tolist(), again.begin_epoch, again.num_epoch]
            symbol, args, auxs = mx.model.load_checkpoint(folder + "/m", 4)
            found += [sorted(args), sorted(auxs), symbol.list_outputs()]
        extra = dict(arguments, more=mx.nd.ones((1,)))
        kept = mx.model.FeedForward(net_of(mx), arg_params=extra, aux_params=states, allow_extra_params=True)
        found += [sorted(kept.arg_params), failure(lambda: model.predict("x")), failure(model.save)]
        found.append(failure(lambda: mx.model.FeedForward(3)))
        found.append(list(mx.model.BatchEndParam(1, 2, 3, 4)))
    return found
