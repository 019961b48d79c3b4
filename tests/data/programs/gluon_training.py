"""Programs that train with Gluon: losses, recurrent cells, layers, several contexts, clipping of gradients."""

from program import failure, fill, gather, numbers, ramp, sketch
from programs.gluon_cells import CELLS
from programs.gluon_layers import LAYERS, LOSSES, operands

PROGRAMS, program = gather()


def with_gradient(array):
    made = array.copy()
    made.attach_grad()
    return made


def weighted(mx, outputs):
    """A loss of which each element's gradient differs."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return sum((o * mx.nd.sin(ramp(mx, *o.shape) * 2.7 + 0.4)).sum() * (i + 1) for i, o in enumerate(outputs))


def both_gradients(mx, block, *inputs, constants=(), hybridize=True):
    """The gradients by the inputs that are not constants and by the parameters, step by step and hybridized."""
    inputs = inputs[: len(inputs) - len(constants)]
    found = []
    for hybridized in (False, True)[: 1 + hybridize]:
        if hybridized:
            block.hybridize()
        given = [a if a is None else with_gradient(a) for a in inputs]
        with mx.autograd.record():
            loss = weighted(mx, block(*given, *constants))
        loss.backward()
        trained = [p for p in block.collect_params().values() if p.grad_req != "null"]
        found += [sketch(loss), *[sketch(a.grad) for a in given if a is not None], *[sketch(p.grad()) for p in trained]]
    return found


@program
def losses(mx):
    """The gradients of all losses by all of their inputs."""
    given, found = {**operands(mx), "none": None}, {}
    for name, (make, names) in LOSSES.items():
        if name != "probability_positive":  # no array for None in a hybridized block
            inputs = [given[key] for key in names.split()]
            labels = inputs[1:] if name.startswith("ctc") else []  # whose gradients MXNet does not initialise
            block, plain = make(mx.gluon.loss), "_" not in name
            found[name] = both_gradients(mx, block, *inputs, constants=labels, hybridize=plain)
    return found


@program
def losses_of_arrays(mx):
    given, loss = operands(mx), mx.gluon.loss
    cases = [
        (loss.SDMLLoss(), "pred other"),
        (loss.CosineEmbeddingLoss(), "pred other pairs"),
        (loss.CosineEmbeddingLoss(0.3, margin=0.1), "pred other pairs weights"),
        (loss.SigmoidBCELoss(True, 0.2), "probability binary none weights"),
    ]
    found = []
    for block, names in cases:
        inputs = [with_gradient(given[n]) if n != "none" else None for n in names.split()]
        with mx.autograd.record():
            result = weighted(mx, block(*inputs))
        result.backward()
        found += [sketch(a.grad) for a in inputs if a is not None]
    return found


RANDOM = ("zoneout", "dropout", "variational_dropout", "variational_output", "sequential", "hybrid_sequential")
DETERMINISTIC = {
    **{name: make for name, make in CELLS.items() if name not in RANDOM and not name.startswith("unfused_lstm")},
    "residual_stack": lambda rnn, contrib: stack_of(rnn),
    "nested": lambda rnn, contrib: rnn.BidirectionalCell(
        rnn.ResidualCell(rnn.LSTMCell(3, prefix="l_")), rnn.ZoneoutCell(rnn.GRUCell(3, prefix="r_"), 0, 0)
    ),
    "no_dropout": lambda rnn, contrib: contrib.VariationalDropoutCell(rnn.LSTMCell(3)),
}
USES = [("NTC", True, False), ("TNC", None, True), ("NTC", True, True), ("TNC", False, False)]


def stack_of(rnn):
    cell = rnn.HybridSequentialRNNCell()
    with cell.name_scope():
        cell.add(rnn.LSTMCell(3))
        cell.add(rnn.DropoutCell(0.0))
        cell.add(rnn.ResidualCell(rnn.GRUCell(3)))
    return cell


def unrolled_gradients(mx, cell, layout, merge, lengths):
    x = with_gradient(ramp(mx, 2, 4, 3) if layout == "NTC" else ramp(mx, 4, 2, 3))
    states = [with_gradient(ramp(mx, *s.shape) * 0.5) for s in cell.begin_state(batch_size=2, func=mx.nd.zeros)]
    valid = mx.nd.array([4, 2]) if lengths else None
    with mx.autograd.record():
        outputs, ends = cell.unroll(4, x, states, layout=layout, merge_outputs=merge, valid_length=valid)
        loss = weighted(mx, [*(outputs if isinstance(outputs, list) else [outputs]), *ends])
    loss.backward()
    grads = [p.grad() for p in cell.collect_params().values() if p.grad_req != "null"]
    return [sketch(a) for a in (loss, x.grad, *[s.grad for s in states], *grads)]


@program
def cells(mx):
    """Gradients through unrolled cells, by inputs, states and parameters, with and without lengths."""
    found = {}
    for name, make in DETERMINISTIC.items():
        with mx.name.NameManager():
            cell = make(mx.gluon.rnn, mx.gluon.contrib.rnn)
            cell.initialize()
            cell.unroll(4, ramp(mx, 2, 4, 3))
            fill(cell)
            found[name] = [unrolled_gradients(mx, cell, *use) for use in USES]
    return found


FUSED = {
    "rnn": lambda rnn: rnn.RNN(3, 2, "tanh", input_size=4),
    "lstm": lambda rnn: rnn.LSTM(3, 2, bidirectional=True, input_size=4),
    "gru": lambda rnn: rnn.GRU(3, layout="NTC", input_size=4),
}


@program
def fused_layers(mx):
    """Gradients through the fused layers, by inputs, states and parameters."""
    found = {}
    for name, make in FUSED.items():
        layer = make(mx.gluon.rnn)
        layer.initialize()
        fill(layer)
        results = []
        for hybridized in (False, True):
            if hybridized:
                layer.hybridize()
            x = with_gradient(ramp(mx, 3, 2, 4))
            rows = 3 if name == "gru" else 2
            states = [with_gradient(ramp(mx, *s.shape) * 0.5) for s in layer.begin_state(rows)]
            with mx.autograd.record():
                output, ends = layer(x, states)
                loss = weighted(mx, [output, *ends])
            loss.backward()
            grads = [p.grad() for p in layer.collect_params().values()]
            results += [sketch(a) for a in (loss, x.grad, *[s.grad for s in states], *grads)]
        found[name] = results
    return found


@program
def truncated_backpropagation(mx):
    """A sequence in segments: states pass from one to the next, gradients do not."""
    found = []
    for kind, hybridize in (("cell", False), ("layer", False), ("layer", True)):
        rnn = mx.gluon.rnn
        net = rnn.LSTMCell(3, input_size=2) if kind == "cell" else rnn.LSTM(3, input_size=2)
        net.initialize()
        fill(net)
        if hybridize:
            net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        states, losses = net.begin_state(batch_size=2, func=mx.nd.zeros), []
        for segment in range(4):
            x = ramp(mx, 5, 2, 2) * (segment + 1)
            states = [s.detach() for s in states]
            with mx.autograd.record():
                if kind == "cell":
                    outputs, states = net.unroll(5, x, states, layout="TNC", merge_outputs=True)
                else:
                    outputs, states = net(x, states)
                loss = ((outputs - 0.3) ** 2).sum()
            loss.backward()
            grads = [p.grad() for p in net.collect_params().values()]
            losses += [float(loss.asscalar()), mx.gluon.utils.clip_global_norm(grads, 0.5)]
            trainer.step(2)
        found += [numbers(mx.nd.array(losses)), *[numbers(p.data()) for p in net.collect_params().values()]]
    return found


@program
def contrib_layers(mx):
    found = {}
    for name, (make, shape) in LAYERS.items():
        if name == "modulated":  # MXNet has no gradient of it on CPUs
            continue
        with mx.name.NameManager():
            block = make(mx, mx.gluon.contrib.nn)
            block.initialize()
            block(ramp(mx, *shape))
            fill(block)
            found[name] = both_gradients(mx, block, ramp(mx, *shape))
            found[name] += [sketch(p.data()) for n, p in block.collect_params().items() if "running" in n]
    return found


LAYERS_OF_NN = {
    "dense": (lambda nn: nn.Dense(3, activation="relu", flatten=False), (2, 3, 4)),
    "conv1": (lambda nn: nn.Conv1D(4, 3, 2, 1, groups=2), (2, 4, 7)),
    "conv2": (lambda nn: nn.Conv2D(3, (3, 2), (2, 1), 1, dilation=(1, 2), activation="tanh"), (2, 2, 7, 6)),
    "transposed1": (lambda nn: nn.Conv1DTranspose(3, 3, 2, 1, output_padding=1), (2, 2, 5)),
    "transposed2": (lambda nn: nn.Conv2DTranspose(4, 3, 2, 1, in_channels=2, groups=2), (2, 2, 4, 3)),
    "maximum": (lambda nn: nn.MaxPool2D(3, 2, 1, ceil_mode=True), (2, 2, 6, 5)),
    "average": (lambda nn: nn.AvgPool2D(3, 2, 1, count_include_pad=False), (2, 2, 6, 5)),
    "global": (lambda nn: nn.GlobalMaxPool1D(), (2, 3, 5)),
    "batch": (lambda nn: nn.BatchNorm(axis=2, epsilon=1e-3, momentum=0.7), (2, 3, 4)),
    "batch_scale": (lambda nn: nn.BatchNorm(scale=False, center=False), (4, 3)),
    "batch_global": (lambda nn: nn.BatchNorm(use_global_stats=True), (4, 3)),
    "layer": (lambda nn: nn.LayerNorm(axis=1), (2, 3, 4)),
    "group": (lambda nn: nn.GroupNorm(2), (2, 4, 3, 2)),
    "instance": (lambda nn: nn.InstanceNorm(), (2, 3, 4, 2)),
    "leaky": (lambda nn: nn.LeakyReLU(0.2), (2, 5)),
    "prelu": (lambda nn: nn.PReLU(), (2, 5)),
    "elu": (lambda nn: nn.ELU(0.7), (2, 5)),
    "selu": (lambda nn: nn.SELU(), (2, 5)),
    "gelu": (lambda nn: nn.GELU(), (2, 5)),
    "swish": (lambda nn: nn.Swish(1.5), (2, 5)),
    "pad": (lambda nn: nn.ReflectionPad2D(1), (1, 2, 3, 4)),
    "lambda": (lambda nn: nn.HybridLambda(lambda F, x: F.softmax(x) * x), (2, 5)),
}


@program
def layers(mx):
    found = {}
    for name, (make, shape) in LAYERS_OF_NN.items():
        block = make(mx.gluon.nn)
        block.initialize()
        block(ramp(mx, *shape))
        fill(block)
        found[name] = both_gradients(mx, block, ramp(mx, *shape))
        found[name] += [sketch(p.data()) for n, p in block.collect_params().items() if "running" in n]
    return found


@program
def embeddings(mx):
    found = []
    for sparse in (False, True):
        net = mx.gluon.nn.Embedding(7, 2, sparse_grad=sparse)
        net.initialize()
        fill(net)
        with mx.autograd.record():
            loss = weighted(mx, net(mx.nd.array([[1, 3], [3, 6]])))
        loss.backward()
        grad = net.weight.grad()
        found += [grad.stype, numbers(grad.tostype("default"))]
    return found


@program
def clipped(mx):
    clip, found = mx.gluon.utils.clip_global_norm, []
    for bound in (0.5, 1e3):
        arrays = [ramp(mx, 2, 3), (ramp(mx, 4) * 2).as_in_context(mx.cpu(1)), ramp(mx, 3, 2).tostype("row_sparse")]
        found += [float(clip(arrays, bound)), *[numbers(a.tostype("default")) for a in arrays], str(arrays[1].context)]
    arrays = [ramp(mx, 5), ramp(mx, 3)]
    found += [numbers(clip(arrays, 1.0, check_isfinite=False)), *[numbers(a) for a in arrays]]
    return [*found, failure(clip, [], 1), failure(clip, [ramp(mx, 5).astype("float64")], 1)]


@program
def split_batches(mx):
    utils, contexts = mx.gluon.utils, [mx.cpu(i) for i in range(3)]
    x, found = mx.nd.arange(28).reshape((7, 4)), []
    for data, options in ((x, {"even_split": False}), (x.T, {"even_split": False, "batch_axis": 1}), (x[:6], {})):
        for parts in (utils.split_data(data, 3, **options), utils.split_and_load(data, contexts, **options)):
            found.append([[numbers(p), str(p.context)] for p in parts])
    found.append([numbers(p) for p in utils.split_and_load(x.asnumpy(), contexts[1:2])])
    found += [failure(utils.split_data, x, 3), failure(utils.split_data, x[:2], 3, even_split=False)]
    return found


@program
def several_contexts(mx):
    """The same batches on one, two and three contexts, with parts of different sizes."""
    found = []
    for count, store, update in ((1, "device", None), (2, "local", True), (2, "device", False), (3, "device", None)):
        contexts = [mx.cpu(i) for i in range(count)]
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(4, activation="tanh", in_units=3), mx.gluon.nn.Dense(2, in_units=4))
        net.initialize(ctx=contexts)
        for i, p in enumerate(net.collect_params().values()):
            p.set_data(ramp(mx, *p.shape) * (i + 1) * 0.3)
        net.hybridize()
        trainer = mx.gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.2, "momentum": 0.9}, store, update_on_kvstore=update
        )
        for step in range(3):
            data = ramp(mx, 7, 3) * (step + 1)
            with mx.autograd.record():
                parts = mx.gluon.utils.split_and_load(data, contexts, even_split=False)
                losses = [weighted(mx, net(part)) for part in parts]
            mx.autograd.backward(losses)
            trainer.step(7)
        for p in net.collect_params().values():
            found.append(numbers(p.data(contexts[-1])))
        found.append(str(net[0].weight.grad(contexts[-1]).context))
    return found
