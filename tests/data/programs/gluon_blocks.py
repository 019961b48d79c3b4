"""Programs on blocks and parameters: sharing, files, structures of arguments, deferred initialization, summaries."""

import contextlib
import io
import os
import tempfile
import warnings

import numpy as np
from program import failure, fill, gather, numbers, ramp

PROGRAMS, program = gather()


def values(found):
    """Arrays in nested lists as numbers."""
    if isinstance(found, (list, tuple)):
        return [values(part) for part in found]
    return None if found is None else numbers(found)


def dtypes(net):
    return [np.dtype(param.dtype).name for param in net.collect_params().values()]


def shapes(net):
    return [list(param.shape) for param in net.collect_params().values()]


def small_net(mx, **options):
    nn = mx.gluon.nn
    net = nn.HybridSequential(**options)
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    return net


def filled_net(mx, **options):
    net = small_net(mx, **options)
    net.initialize()
    net(ramp(mx, 2, 4))
    fill(net)
    return net


@program
def forward_style(mx):
    """Blocks that say `forward`: it runs at every call, hybridized or not."""
    gluon = mx.gluon

    class Plain(gluon.HybridBlock):
        def __init__(self, **options):
            super().__init__(**options)
            self.calls = 0
            with self.name_scope():
                self.dense = gluon.nn.Dense(2)

        def forward(self, x, *args):
            self.calls += 1
            return self.dense(x) * 2

    class Around(Plain):
        def forward(self, x, *args):
            self.calls += 1
            return gluon.HybridBlock.forward(self, x * self.calls, *args)

        def hybrid_forward(self, F, x):
            return self.dense(x)

    found = []
    for kind in (Plain, Around):
        net, x = kind(), ramp(mx, 2, 3)
        net.initialize()
        net(x)
        fill(net)
        results = [net(x)]
        net.hybridize()
        results += [net(x) for _ in range(3)]
        found.append([values(results), net.calls])
    return found


@program
def sharing(mx):
    gluon, nn = mx.gluon, mx.gluon.nn
    first = nn.Dense(3, in_units=4, prefix="x_")
    second = nn.Dense(3, in_units=4, prefix="x_", params=first.params)
    third = nn.Dense(3, in_units=4, params=first.collect_params())
    first.initialize()
    same = [second.weight is first.weight, third.weight is first.weight]
    names = [third.name, third.prefix, list(third.collect_params()), repr(third.params)]
    errors = [
        failure(lambda: nn.Dense(4, in_units=4, params=first.params)),
        failure(lambda: nn.Dense(3, in_units=5, params=first.params)),
        failure(lambda: nn.Dense(3, dtype="float64", params=first.params)),
        failure(lambda: nn.Dense(3, use_bias=False, params=first.params)),
    ]
    return [same, names, errors, gluon.nn.HybridSequential(prefix="other_", params=first.params).name]


@program
def parameter_dictionaries(mx):
    gluon = mx.gluon
    held = gluon.ParameterDict("p_")
    held.update(gluon.nn.Dense(3, in_units=4, prefix="x_").collect_params())
    new = held.get("new", shape=(2, 0), allow_deferred_init=True)
    again = held.get("new", shape=(0, 3))
    constant = held.get_constant("c", [[1, 2]])
    constant.initialize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant.grad_req = "write"
    errors = [
        failure(lambda: held.update({"x_weight": gluon.Parameter("x_weight")})),
        failure(lambda: held.get("new", shape=(3, 3))),
        failure(lambda: held.get("new", lr_mult=2)),
        failure(lambda: held.get("new", init="zeros")),
        failure(lambda: held.get_constant("d")),
        failure(lambda: held.get_constant("c", mx.nd.array([[1, 3]]))),
        failure(lambda: held.get_constant("c", mx.nd.array([[1, 2]]))),
        failure(lambda: held["nothing"]),
        failure(constant.grad),
    ]
    shown = [repr(held), list(held), len(held.items()), "x_weight" in held, held.prefix, new.name, again is new]
    return [shown, list(new.shape), repr(constant), constant.grad_req, values(constant.data()), errors]


@program
def parameter_errors(mx):
    Parameter = mx.gluon.Parameter
    param = Parameter("p", shape=(2, 3))
    param.initialize(ctx=[mx.cpu(0), mx.cpu(1)])

    def waiting():
        made = Parameter("u", allow_deferred_init=True, shape=(0, 2))
        made.initialize()
        return made

    double = mx.nd.ones((2, 3), dtype="float64")
    calls = [
        lambda: param.data(mx.cpu(2)),
        lambda: param.data(mx.cpu_pinned(1)),
        lambda: setattr(param, "shape", (3, 3)),
        lambda: param.set_data(mx.nd.ones((4,))),
        lambda: Parameter("a", stype="x"),
        lambda: Parameter("a", grad_req="x"),
        lambda: Parameter("u").set_data(double),
        lambda: Parameter("u").data(),
        lambda: Parameter("u").list_ctx(),
        lambda: Parameter("u").reset_ctx(mx.cpu()),
        lambda: Parameter("u").grad(),
        lambda: Parameter("u").initialize(),
        lambda: param._load_init(mx.nd.ones((2, 3)), mx.cpu(0)),
        lambda: param._load_init(mx.nd.ones((2, 4)), None),
        lambda: param._load_init(double, None),
        lambda: param._load_init(double, None, cast_dtype=True),
        lambda: param._load_init(double, None, cast_dtype=True, dtype_source="x"),
        lambda: param.row_sparse_data(double),
        lambda: waiting().data(),
        lambda: waiting()._finish_deferred_init(),
        lambda: waiting().grad(),
        lambda: waiting().set_data(mx.nd.ones((3, 2))),
        lambda: waiting().set_data(mx.nd.ones((3, 3))),
        lambda: waiting()._reduce(),
        lambda: waiting().reset_ctx(mx.cpu(1)),
        lambda: Parameter("s", shape=(2,), stype="row_sparse").list_data(),
    ]
    return [failure(call) for call in calls]


@program
def selections(mx):
    net = filled_net(mx)
    names = [list(net.collect_params(pattern)) for pattern in (".*weight", ".*dense0_weight|.*beta", "nothing")]
    net.collect_params(".*weight").setattr("grad_req", "null")
    kinds = [param.grad_req for param in net.collect_params().values()]
    shown = [repr(net.collect_params()), repr(net[0:2]), len(net), net[1].name, net[-1].name]
    return [names, kinds, shown, sorted(net._collect_params_with_prefix("pre")), failure(lambda: net[5])]


def loaded(mx, file, **options):
    net = small_net(mx)
    return failure(net.load_parameters, file, **options)


@program
def parameter_files(mx):
    with tempfile.TemporaryDirectory() as folder:
        place = folder + "/"
        net = filled_net(mx)
        net.save_parameters(place + "structural")
        net.collect_params().save(place + "full")
        net.collect_params().save(place + "stripped", strip_prefix=net.prefix)
        found = [sorted(mx.nd.load(place + name)) for name in ("structural", "full", "stripped")]
        found.append(failure(lambda: net.collect_params().save(place + "other", strip_prefix="zzz")))
        found += [loaded(mx, place + name) for name in ("structural", "stripped", "nothing")]
        again = small_net(mx, prefix=net.prefix)
        for name in ("structural", "full", "stripped"):
            params = again.collect_params()
            found.append(failure(params.load, place + name))
            found.append(failure(params.load, place + name, restore_prefix=net.prefix))
            found.append(failure(params.load, place + name, ignore_extra=True, allow_missing=True))
        double = filled_net(mx)
        double.cast("float64")
        for options in ({}, {"cast_dtype": True}, {"cast_dtype": True, "dtype_source": "saved"}):
            found.append(failure(double.load_parameters, place + "structural", **options))
            found.append(dtypes(double))
        found.append(failure(lambda: net.load_parameters(place + "structural", ctx=mx.cpu(1))))
        fresh = small_net(mx)
        fresh.load_parameters(place + "structural", ctx=[mx.cpu(0), mx.cpu(1)])
        found.append([str(ctx) for ctx in fresh[0].weight.list_ctx()])
        nn = mx.gluon.nn
        both = nn.HybridSequential()
        both.add(nn.Dense(4, in_units=4))
        both.add(nn.Dense(4, in_units=4, params=both[0].params))
        both.initialize()
        both.save_parameters(place + "both")
        both.save_parameters(place + "once", deduplicate=True)
        found += [sorted(mx.nd.load(place + name)) for name in ("both", "once")]
        found += [failure(both.load_parameters, place + name) for name in ("both", "once")]
        empty = nn.HybridSequential()
        empty.save_parameters(place + "empty")
        return [*found, failure(lambda: empty.load_parameters(place + "empty")), loaded(mx, place + "empty") != "none"]


def structured(mx):
    class Structured(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, y=None, z=None):
            out = F.relu(x)
            if y is not None:
                out = out + y[0] - y[1]
            return [out] if z is None else (out, [out * 2, (z,)])

    return Structured()


@program
def argument_structures(mx):
    x, found = ramp(mx, 2, 3), []
    for args in ((x,), (x, [x, x * 2]), (x, [x, x], x * 3), (x, None, x), (x, (x, x))):
        net = structured(mx)
        eager = net(*args)
        net.hybridize()
        compiled = [net(*args) for _ in range(2)]
        found.append([values(eager), values(compiled), type(compiled[0]).__name__, net._in_format, net._out_format])
    net = structured(mx)
    net.hybridize()
    net(x, [x, x])
    for args in ((x,), (x, [x]), (x, x), (x, [x, x], None), (x, [x, x], x), (x, [x, [x]])):
        found.append(failure(net, *args))
    for active in (False, True):
        net = structured(mx)
        net.hybridize(active)
        for args in ((1,), (None,), (x, mx.sym.var("a")), ("a",), (x, 3)):
            found.append(failure(net, *args))
    symbols = structured(mx)(mx.sym.var("a"), [mx.sym.var("b"), mx.sym.var("c")])
    return [found, symbols[0].tojson()]


def plain_block(mx):
    nn = mx.gluon.nn

    class Plain(mx.gluon.Block):
        def __init__(self, **options):
            super().__init__(**options)
            with self.name_scope():
                self.a = nn.Dense(3)
                self.b = nn.Dense(3, params=self.a.params)
                self.c = self.params.get("c", shape=(2,))

        def forward(self, x):
            return self.b(x) + self.a(x)

    return Plain()


@program
def plain_blocks(mx):
    gluon, nn, net, x = mx.gluon, mx.gluon.nn, plain_block(mx), ramp(mx, 2, 3)
    names = [repr(net), net.name, net.prefix, list(net.collect_params()), list(net.params)]
    names.append(sorted(net._collect_params_with_prefix()))
    errors = [
        failure(lambda: setattr(net, "a", 3)),
        failure(lambda: setattr(net, "c", gluon.Parameter("zz"))),
        failure(lambda: setattr(net, "a", nn.Dense(2))),
        failure(lambda: setattr(net, "a", nn.Conv2D(2, 1))),
        failure(lambda: setattr(net, "c", None)),
        failure(lambda: gluon.Block()(1)),
        failure(lambda: gluon.HybridBlock()(x)),
        failure(lambda: nn.HybridSequential().add(net)),
        failure(lambda: nn.Lambda("nothing")),
        failure(lambda: nn.HybridLambda("nothing")),
        failure(lambda: nn.Lambda(3)),
    ]
    visited = []
    net.apply(lambda block: visited.append(block.name))
    net.register_child(nn.Dense(1, prefix="late_"))
    net.hidden = [nn.Dense(2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net.collect_params()
    return [names, errors, visited, list(net._children), len(caught), repr(nn.Lambda("relu"))]


@program
def deferred_initialization(mx):
    nn, x, found = mx.gluon.nn, ramp(mx, 2, 3), []
    dense = nn.Dense(2)
    found += [failure(dense, x), failure(dense.weight.data)]
    dense.initialize()
    found += [failure(dense.weight.data), failure(dense.weight.list_data)]
    found += [failure(dense.weight.grad), failure(lambda: dense.save_parameters(os.devnull))]
    dense(x)
    found += [shapes(dense), failure(lambda: dense(ramp(mx, 2, 4)))]
    conv = nn.Conv2D(2, 3)
    conv.initialize()
    for active in (False, True):
        conv.hybridize(active)
        found += [failure(conv, x), failure(conv, ramp(mx, 1, 3, 2, 2))]
    found += [list(conv(ramp(mx, 1, 3, 3, 3)).shape), shapes(conv)]
    net = small_net(mx)
    net.hybridize()
    found.append(failure(net, x))
    net.initialize()
    net.infer_shape(x)
    found += [shapes(net), failure(net[0].weight.data)]
    double = nn.Dense(2, in_units=3)
    double.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    for active in (False, True):
        double.hybridize(active)
        found.append(str(double(x.as_in_context(mx.cpu(1))).context))
        found.append(failure(double, x.as_in_context(mx.cpu(2))))
    net.cast("float16")
    return [*found, dtypes(net)]


@program
def symbol_blocks(mx):
    SymbolBlock, x = mx.gluon.SymbolBlock, ramp(mx, 2, 4)
    net = filled_net(mx)
    net.hybridize()
    expected = net(x)
    with tempfile.TemporaryDirectory() as folder:
        place = folder + "/model"
        net.export(place, 3)
        found = [sorted(mx.nd.load(place + "-0003.params"))]
        block = SymbolBlock.imports(place + "-symbol.json", ["data"], place + "-0003.params")
        bare = SymbolBlock.imports(place + "-symbol.json", "data")
        found += [repr(block), block.prefix, list(block.collect_params()), values([block(x), expected])]
        found += [sorted(block._collect_params_with_prefix()), failure(bare, x)]
        bare.load_parameters(place + "-0003.params")
        found.append(values(bare(x)))
        found.append(failure(lambda: SymbolBlock.imports(place + "-symbol.json", ["no"], place + "-0003.params")))
        block.save_parameters(place)
        found.append(sorted(mx.nd.load(place)))
        found.append(failure(block.load_parameters, place))
    out = net(mx.sym.var("q"))
    pair = SymbolBlock([out, out * 2], mx.sym.var("q"), params=net.collect_params())
    found += [values(pair(x)), repr(pair), list(pair.params)]
    outer = mx.gluon.nn.HybridSequential()
    outer.add(block, mx.gluon.nn.Flatten())
    outer.hybridize()
    found += [values(outer(x)), outer._get_graph(x)[1].list_outputs()]
    block.cast("float16")
    return [*found, dtypes(block), failure(lambda: SymbolBlock(out, mx.sym.relu(mx.sym.var("q"))))]


@program
def summaries(mx):
    x, found = ramp(mx, 2, 2), []
    uses = [(small_net(mx), (x,)), (plain_block(mx), (x,)), (structured(mx), (x, [x, x], x))]
    for net, inputs in uses:
        net.initialize()
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            net.summary(*inputs)
        found.append(shown.getvalue())
    net = small_net(mx)
    net.hybridize()
    return [found, failure(net.summary, x)]


@program
def recurrent_layers(mx):
    rnn, found = mx.gluon.rnn, []
    makers = [
        lambda: rnn.LSTM(3, 2, "NTC", 0.2, True, 4),
        lambda: rnn.LSTM(4, projection_size=2),
        lambda: rnn.RNN(3, activation="tanh"),
    ]
    for make in makers:
        with mx.name.NameManager():
            layer, x = make(), ramp(mx, 2, 3, 4)
            layer.initialize()
            layer(x)
            fill(layer)
            batch = 2 if layer._layout == "NTC" else 3
            states = layer.begin_state(batch)
            eager = [layer(x), layer(x, states)]
            layer.hybridize()
            compiled = [layer(x), layer(x, states)]
            names = [repr(layer), [s.name for s in layer.begin_state(2, func=mx.sym.zeros)]]
            names.append(sorted(layer._collect_params_with_prefix()))
            wrong = failure(layer, x, layer.begin_state(5))
            found.append([names, values(eager), values(compiled), wrong])
    layer = rnn.LSTM(3, 2, bidirectional=True, input_size=3)
    layer.initialize()
    fill(layer)
    cells, x = layer._unfuse(), ramp(mx, 4, 2, 3)
    found.append(values([layer(x), cells.unroll(4, x, layout="TNC", merge_outputs=True)[0]]))
    return [
        found,
        list(cells.collect_params()) == list(layer.collect_params()),
        failure(lambda: rnn.LSTM(3, layout="CTN")),
    ]
