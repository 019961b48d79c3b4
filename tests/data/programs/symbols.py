# ruff: noqa: PLW0108  (each call stands in a lambda, whatever it is)
"""Programs about symbols alone: attributes, scopes, names, groups, composition, inference, functions that make them."""

import copy
import pickle

import numpy as np
from program import failure, gather

PROGRAMS, program = gather()


def told(calls):
    """What each call returns as a text, or the type of its error."""
    found = []
    for call in calls:
        error = failure(call)
        found.append(str(call()) if error == "none" else error)
    return found


def typed(mx):
    options = {"lr_mult": 2, "wd_mult": 0.5, "dtype": "float16", "init": mx.init.One(), "stype": "default"}
    return mx.sym.var("y", shape=(2, 3), __foo__="bar", **options)


@program
def attributes_of_variables(mx):
    y, sym = typed(mx), mx.sym
    return [
        sorted(y.list_attr().items()),
        [y.attr(key) for key in ("lr_mult", "__lr_mult__", "foo", "__foo__", "_value_index")],
        told(
            [
                lambda: sym.var("q", foo="bar"),
                lambda: sym.var(3),
                lambda: sym.var("q", attr={"a": "b"}).list_attr(),
                lambda: sym.var("q", attr={"a": 3}),
                lambda: y.list_attr(recursive=True),
            ]
        ),
    ]


@program
def scopes_of_attributes(mx):
    with mx.AttrScope(ctx_group="dev1", __data__="great", lr_mult="0.1"):
        a = mx.sym.var("a")
        f = mx.sym.FullyConnected(a, num_hidden=3, name="f", attr={"__k__": "v"})
        with mx.AttrScope(ctx_group="dev2"):
            g = mx.sym.relu(f)
    after = mx.sym.relu(g)
    return [g.attr_dict(), g.attr("ctx_group"), f.attr("lr_mult"), after.tojson(), failure(lambda: mx.AttrScope(a=3))]


@program
def managers_of_names(mx):
    class Mine(mx.name.NameManager):
        def get(self, name, hint):
            return "my_" + (name or hint)

    x = mx.sym.var("x")
    with mx.name.Prefix("p_"):
        made = [mx.sym.FullyConnected(x, num_hidden=3), mx.sym.FullyConnected(x, num_hidden=3, name="named")]
        made.append(mx.sym.var("v"))
    with Mine():
        made.append(x + x)
    manager = mx.name.NameManager()
    names = [manager.get(name, "fc") for name in (None, "a", None)]
    return [[s.name for s in made], [s.list_arguments() for s in made], names]


@program
def names_of_operators(mx):
    x, y = mx.sym.var("x"), mx.sym.var("y")
    o = x + y
    made = [o, o * 2, 2 - o, o / 2, o**2, -o, abs(o), o % 2, 2 % o, o > 1, o == y, o != 2, o <= y, o / y, o * y]
    return [[s.name, s.tojson()] for s in made]


@program
def what_symbols_do_not_do(mx):
    o = mx.sym.var("x") + 1
    calls = [
        lambda: o + "a",
        lambda: bool(o),
        lambda: hash(o),
        lambda: o.asnumpy(),
        lambda: o.copy(),
        lambda: o.wait_to_read(),
        lambda: o.backward(),
        lambda: o.asscalar(),
        lambda: o.__iadd__(o),
        lambda: o.gradient(["x"]),
        lambda: o.get_backend_symbol("other"),
        lambda: o.get_backend_symbol("MKLDNN").list_outputs(),
        lambda: o.as_nd_ndarray() is o,
        lambda: mx.sym.load_json(3),
        lambda: mx.sym.load("/no/such/file"),
        lambda: mx.sym.load(3),
        lambda: o.save(3),
    ]
    return told(calls)


@program
def groups(mx):
    sym, x = mx.sym, mx.sym.var("x")
    g = sym.Group([x, x + 1, sym.split(sym.var("y"), num_outputs=2, name="s")])
    calls = [
        lambda: g.name,
        lambda: g,
        lambda: len(g),
        lambda: g.list_outputs(),
        lambda: [i.name for i in g],
        lambda: g["s_output1"].list_outputs(),
        lambda: g[1:3].list_outputs(),
        lambda: g[5],
        lambda: g["zz"],
        lambda: g[-1],
        lambda: g[0.5],
        lambda: sym.Group([x, x])["x"],
        lambda: sym.Group([]),
        lambda: sym.Group([3]),
        lambda: sym.Group(x),
        lambda: g.attr("x"),
        lambda: g.list_attr(),
        lambda: g.get_internals().list_outputs(),
        lambda: g.get_children().list_outputs(),
        lambda: x.get_internals().list_outputs(),
        lambda: x.get_children(),
        lambda: g.debug_str(),
        lambda: x.debug_str(),
    ]
    return told(calls)


@program
def composition(mx):
    sym = mx.sym
    net, o = sym.FullyConnected(sym.var("d"), num_hidden=3, name="fc"), sym.var("x") + 1
    changed = copy.copy(net)
    changed._set_attr(__mood__="happy")
    calls = [
        lambda: net(d=o).list_arguments(),
        lambda: net(d=o, name="new").list_outputs(),
        lambda: net(o),
        lambda: net(zz=o),
        lambda: net(d=3),
        lambda: net(d=sym.Group([o, o])),
        lambda: copy.deepcopy(net).list_outputs(),
        lambda: pickle.loads(pickle.dumps(net)).tojson() == net.tojson(),
        lambda: (changed.attr("__mood__"), net.attr("__mood__")),
        lambda: copy.copy(net)._set_attr(__mood__=3),
        lambda: copy.copy(net)._set_attr(mood="happy"),
        lambda: net.debug_str(),
    ]
    return told(calls)


@program
def inference(mx):
    sym = mx.sym
    net = sym.FullyConnected(sym.var("d"), num_hidden=3, name="fc")
    y, x = typed(mx), sym.var("x")
    calls = [
        lambda: net.infer_shape(),
        lambda: net.infer_shape_partial(),
        lambda: net.infer_shape(d=(4, 5)),
        lambda: net.infer_shape((4, 5), d=(4, 5)),
        lambda: net.infer_shape(d=[4, 5]),
        lambda: net.infer_shape(d=(4, 5), fc_weight=(3, 9)),
        lambda: net.infer_shape_partial(d=(0, 5)),
        lambda: net.infer_type(),
        lambda: net.infer_type_partial(),
        lambda: net.infer_type(d="float16"),
        lambda: net.infer_type(zz="float16"),
        lambda: net.infer_type(d=3),
        lambda: (x + y).infer_type(),
        lambda: (x + y).infer_shape(),
        lambda: y.infer_shape(),
        lambda: sym.zeros((2, 0)).infer_shape_partial(),
        lambda: (sym.zeros((0, 3)) + sym.var("m", shape=(2, 3))).infer_shape(),
        lambda: sym.Convolution(x, kernel=(3, 3), num_filter=8).infer_shape_partial(),
        lambda: sym.Deconvolution(x, kernel=(3, 3), num_filter=8).infer_shape_partial(),
        lambda: sym.Embedding(x, input_dim=4, output_dim=5).infer_shape_partial(),
    ]
    return told(calls)


@program
def functions_that_make_symbols(mx):
    sym, x, y = mx.sym, mx.sym.var("x"), mx.sym.var("y")
    same = mx.symbol.symbol
    calls = [
        lambda: same.arange(5),
        lambda: sym.arange(1, 5, 2, repeat=2, name="ar", dtype="int32"),
        lambda: same.eye(3, k=1),
        lambda: same.full((2,), 3),
        lambda: sym.full(shape=(2,), val=2, dtype=np.int32, name="ff"),
        lambda: same.linspace(0, 1, 5),
        lambda: same.maximum(x, 2),
        lambda: sym.maximum(2, x),
        lambda: same.minimum(x, y),
        lambda: same.hypot(x, 2),
        lambda: same.pow(2, x),
        lambda: sym.power(base=x, exp=y),
        lambda: same.split_v2(x, 2),
        lambda: sym.split_v2(x, (1, 2), axis=1, squeeze_axis=True),
        lambda: same.ones((2,), dtype="float64"),
        lambda: same.zeros(3),
        lambda: sym.random.uniform(),
        lambda: sym.random.normal(0, 1, shape=(2,)),
        lambda: sym.random.normal(x, y, shape=(2,)),
        lambda: sym.random.randn(2, 3, loc=1),
        lambda: sym.random.exponential(2, shape=3),
        lambda: sym.random.exponential(x),
        lambda: sym.random.randint(1, 5, shape=(2,)),
        lambda: sym.random.multinomial(x),
        lambda: sym.random.shuffle(x),
        lambda: sym.random.uniform_like(x),
        lambda: sym.random.normal_like(x, loc=2),
        lambda: sym.random.exponential_like(x),
        lambda: sym.random.uniform(low=x, high=y, dtype="float64"),
        lambda: sym.Group(list(sym.contrib.rand_zipfian(x, 3, 10))),
        lambda: x.reshape((2, 3)),
        lambda: x.astype("int32"),
        lambda: x.slice_axis(axis=0, begin=0, end=1),
        lambda: sym.concat(x, y, dim=0),
        lambda: sym.add_n(x, y, x),
        lambda: sym.FullyConnected(x, y, num_hidden=3, bias=x),
        lambda: sym.BatchNorm(x, output_mean_var=True, name="b"),
    ]
    return [call().tojson() for call in calls]


@program
def what_functions_of_symbols_refuse(mx):
    sym, x = mx.sym, mx.sym.var("x")
    calls = [
        lambda: (sym.maximum(2, 3), sym.power(2, 3), sym.minimum(2, 1)),
        lambda: sym.maximum("a", x),
        lambda: sym.split_v2(x, [1, 2]),
        lambda: sym.histogram(x, bins=4),
        lambda: sym.random.uniform(x, 2),
        lambda: sym.FullyConnected(x),
        lambda: sym.FullyConnected(x, num_hidden="a"),
        lambda: sym.FullyConnected(3, num_hidden=3),
        lambda: sym.FullyConnected(data=x, num_hidden=3, zz=3),
        lambda: sym.FullyConnected(sym.Group([x, x]), num_hidden=3),
        lambda: sym.Activation(x, act_type="zz"),
        lambda: sym.concat(),
    ]
    return told(calls)
