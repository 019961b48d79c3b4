"""Programs on recurrent cells: unrolled in every layout, with and without lengths, on arrays and on symbols."""

import hashlib

from program import failure, fill, gather, numbers, ramp

PROGRAMS, program = gather()


def stacked(rnn, kind):
    cell = kind()
    with cell.name_scope():
        cell.add(rnn.LSTMCell(3))
        cell.add(rnn.DropoutCell(0.3))
        cell.add(rnn.ResidualCell(rnn.GRUCell(3)))
    return cell


CELLS = {
    "rnn_relu": lambda rnn, contrib: rnn.RNNCell(3, "relu"),
    "rnn_softrelu": lambda rnn, contrib: rnn.RNNCell(3, "softrelu"),
    "lstm": lambda rnn, contrib: rnn.LSTMCell(3),
    "lstm_activations": lambda rnn, contrib: rnn.LSTMCell(3, activation="relu", recurrent_activation="softsign"),
    "gru": lambda rnn, contrib: rnn.GRUCell(4, input_size=3),
    "sequential": lambda rnn, contrib: stacked(rnn, rnn.SequentialRNNCell),
    "hybrid_sequential": lambda rnn, contrib: stacked(rnn, rnn.HybridSequentialRNNCell),
    "zoneout": lambda rnn, contrib: rnn.ZoneoutCell(rnn.LSTMCell(3), 0.3, 0.2),
    "residual": lambda rnn, contrib: rnn.ResidualCell(rnn.GRUCell(3)),
    "bidirectional": lambda rnn, contrib: rnn.BidirectionalCell(
        rnn.LSTMCell(2, prefix="l_"), rnn.GRUCell(2, prefix="r_")
    ),
    "dropout": lambda rnn, contrib: rnn.DropoutCell(0.3),
    "variational_dropout": lambda rnn, contrib: contrib.VariationalDropoutCell(rnn.LSTMCell(3), 0.2, 0.2, 0.2),
    "variational_output": lambda rnn, contrib: contrib.VariationalDropoutCell(rnn.LSTMCell(3), 0.2, 0, 0.2),
    "lstmp": lambda rnn, contrib: contrib.LSTMPCell(5, 3),
    "unfused_lstm": lambda rnn, contrib: rnn.LSTM(
        3, num_layers=2, bidirectional=True, dropout=0.2, input_size=3
    )._unfuse(),
    "unfused_gru": lambda rnn, contrib: rnn.GRU(3, num_layers=2, input_size=3)._unfuse(),
}
USES = [("NTC", None, 0), ("TNC", True, 0), ("NTC", False, 0), ("TNC", None, 1), ("NTC", True, 1), ("TNC", False, 1)]


def nested(value):
    if isinstance(value, (list, tuple)):
        return [nested(v) for v in value]
    found = numbers(value)
    return {"shape": found["shape"], "values": [round(v, 7) for v in found["values"]]}


def digest(mx, outputs, states):
    outputs = list(outputs) if isinstance(outputs, list) else [outputs]
    return hashlib.sha256(mx.sym.Group([*outputs, *states]).tojson().encode()).hexdigest()[:8]


def unrolled(mx, cell, layout, merge, lengths):
    """Results on arrays and the digest of the graph on symbols; MXNet fails in some cases of the latter."""
    x = ramp(mx, 2, 3, 3) if layout == "NTC" else ramp(mx, 3, 2, 3)
    valid = mx.nd.array([3, 1]) if lengths else None
    options = {"layout": layout, "merge_outputs": merge}
    outputs, states = cell.unroll(3, x, valid_length=valid, **options)
    found = [nested(outputs), nested(states)]
    if not (lengths and merge is not True):
        outputs, states = cell.unroll(
            3, mx.sym.var("data"), valid_length=mx.sym.var("valid") if lengths else None, **options
        )
        found.append(digest(mx, outputs, states))
    return found


def fails(name, layout, _, lengths):
    """Where MXNet itself fails to put the two directions together."""
    return name == "unfused_lstm" and lengths and layout == "NTC"


def stepped(mx, cell):
    cell.reset()
    outputs, states = cell(mx.sym.var("x"), cell.begin_state(func=mx.sym.zeros))
    graph = digest(mx, outputs, states)
    cell.reset()
    outputs, states = cell(ramp(mx, 2, 3), cell.begin_state(func=mx.nd.zeros, batch_size=2))
    return [graph, nested(outputs), nested(states)]


@program
def cells(mx):
    found = {}
    for name, make in CELLS.items():
        with mx.name.NameManager():
            cell = make(mx.gluon.rnn, mx.gluon.contrib.rnn)
            cell.initialize()
            cell.unroll(3, ramp(mx, 2, 3, 3))
            fill(cell)
            names = [cell.name, repr(cell), list(cell.collect_params()), sorted(cell._collect_params_with_prefix())]
            info = [[list(i["shape"]), i["__layout__"]] for i in cell.state_info(2)]
            uses = [unrolled(mx, cell, *use) for use in USES if not fails(name, *use)]
            steps = [] if name in ("bidirectional", "unfused_lstm") else stepped(mx, cell)
        found[name] = [names, info, uses, steps]
    return found


@program
def cell_errors(mx):
    rnn, contrib = mx.gluon.rnn, mx.gluon.contrib.rnn
    base = rnn.LSTMCell(3)
    wrapped = rnn.ResidualCell(base)
    both = rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))
    x = ramp(mx, 2, 3, 3)
    return [
        failure(lambda: base.begin_state(2)),
        failure(lambda: rnn.ZoneoutCell(base)),
        failure(lambda: rnn.ZoneoutCell(both)),
        failure(lambda: contrib.VariationalDropoutCell(both, drop_states=0.1)),
        failure(lambda: both(x, [])),
        failure(lambda: rnn.LSTMCell(3).unroll(2, x)),
        failure(lambda: rnn.LSTMCell(3).unroll(3, None)),
        failure(lambda: rnn.RecurrentCell().state_info()),
        failure(lambda: rnn.DropoutCell("0.3")),
        failure(lambda: rnn.LSTM(3, projection_size=2)._unfuse()),
        failure(lambda: contrib.Conv2DLSTMCell((2, 5, 5), 3, 2, 2)),
        failure(lambda: contrib.Conv2DLSTMCell((2, 5, 5), 3, (2,), 3)),
        [s.name for s in wrapped.begin_state()],
    ]


CONVOLUTIONAL = [(1, (2, 7), "NCW"), (2, (2, 5, 6), "NCHW"), (3, (2, 3, 4, 3), "NCDHW")]
OPTIONS = [{}, {"i2h_pad": 1, "activation": "relu"}, {"i2h_dilate": 2, "i2h_pad": 1, "h2h_dilate": 2}]


@program
def convolutional_cells(mx):
    found = {}
    for axes, shape, layout in CONVOLUTIONAL:
        for kind in ("RNN", "LSTM", "GRU"):
            for number, options in enumerate(OPTIONS if axes < 3 else OPTIONS[:1]):
                with mx.name.NameManager():
                    kernels = (2, 3) if axes < 3 else (1, 1)
                    cell = getattr(mx.gluon.contrib.rnn, f"Conv{axes}D{kind}Cell")(
                        shape, 3, *kernels, conv_layout=layout, **options
                    )
                    cell.initialize()
                    fill(cell)
                    shapes = {name: list(param.shape) for name, param in cell.collect_params().items()}
                    info = [[list(i["shape"]), i["__layout__"]] for i in cell.state_info(2)]
                    graph = digest(mx, *cell.unroll(2, mx.sym.var("x"), merge_outputs=True))
                    outputs, states = cell.unroll(2, ramp(mx, 2, 2, *shape), merge_outputs=True)
                    results = [nested(outputs), nested(states)]
                found[f"{kind}{axes}{number}"] = [repr(cell), shapes, info, graph, results]
    return found


@program
def dynamic_unroll(mx):
    found = []
    for layout, lengths in (("TNC", None), ("NTC", None), ("TNC", [3, 1]), ("NTC", [2, 3])):
        cell = mx.gluon.rnn.LSTMCell(3, input_size=3)
        cell.initialize()
        fill(cell)
        x = ramp(mx, 3, 2, 3) if layout == "TNC" else ramp(mx, 2, 3, 3)
        valid = None if lengths is None else mx.nd.array(lengths)
        states = cell.begin_state(2, func=mx.nd.zeros)
        unroll = mx.gluon.contrib.rnn.rnn_cell.dynamic_unroll
        found.append(nested(unroll(cell, x, states, layout=layout, valid_length=valid)))
    return found
