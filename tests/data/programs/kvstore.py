"""Programs on mx.kv and mx.operator; see make_programs.py."""

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


@program
def stores(mx):
    found = []
    for kind in ("local", "device", "local_allreduce_cpu", "teststore"):
        store = mx.kv.create(kind)
        found.append([type(store).__name__, store.type, store.rank, store.num_workers, store.is_capable("optimizer")])
    store = mx.kv.create()
    failures = [
        failure(lambda: mx.kv.create(3)),
        failure(lambda: store.is_capable("flight")),
        failure(lambda: store.save_optimizer_states("x")),
        failure(lambda: store.set_gradient_compression({"type": "2bit"})),
        failure(lambda: mx.kv.create("device").set_gradient_compression({"type": "strange"})),
    ]
    return [*found, failures]


@program
def values_by_key(mx):
    store = mx.kv.create("local")
    store.init("a", ramp(mx, 2, 2))
    out = [mx.nd.zeros((2, 2), mx.cpu(i)) for i in range(3)]
    store.pull("a", out=out)
    found = [numbers(x) for x in out]
    store.push("a", mx.nd.ones((2, 2)) * 8)
    store.pull("a", out=out[0])
    found.append(numbers(out[0]))
    store.push("a", [mx.nd.ones((2, 2), mx.cpu(i)) * i for i in range(4)])
    store.pull("a", out=out[0])
    found.append(numbers(out[0]))
    seen = []

    def update(key, gradient, value):
        seen.append([key.decode(), list(gradient.shape)])
        value += gradient * 2

    store = mx.kv.create("local")
    store.init("a", ramp(mx, 2, 2))
    store._set_updater(update)
    store.push("a", [ramp(mx, 2, 2)] * 2)
    store.pull("a", out=out)
    found += [numbers(out[2]), seen]
    failures = [
        failure(lambda: store.init("a", mx.nd.ones((1,)))),
        failure(lambda: store.init(3, mx.nd.ones((1,)))),
        failure(lambda: store.pull("b", out=out[0])),
        failure(lambda: store.push("b", out[0])),
        failure(lambda: store.pull("a")),
        failure(lambda: store.pull("a", out=mx.nd.ones((3,)))),
        failure(lambda: store.push(["a", "a"], [out[0]])),
        failure(lambda: store.push(1.5, out[0])),
        failure(lambda: store.push("a", [1])),
    ]
    return [*found, failures]


@program
def values_by_number(mx):
    store = mx.kv.create("device")
    store.init([1, 2], [mx.nd.ones((2,))] * 2)
    out = [mx.nd.zeros((2,)), mx.nd.zeros((2,))]
    store.pushpull([1, 2], [mx.nd.ones((2,)) * 3, [mx.nd.ones((2,)), mx.nd.ones((2,))]], out=out)
    found = [numbers(x) for x in out]
    own = [mx.nd.ones((2,)) * 5, mx.nd.ones((2,))]
    store.pushpull(1, own)
    found += [numbers(x) for x in own]
    copies = [mx.nd.zeros((2,)) for _ in range(3)]
    store.broadcast(7, mx.nd.ones((2,)) * 7, out=copies)
    found += [numbers(x) for x in copies]
    half = mx.nd.zeros((2,), dtype="float16")
    store.pull(7, out=half)
    return [*found, numbers(half), str(np.dtype(half.dtype))]


@program
def rows(mx):
    store = mx.kv.create()
    store.init("w", mx.nd.array(np.arange(1, 7).reshape(3, 2)).tostype("row_sparse"))
    out = mx.nd.sparse.zeros("row_sparse", (3, 2))
    store.row_sparse_pull("w", out=out, row_ids=mx.nd.array([2, 0, 2]))
    found = [numbers(out), out.indices.asnumpy().tolist()]
    dense = mx.nd.zeros((3, 2))
    store.pull("w", out=dense, ignore_sparse=False)
    found.append(numbers(dense))
    store.push("w", mx.nd.sparse.row_sparse_array(([[1, 1]], [1]), shape=(3, 2)))
    both = [mx.nd.sparse.zeros("row_sparse", (3, 2)) for _ in range(2)]
    store.row_sparse_pull("w", out=both, row_ids=mx.nd.array([0, 1]))
    found += [numbers(x) for x in both]
    wrong = [
        failure(lambda: store.row_sparse_pull("w", out=dense, row_ids=mx.nd.array([1]))),
        failure(lambda: store.row_sparse_pull("w", out=out)),
        failure(lambda: store.row_sparse_pull("w", out=both, row_ids=[mx.nd.array([0])] * 3)),
    ]
    return [*found, wrong]


@program
def compressed(mx):
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init("a", mx.nd.zeros((2, 3)))
    out = mx.nd.zeros((2, 3))
    found = []
    for _ in range(4):
        store.push("a", [ramp(mx, 2, 3) * 0.4 * i for i in (1, 2)])
        store.pull("a", out=out)
        found.append(numbers(out))
    store.push("a", ramp(mx, 2, 3))
    store.pull("a", out=out)
    return [*found, numbers(out)]


@program
def compressed_updates(mx):
    """Gradients of one to three contexts, of which each keeps its own rest."""
    found = {}
    for contexts in (1, 2, 3):
        store = mx.kv.create("device")
        store.set_gradient_compression({"type": "2bit", "threshold": 0.3, "unknown": 1})
        store.init("a", mx.nd.zeros((3, 5)))
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
        out, random = mx.nd.zeros((3, 5)), np.random.RandomState(contexts)
        for _ in range(6):
            pushed = [mx.nd.array(random.uniform(-1, 1, (3, 5)), ctx=mx.cpu(i)) for i in range(contexts)]
            store.push("a", pushed if contexts > 1 else pushed[0])
        store.pull("a", out=out)
        found[str(contexts)] = numbers(out)
    wrong = [{}, {"type": "none"}, {"threshold": 1.0}, {"type": "2bit", "threshold": -1}]
    return [found, [failure(lambda p=p: mx.kv.create("device").set_gradient_compression(p)) for p in wrong]]


@program
def own_stores(mx):
    @mx.kv.KVStoreBase.register
    class Mine(mx.kv.KVStoreBase):
        pass

    store = mx.kv.create("mine")
    test = mx.kv.create("teststore")
    out = [mx.nd.zeros((2,)) for _ in range(2)]
    test.pushpull(1, [mx.nd.ones((2,)), mx.nd.ones((2,)) * 2], out=out)
    found = [numbers(x) for x in out]
    test.broadcast(1, mx.nd.ones((2,)) * 4, out=out)
    found += [numbers(x) for x in out]
    return [*found, failure(lambda: store.type), failure(lambda: store.pushpull(1, out)), type(store).__name__]


@program
def custom_operators(mx):
    op, prop = mx.operator.CustomOp(), mx.operator.CustomOpProp()
    array = mx.nd.ones((2,))
    for request in ("null", "write", "add", "inplace", "add"):
        op.assign(array, request, mx.nd.array([2, 3]))
    found = [numbers(array), prop.list_arguments(), prop.list_outputs(), prop.list_auxiliary_states()]
    found.append([list(map(list, part)) for part in prop.infer_shape([[2, 3]])])
    found.append([[np.dtype(t).name for t in part] for part in prop.infer_type([np.float32])])
    found += [[list(p) for p in prop.infer_storage_type(["default"])], prop.need_top_grad_]
    found.append([list(p) for p in prop.infer_storage_type_backward(["default"], ["csr"], ["csr"], ["undefined"], [])])
    found += [prop.declare_backward_dependency([0], [1], [2]), failure(lambda: prop.infer_storage_type(["csr"]))]
    found.append(mx.operator.CustomOpProp(need_top_grad=False).declare_backward_dependency([0], [1], [2]))
    return [*found, type(prop.create_operator(mx.cpu(), [], [])).__name__]


@program
def arguments_of_operators(mx):
    names = ["Convolution", "FullyConnected", "softmax", "BatchNorm", "clip", "Concat", "RNN", "sum"]
    found = []
    for name in names:
        arguments = mx.operator.get_operator_arguments(name)
        found.append([list(arguments.names)[:6], [t.split("[")[0] for t in arguments.types if "NDArray" in t]])
        types = [t.replace(" (non-negative)", "") for t in arguments.types]
        found.append([t for t in types if "required" in t or "boolean, " in t][:3])
    names = mx.operator.get_all_registered_operators()
    wanted = {"Convolution", "FullyConnected", "_plus_scalar", "elemwise_add", "softmax", "Concat"}
    return [*found, wanted <= set(names), failure(lambda: mx.operator.get_operator_arguments("nonsense"))]
