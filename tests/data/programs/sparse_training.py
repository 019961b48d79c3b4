"""Row-sparse gradients: of embeddings and of products with csr matrices, in updates of rows, and in stores."""

import numpy as np
from program import failure, gather, numbers

PROGRAMS, program = gather()
ROWS, WIDTH = 8, 3

OPTIMIZERS = {
    "sgd": ("sgd", {"wd": 0.1}),
    "sgd_eager": ("sgd", {"wd": 0.1, "lazy_update": False}),
    "sgd_momentum": ("sgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.4}),
    "sgd_momentum_eager": ("sgd", {"momentum": 0.9, "wd": 0.1, "lazy_update": False}),
    "adam": ("adam", {"wd": 0.1, "clip_gradient": 0.4}),
    "adam_eager": ("adam", {"wd": 0.1, "lazy_update": False}),
    "adagrad": ("adagrad", {"clip_gradient": 0.4}),
    "ftrl": ("ftrl", {"lamda1": 0.01, "wd": 0.1}),
    "groupadagrad": ("groupadagrad", {}),
    "nag": ("nag", {"momentum": 0.9}),
    "lars": ("lars", {"momentum": 0.9, "wd": 0.05, "eta": 0.5}),
    "lbsgd": ("lbsgd", {"momentum": 0.9, "warmup_strategy": "lars"}),
    "rmsprop": ("rmsprop", {}),
}


def stored(array):
    """A row-sparse array's rows and their numbers; a dense array."""
    if array.stype == "default":
        return numbers(array)
    return [array.indices.asnumpy().tolist(), numbers(array.data), list(array.shape)]


def whole(state):
    """The elements of a state; which rows are stored is not part of the result."""
    if isinstance(state, (list, tuple)):
        return [whole(part) for part in state]
    return None if state is None else numbers(state.tostype("default"))


def batch(mx, step):
    """Numbers of rows, some of them twice."""
    return mx.nd.array(np.random.RandomState(step).randint(0, ROWS, (2, 2)))


def trained(mx, kind, options, hybridize, mixed=False):
    """An embedding before a dense layer, trained for six steps."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(ROWS, WIDTH, sparse_grad=True), nn.Dense(2, flatten=False, in_units=WIDTH))
    net.initialize()
    random = np.random.RandomState(0)
    for param in net.collect_params().values():
        param.set_data(mx.nd.array(random.randn(*param.shape)))
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), kind, {"learning_rate": 0.1, **options})
    for step in range(6):
        with mx.autograd.record():
            loss = (net(batch(mx, step)) ** 2).sum()
        loss.backward()
        trainer.step(2)
    params = list(net.collect_params().values())
    return [stored(params[0].grad()), [numbers(p.data()) for p in params]]


DENSE = [name for name in OPTIMIZERS if name not in ("groupadagrad",)]  # of biases it makes no state


@program
def embeddings(mx):
    return {name: trained(mx, *OPTIMIZERS[name], hybridize=False) for name in DENSE}


@program
def embeddings_hybridized(mx):
    return {name: trained(mx, *OPTIMIZERS[name], hybridize=True) for name in ("sgd_momentum", "adam")}


@program
def gradients(mx):
    """Several lookups of one table, and dense gradients of lookups."""
    found = []
    for stype in ("row_sparse", "default"):
        table = mx.nd.array(np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH))
        table.attach_grad(stype=stype)
        for step in range(2):
            with mx.autograd.record():
                first = mx.nd.Embedding(batch(mx, step), table, input_dim=ROWS, output_dim=WIDTH, sparse_grad=True)
                second = mx.nd.Embedding(batch(mx, step + 5), table, input_dim=ROWS, output_dim=WIDTH, sparse_grad=True)
                loss = (first * 2 + second).sum()
            loss.backward()
        found.append(stored(table.grad))
    return found


@program
def products(mx):
    """Gradients of products with csr matrices."""
    values = np.array([[0, 1, 0, 2], [0, 0, 0, 3], [0, 4, 0, 0]], "float32")
    matrix = mx.nd.array(values).tostype("csr")
    found = []
    for stype in ("default", "row_sparse"):
        for transpose, rows in ((False, 4), (True, 3)):
            weight = mx.nd.array(np.arange(rows * 2).reshape(rows, 2))
            weight.attach_grad(stype=stype)
            with mx.autograd.record():
                out = mx.nd.sparse.dot(matrix, weight, transpose_a=transpose)
                loss = (out.tostype("default") * 3).sum()
            loss.backward()
            found.append(stored(weight.grad) if stype == "default" or not transpose else whole(weight.grad))
    return found


@program
def updates(mx):
    """Dense and row-sparse weights, updated by gradients that store some rows."""
    found = {}
    for name, (kind, options) in OPTIMIZERS.items():
        for stype in ("default", "row_sparse"):
            if kind in ("nag", "rmsprop", "groupadagrad") and stype == "row_sparse":
                continue  # MXNet makes no state of them
            made = mx.optimizer.create(kind, learning_rate=0.1, rescale_grad=0.5, **options)
            updater = mx.optimizer.get_updater(made)
            random = np.random.RandomState(1)
            weight = mx.nd.array(random.randn(ROWS, WIDTH)).tostype(stype)
            for rows in ([1, 4], [0, 1, 7], [4], []):
                data = mx.nd.array(random.randn(len(rows), WIDTH)) if rows else mx.nd.zeros((1, WIDTH))
                grad = mx.nd.sparse.row_sparse_array((data, rows or [2]), shape=(ROWS, WIDTH))
                updater(0, grad, weight)
            found[f"{name} {stype}"] = [whole(weight), whole(updater.states[0])]
    return found


@program
def stores(mx):
    """A row-sparse weight in a store: gradients of two devices, updates, and rows that are read."""
    found = []
    for kind, options in (("sgd", {"momentum": 0.9}), ("adam", {})):
        store = mx.kv.create("local")
        random = np.random.RandomState(2)
        store.init("w", mx.nd.array(random.randn(ROWS, WIDTH)).tostype("row_sparse"))
        store.set_optimizer(mx.optimizer.create(kind, learning_rate=0.1, **options))
        out = mx.nd.sparse.zeros("row_sparse", (ROWS, WIDTH))
        for _ in range(3):
            pushed = []
            for device in range(2):
                rows = sorted(random.choice(ROWS, 2, replace=False).tolist())
                data = mx.nd.array(random.randn(2, WIDTH))
                pushed.append(mx.nd.sparse.row_sparse_array((data, rows), shape=(ROWS, WIDTH), ctx=mx.cpu(device)))
            store.push("w", pushed)
            store.row_sparse_pull("w", out=out, row_ids=mx.nd.array([5, 1, 5, 2]))
            found.append(stored(out))
    return found


@program
def sparse_blocks(mx):
    """A block whose weight is row-sparse, with the weight in the trainer's store."""
    table = mx.gluon.contrib.nn.SparseEmbedding(ROWS, WIDTH)
    table.initialize(mx.init.One())
    found = []
    for kind, options in (("sgd", {"momentum": 0.9}), ("adam", {})):
        table.initialize(mx.init.One(), force_reinit=True)
        trainer = mx.gluon.Trainer(table.collect_params(), kind, {"learning_rate": 0.1, **options})
        for step in range(3):
            ids = batch(mx, step)
            with mx.autograd.record():
                loss = (table(ids) ** 2).sum()
            loss.backward()
            trainer.step(1)
        found.append(stored(table.weight.row_sparse_data(mx.nd.arange(ROWS))))
        table.weight._trainer = None
    return found


@program
def errors(mx):
    made = mx.optimizer.get_updater(mx.optimizer.AdaGrad(wd=0.1))
    grad = mx.nd.ones((2, 2)).tostype("row_sparse")

    def run():
        made(0, grad, mx.nd.ones((2, 2)))
        mx.nd.waitall()

    return [failure(run)]
