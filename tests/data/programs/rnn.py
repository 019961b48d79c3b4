"""Programs on mx.rnn, the recurrent cells of symbols; see make_programs.py."""

import contextlib
import hashlib
import io
import pathlib
import random
import tempfile
import warnings

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def quiet(run):
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return run()


def evaluated(mx, symbol, **shapes):
    """The outputs for inputs and parameters that depend on their order alone."""
    arguments, _, _ = symbol.infer_shape(**shapes)
    names = symbol.list_arguments()
    given = {n: ramp(mx, *s) + 0.03 * i for i, (n, s) in enumerate(zip(names, arguments))}  # noqa: B905
    bound = symbol.bind(mx.cpu(), given)
    return [numbers(out) for out in bound.forward(is_train=False)]


def hashed(symbol):
    return hashlib.sha1(symbol.tojson().encode()).hexdigest()


def unrolled(mx, cell, shape=(2, 2, 4), layout="NTC", merge=None, listed=False, run=True):
    """Names, JSON and results of two steps."""

    def made():
        data = [mx.sym.var(f"x{i}") for i in range(2)] if listed else mx.sym.var("data")
        outputs, states = cell.unroll(2, data, layout=layout, merge_outputs=merge)
        states = [s for part in states for s in (part if isinstance(part, list) else [part])]
        group = mx.sym.Group([*([outputs] if isinstance(outputs, mx.sym.Symbol) else outputs), *states])
        step = (shape[0], *shape[2:])
        shapes = {f"x{i}": step for i in range(2)} if listed else {"data": shape}
        shown = [group.list_arguments(), group.list_outputs(), hashed(group)]
        return [*shown, evaluated(mx, group, **shapes)] if run else shown

    return quiet(made)


def cells(mx):
    rnn = mx.rnn
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(4, prefix="s0_"))
    stack.add(rnn.DropoutCell(0.5))
    stack.add(rnn.ResidualCell(rnn.GRUCell(4, prefix="s1_")))
    return {
        "rnn": rnn.RNNCell(4),
        "relu": rnn.RNNCell(4, activation="relu", prefix="r_"),
        "lstm": rnn.LSTMCell(4, forget_bias=2.0),
        "gru": rnn.GRUCell(4),
        "residual": rnn.ResidualCell(rnn.RNNCell(4)),
        "zoneout": rnn.ZoneoutCell(rnn.RNNCell(4), zoneout_states=0.3),
        "bidirectional": rnn.BidirectionalCell(rnn.RNNCell(4, prefix="l_"), rnn.GRUCell(4, prefix="g_")),
        "stack": stack,
    }


@program
def plain_cells(mx):
    return {name: unrolled(mx, cell) for name, cell in cells(mx).items()}


@program
def merged_and_listed(mx):
    found = {}
    for name, cell in cells(mx).items():
        found[name] = [unrolled(mx, cell, merge=True, run=False), unrolled(mx, cell, listed=True, run=False)]
        found[name].append(unrolled(mx, cell, layout="TNC", merge=True, shape=(2, 3, 4), run=name == "bidirectional"))
    return found


@program
def cells_that_are_stepped(mx):
    found = []
    for name, cell in cells(mx).items():
        info = [[k, list(v) if isinstance(v, tuple) else v] for i in cell.state_info for k, v in sorted(i.items())]
        found.append([name, info, [list(s) for s in cell.state_shape]])
        if name == "bidirectional":
            found.append(failure(lambda c=cell: c(mx.sym.var("x"), c.begin_state())))
            continue
        cell.reset()
        output, states = cell(mx.sym.var("x"), cell.begin_state())
        found.append([output.name, [s.name for s in states], evaluated(mx, output, x=(2, 4))])
        given = cell.begin_state(mx.sym.Variable) if name in ("rnn", "gru") else []
        found.append([s.attr_dict() for s in given])
    shared = mx.rnn.RNNParams("shared_")
    two = [mx.rnn.RNNCell(3, params=shared), mx.rnn.RNNCell(3, params=shared)]
    found.append([two[0].params is two[1].params, sorted(shared._params)])
    return found


@program
def fused_cells(mx):
    found = {}
    for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        cell = mx.rnn.FusedRNNCell(4, 2, mode, dropout=0.2, get_next_state=mode == "lstm", prefix="f_")
        found[mode] = [unrolled(mx, cell), unrolled(mx, cell, layout="TNC", merge=False, shape=(2, 3, 4), run=False)]
        plain = cell.unfuse()
        found[mode].append(unrolled(mx, plain, run=mode == "gru"))
        size = cell._parameter.infer_shape_partial()
        total = mx.sym.Group([quiet(lambda c=cell: c.unroll(2, mx.sym.var("data")))[0]]).infer_shape(data=(2, 2, 5))[0]
        packed = {"f_parameters": ramp(mx, *total[-1 if mode == "none" else 1]), "other": mx.nd.ones((1,))}
        apart = cell.unpack_weights(packed)
        together = cell.pack_weights(apart)
        found[mode] += [{n: numbers(a) for n, a in sorted(apart.items())}, sorted(together)]
        found[mode].append(bool((together["f_parameters"].asnumpy() == packed["f_parameters"].asnumpy()).all()))
        joined = plain.pack_weights(apart)
        found[mode] += [sorted(joined), len(size)]
    both = mx.rnn.FusedRNNCell(3, 1, "gru", bidirectional=True, prefix="b_")
    found["both"] = [unrolled(mx, both), unrolled(mx, both.unfuse(), run=False)]
    found["step"] = failure(lambda: both(mx.sym.var("x"), []))
    found["zoneout"] = failure(lambda: mx.rnn.ZoneoutCell(both))
    return found


@program
def weights_apart(mx):
    found = {}
    for name, cell in cells(mx).items():
        outputs, _ = quiet(lambda c=cell: c.unroll(2, mx.sym.var("data"), merge_outputs=True))
        shapes = dict(zip(outputs.list_arguments(), outputs.infer_shape(data=(2, 2, 4))[0]))  # noqa: B905
        packed = {n: ramp(mx, *s) for n, s in shapes.items() if n != "data"}
        apart = cell.unpack_weights(packed)
        again = cell.pack_weights(apart)
        same = all((again[n].asnumpy() == packed[n].asnumpy()).all() for n in packed)
        found[name] = [
            {n: list(a.shape) for n, a in sorted(apart.items())},
            sorted(again) == sorted(packed),
            bool(same),
        ]
    return found


@program
def convolutional_cells(mx):
    made = [
        mx.rnn.ConvRNNCell((1, 3, 6, 6), 4),
        mx.rnn.ConvLSTMCell((1, 3, 6, 6), 2, h2h_kernel=(5, 5), i2h_pad=(0, 1), activation="tanh", prefix="c_"),
        mx.rnn.ConvGRUCell((1, 3, 6, 6), 2, h2h_dilate=(2, 2)),
    ]
    found = [unrolled(mx, cell, shape=(2, 2, 3, 6, 6)) for cell in made]
    found += [[list(s) for s in cell.state_shape] for cell in made]
    return [*found, failure(lambda: mx.rnn.ConvRNNCell((1, 3, 6, 6), 4, h2h_kernel=(2, 2)))]


@program
def initial_values(mx):
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(3, forget_bias=5.0))
    outputs, _ = cell.unroll(2, mx.sym.var("data"), merge_outputs=True)
    module = mx.mod.Module(outputs, label_names=None)
    module.bind([("data", (2, 2, 4))], for_training=False)
    module.init_params(mx.init.One())
    fused, _ = quiet(lambda: mx.rnn.FusedRNNCell(3, prefix="f_", forget_bias=4.0).unroll(2, mx.sym.var("data")))
    other = mx.mod.Module(fused, label_names=None)
    other.bind([("data", (2, 2, 4))], for_training=False)
    other.init_params(mx.init.One())
    return [{n: numbers(a) for n, a in sorted(m.get_params()[0].items())} for m in (module, other)]


@program
def sentences(mx):
    words = [["a", "b"], ["b", "c", "a"], ["d"], ["a", "a", "a", "c"], ["c", "b"]]
    coded, vocab = mx.rnn.encode_sentences(words, invalid_label=0, start_label=0)
    found = [coded, vocab, mx.rnn.encode_sentences([["a", "z"]], vocab=dict(vocab), unknown_token="?")[0]]
    found.append(failure(lambda: mx.rnn.encode_sentences([["zz"]], vocab=dict(vocab))))
    random.seed(4)
    np.random.seed(4)
    for layout in ("NT", "TN"):
        batches = quiet(
            lambda kind=layout: mx.rnn.BucketSentenceIter(coded * 3, 3, [2, 4], invalid_label=0, layout=kind)
        )
        found += [batches.default_bucket_key, batches.buckets, [list(d.shape) for d in batches.provide_data]]
        for batch in batches:
            found.append([batch.bucket_key, list(batch.provide_label[0].shape), batch.provide_data[0].layout])
            found += [numbers(batch.data[0]), numbers(batch.label[0])]
    found.append(quiet(lambda: mx.rnn.BucketSentenceIter(coded * 2, 2)).buckets)
    return [*found, failure(lambda: quiet(lambda: mx.rnn.BucketSentenceIter(coded, 2, [4], layout="XX")))]


@program
def checkpoints(mx):
    cell = mx.rnn.LSTMCell(3)
    outputs, _ = cell.unroll(2, mx.sym.var("data"), merge_outputs=True)
    shapes = dict(zip(outputs.list_arguments(), outputs.infer_shape(data=(2, 2, 4))[0]))  # noqa: B905
    params = {n: ramp(mx, *s) for n, s in shapes.items() if n != "data"}
    with tempfile.TemporaryDirectory() as folder:
        mx.rnn.save_rnn_checkpoint(cell, folder + "/a", 1, outputs, params, {})
        mx.rnn.do_rnn_checkpoint([cell], folder + "/b", 2)(3, outputs, params, {})
        written = sorted(p.name for p in pathlib.Path(folder).iterdir())
        _, apart, _ = mx.model.load_checkpoint(folder + "/a", 1)
        _, again, _ = mx.rnn.load_rnn_checkpoint(cell, folder + "/a", 1)
    same = all((again[n].asnumpy() == params[n].asnumpy()).all() for n in params)
    return [written, sorted(apart), sorted(again), bool(same)]
