"""Programs with loops and conditions, on arrays, on symbols and in hybrid blocks."""

from program import described, failure, fill, gather, numbers, ramp

PROGRAMS, program = gather()


def fresh(mx):
    """Begin the numbers in the names of subgraphs anew: they depend on all that a process made before."""
    mx.AttrScope._subgraph_names.clear()
    return mx.sym


def run(mx, symbol, **shapes):
    """The outputs on fixed arrays, before and after the graph went through its text."""
    arguments = {name: ramp(mx, *shapes[name]) for name in symbol.list_arguments()}
    again = mx.sym.load_json(symbol.tojson())
    return [[numbers(o) for o in s.bind(mx.cpu(), arguments).forward()] for s in (symbol, again)]


def listed(mx, outputs, states):
    return mx.sym.Group([*(outputs if isinstance(outputs, list) else [outputs]), *states])


@program
def foreach_over_symbols(mx):
    sym = fresh(mx)
    data, state, scale = sym.var("data"), sym.var("state"), sym.var("scale")
    twice = scale * 2
    found = sym.contrib.foreach(lambda x, s: (x + s[0] * twice, [s[0] * 0.5]), data, [state])
    g = listed(mx, *found)
    return [described(g), run(mx, g, data=(3, 2), state=(2,), scale=(2,)), g.infer_shape(data=(3, 2))]


@program
def foreach_that_captures(mx):
    sym = fresh(mx)
    parts = sym.split(sym.var("w"), num_outputs=2, axis=0, name="parts")

    def body(x, states):
        return [x * parts[1] + parts[1], sym.var("v") * 2], [states[0] + parts[0]]

    g = listed(mx, *sym.contrib.foreach(body, sym.var("data"), [sym.var("state")]))
    return [described(g), run(mx, g, data=(3, 1, 2), state=(1, 2), w=(2, 2), v=(3,))]


@program
def foreach_over_lists(mx):
    sym = fresh(mx)
    a, b, s = sym.var("a"), sym.var("b"), sym.var("s")

    def body(x, states):
        return [[x[0], x[1] * 2], x[0] + states[0][0]], [[states[0][0] + x[1]]]

    outs, states = sym.contrib.foreach(body, [a, b], [[s]])
    g = sym.Group([outs[0][0], outs[0][1], outs[1], states[0][0]])
    return [described(g), run(mx, g, a=(4, 2), b=(4, 2), s=(2,))]


@program
def foreach_of_a_vector(mx):
    sym = fresh(mx)
    g = listed(mx, *sym.contrib.foreach(lambda x, s: (x + s[0], [s[0] + x]), sym.var("data"), [sym.var("state")]))
    return [run(mx, g, data=(3,), state=(1,)), g.infer_shape(data=(3,))]


@program
def foreach_with_layers(mx):
    sym = fresh(mx)

    def body(x, states):
        y = sym.BatchNorm(sym.FullyConnected(x, num_hidden=3, name="fc"), fix_gamma=False, name="bn")
        return y, [states[0] + sym.Dropout(y, p=0.5)]

    g = listed(mx, *sym.contrib.foreach(body, sym.var("data"), [sym.var("state")]))
    shapes = g.infer_shape(data=(4, 2, 5))
    arguments = {n: ramp(mx, *s) + 1 for n, s in zip(g.list_arguments(), shapes[0])}  # noqa: B905  Python 3.9
    outputs = g.bind(mx.cpu(), arguments).forward()
    return [described(g), shapes, [numbers(o) for o in outputs]]


@program
def foreach_inside_foreach(mx):
    sym = fresh(mx)
    w = sym.var("w")

    def inner(x, states):
        return x + states[0] * w, [states[0] + x]

    def outer(x, states):
        out, last = sym.contrib.foreach(inner, x, [states[0]])
        return sym.broadcast_add(out, w * 3), [last[0] * 0.5]

    g = listed(mx, *sym.contrib.foreach(outer, sym.var("data"), [sym.var("state")]))
    return [described(g), run(mx, g, data=(3, 2, 4), state=(4,), w=(4,))]


@program
def while_over_symbols(mx):
    sym = fresh(mx)
    w = sym.var("w")
    outs, states = sym.contrib.while_loop(
        lambda i, s: (i * w < 4).sum(),
        lambda i, s: ([i + s, s], [i + 1, s + w * 2]),
        [sym.var("i"), sym.var("s")],
        max_iterations=9,
    )
    g = sym.Group([sym.slice_axis(o, axis=0, begin=0, end=2) for o in outs] + states)
    arguments = {"i": mx.nd.array([1]), "s": mx.nd.array([2]), "w": mx.nd.array([0.5])}
    values = [numbers(o) for o in g.bind(mx.cpu(), arguments).forward()]
    return [described(g), values]


@program
def while_without_outputs(mx):
    sym = fresh(mx)
    _, states = sym.contrib.while_loop(
        lambda i, s: i < 5, lambda i, s: ([], (i + 1, s * i)), (sym.var("i"), sym.var("s")), max_iterations=10**9
    )
    g = sym.Group(list(states))
    return [described(g), run(mx, g, i=(1,), s=(1,))]


@program
def cond_over_symbols(mx):
    sym = fresh(mx)
    a, b = sym.var("a"), sym.var("b")
    scaled = a * 3
    found = []
    for limit in (-100, 100):
        g = sym.Group(
            sym.contrib.cond(sym.sum(a * b) < limit, lambda: [(a + 5) * (b + 5), scaled], lambda: [(a - 5) * b, a])
        )
        outputs = g.bind(mx.cpu(), {"a": ramp(mx, 3), "b": ramp(mx, 3)}).forward()
        found.append([described(g), [numbers(o) for o in outputs]])
    return found


@program
def cond_inside_foreach(mx):
    sym = fresh(mx)

    def body(x, states):
        chosen = sym.contrib.cond(sym.sum(x) > 0, lambda: x * 2, lambda: x - states[0])
        return chosen, [states[0] + 1]

    g = listed(mx, *sym.contrib.foreach(body, sym.var("data"), [sym.var("state")]))
    return described(g)  # MXNet cannot infer its shapes


@program
def what_loops_of_symbols_refuse(mx):
    sym = fresh(mx)
    d, s, w = sym.var("d"), sym.var("s"), sym.var("w")
    foreach, loop, cond = sym.contrib.foreach, sym.contrib.while_loop, sym.contrib.cond
    return [
        failure(lambda: foreach(lambda x, t: (t[0], [t[0]]), d, [s])),
        failure(lambda: foreach(lambda x, t: (x, [x]), d, [s])),
        failure(lambda: foreach(lambda x, t: (x, [t[0], x]), d, [s])),
        failure(lambda: foreach(lambda x, t: (x, []), 3, [])),
        failure(lambda: foreach(lambda x, t: (3, []), d, [])),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, [i + 1]), [s])),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, [i + 1]), [], max_iterations=3)),
        failure(lambda: loop(lambda i, j: i < 3, lambda i, j: (i, (i + 1,)), (s, w), max_iterations=3)),
        failure(lambda: loop(lambda i, j: w < 3, lambda i, j: (i, (i + 1, i)), (s, w), max_iterations=3)),
        failure(lambda: loop(lambda i: 3, lambda i: (i, i + 1), [s], max_iterations=3)),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, i + 1), [s], max_iterations="x")),
        failure(lambda: cond(s < 1, lambda: [s, w], lambda: [s])),
        failure(lambda: cond(3, lambda: [s, w], lambda: [s])),
    ]


@program
def loops_of_arrays(mx):
    nd = mx.nd
    a, b = nd.array([[1, 2], [3, 4]]), nd.array([[5], [6]])

    def nested(x, s):
        return [x[0] + s[0], [x[1], x[0] * 2]], [s[0] + x[1]]

    outs, states = nd.contrib.foreach(nested, [a, b], [nd.array([1])])
    found = [numbers(x) for x in (outs[0], *outs[1], *states)]
    out, state = nd.contrib.foreach(lambda x, s: (x, s + x), nd.array([1, 2, 3]), nd.array([1]))
    found += [numbers(out), numbers(state)]
    out, state = nd.contrib.foreach(lambda x, s: ([], s + x.sum()), a, nd.array([1]))
    found += [out, numbers(state)]
    outs, (i,) = nd.contrib.while_loop(lambda i: i < 3, lambda i: ([i, [i * 2]], i + 1), [nd.array([0])], 3)
    found += [numbers(outs[0]), numbers(outs[1][0]), numbers(i)]
    out, i = nd.contrib.while_loop(lambda i: i < 2, lambda i: (i, i + 1), nd.array([0]), nd.array([4]))
    found += [list(out.shape), numbers(out[:2]), numbers(i)]
    found.append(nd.contrib.while_loop(lambda i: i < 2, lambda i: (i, i + 1), [nd.array([5])], 4)[0])
    found.append(nd.contrib.while_loop(lambda i: i < 2, lambda i: (None, i + 1), [nd.array([0])], 4)[0])
    found += [nd.contrib.cond(p, lambda: "then", lambda: "else") for p in (nd.array([2]), nd.array([0]), True, 0)]
    return found


@program
def what_loops_of_arrays_refuse(mx):
    nd = mx.nd
    foreach, loop, cond = nd.contrib.foreach, nd.contrib.while_loop, nd.contrib.cond
    one, two = nd.array([0]), nd.array([0, 1])
    return [
        failure(lambda: foreach(lambda x, s: (x, s), [], one)),
        failure(lambda: foreach(lambda x, s: (x, s), 3, one)),
        failure(lambda: foreach(lambda x, s: (3, s), two, one)),
        failure(lambda: foreach(lambda x, s: 3, two, one)),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, i + 1), [one])),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, i + 1), [], max_iterations=3)),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, (i + 1, i)), [one], max_iterations=3)),
        failure(lambda: loop(lambda i: i < 3, lambda i: (i, []), [one], max_iterations=3)),
        failure(lambda: loop(lambda i: i, lambda i: (i, i + 1), [two], max_iterations=3)),
        failure(lambda: cond(two, lambda: 3, lambda: 4)),
    ]


def block(mx):
    """A block that is called with arrays and with symbols."""

    class Block(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.cell = mx.gluon.nn.Dense(3, in_units=3, activation="tanh")
                self.scale = self.params.get("scale", shape=(2, 3))

        def hybrid_forward(self, F, data, state, scale):
            def step(x, states):
                h = self.cell(x * scale + states[0])
                return h * 2, [h]

            outs, states = F.contrib.foreach(step, data, [state])
            return outs, states[0]

    return Block(prefix="block_")


@program
def loops_in_a_block(mx):
    fresh(mx)
    net = block(mx)
    net.initialize()
    fill(net)
    found = []
    for _ in range(2):
        found.append([numbers(o) for o in net(ramp(mx, 4, 2, 3), ramp(mx, 2, 3))])
        net.hybridize()
    return found
