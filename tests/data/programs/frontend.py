"""Small programs that run on real MXNet and on mxforge alike: what they return must agree.

Symbols, Gluon and Module. Each takes the package as `mx` and returns values that JSON can hold; arrays are given by
`numbers`.
"""

import re
import warnings

import numpy as np
from program import described, failure, fill, gather, net_array, numbers, ramp

PROGRAMS, program = gather()


@program
def automatic_names(mx):
    a, b = mx.sym.var("a"), mx.sym.Variable("b")
    made = [a + b, a + 1, 1 - a, a * b, -a, 2 / a, a / b, a**2, 2**a, a**b, a % 3, 3 % a, a == b, a > 1, a <= b, a != 2]
    made += [a.reshape((2, 3)), a.exp(), a.sum(axis=1), mx.sym.concat(a, b), mx.sym.Concat(a, b), abs(a)]
    made += [mx.sym.maximum(a, 2), mx.sym.minimum(a, b), mx.sym.pow(2, a), mx.sym.zeros((2, 3)), mx.sym.ones((2,))]
    made += [mx.sym.arange(4), mx.sym.full((2,), 3), mx.sym.flatten(a), mx.sym.softmax(a), mx.sym.add_n(a, b)]
    made += [a.astype("float16"), mx.sym.split(a, num_outputs=2), mx.sym.broadcast_add(a, b), a.slice_axis(0, 0, 1)]
    made += [mx.sym.FullyConnected(a, num_hidden=3), mx.sym.Activation(a, act_type="relu"), a.transpose()]
    return [[s.name, s.tojson()] for s in made]


@program
def composed(mx):
    data = mx.sym.var("data", shape=(2, 3, 8, 8), lr_mult=2)
    with mx.AttrScope(ctx_group="stage1"):
        x = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, name="conv", attr={"__mood__": "bright"})
    with mx.name.Prefix("deep_"):
        x = mx.sym.BatchNorm(x, fix_gamma=False, eps=1e-5)
        x = mx.sym.Activation(x, act_type="relu")
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = mx.sym.Dropout(x, p=0.3)
    shared = mx.sym.var("shared_weight", init=mx.init.Xavier(magnitude=2))
    x = mx.sym.FullyConnected(x, weight=shared, num_hidden=5, name="fc")
    out = mx.sym.SoftmaxOutput(x, name="softmax")
    shapes = out.infer_shape(softmax_label=(2,))
    return [described(out), [list(map(list, part)) for part in shapes]]


@program
def groups_and_outputs(mx):
    a = mx.sym.var("a")
    parts = mx.sym.SliceChannel(a, num_outputs=3, name="cut")
    group = mx.sym.Group([parts[1], mx.sym.BatchNorm(a, name="bn"), a + 1])
    failures = [
        failure(lambda: group["nothing"]),
        failure(lambda: group[7]),
        failure(lambda: mx.sym.relu(parts)),
        failure(lambda: mx.sym.FullyConnected(a, num_hidden=3, colour=3)),
        failure(lambda: mx.sym.FullyConnected(a)),
        failure(lambda: mx.sym.var("v", colour=3)),
        failure(lambda: a + "text"),
        failure(lambda: hash(a)),
        failure(lambda: mx.sym.Group([])),
        failure(lambda: a.infer_shape(b=(2,))),
        failure(lambda: bool(a)),
    ]
    return [described(group), described(group["bn_output"]), [s.name for s in parts], len(group), failures]


@program
def composed_by_name(mx):
    inner = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=4, name="inner")
    outer = mx.sym.Activation(mx.sym.var("y"), act_type="tanh", name="outer")
    return [described(outer(y=inner)), described(outer), described(inner(x=outer, inner_bias=mx.sym.var("z")))]


@program
def shapes_both_ways(mx):
    data = mx.sym.var("data")
    fc = mx.sym.FullyConnected(data, num_hidden=3, flatten=False, name="fc")
    summed = fc + mx.sym.var("other", shape=(4, 5, 3))
    conv = mx.sym.Deconvolution(data, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=6, name="up")
    found = [fc.infer_shape(data=(4, 5, 7)), conv.infer_shape(data=(1, 2, 5, 5)), summed.infer_shape(data=(4, 5, 2))]
    found.append(mx.sym.Embedding(data, input_dim=9, output_dim=3).infer_shape(data=(2, 5)))
    found.append((data + mx.sym.zeros((0, 3))).infer_shape(data=(2, 3)))
    types = [fc.infer_type(data="float16"), mx.sym.cast(fc, dtype="int32").infer_type(data="float64")]
    kinds = [[[np.dtype(t).name for t in part] for part in found_types] for found_types in types]
    return [[[list(s) for s in part] for part in shapes] for shapes in found] + kinds


def gluon_net(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dropout(0.5))
        inner = nn.HybridSequential(prefix="inner_")
        with inner.name_scope():
            inner.add(nn.Conv2D(4, 1, use_bias=False), nn.LeakyReLU(0.1))
        net.add(inner, nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(6, activation="tanh"), nn.Dense(3))
    return net


@program
def exported_net(mx):
    net = gluon_net(mx)
    net.initialize()
    x = ramp(mx, 2, 3, 8, 8)
    net(x)
    fill(net)
    eager = numbers(net(x))
    net.hybridize()
    compiled = numbers(net(x))
    inputs, out = net._get_graph(x)
    names = {
        "full": list(net.collect_params().keys()),
        "structural": list(net._collect_params_with_prefix().keys()),
        "some": list(net.collect_params(".*weight").keys()),
        "children": [child.name for child in net._children.values()],
    }
    return [repr(net), names, described(out), [s.name for s in inputs], eager, compiled]


@program
def nested_scopes(mx):
    gluon = mx.gluon

    class Inner(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.dense = gluon.nn.Dense(3)
                self.scale = self.params.get("scale", shape=(1, 3), init="ones")
                self.table = self.params.get_constant("table", mx.nd.array([[1.0, 2.0, 3.0]]))

        def hybrid_forward(self, F, x, scale, table):
            return F.broadcast_mul(self.dense(x), scale) + F.broadcast_add(self.dense(x), table)

    class Outer(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.one = Inner()
                self.two = Inner()
                self.shared = gluon.nn.Dense(3, params=self.two.dense.params)
                self.three = gluon.nn.Dense(2, prefix="last_")

        def hybrid_forward(self, F, x, y):
            return self.three(self.one(x) + self.two(y) + self.shared(x)), [F.concat(x, y, dim=1)]

    net = Outer()
    net.initialize()
    net.hybridize()
    x, y = ramp(mx, 2, 4), ramp(mx, 2, 4) * 2
    net(x, y)
    for param in net.collect_params().values():
        if not param.name.endswith("table"):
            param.set_data(net_array(param, np.ones(param.shape) * 0.25))
    results = net(x, y)
    _, out = net._get_graph(x, y)
    keys = list(net.collect_params().keys())
    text = re.sub(r"_table_\d+", "_table_ID", out.tojson())  # a constant's initializer is named by its address
    outputs = [numbers(results[0]), numbers(results[1][0])]
    return [keys, sorted(net._collect_params_with_prefix().keys()), text, outputs, repr(net)]


LAYERS = {
    "dense": (lambda nn: nn.Dense(3, flatten=False, activation="sigmoid"), (2, 3, 4)),
    "dense_flat": (lambda nn: nn.Dense(3, use_bias=False), (2, 3, 4)),
    "conv1d": (lambda nn: nn.Conv1D(4, 3, strides=2, padding=1), (2, 3, 9)),
    "conv2d_groups": (lambda nn: nn.Conv2D(4, (3, 2), dilation=(2, 1), groups=2), (1, 4, 7, 6)),
    "conv3d": (lambda nn: nn.Conv3D(2, 2), (1, 2, 3, 4, 3)),
    "conv1d_transpose": (lambda nn: nn.Conv1DTranspose(3, 3, strides=2, output_padding=1), (1, 2, 5)),
    "conv2d_transpose": (lambda nn: nn.Conv2DTranspose(3, 4, strides=2, padding=1), (1, 2, 4, 3)),
    "max_pool_ceil": (lambda nn: nn.MaxPool2D(3, 2, ceil_mode=True), (1, 2, 6, 6)),
    "max_pool_positional": (lambda nn: nn.MaxPool2D(2, 2, 0, "NCHW", True), (1, 2, 5, 5)),
    "avg_pool_positional": (lambda nn: nn.AvgPool2D(2, 2, 1, True, "NCHW", False), (1, 2, 5, 5)),
    "max_pool3d": (lambda nn: nn.MaxPool3D(2, 1, 0, True, "NCDHW"), (1, 1, 3, 3, 3)),
    "conv2d_positional": (lambda nn: nn.Conv2D(2, 3, 1, 1, 1, 1, "NCHW", "relu", False), (1, 2, 5, 5)),
    "avg_pool": (lambda nn: nn.AvgPool2D(2, padding=1, count_include_pad=False), (1, 2, 5, 5)),
    "max_pool1d": (lambda nn: nn.MaxPool1D(), (1, 2, 6)),
    "avg_pool3d": (lambda nn: nn.AvgPool3D(), (1, 1, 4, 4, 4)),
    "global_max": (lambda nn: nn.GlobalMaxPool2D(), (2, 3, 4, 4)),
    "global_avg1d": (lambda nn: nn.GlobalAvgPool1D(), (2, 3, 4)),
    "batch_norm": (lambda nn: nn.BatchNorm(), (2, 3, 4)),
    "batch_norm_fixed": (lambda nn: nn.BatchNorm(scale=False, axis=-1), (2, 3, 4)),
    "layer_norm": (lambda nn: nn.LayerNorm(), (2, 3, 4)),
    "group_norm": (lambda nn: nn.GroupNorm(2), (2, 4, 3)),
    "instance_norm": (lambda nn: nn.InstanceNorm(scale=True), (2, 3, 5)),
    "prelu": (lambda nn: nn.PReLU(), (2, 3)),
    "elu": (lambda nn: nn.ELU(0.7), (2, 3)),
    "selu": (lambda nn: nn.SELU(), (2, 3)),
    "gelu": (lambda nn: nn.GELU(), (2, 3)),
    "swish": (lambda nn: nn.Swish(0.5), (2, 3)),
    "softsign": (lambda nn: nn.Activation("softsign"), (2, 3)),
    "embedding": (lambda nn: nn.Embedding(5, 3), None),
    "lambda": (lambda nn: nn.HybridLambda("tanh"), (2, 3)),
    "lambda_function": (lambda nn: nn.HybridLambda(lambda F, x: F.square(x) + 1), (2, 3)),
    "reflection": (lambda nn: nn.ReflectionPad2D(1), (1, 1, 3, 3)),
    "dropout": (lambda nn: nn.Dropout(0.4), (2, 3)),
}


@program
def layers(mx):
    found = {}
    for name, (make, shape) in LAYERS.items():
        net = make(mx.gluon.nn)
        net.initialize()
        x = mx.nd.array([[0, 2, 4], [1, 1, 3]]) if shape is None else ramp(mx, *shape)
        net(x)
        fill(net)
        eager = numbers(net(x))
        net.hybridize()
        compiled = numbers(net(x))
        shown = "" if "<lambda>" in repr(net) else repr(net)
        found[name] = [shown, list(net.collect_params().keys()), net._get_graph(x)[1].tojson(), eager, compiled]
    return found


RECURRENT = {
    "lstm": lambda rnn: rnn.LSTM(3, num_layers=2, bidirectional=True),
    "gru_batch_first": lambda rnn: rnn.GRU(4, layout="NTC"),
    "rnn_tanh": lambda rnn: rnn.RNN(3, activation="tanh", input_size=2),
    "rnn_relu": lambda rnn: rnn.RNN(3, 2),
}


@program
def recurrent(mx):
    found = {}
    for name, make in RECURRENT.items():
        net = make(mx.gluon.rnn)
        net.initialize()
        x = ramp(mx, 4, 2, 2)
        net(x)
        fill(net)
        alone = numbers(net(x))
        batch = x.shape[0] if "batch" in name else x.shape[1]
        outputs, states = net(x, net.begin_state(batch))
        results = [numbers(outputs), [numbers(s) for s in states]]
        net.hybridize()
        compiled = numbers(net(x))
        structural = sorted(net._collect_params_with_prefix().keys())
        text = net(mx.sym.var("data")).tojson()
        found[name] = [repr(net), list(net.collect_params().keys()), structural, text, alone, results, compiled]
    return found


@program
def initializers(mx):
    init = mx.init
    made = [init.Zero(), init.One(), init.Constant(2), init.Uniform(), init.Normal(0.1), init.Orthogonal()]
    made += [init.Xavier(), init.MSRAPrelu(), init.Bilinear(), init.LSTMBias(2.0), init.Xavier("gaussian", "in", 2)]
    filled = []
    for one, shape in ((init.Bilinear(), (2, 1, 4, 4)), (init.LSTMBias(2.0), (8,)), (init.Constant(3), (2, 2))):
        array = mx.nd.zeros(shape)
        one(init.InitDesc("any", {"__init__": one.dumps()}), array)
        filled.append(numbers(array))
    for name in ("x_bias", "x_gamma", "x_beta", "x_min", "x_max"):
        array = mx.nd.zeros((2,)) + 5
        init.Xavier()(init.InitDesc(name), array)
        filled.append(numbers(array))
    drawn = mx.nd.zeros((200, 100))
    init.Xavier()(init.InitDesc("w_weight"), drawn)
    bounded = float(np.abs(drawn.asnumpy()).max()) <= (3 / 150) ** 0.5 + 1e-6
    fails = [
        failure(lambda: init.Xavier()(init.InitDesc("what"), drawn)),
        failure(lambda: init.Xavier()(init.InitDesc("v_weight"), mx.nd.zeros((3,)))),
    ]
    return [[one.dumps() for one in made], filled, bounded, fails]


@program
def bound_symbol(mx):
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(mx.sym.BatchNorm(data, name="bn"), num_hidden=2, name="fc")
    executor = net.simple_bind(mx.cpu(), data=(3, 4), grad_req={"fc_weight": "write"})
    for number, (_, array) in enumerate(sorted({**executor.arg_dict, **executor.aux_dict}.items())):
        array[:] = np.abs(np.sin(np.arange(array.size) + number)).reshape(array.shape)
    first = numbers(executor.forward(data=ramp(mx, 3, 4))[0])
    smaller = executor.reshape(data=(1, 4))
    second = numbers(smaller.forward(data=ramp(mx, 1, 4))[0])
    grads = [g is not None for g in executor.grad_arrays]
    weights = mx.sym.dot(mx.sym.var("x"), mx.sym.var("y")).eval(x=ramp(mx, 2, 3), y=ramp(mx, 3, 2))
    return [first, second, grads, list(executor.output_dict), numbers(weights[0]), sorted(executor.arg_dict)]


@program
def batches(mx):
    found = []
    for handle in ("pad", "discard", "roll_over"):
        it = mx.io.NDArrayIter(np.arange(14).reshape(7, 2), np.arange(7), batch_size=3, last_batch_handle=handle)
        for _ in range(2):
            for batch in it:
                found.append([numbers(batch.data[0]), numbers(batch.label[0]), batch.pad])
            it.reset()
    it = mx.io.NDArrayIter({"b": np.zeros((4, 2)), "a": np.zeros((4, 1))}, batch_size=2)
    described_data = [[d.name, list(d.shape), np.dtype(d.dtype).name, d.layout] for d in it.provide_data]
    return [found, described_data, [list(d) for d in it.provide_label]]


@program
def module(mx):
    data = mx.sym.var("data")
    fc = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    net = mx.sym.SoftmaxOutput(mx.sym.Activation(fc, act_type="relu", name="act"), name="softmax")
    mod = mx.mod.Module(net, context=mx.cpu())
    mod.bind([("data", (4, 5))], [("softmax_label", (4,))], for_training=False)
    mod.init_params(mx.init.One())
    shapes = [list(map(list, pairs)) for pairs in (mod.data_shapes, mod.label_shapes, mod.output_shapes)]
    weights = {"fc_weight": ramp(mx, 3, 5), "fc_bias": ramp(mx, 3)}
    mod.set_params(weights, {})
    it = mx.io.NDArrayIter(ramp(mx, 6, 5), mx.nd.zeros((6,)), batch_size=4)
    whole = numbers(mod.predict(it))
    mod.forward(mx.io.DataBatch([ramp(mx, 2, 5)], [mx.nd.zeros((2,))]), is_train=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failing = failure(lambda: mx.mod.Module(net, data_names=["input"]))
    names = [mod.data_names, mod.label_names, mod.output_names, mod._param_names, mod._aux_names]
    return [shapes, whole, numbers(mod.get_outputs()[0]), failing, names, sorted(mod.get_params()[0])]
