"""Executors and modules with sparse arrays: storage types of gradients, their values, and training."""

import itertools

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()

TYPES = ("default", "csr", "row_sparse")


def stored(array):
    """The elements of an array, and which rows it stores if it is row-sparse."""
    rows = array.indices.asnumpy().tolist() if array.stype == "row_sparse" else None
    return [array.stype, rows, numbers(array.tostype("default"))]


def gradient_types(mx, symbol, **shapes):
    return {n: g.stype for n, g in symbol.simple_bind(mx.cpu(), **shapes).grad_dict.items()}


def drawn(seed, rows, columns):
    return np.random.RandomState(seed).uniform(-1, 1, (rows, columns))


def matrix(seed, rows, columns):
    """A matrix in which some rows, columns and elements are 0."""
    made = drawn(seed, rows, columns)
    made[made < -0.4] = 0
    made[1], made[:, 2] = 0, 0
    return made


@program
def types_of_gradients_of_one_operand(mx):
    found = {}
    names = "square abs sqrt tanh relu negative sin identity BlockGrad make_loss exp sigmoid sign cbrt log1p".split()
    for name, stype in itertools.product(names, TYPES):
        x = mx.sym.Variable("x", stype=stype)
        found[f"{name} {stype}"] = gradient_types(mx, getattr(mx.sym, name)(x), x=(4, 4))
    for stype in TYPES:
        x = mx.sym.Variable("x", stype=stype)
        others = {"times": x * 2, "over": x / 2, "plus": x + 2, "sum": mx.sym.sum(x, axis=1)}
        found[stype] = {name: gradient_types(mx, made, x=(4, 4)) for name, made in others.items()}
    return found


@program
def types_of_gradients_of_two_operands(mx):
    found = {}
    names = "elemwise_add elemwise_sub elemwise_mul elemwise_div broadcast_mul broadcast_div maximum add_n dot".split()
    for name, left, right in itertools.product(names, TYPES, TYPES):
        operands = mx.sym.Variable("x", stype=left), mx.sym.Variable("y", stype=right)
        symbol = getattr(mx.sym, name)(*operands)
        found[f"{name} {left} {right}"] = gradient_types(mx, symbol, x=(4, 4), y=(4, 4))
        if name == "dot":
            flipped = mx.sym.dot(*operands, transpose_a=True)
            found[f"dot flipped {left} {right}"] = gradient_types(mx, flipped, x=(4, 4), y=(4, 4))
    return found


@program
def types_of_gradients_of_graphs(mx):
    x, v = mx.sym.Variable("x", stype="csr"), mx.sym.Variable("v", stype="row_sparse")
    squares = mx.sym._internal._square_sum(v, axis=1, keepdims=True)
    found = {
        "machine": gradient_types(mx, mx.sym.dot(x, v) + mx.sym.dot(mx.sym.square(x), squares), x=(4, 5), v=(5, 1)),
        "relu": gradient_types(mx, mx.sym.dot(x, mx.sym.relu(v)), x=(4, 5), v=(5, 2)),
        "exp": gradient_types(mx, mx.sym.dot(x, mx.sym.exp(v)), x=(4, 5), v=(5, 2)),
        "cast": gradient_types(mx, mx.sym.cast_storage(mx.sym.Variable("x"), "row_sparse"), x=(4, 5)),
        "where": gradient_types(mx, mx.sym.where(x, v, mx.sym.Variable("z")), x=(4, 5), v=(4, 5), z=(4, 5)),
    }
    for stype, rows in itertools.product(TYPES[::2], (False, True)):
        table = mx.sym.Variable("w", stype=stype)

        def looked_up(name, table=table, rows=rows):
            return mx.sym.Embedding(mx.sym.Variable(name), table, input_dim=5, output_dim=3, sparse_grad=rows)

        found[f"table {stype} {rows}"] = gradient_types(mx, looked_up("i"), i=(2,))
        found[f"tables {stype} {rows}"] = gradient_types(mx, looked_up("i") + looked_up("j"), i=(2,), j=(2,))
        both = mx.sym.Group([looked_up("i"), mx.sym.dot(mx.sym.Variable("z"), table)])
        found[f"other {stype} {rows}"] = gradient_types(mx, both, i=(2,), z=(2, 5))
    return found


@program
def gradients_of_a_regression(mx):
    found = {}
    for left, right in itertools.product(("default", "csr"), ("default", "row_sparse")):
        x, v = mx.sym.Variable("x", stype=left), mx.sym.Variable("v", stype=right)
        symbol = mx.sym.LinearRegressionOutput(mx.sym.dot(x, v), mx.sym.Variable("y"))
        executor = symbol.simple_bind(mx.cpu(), x=(4, 5), v=(5, 2), grad_req={"x": "null", "v": "write", "y": "null"})
        executor.arg_dict["x"][:] = mx.nd.array(matrix(0, 4, 5)).tostype(left)
        executor.arg_dict["v"][:] = mx.nd.array(matrix(1, 5, 2 + 1)[:, :2]).tostype(right)
        executor.arg_dict["y"][:] = 1
        executor.forward(is_train=True)
        executor.backward()
        found[f"{left} {right}"] = [numbers(executor.outputs[0]), stored(executor.grad_dict["v"])]
    return found


@program
def gradients_of_operators(mx):
    found = {}
    operands = mx.nd.array(matrix(2, 3, 4)), mx.nd.array(matrix(3, 3, 4))
    for name, types in itertools.product(
        ("elemwise_add", "elemwise_mul"), (("csr", "csr"), ("row_sparse", "row_sparse"), ("csr", "default"))
    ):
        symbol = getattr(mx.sym, name)(*[mx.sym.Variable(n, stype=t) for n, t in (("x", types[0]), ("y", types[1]))])
        given = {"x": operands[0].tostype(types[0]), "y": operands[1].tostype(types[1])}
        executor = symbol.bind(mx.cpu(), given, {n: mx.nd.zeros((3, 4)) for n in "xy"})
        (output,) = executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3, 4)).tostype(output.stype))
        gradients = {n: numbers(g) for n, g in executor.grad_dict.items()}
        found[f"{name} {types}"] = [output.stype, numbers(output.tostype("default")), gradients]
    return found


@program
def a_table_in_an_executor(mx):
    symbol = mx.sym.Embedding(mx.sym.Variable("i"), mx.sym.Variable("w"), input_dim=6, output_dim=3, sparse_grad=True)
    executor = symbol.simple_bind(mx.cpu(), i=(2, 2), grad_req={"i": "null", "w": "write"})
    executor.arg_dict["i"][:] = mx.nd.array([[1, 4], [1, 0]])
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 2, 3)))
    return stored(executor.grad_dict["w"])


def machine(mx, width, factors):
    """A factorization machine."""
    x, v = mx.sym.Variable("data", stype="csr"), mx.sym.Variable("v_weight", shape=(width, factors), stype="row_sparse")
    w, b = mx.sym.Variable("w_weight", shape=(width, 1), stype="row_sparse"), mx.sym.Variable("b_bias", shape=(1,))
    squares = mx.sym._internal._square_sum(v, axis=1, keepdims=True)
    pairs = mx.sym.Concat(mx.sym.broadcast_add(mx.sym.dot(x, w), b), 0.5 * mx.sym.square(mx.sym.dot(x, v)), dim=1)
    model = mx.sym.sum(pairs, axis=1, keepdims=True) + 0.5 * mx.sym.negative(mx.sym.dot(mx.sym.square(x), squares))
    return mx.sym.LinearRegressionOutput(model, mx.sym.Variable("label"))


@program
def a_factorization_machine(mx):
    found = {}
    data, label = mx.nd.array(matrix(4, 12, 8)).tostype("csr"), mx.nd.array(matrix(5, 12, 3)[:, :1])
    for name, options in (
        ("sgd", {"momentum": 0.1, "clip_gradient": 5.0, "wd": 0.1}),
        ("adam", {"clip_gradient": 5.0}),
        ("adagrad", {"clip_gradient": 5.0}),
    ):
        batches = mx.io.NDArrayIter(data, {"label": label}, 4, last_batch_handle="discard")
        module = mx.mod.Module(machine(mx, 8, 2), data_names=["data"], label_names=["label"])
        module.bind(data_shapes=batches.provide_data, label_shapes=batches.provide_label)
        module.init_params()
        values = {"v_weight": drawn(6, 8, 2), "w_weight": drawn(7, 8, 1), "b_bias": np.ones(1)}
        types = {"v_weight": "row_sparse", "w_weight": "row_sparse", "b_bias": "default"}
        module.set_params({n: mx.nd.array(a).tostype(types[n]) for n, a in values.items()}, {})
        module.init_optimizer(optimizer=name, optimizer_params={"learning_rate": 0.1, **options})
        for _ in range(2):
            batches.reset()
            for batch in batches:
                module.forward(batch, is_train=True)
                module.backward()
                module.update()
        found[name] = {n: numbers(a.tostype("default")) for n, a in module.get_params()[0].items()}
    return found
