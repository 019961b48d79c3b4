"""Automatic mixed precision: lists, symbols and models that are converted, losses that are scaled."""

import hashlib
import json
import os
from importlib import import_module

import numpy as np
from program import failure, gather, numbers

PROGRAMS, program = gather()
DTYPES = ("float16", "bfloat16")


def amp_of(mx):
    return import_module(f"{mx.__name__}.contrib.amp")


def lines(symbol):
    """A line for each node: its operator, its name, the attributes of its dtype and its inputs."""
    graph = json.loads(symbol.tojson(remove_amp_cast=False))
    nodes, found = graph["nodes"], []
    for node in graph["nodes"]:
        attrs = node.get("attrs", {})
        kept = " ".join(f"{key}={attrs[key]}" for key in ("dtype", "__dtype__", "num_outputs") if key in attrs)
        inputs = " ".join(f"{nodes[i]['name']}:{k}" for i, k, _ in node["inputs"])
        found.append(f"{node['op']} {node['name']} {kept} <- {inputs}")
    return [*found, f"heads {graph['heads']}"]


def converted(mx, *args, **kwargs):
    """The lines of a converted symbol, or the type of the error."""
    try:
        return lines(amp_of(mx).convert_symbol(*args, **kwargs))
    except Exception as error:
        return type(error).__name__


def lists_of(mx, dtype):
    amp = amp_of(mx)
    dtype = amp.amp.bfloat16 if dtype == "bfloat16" else dtype
    names = "lp16_ops fp32_ops lp16_fp32_ops widest_type_cast loss_output_functions lp16_use_fp32_params"
    found = {name: getattr(amp, f"list_{name}")(dtype) for name in names.split()}
    conditional = sorted(map(list, amp.list_conditional_fp32_ops(dtype)))
    return {**{name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}}, conditional


@program
def lists(mx):
    """Short lists, and the number of names and a hash of long ones."""
    found = []
    for dtype in DTYPES:
        names, conditional = lists_of(mx, dtype)
        for name, value in names.items():
            if isinstance(value, list) and len(value) > 20:
                value = [len(value), hashlib.sha256(" ".join(value).encode()).hexdigest()[:16]]
            found.append([dtype, name, value])
        found.append(conditional)
    return found


def classifier(mx, mixed=False):
    """A residual block, concatenation (of several dtypes if `mixed`), pooling, dropout, conditional activations."""
    sym = mx.sym
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=4, name="conv0")
    x = sym.BatchNorm(x, fix_gamma=False, name="bn0")
    x = sym.LeakyReLU(x, act_type="elu", name="elu0")
    y = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="conv1")
    x = sym.elemwise_add(x, y, name="sum")
    x = sym.Concat(x, sym.Activation(x, act_type="relu", name="relu"), *([y] * mixed), dim=1, name="concat")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    x = sym.Activation(x, act_type="softrelu", name="soft")
    x = sym.FullyConnected(sym.Dropout(sym.Flatten(x, name="flat"), name="drop"), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def outputs(mx):
    """Several outputs, an operator with several outputs, shared variables and inputs, constants and unknown dtypes."""
    sym = mx.sym
    data, weight = sym.Variable("data"), sym.Variable("w", dtype="float32")
    a = sym.FullyConnected(data, weight, num_hidden=6, no_bias=True, name="one")
    b = sym.FullyConnected(data, weight, num_hidden=6, no_bias=True, name="two")
    parts = sym.SliceChannel(a, num_outputs=2, name="parts")
    c = sym.broadcast_add(parts[0], parts[1], name="plus")
    d = sym.exp(b, name="exp") * 2
    e = sym.broadcast_mul(sym.Variable("p"), sym.Variable("q"), name="free")
    f = sym.dot(d, sym.transpose(b, name="turned"), name="dot")
    return sym.Group([c, d, e, f, sym.mean(d, name="mean"), sym.BlockGrad(b, name="stopped"), a])


def recurrent(mx):
    cell = mx.rnn.FusedRNNCell(6, 2, "lstm", prefix="lstm_", get_next_state=True)
    embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    out, states = cell.unroll(3, embedded, layout="NTC", merge_outputs=True)
    last = mx.sym.SequenceLast(mx.sym.swapaxes(out, dim1=0, dim2=1), name="last")
    return mx.sym.Group([mx.sym.LayerNorm(last, name="norm"), states[0]])


NETWORKS = (classifier, outputs, recurrent)


@program
def symbols(mx):
    return {f"{make.__name__} {dtype}": converted(mx, make(mx), dtype) for make in NETWORKS for dtype in DTYPES}


@program
def options(mx):
    made = classifier(mx)
    calls = {
        "data": {"data_names": ["data", "softmax_label"]},
        "optional": {"data_names": ["data", "softmax_label"], "cast_optional_params": True},
        "optional without names": {"cast_optional_params": True},
        "excluded": {"excluded_sym_names": ["conv1", "fc", "sum"]},
        "lists": {"target_dtype_ops": ["Pooling", "BatchNorm"], "fp32_ops": ["Convolution"]},
        "optional lists": {
            "target_dtype_ops": ["BatchNorm", "Convolution"],
            "fp32_ops": ["FullyConnected"],
            "data_names": ["data", "softmax_label"],
            "cast_optional_params": True,
        },
        "twice": {"target_dtype_ops": ["Pooling"], "fp32_ops": ["Pooling"]},
        "twice with a condition": {"target_dtype_ops": ["Activation"]},
        "fixed": {"target_dtype_ops": ["Concat"]},
        "unknown data": {"data_names": ["nonsense"]},
        "no list": {"excluded_sym_names": "fc"},
        "conditional": {
            "target_dtype_ops": ["FullyConnected"],
            "fp32_ops": [],
            "conditional_fp32_ops": [("Convolution", "no_bias", ["True"]), ("Activation", "act_type", ["tanh"])],
        },
    }
    found = {}
    for name, given in calls.items():
        for dtype in DTYPES:
            found[f"{name} {dtype}"] = converted(mx, made, dtype, **given)
    found["optional outputs"] = converted(mx, outputs(mx), cast_optional_params=True)
    found["optional outputs of data"] = converted(mx, outputs(mx), cast_optional_params=True, data_names=["data"])
    for dtype in DTYPES:
        found[f"mixed {dtype}"] = converted(mx, classifier(mx, True), dtype)
    found["unchanged"] = lines(made)
    return found


def apart(mx, dtype, function, **options):
    """The result of a function with mixed precision: under MXNet, which cannot switch it off, in another process."""
    amp = amp_of(mx)
    if hasattr(amp.amp, "_switch"):
        try:
            amp.init(dtype, **options)
            with mx.name.NameManager():
                return function()
        finally:
            amp.amp._switch(None, None)
    reader, writer = os.pipe()
    if os.fork() == 0:
        amp.init(dtype, **options)
        with mx.name.NameManager():
            os.write(writer, json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return json.load(pipe)


def group(mx):
    """The outputs of the networks above, made of functions and methods."""
    x = outputs(mx)
    y = (x[0] + mx.sym.Variable("z")) * 3 - x[1] ** 0.5
    return mx.sym.Group([*x, y.reshape((-1,)).exp(), mx.sym.add_n(y, x[2]), mx.sym.stack(y, y, name="stack")])


@program
def called_symbols(mx):
    makers = {"classifier": classifier, "group": group, "recurrent": recurrent}
    return {
        f"{name} {dtype}": apart(mx, dtype, lambda make=make: lines(make(mx)))
        for name, make in makers.items()
        for dtype in DTYPES
        if (name, dtype) != ("recurrent", "bfloat16")  # MXNet fails in sym.zeros
    }


@program
def called_symbols_with_lists(mx):
    options = {
        "target_precision_ops": ["transpose", "FullyConnected"],
        "fp32_ops": ["Convolution", "Flatten"],
        "conditional_fp32_ops": [("Pooling", "pool_type", ["max"])],
    }
    return {dtype: apart(mx, dtype, lambda: [lines(classifier(mx)), lines(group(mx))], **options) for dtype in DTYPES}


def blocks(mx):
    """The graphs of hybridized blocks."""
    gluon = mx.gluon
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(3, 3), gluon.nn.BatchNorm(), gluon.nn.ELU(), gluon.nn.GlobalAvgPool2D())
        net.add(gluon.nn.Dense(4, activation="softrelu"), gluon.nn.LayerNorm(), gluon.nn.Dense(2, use_bias=False))
    loss = gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss_")
    found = []
    for block, shapes in ((net, [(2, 1, 6, 6)]), (loss, [(2, 3), (2,)])):
        block.hybridize()
        out = block._get_graph(*[mx.nd.zeros(shape) for shape in shapes])[1]
        found.append(lines(out))
    return found


@program
def traced_blocks(mx):
    return {dtype: apart(mx, dtype, lambda: blocks(mx)) for dtype in DTYPES}


def attempt(call):
    """The dtype and the elements of the array that a call returns, or the type of its error."""
    try:
        array = call()
        return [np.dtype(array.dtype).name[:7], numbers(array.astype("float32"))]
    except Exception as error:
        return type(error).__name__


@program
def called_arrays(mx):
    """Operators on arrays in float32 and bfloat16, which MXNet's CPU has."""

    def run():
        nd = mx.nd
        full = nd.array([[1, 2, 3], [0.5, 0.1, 4]])
        low = nd.amp_cast(full, dtype=amp_of(mx).amp.bfloat16)
        calls = [
            lambda: nd.exp(low),
            low.exp,
            lambda: nd.broadcast_add(low, full),
            lambda: full + low,
            lambda: low + low,
            lambda: nd.elemwise_mul(full, low),
            lambda: low**0.3,
            lambda: nd.dot(full, low.T.astype("float32")),
            lambda: nd.relu(low),
            lambda: nd.concat(full, full, dim=0),
            lambda: nd.stack(full, low),
            lambda: nd.where(full > 1, low, full),
            lambda: nd.softmax(low),
            lambda: nd.LeakyReLU(low, act_type="elu"),
            lambda: nd.sum(low, axis=1),
            lambda: nd.maximum(low, full),
        ]
        return [attempt(call) for call in calls]

    return apart(mx, "bfloat16", run)


@program
def scaled_losses(mx):
    """A float32 network whose losses are scaled: steps, an overflow that skips one, gradients that are clipped."""

    def run():
        amp, nd = amp_of(mx), mx.nd
        weight = mx.gluon.Parameter("weight", shape=(3, 2))
        weight.initialize(mx.init.Constant(0.5))
        trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 0.1, "momentum": 0.5})
        amp.init_trainer(trainer)
        scaler = trainer._amp_loss_scaler
        scaler._scale_seq_len = 3
        data, found = nd.array([[1, -2, 3], [0.5, 1, 2]]), []
        for step in range(12):
            factor = 1e38 if step in (4, 5) else 1
            with mx.autograd.record():
                loss = (nd.dot(data, weight.data()) ** 2) * factor
                with amp.scale_loss([loss, loss] if step % 2 else loss, trainer) as scaled:
                    mx.autograd.backward(scaled)
            if step % 3 == 0:
                amp.unscale(trainer)
                mx.gluon.utils.clip_global_norm([weight.grad()], 0.5, check_isfinite=False)
            trainer.step(2)
            found.append([numbers(weight.data()), scaler.loss_scale, trainer._scale])
        other = mx.gluon.Trainer([weight], "sgd")
        amp.init_trainer(other)
        return [*found, other._amp_loss_scaler is scaler, other._amp_loss_scaler.loss_scale]

    return apart(mx, "float16", run)


@program
def scaled_outputs(mx):
    """Output operators multiply their own gradients by the scale."""

    def run():
        nd, found = mx.nd, []
        for name in ("SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
            x = nd.array([[1, 2, 3], [0.5, 0.1, 4]])
            x.attach_grad()
            label = nd.array([1, 2]) if name == "SoftmaxOutput" else nd.ones((2, 3))
            for options in ({}, {"grad_scale": 0.5}):
                with mx.autograd.record():
                    out = getattr(nd, name)(x, label, **options)
                out.backward()
                found.append([numbers(out), numbers(x.grad)])
        return found

    return apart(mx, "float16", run)


@program
def mistakes(mx):
    amp = amp_of(mx)
    weight = mx.gluon.Parameter("weight", shape=(2,))
    weight.initialize()
    trainer, optimizer = mx.gluon.Trainer([weight], "sgd"), mx.optimizer.SGD()
    made = classifier(mx)

    def run():
        return [
            failure(amp.init_trainer, optimizer),
            failure(amp.init_trainer, weight),
            failure(amp.unscale, optimizer),
            failure(amp.init, "float16"),
        ]

    return [
        *apart(mx, "float16", run),
        failure(amp.init, "float32"),
        failure(amp.init, "int8"),
        failure(amp.init_trainer, trainer),
        failure(amp.convert_symbol, "symbol"),
        failure(amp.convert_symbol, made, "float64"),
        failure(amp.convert_symbol, made, fp32_ops="exp"),
        failure(amp.convert_symbol, made, target_dtype_ops=("exp",)),
        failure(amp.convert_symbol, made, conditional_fp32_ops=[("exp", "x", "y")]),
        failure(amp.convert_model, made, {}, None),
        failure(amp.convert_model, made, [], {}),
        failure(amp.convert_model, "symbol", {}, {}),
        failure(amp.convert_hybrid_block, mx.gluon.nn.Dense(2)),
        failure(amp.convert_hybrid_block, mx.gluon.nn.Sequential()),
        failure(amp.list_lp16_ops, "float32"),
    ]


def dtypes(arrays):
    return {name: np.dtype(array.dtype).name[:7] for name, array in sorted(arrays.items())}


@program
def models(mx):
    """The dtypes of the parameters of converted models."""
    net, found = classifier(mx), []
    shapes, _, states = net.infer_shape(data=(2, 3, 8, 8), softmax_label=(2,))
    given = dict(zip(net.list_arguments(), shapes))  # noqa: B905
    args = {name: mx.nd.ones(shape) for name, shape in given.items() if name not in ("data", "softmax_label")}
    aux = {name: mx.nd.ones(shape) for name, shape in zip(net.list_auxiliary_states(), states)}  # noqa: B905
    for dtype in DTYPES:
        for optional in (False, True):
            options = {"cast_optional_params": optional, "excluded_sym_names": ["conv1"]}
            made, *parameters = amp_of(mx).convert_model(net, dict(args), dict(aux), dtype, **options)
            found.append([lines(made), *map(dtypes, parameters)])
    return found


@program
def converted_blocks(mx):
    nn, found = mx.gluon.nn, []
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(3, 3, in_channels=1), nn.BatchNorm(in_channels=3), nn.Dense(4, in_units=12))
    net.initialize(mx.init.One())
    net.hybridize()
    net(mx.nd.ones((2, 1, 4, 4)))
    for dtype in DTYPES:
        for optional in (False, True):
            made = amp_of(mx).convert_hybrid_block(net, dtype, ctx=mx.cpu(), cast_optional_params=optional)
            parameters = {name: param.data() for name, param in made.collect_params().items()}
            found.append([lines(made._cached_graph[1]), dtypes(parameters), type(made).__name__])
    return found


@program
def converted_buckets(mx):
    def symbol(key):
        data = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=5, output_dim=3, name="embed")
        out = mx.sym.FullyConnected(mx.sym.mean(data, axis=1, name="mean"), num_hidden=2, name="fc")
        return mx.sym.SoftmaxOutput(out, name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(symbol, default_bucket_key=4)
    module.bind([("data", (2, 4))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    module.switch_bucket(3, [("data", (2, 3))], [("softmax_label", (2,))])
    made = amp_of(mx).amp.convert_bucketing_module(module, cast_optional_params=True)
    found = [[key, lines(bucket._symbol)] for key, bucket in sorted(made._buckets.items())]
    return [*found, dtypes(made._curr_module._arg_params)]
