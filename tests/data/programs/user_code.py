"""What users' programs do in passing: sources of batches, batches of their own, functions and states of their own."""

from collections import namedtuple

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()
DENSE = [[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6], [7, 0, 0]]


@program
def sources_of_batches(mx):
    """Dtypes of batches: an NDArray's own, float32 from all else."""
    sources = [
        np.arange(4).reshape(4, 1),
        np.arange(4, dtype="uint8"),
        np.ones((4, 1), "float16"),
        mx.nd.ones((4, 1), dtype="int32"),
        [[1, 2, 3], [4, 5, 6]],
        np.array([True, False] * 2),
    ]
    found = []
    for source in sources:
        batches = mx.io.NDArrayIter(source, None, 2)
        batch = batches.next()
        descs = [repr(d) for d in batches.provide_data]
        found.append([descs, [[str(np.dtype(a.dtype)), numbers(a)] for a in batch.data], len(batches.data)])
    return found


@program
def sparse_batches(mx):
    """Rows of csr matrices, as data and as labels; incomplete batches are left out."""
    matrix = mx.nd.array(DENSE).tostype("csr")
    batches = mx.io.NDArrayIter(matrix, matrix, 2, last_batch_handle="discard")
    rows = [numbers(a) for batch in batches for a in (*batch.data, *batch.label)]
    mixed = mx.io.NDArrayIter({"a": matrix, "b": np.array(DENSE)}, None, 4, last_batch_handle="discard").next()
    refused = [
        failure(mx.io.NDArrayIter, matrix, None, 2),
        failure(mx.io.NDArrayIter, np.array(DENSE), matrix, 2, last_batch_handle="roll_over"),
    ]
    return [rows, [numbers(a) for a in mixed.data], refused]


@program
def batches_of_data_alone(mx):
    """Whatever has `data` is a batch."""
    batch = namedtuple("Batch", ["data"])
    module = mx.mod.Module(mx.sym.Variable("data") * 2, label_names=None)
    module.bind(data_shapes=[("data", (1, 10))])
    module.init_params()
    shapes = []
    for shape in ((1, 10), (3, 5)):
        module.forward(batch([mx.nd.ones(shape)]))
        shapes.append(module.get_outputs()[0].shape)
    return [list(s) for s in shapes]


@program
def texts_of_monitors(mx):
    """A statistic of one element is written with as many digits as float32 has."""
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x.sum() / 3, pattern="data|y_output", sort=True)
    module = mx.mod.Module(mx.sym.sigmoid(mx.sym.Variable("data"), name="y"), label_names=None)
    module.bind(data_shapes=[("data", (1, 2))])
    module.install_monitor(monitor)
    module.init_params()
    monitor.tic()
    module.forward(mx.io.DataBatch([mx.nd.array([[0.1, 0.2]])]), is_train=False)
    return [list(found) for found in monitor.toc()]


@program
def functions_of_users(mx):
    """autograd.Function forward: its modes, what it keeps, and that it is called once."""
    seen = []

    class Halves(mx.autograd.Function):
        def forward(self, x, y):
            seen.append([mx.autograd.is_recording(), mx.autograd.is_training()])
            self.save_for_backward(x, y)
            return x / 2, y / 2

    function = Halves()
    found = [numbers(a) for a in function(ramp(mx, 3), ramp(mx, 2))]
    with mx.autograd.record():
        recorded = [numbers(a) for a in Halves()(ramp(mx, 3), ramp(mx, 2))]
    again = failure(function, ramp(mx, 3), ramp(mx, 2))
    return [found, recorded, seen, len(function.saved_tensors), again, failure(mx.autograd.Function(), ramp(mx, 1))]


@program
def storage_of_parameters(mx):
    """A module's parameters have the storage type of their variables."""
    weight = mx.sym.var("weight", shape=(3, 2), stype="row_sparse", init=mx.init.One())
    bias = mx.sym.var("bias", shape=(1, 2), init=mx.init.Zero())
    out = mx.sym.broadcast_add(mx.sym.dot(mx.sym.var("data", stype="csr"), weight), bias)
    module = mx.mod.Module(out, label_names=None)
    module.bind(data_shapes=[("data", (5, 3))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.array(DENSE).tostype("csr")]))
    stypes = {name: array.stype for name, array in sorted(module.get_params()[0].items())}
    return [stypes, numbers(module.get_outputs()[0])]


@program
def states_of_users(mx):
    """States of cells made by other functions than zeros."""
    cell = mx.gluon.rnn.LSTMCell(2, prefix="lstm_")
    return [numbers(s) for s in cell.begin_state(2, func=mx.nd.ones)]


@program
def layers_as_texts(mx):
    """Normalizing layers before they know their channels and after."""
    nn, texts = mx.gluon.nn, []
    for layer in (nn.BatchNorm(), nn.LayerNorm(axis=1), nn.InstanceNorm(), nn.GroupNorm()):
        before = repr(layer)
        layer.initialize()
        layer(mx.nd.ones((1, 2, 3)))
        texts.append([before, repr(layer)])
    return texts


def _described(batches):
    return [[repr(d) for d in batches.provide_data], [repr(d) for d in batches.provide_label]]


@program
def prefetched_batches(mx):
    """Batches of one iterator and of two with new names, over two epochs."""

    def one(name):
        return mx.io.NDArrayIter({name: ramp(mx, 5, 2)}, {"y": np.arange(5)}, 2)

    single = mx.io.PrefetchingIter(one("data"))
    names = {"rename_data": [{"a": "left"}, {"a": "right"}], "rename_label": [{"y": "l"}, {"y": "r"}]}
    double = mx.io.PrefetchingIter([one("a"), one("a")], **names)
    found = []
    for batches in (single, double):
        for _ in range(2):
            found.append([[[numbers(a) for a in (*b.data, *b.label)], b.pad] for b in batches])
            batches.reset()
        batches.iter_next()
        found.append([_described(batches), batches.batch_size, batches.getpad(), numbers(batches.getdata()[0])])
        found.append([numbers(batches.getlabel()[0]), batches.getindex()])
    return [found, failure(mx.io.PrefetchingIter, [])]
