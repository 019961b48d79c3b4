"""Programs on modules with layouts, dtypes, groups of contexts and executor groups; see make_programs.py."""

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


@program
def layouts(mx):
    """Time first: the batch is axis 1."""
    data = mx.sym.Variable("data")
    out = mx.sym.Activation(data=data, act_type="relu", __layout__="TNC")
    module = mx.mod.Module(out, context=[mx.cpu(0), mx.cpu(1)], label_names=None)
    shape = (10, 8, 7)
    module.bind([mx.io.DataDesc("data", shape, layout="TNC")], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([ramp(mx, *shape)]))
    parts = module.get_outputs(merge_multi_context=False)[0]
    found = [list(x.shape) for x in (*module.get_outputs(), *parts)] + [numbers(module.get_outputs()[0])["values"][:9]]
    found += [
        [list(s) for _, s in module.output_shapes],
        module._exec_group.data_layouts,
        module._exec_group.batch_size,
    ]
    module.forward(mx.io.DataBatch([ramp(mx, 10, 4, 7)]))
    return [*found, list(module.get_outputs()[0].shape), [list(d.shape) for d in module.data_shapes]]


@program
def without_a_batch(mx):
    """An input whose layout has no N is given whole to every context."""
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    net = mx.sym.broadcast_mul(dense, mx.sym.sum(mx.sym.var("scale"), keepdims=True).reshape((1, 1)))
    module = mx.mod.Module(net, ["data", "scale"], None, context=[mx.cpu(0), mx.cpu(1)])
    descs = [mx.io.DataDesc("data", (4, 3)), mx.io.DataDesc("scale", (5,), layout="C")]
    module.bind(descs, for_training=False)
    module.init_params(mx.init.One())
    module.forward(mx.io.DataBatch([ramp(mx, 4, 3), ramp(mx, 5)]))
    wrong = [mx.io.DataDesc("data", (4, 3)), mx.io.DataDesc("scale", (5,))]
    return [numbers(module.get_outputs()[0]), failure(lambda: module.bind(wrong, force_rebind=True))]


@program
def dtypes(mx):
    found = []
    for dtype in ("float32", "float64"):
        net = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f"), act_type="tanh")
        module = mx.mod.Module(net, label_names=None)
        module.bind([mx.io.DataDesc("data", (3, 4), dtype)], for_training=False)
        module.init_params(mx.init.One())
        module.forward(mx.io.DataBatch([ramp(mx, 3, 4).astype(dtype)]))
        out = module.get_outputs()[0]
        params = module.get_params()[0]
        found.append([np.dtype(out.dtype).name, np.dtype(params["f_weight"].dtype).name])
        found.append(np.round(out.asnumpy().astype("float64"), 2).tolist())
    ids = mx.sym.Embedding(mx.sym.var("data", dtype="int32"), input_dim=5, output_dim=2, name="e")
    module = mx.mod.Module(ids, label_names=None)
    module.bind([("data", (3,))], for_training=False)
    module.init_params(mx.init.One())
    module.forward(mx.io.DataBatch([mx.nd.array([0, 4, 2], dtype="int32")]))
    kind = module._exec_group.execs[0].arg_dict["data"].dtype
    return [*found, numbers(module.get_outputs()[0]), np.dtype(kind).name]


@program
def executor_groups(mx):
    net = mx.sym.FullyConnected(mx.sym.var("data1"), num_hidden=3, name="f")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="g")
    contexts, shapes = [mx.cpu(0), mx.cpu(1)], [("data1", (6, 4))]
    Group = mx.module.executor_group.DataParallelExecutorGroup
    names = [n for n in net.list_arguments() if n != "data1"]
    first = Group(net, contexts, [1, 1], shapes, None, names, False, False)
    first.set_params({n: ramp(mx, *a[0].shape) for n, a in zip(names, first.param_arrays)}, {})  # noqa: B905
    batch = mx.io.DataBatch([ramp(mx, 6, 4)])
    first.forward(batch, is_train=False)
    found = [numbers(first.get_outputs()[0]), first.get_output_shapes()[0][0], list(first.get_output_shapes()[0][1])]
    found += [first.arg_names, first.param_names, first.output_names, first.grad_req, first.grad_arrays is None]
    found += [[list(a.shape) for _, a in first.data_arrays[0]], first.label_arrays is None, len(first.execs)]
    second = Group(net, contexts, [1, 2], [("data1", (9, 4))], None, names, False, False, shared_group=first)
    second.forward(mx.io.DataBatch([ramp(mx, 9, 4)]), is_train=False)
    found += [numbers(second.get_outputs()[0]), [[s.start, s.stop] for s in second.slices]]
    shared = all(a is b for x, y in zip(first.param_arrays, second.param_arrays) for a, b in zip(x, y))  # noqa: B905
    first.param_arrays[0][0][:] = 0
    found += [shared or float(second.param_arrays[0][0].asnumpy().sum()) == 0]
    first.reshape([mx.io.DataDesc("data1", (4, 4))], None)
    first.forward(mx.io.DataBatch([ramp(mx, 4, 4)]), is_train=False)
    found += [
        list(first.get_outputs()[0].shape),
        first.batch_size,
        [list(x.shape) for x in first.get_outputs(False)[0]],
    ]
    found += [
        [numbers(x)["shape"] for x in first.get_outputs(True, 0, 1)],
        first.decide_slices([mx.io.DataDesc("data1", (4, 4))]),
    ]
    training = Group(net, contexts[:1], [1], shapes, None, names, True, True, None, fixed_param_names=["f_bias"])
    found += [dict(sorted(training.grad_req.items())), [g[0] is None for g in training.grad_arrays]]
    requests = Group(net, contexts[:1], [1], shapes, None, names, True, False, None, grad_req={"f_weight": "add"})
    found.append(dict(sorted(requests.grad_req.items())))
    listed = Group(net, contexts[:1], [1], shapes, None, names, True, False, None, grad_req=["null"] * 5)
    found.append(dict(sorted(listed.grad_req.items())))
    return [*found, failure(lambda: Group(net, contexts[:1], [1], shapes, None, names, True, False, None, grad_req=3))]


@program
def reshaped_by_batches(mx):
    """As MXNet's own test of forward with changing shapes and types."""
    a, b = mx.sym.var("data1"), mx.sym.var("data2")
    net = mx.sym.FullyConnected(mx.sym.elemwise_mul(a, 2 * b), num_hidden=3, name="f")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"), ["data1", "data2"], ["softmax_label"])
    shape = [("data1", (4, 5)), ("data2", (4, 5))]
    module.bind(shape, [("softmax_label", (4,))], for_training=False)
    module.init_params(mx.init.One())
    found = []
    for rows in (4, 2, 7, 4):
        batch = mx.io.DataBatch([ramp(mx, rows, 5), ramp(mx, rows, 5)], [mx.nd.zeros((rows,))])
        module.forward(batch)
        found.append([numbers(module.get_outputs()[0]), list(module.label_shapes[0].shape)])
    named = mx.io.DataBatch(
        [ramp(mx, 3, 5), ramp(mx, 3, 5)], [mx.nd.zeros((3,))],
        provide_data=[("data1", (3, 5)), ("data2", (3, 5))], provide_label=[("softmax_label", (3,))],
    )  # fmt: skip
    module.forward(named)
    found.append(numbers(module.get_outputs()[0]))
    named.provide_data = [("data1", (3, 6)), ("data2", (3, 6))]
    named.data = [ramp(mx, 3, 6), ramp(mx, 3, 6)]
    found.append(failure(lambda: module.forward(named)))
    module.forward(mx.io.DataBatch([ramp(mx, 4, 5), ramp(mx, 4, 5)], None))
    return [*found, list(module.get_outputs()[0].shape)]


@program
def groups_of_contexts(mx):
    with mx.AttrScope(ctx_group="dev1"):
        first = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="f")
    with mx.AttrScope(ctx_group="dev2"):
        net = mx.sym.FullyConnected(mx.sym.Activation(first, act_type="relu"), num_hidden=2, name="g")
    found = []
    options = [
        {"dev1": mx.cpu(1), "dev2": mx.cpu(2)},
        [{"dev1": mx.cpu(1), "dev2": mx.cpu(2)}] * 2,
        {"dev1": [mx.cpu(1)], "dev2": [mx.cpu(2), mx.cpu(3)]},
    ]
    for groups in options:
        module = mx.mod.Module(net, context=[mx.cpu(0)] * 2, label_names=None, group2ctxs=groups)
        module.bind([("data", (4, 3))], for_training=False)
        module.init_params(mx.init.One())
        module.forward(mx.io.DataBatch([ramp(mx, 4, 3)]))
        found.append(numbers(module.get_outputs()[0]))
    wrong = mx.mod.Module(net, context=[mx.cpu(0)] * 2, label_names=None, group2ctxs=[{}])
    return [*found, failure(lambda: wrong.bind([("data", (4, 3))], for_training=False))]


@program
def contexts_of_gradients_of_groups(mx):
    with mx.AttrScope(ctx_group="dev1"):
        first = mx.sym.var("a") * 2
    with mx.AttrScope(ctx_group="dev2"):
        net = first + mx.sym.var("b")
    groups = {"dev1": mx.cpu(1), "dev2": mx.cpu(2)}
    module = mx.mod.Module(net, context=[mx.cpu(0)], data_names=["a", "b"], label_names=None, group2ctxs=groups)
    module.bind([("a", (2, 5)), ("b", (2, 5))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 5)), mx.nd.ones((2, 5))]), is_train=True)
    module.backward([mx.nd.ones((2, 5))])
    return [[str(g.context), numbers(g)] for g in module.get_input_grads()]
