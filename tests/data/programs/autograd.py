"""Programs on autograd."""

import json

import numpy as np
from program import failure, fill, gather, numbers, ramp

PROGRAMS, program = gather()


def variable(mx, *shape, req="write"):
    x = ramp(mx, *(shape or (3,)))
    x.attach_grad(req)
    return x


@program
def a_product(mx):
    x = variable(mx)
    before = numbers(x.grad)
    with mx.autograd.record():
        y = x * x
    y.backward()
    return [before, numbers(x.grad), mx.nd.ones(2).grad is None]


@program
def several_heads(mx):
    x, y = variable(mx, 2, 3), variable(mx, 2, 3)
    with mx.autograd.record():
        a, b = x * y, mx.nd.exp(x)
    mx.autograd.backward([a, b], [None, ramp(mx, 2, 3)])
    return [numbers(x.grad), numbers(y.grad)]


@program
def requests(mx):
    x, y, z = variable(mx, req="add"), variable(mx), variable(mx, req="null")
    for factor in (1, 10):
        with mx.autograd.record():
            loss = (x * y * z * factor).sum()
        loss.backward()
    return [numbers(x.grad), numbers(y.grad), z.grad is None]


@program
def head_gradients(mx):
    x = variable(mx, 2, 2)
    with mx.autograd.record():
        y = mx.nd.dot(x, x)
    y.backward(ramp(mx, 2, 2))
    return numbers(x.grad)


@program
def retained(mx):
    x = variable(mx)
    with mx.autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    first = numbers(x.grad)
    y.backward(mx.nd.ones(3) * 5)
    return [first, numbers(x.grad), failure(y.backward)]


@program
def detached(mx):
    x = variable(mx)
    with mx.autograd.record():
        y = x * x
        loss = y.detach() * x + mx.nd.BlockGrad(y) * x
        with mx.autograd.pause():
            z = x * 100
        loss = loss + z * x
    loss.backward()
    return numbers(x.grad)


@program
def views_and_indices(mx):
    x = variable(mx, 4, 3)
    with mx.autograd.record():
        loss = (x[1] * 2).sum() + x[1:3].sum() * 3 + x[:, 1].sum() * 5 + x[::2, 1:].sum() * 7
        loss = loss + x[mx.nd.array([0, 0, 3])].sum() + x.reshape((2, 6))[1, 5] + x.T[2].sum() + x[-1, -1]
        loss = loss + x.expand_dims(0)[0, 2].sum() + x.flatten().slice(begin=(0, 1), end=(2, 3)).sum()
    loss.backward()
    return numbers(x.grad)


@program
def copies(mx):
    x, target = variable(mx), mx.nd.zeros(3)
    with mx.autograd.record():
        a, b, c = x.copy(), x.astype("float64"), x.as_in_context(mx.cpu(1))
        x.copyto(target)
        made = mx.nd.zeros(3)
        made[:] = x * 2
    mx.autograd.backward([a, b, c, target, made])
    return numbers(x.grad)


@program
def an_array_of_results(mx):
    x, out = variable(mx), mx.nd.zeros(3)
    with mx.autograd.record():
        mx.nd.square(x, out=out)
    out.backward()
    return numbers(x.grad)


@program
def attached_again(mx):
    x = variable(mx)
    with mx.autograd.record():
        y = x * x
        y.attach_grad()
        z = y * y
    z.backward()
    return [numbers(x.grad), numbers(y.grad)]


@program
def marked(mx):
    x, grad = ramp(mx, 3), mx.nd.ones(3)
    mx.autograd.mark_variables([x], [grad], "add")
    with mx.autograd.record():
        y = x * 3
    y.backward()
    return [numbers(x.grad), numbers(grad)]


@program
def by_grad(mx):
    x, y = variable(mx), variable(mx)
    with mx.autograd.record():
        z = x * x * y
    found = mx.autograd.grad(z, [x, y], head_grads=ramp(mx, 3), retain_graph=True)
    (one,) = mx.autograd.grad(z, x)
    return [*map(numbers, found), numbers(one), numbers(x.grad)]


@program
def second_order(mx):
    x = variable(mx, 2, 3)
    with mx.autograd.record():
        y = mx.nd.sin(x)
        gradient = mx.autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
    gradient.backward(ramp(mx, 2, 3))
    return [numbers(gradient), numbers(x.grad)]


@program
def without_a_gradient(mx):
    x = variable(mx)
    with mx.autograd.record():
        y = mx.nd.one_hot(x, 4).sum() + mx.nd.argmax(x, axis=0) + mx.nd.round(x).sum()
    y.backward()
    return numbers(x.grad)


@program
def a_loop_in_python(mx):
    x, w = variable(mx, 2, 2), variable(mx, 2, 2)
    with mx.autograd.record():
        y = x
        for step in range(4):
            y = mx.nd.tanh(mx.nd.dot(y, w)) if step % 2 else y + w
    y.backward()
    return [numbers(x.grad), numbers(w.grad)]


@program
def modes(mx):
    """Dropout and batch normalization have the mode in which they were recorded."""
    x, mean, var = variable(mx, 4, 3), mx.nd.zeros(3), mx.nd.ones(3)
    found = []
    for train_mode in (False, True):
        with mx.autograd.record(train_mode=train_mode):
            y = mx.nd.BatchNorm(mx.nd.Dropout(x, p=0.0), mx.nd.ones(3), mx.nd.zeros(3), mean, var, fix_gamma=False)
        moved = numbers(mean)
        y.backward(ramp(mx, 4, 3), train_mode=train_mode)
        found += [moved, numbers(x.grad), numbers(mean), numbers(var)]
    return found


@program
def statistics(mx):
    """Moving statistics change in backward passes only."""
    x, mean, var = ramp(mx, 4, 3), mx.nd.zeros(3), mx.nd.ones(3)
    gamma, beta = mx.nd.ones(3), mx.nd.zeros(3)
    found = []
    with mx.autograd.train_mode():
        mx.nd.BatchNorm(x, gamma, beta, mean, var)
    found.append(numbers(mean))
    with mx.autograd.record():
        mx.nd.BatchNorm(x, gamma, beta, mean, var)
    found.append(numbers(mean))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.BatchNorm(x, gamma, beta, mean, var)
    found.append(numbers(mean))
    y.backward()
    return [*found, numbers(mean), numbers(var)]


@program
def a_function(mx):
    class Sigmoid(mx.autograd.Function):
        def forward(self, x, scale):
            y = 1 / (1 + mx.nd.exp(-x)) * scale
            self.save_for_backward(y, scale)
            return y

        def backward(self, dy):
            y, scale = self.saved_tensors
            return dy * y * (1 - y / scale), (dy * y / scale).sum()

    x, scale = variable(mx), mx.nd.array([2.0])
    scale.attach_grad()
    with mx.autograd.record():
        y = Sigmoid()(x * 2, scale) * 3
    y.backward()
    return [numbers(y), numbers(x.grad), numbers(scale.grad)]


@program
def mistakes(mx):
    x = variable(mx)

    def in_place(change):
        with mx.autograd.record():
            change(x * 1)

    def on_a_variable():
        with mx.autograd.record():
            x[:] = 1

    def of_a_part():
        with mx.autograd.record():
            y = mx.nd.zeros(3)
            y[1:2] = x[0:1] * 2

    def add_one(y):
        y += 1

    def write(y):
        y[0] = 1

    with mx.autograd.record():
        y = x * x
    unreached = variable(mx)
    return [
        failure(in_place, add_one),
        failure(in_place, write),
        failure(on_a_variable),
        failure(of_a_part),
        failure((x.detach() * 1).backward),
        failure(mx.autograd.grad, y, [ramp(mx, 3)]),
        failure(mx.autograd.grad, y, [unreached], retain_graph=True),
        failure(mx.autograd.backward, [y], [None, None]),
        failure(x.attach_grad, "sometimes"),
    ]


@program
def hybridized_and_not(mx):
    nn, found = mx.gluon.nn, []
    for hybridize in (False, True):
        net = nn.HybridSequential()
        net.add(
            nn.Conv2D(4, 3, padding=1, in_channels=2, use_bias=False),
            nn.BatchNorm(in_channels=4),
            nn.Activation("relu"),
        )
        net.add(nn.MaxPool2D(), nn.Flatten(), nn.Dense(3, in_units=16), nn.LayerNorm(in_channels=3))
        net.initialize()
        fill(net)
        if hybridize:
            net.hybridize()
        x = variable(mx, 2, 2, 4, 4)
        for _ in range(2):
            with mx.autograd.record():
                y = net(x)
            y.backward(ramp(mx, 2, 3))
        parameters = list(net.collect_params().values())
        found += [numbers(y), numbers(x.grad)]
        found += [numbers(p.grad() if p.grad_req != "null" else p.data()) for p in parameters]
    return found


@program
def frozen_statistics(mx):
    """Batch normalization that no gradient passes keeps its statistics."""
    nn = mx.gluon.nn
    features, head = nn.HybridSequential(), nn.Dense(2, in_units=3)
    features.add(nn.BatchNorm(in_channels=3))
    net = nn.HybridSequential()
    net.add(features, head)
    net.initialize()
    fill(net)
    net.hybridize()
    found = []
    for request in ("null", "write"):
        features.collect_params().setattr("grad_req", request)
        with mx.autograd.record():
            y = net(ramp(mx, 4, 3))
        y.backward()
        found += [numbers(p.data()) for p in features.collect_params().values()]
    return found


@program
def custom_gradients(mx):
    """Losses of Module whose gradient is not their derivative."""
    x, label = variable(mx, 3, 4), mx.nd.array([0, 3, 1])
    found = []
    for name, options in (("SoftmaxOutput", {}), ("LinearRegressionOutput", {}), ("MakeLoss", {"grad_scale": 2.0})):
        with mx.autograd.record():
            operands = {"SoftmaxOutput": [x, label], "LinearRegressionOutput": [x, x.detach() * 2]}.get(name, [x])
            y = getattr(mx.nd, name)(*operands, **options)
        y.backward()
        found.append(numbers(x.grad))
    return found


@program
def random_numbers(mx):
    """The gradient of Dropout passes the elements that the forward pass kept."""
    x = mx.nd.ones((100,))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Dropout(x, p=0.5)
    y.backward()
    return bool(np.array_equal(y.asnumpy(), x.grad.asnumpy()))


def register_scale(mx):
    class Scale(mx.operator.CustomOp):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, is_train, req, in_data, out_data, aux):
            self.stored = in_data[0] * self.factor
            self.assign(out_data[0], req[0], mx.nd.tanh(self.stored) + in_data[1])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            slope = 1 - mx.nd.tanh(self.stored) ** 2
            self.assign(in_grad[0], req[0], out_grad[0] * slope * self.factor)
            self.assign(in_grad[1], req[1], out_grad[0] * 3)

    class ScaleProp(mx.operator.CustomOpProp):
        def __init__(self, factor="1"):
            super().__init__(need_top_grad=True)
            self.factor = float(factor)

        def list_arguments(self):
            return ["data", "shift"]

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            return Scale(self.factor)

    mx.operator.register("recorded_scale")(ScaleProp)


@program
def custom_operators(mx):
    """Eagerly, hybridized and bound; an operator keeps what its forward stored."""

    register_scale(mx)

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.Custom(F.exp(x), y, op_type="recorded_scale", factor=2) * x

    found = []
    x, y = variable(mx, 4), variable(mx, 4)
    with mx.autograd.record():
        first = mx.nd.Custom(x, y, op_type="recorded_scale", factor=2)
        second = mx.nd.Custom(first, x, op_type="recorded_scale", factor=2)
    second.backward(ramp(mx, 4))
    found += [numbers(second), numbers(x.grad), numbers(y.grad)]
    for hybridize in (False, True):
        net = Net()
        if hybridize:
            net.hybridize()
        with mx.autograd.record():
            result = net(x, y)
        result.backward()
        found += [numbers(result), numbers(x.grad), numbers(y.grad)]
    symbol = mx.sym.Custom(mx.sym.Variable("x"), mx.sym.Variable("y"), op_type="recorded_scale", factor=3)
    executor = symbol.bind(mx.cpu(), {"x": x, "y": y}, {"x": mx.nd.zeros(4), "y": mx.nd.zeros(4)})
    executor.forward(is_train=True)
    executor.backward(ramp(mx, 4))
    return [*found, *[numbers(g) for g in executor.grad_arrays]]


@program
def control_flow(mx):
    x, w = variable(mx, 3, 2), variable(mx, 2)
    with mx.autograd.record():
        outputs, state = mx.nd.contrib.foreach(lambda item, s: (item * w + s, item * s + w), x, w * 2)
        loss = (outputs * outputs).sum() + state.sum()
    loss.backward()
    found = [numbers(loss), numbers(x.grad), numbers(w.grad)]
    with mx.autograd.record():
        outputs, (_, end) = mx.nd.contrib.while_loop(
            lambda i, s: i < 3, lambda i, s: (s * w, [i + 1, s * w + 1]), [mx.nd.zeros((1,)), w], max_iterations=5
        )
        loss = (outputs[0:3] * 2).sum() + end.sum()  # MXNet leaves the rows behind the last step undefined
    loss.backward()
    found += [numbers(loss), numbers(w.grad)]
    for sign in (1, -1):
        with mx.autograd.record():
            chosen = mx.nd.contrib.cond(w.sum() * sign < 100 * sign, lambda: w * w, lambda: w * 5)
        chosen.backward()
        found.append(numbers(w.grad))
    return found


@program
def sparse_operands(mx):
    dense = mx.nd.array(np.arange(1, 7).reshape(2, 3) / 10)
    found = []
    for stype in ("row_sparse", "csr", "default"):
        for function in (mx.nd.exp, lambda x: x / 2, lambda x: x**2):
            x = mx.nd.cast_storage(dense, stype=stype)
            x.attach_grad()
            with mx.autograd.record():
                y = function(x)
            y.backward()
            found.append([y.stype, x.grad.stype, numbers(x.grad)])
        for other in ("row_sparse", "csr", "default"):
            x, y = mx.nd.cast_storage(dense, stype=stype), mx.nd.cast_storage(dense, stype=other)
            grads = [mx.nd.zeros_like(x), mx.nd.zeros_like(y)]
            mx.autograd.mark_variables([x, y], grads)
            with mx.autograd.record():
                z = x + x * y
            z.backward()
            found += [numbers(grad) for grad in grads]
    weight = mx.nd.ones((3, 2))
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = mx.nd.sparse.dot(dense.tostype("csr"), weight)
    y.backward()
    return [*found, weight.grad.stype, numbers(weight.grad)]


def step(mx, trainer, arrays):
    with mx.autograd.record():
        for array in arrays:
            y = array + 1
            y.backward()
    trainer.step(1)


@program
def trainers_on_two_contexts(mx):
    contexts, found = [mx.cpu(0), mx.cpu(1)], []
    for kvstore, stype, grad_stype, on_store in (
        ("local", "default", "default", True),
        ("device", "default", "default", None),
        ("local", "default", "default", False),
        ("device", "default", "row_sparse", None),
        ("local", "row_sparse", "row_sparse", None),
    ):
        x = mx.gluon.Parameter("x", shape=(4, 1), stype=stype, grad_stype=grad_stype)
        x.initialize(ctx=contexts, init="zeros")
        options = {"learning_rate": 1.0, "momentum": 0.5}
        trainer = mx.gluon.Trainer([x], "sgd", options, kvstore=kvstore, update_on_kvstore=on_store)
        rows = mx.nd.arange(0, 4)
        for rate in (1.0, 0.5):
            x.lr_mult = rate
            step(mx, trainer, x.list_data() if stype == "default" else x.list_row_sparse_data(rows))
        value = x.data(contexts[1]) if stype == "default" else x.row_sparse_data(rows)
        found.append([trainer._update_on_kvstore, numbers(value)])
    return found


@program
def new_values_reset_the_store(mx):
    x = mx.gluon.Parameter("x", shape=(2,))
    x.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="zeros")
    trainer, found = mx.gluon.Trainer([x], "sgd", {"learning_rate": 0.25}), []
    for _ in range(2):
        step(mx, trainer, x.list_data())
        found += [trainer._kvstore is None, numbers(x.data(mx.cpu()))]
        x.set_data(mx.nd.ones(2))
        found.append(trainer._kvstore is None)
    return found


@program
def states_of_the_step_before(mx):
    """A result whose call a backward pass freed is a constant in the next recording."""
    w, h, found = variable(mx, 3), mx.nd.ones(3), []
    for _ in range(3):
        with mx.autograd.record():
            h = h * w + 1
        h.backward()
        found.append(numbers(w.grad))
    return found


def history(mx, array):
    """The recorded symbol of an array: nodes without the numbers in their names."""
    graph = json.loads(mx.autograd.get_symbol(array).tojson())
    return [[n["op"], n["name"].rstrip("0123456789"), n.get("attrs"), n["inputs"]] for n in graph["nodes"]], graph[
        "heads"
    ]


@program
def recorded_symbols(mx):
    nd = mx.nd
    x, w, bias, other = variable(mx, 2, 3), variable(mx, 4, 3), ramp(mx, 4), ramp(mx, 2, 3)
    with mx.autograd.record():
        y = 1.5 - x * 2 + nd.exp(x) * other / other
        z = nd.split(nd.FullyConnected(nd.clip(y, -1, 0.75), w, bias, num_hidden=4), 2, axis=1)
        total = (z[0] > 0.5) * nd.Dropout(z[1], p=0.25) ** 2
        mean, copied = nd.mean(total, axis=(0, 1)), total.as_in_context(mx.cpu(1)) + 1
    found = [history(mx, array) for array in (x, y, z[1], mean, copied)]
    symbol = mx.autograd.get_symbol(y)
    result = symbol.bind(mx.cpu(), [x, other]).forward()[0]
    both = mx.sym.Group([mx.autograd.get_symbol(y), mx.autograd.get_symbol(z[0])])
    found += [numbers(result), numbers(y), len(both.list_arguments())]
    y.backward(retain_graph=True)
    found.append(history(mx, y))
    z[0].backward()
    for wrong in (y, other, 3):
        found.append(failure(mx.autograd.get_symbol, wrong))
    return found


@program
def recorded_symbol_of_a_network(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2))
    net.initialize()
    with mx.autograd.record():
        y = net(ramp(mx, 2, 3)).relu()
    symbol = mx.autograd.get_symbol(y)
    return [history(mx, y), len(symbol.list_arguments()), len(symbol.list_auxiliary_states())]


@program
def labels_out_of_range(mx):
    """Losses of labels that are no class."""
    nd, loss, found = mx.nd, mx.gluon.loss.SoftmaxCrossEntropyLoss(), []
    for labels in ([7, 1], [-1, 1], [-5, 2]):
        given = nd.array(labels)
        for compute in (
            loss,
            nd.SoftmaxOutput,
            lambda x, y: nd.SoftmaxOutput(x, y, use_ignore=True, ignore_label=-1, normalization="valid"),
            nd.SVMOutput,
            lambda x, y: nd.softmax_cross_entropy(x * 40, nd.clip(y, 0, 2)),  # MXNet reads beyond its memory otherwise
            nd.pick,
            nd.take,
            lambda x, y: nd.one_hot(y, 3) * x,
        ):
            x = variable(mx, 2, 3)
            with mx.autograd.record():
                result = compute(x, given)
            result.backward()
            found += [numbers(result), numbers(x.grad)]
    return found
