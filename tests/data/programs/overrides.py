"""Subclasses as users write them: which methods training calls, in which order, with which arguments."""

import warnings

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()

HOOKS = (
    "update update_multi_precision _update_impl _update_count _get_lr _get_lrs _get_wd _get_wds _get_lars create_state "
    "create_state_multi_precision"
).split()
OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "NAG": {"momentum": 0.9},
    "Adam": {},
    "LAMB": {},
    "LARS": {"momentum": 0.9, "eta": 0.1},
    "Signum": {},
    "LBSGD": {"warmup_strategy": "lars"},
    "RMSProp": {},
}


def described(value):
    """The text of an argument; "a" for an array."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({','.join(map(described, value))})"
    return "a" if hasattr(value, "asnumpy") else repr(value)


def logging_subclass(base, log):
    """A subclass that overrides all hooks of an optimizer, and logs their calls."""

    def hook(name):
        def method(self, *args, **kwargs):
            log.append(" ".join([name, *map(described, args), *(f"{k}={described(v)}" for k, v in kwargs.items())]))
            return getattr(base, name)(self, *args, **kwargs)

        return method

    return type("Logging", (base,), {name: hook(name) for name in HOOKS if hasattr(base, name)})


def trained_by_trainer(mx, optimizer, contexts, **options):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(*(mx.gluon.nn.Dense(2, in_units=2) for _ in range(3)))
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, **options)
    for _ in range(2):
        with mx.autograd.record():
            outputs = [net(mx.nd.ones((2, 2), ctx=context)) for context in contexts]
        mx.autograd.backward(outputs)
        trainer.step(2)
    return [numbers(p.data(contexts[0])) for p in net.collect_params().values()]


def trained_by_module(mx, optimizer, contexts, kvstore):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc1")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc2")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("out_label"), name="out")
    module = mx.mod.Module(net, label_names=["out_label"], context=contexts)
    module.bind([("data", (2, 2))], [("out_label", (2, 2))])
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore=kvstore, optimizer=optimizer)
    for _ in range(2):
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 2))], [mx.nd.zeros((2, 2))]))
        module.update()
    return [numbers(array) for _, array in sorted(module.get_params()[0].items())]


def calls(mx, run, *args, **options):
    """The calls of the hooks of each optimizer, and the weights."""
    found = {}
    for name, parameters in OPTIMIZERS.items():
        log = []
        made = logging_subclass(getattr(mx.optimizer, name), log)(learning_rate=0.1, **parameters)
        found[name] = [run(mx, made, *args, **options), log]
    return found


@program
def optimizers_of_a_trainer(mx):
    return calls(mx, trained_by_trainer, [mx.cpu()])


@program
def optimizers_on_a_store(mx):
    return calls(mx, trained_by_trainer, [mx.cpu(0), mx.cpu(1)], kvstore="device")


@program
def optimizers_beside_a_store(mx):
    return calls(mx, trained_by_trainer, [mx.cpu(0), mx.cpu(1)], kvstore="device", update_on_kvstore=False)


@program
def optimizers_of_a_module(mx):
    return [
        calls(mx, trained_by_module, [mx.cpu()], "local"),
        calls(mx, trained_by_module, [mx.cpu(0), mx.cpu(1)], "local"),
    ]


@program
def optimizers_of_sparse_gradients_and_halves(mx):
    found = {}
    for name, parameters in OPTIMIZERS.items():
        for half in (False, True):
            log = []
            cls = logging_subclass(getattr(mx.optimizer, name), log)
            updater = mx.optimizer.get_updater(cls(learning_rate=0.1, multi_precision=half, **parameters))
            dtype = "float16" if half else "float32"
            weights = [mx.nd.array(np.arange(6).reshape(3, 2) + i, dtype=dtype) for i in range(2)]
            grads = [mx.nd.array([[1, 2], [0, 0], [3, i]], dtype=dtype) for i in range(2)]
            if not half:
                grads = [grad.tostype("row_sparse") for grad in grads]
            if half and name in ("LBSGD", "RMSProp"):
                continue  # MXNet computes the norms of LBSGD in float16, and RMSProp fails
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                updater([0, 1], grads, weights)
                updater(0, grads[0], weights[0])
            found[f"{name} {dtype}"] = [[numbers(w) for w in weights], log]
    return found


@program
def sgd_with_an_own_update(mx):
    class Own(mx.optimizer.SGD):  # training calls `update_multi_precision`, which never calls `update`
        def update(self, index, weight, grad, state):
            weight[:] = 7

    class OwnImplementation(mx.optimizer.SGD):
        def _update_impl(self, indices, weights, grads, states, multi_precision=False):
            for i, weight in enumerate(weights):
                weight[:] = weight - grads[i].sign()

    class OwnRate(mx.optimizer.LBSGD):
        def _get_lars(self, weight, g, wd):
            return 2.0

    class OwnRateOfRows(mx.optimizer.LARS):
        def _get_lars(self, i, weight, g, lr, wd):
            return 2.0 * lr

    made = [Own(learning_rate=0.1), OwnImplementation(), OwnRate(warmup_strategy="lars"), OwnRateOfRows()]
    return [[trained_by_trainer(mx, one, [mx.cpu()]), trained_by_module(mx, one, [mx.cpu()], "local")] for one in made]


def batches(iterator, epochs=2):
    """The arrays, paddings and cursors of some epochs."""
    found = []
    for _ in range(epochs):
        for batch in iterator:
            found.append([[numbers(a) for a in batch.data + batch.label], batch.pad, iterator.cursor])
        iterator.reset()
    return found


def iterators(mx, log):
    """Subclasses of NDArrayIter that override one method each."""

    class OwnOrder(mx.io.NDArrayIter):
        def _shuffle_data(self):
            log.append(["shuffle", self.idx.tolist()])
            self.idx = self.idx[::-1].copy()
            self.data = [(k, mx.nd.array(v.asnumpy()[::-1])) for k, v in self.data]
            self.label = [(k, mx.nd.array(v.asnumpy()[::-1])) for k, v in self.label]

    class OwnRows(mx.io.NDArrayIter):
        def _getdata(self, data_source, start=None, end=None):
            log.append([[[k, v.asnumpy().tolist()] for k, v in data_source], start, end])
            return super()._getdata(data_source, start, end)

    class OwnBatch(mx.io.NDArrayIter):
        def _batchify(self, data_source):
            log.append([k for k, _ in data_source])
            return [x * 2 for x in super()._batchify(data_source)]

    return OwnOrder, OwnRows, OwnBatch


@program
def array_iterators(mx):
    log, found = [], []
    for cls in iterators(mx, log):
        for shuffle in (False, True):
            for handle in ("pad", "discard", "roll_over"):
                np.random.seed(3)
                data, label = np.arange(10).reshape(5, 2), np.arange(5)
                found.append(batches(cls(data, label, 2, shuffle=shuffle, last_batch_handle=handle)))
    np.random.seed(3)
    found.append(batches(iterators(mx, log)[1](np.arange(2), batch_size=5, shuffle=True)))
    return [found, log]


@program
def what_shuffling_does_to_the_sources(mx):
    data, label = mx.nd.array(np.arange(10).reshape(5, 2), dtype="int32"), mx.nd.arange(5, dtype="float64")
    np.random.seed(3)
    made = mx.io.NDArrayIter({"a": data, "b": data + 1}, label, 2, shuffle=True)
    kinds = [[d.name, str(np.dtype(d.dtype)), list(d.shape)] for d in made.provide_data + made.provide_label]
    found = [kinds, made.idx.tolist(), [[k, numbers(v)] for k, v in made.data + made.label], made.num_source]
    return [*found, [numbers(v) for v in made.data_list], batches(made)]


@program
def batches_one_by_one(mx):
    found = []
    for handle in ("pad", "discard", "roll_over"):
        made = mx.io.NDArrayIter(np.arange(5), np.arange(5) * 2, 2, last_batch_handle=handle)
        for _ in range(2):
            while made.iter_next():
                found.append([[numbers(a) for a in made.getdata() + made.getlabel()], made.getpad(), made.cursor])
            made.reset()
    return found


@program
def crops_with_boxes(mx):
    log = []

    class Own(mx.image.DetRandomCropAug):
        def _check_satisfy_constraints(self, label, xmin, ymin, xmax, ymax, width, height):
            found = super()._check_satisfy_constraints(label, xmin, ymin, xmax, ymax, width, height)
            log.append([xmin, ymin, xmax, ymax, width, height, bool(found)])
            return found

    class Flip(mx.image.DetHorizontalFlipAug):
        def _flip_label(self, label):
            label[:] = 7

    label = np.array([[0, 0.1, 0.2, 0.5, 0.6], [1, 0.4, 0.3, 0.9, 0.8], [1, 0.2, 0.2, 0.2, 0.3]])
    own = Own(min_object_covered=0.4, max_attempts=9)
    with np.errstate(all="ignore"):
        found = [own._random_crop_proposal(label, 40, 60) for _ in range(3)]
        parts = own._intersect(label[:, 1:], 0.3, 0.1, 0.6, 0.5).tolist()
        checks = [bool(own._check_satisfy_constraints(label, *w, 60, 40)) for w in ((0, 0, 60, 40), (9, 9, 30, 20))]
    areas = own._calculate_areas(label[:, 1:]).tolist()
    flipped = Flip(1.0)(mx.nd.zeros((4, 4, 3)), label.copy())[1].tolist()
    return [len(found), parts, areas, checks, flipped, len(log) >= 5]


@program
def cells_with_own_shapes(mx):
    class Own(mx.gluon.contrib.rnn.Conv2DLSTMCell):
        def _decide_shapes(self):
            found = super()._decide_shapes()
            self.decided = [list(part) if isinstance(part, tuple) else part for part in found]
            return found

        def _conv_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix):
            arguments = (inputs, states, i2h_weight, h2h_weight, i2h_bias * 0, h2h_bias, prefix)
            i2h, h2h = super()._conv_forward(F, *arguments)
            return i2h * 2, h2h

    found = []
    for layout, shape in (("NCHW", (3, 6, 7)), ("NHWC", (6, 7, 3))):
        cell = Own(shape, 4, 3, 5, i2h_pad=1, conv_layout=layout, i2h_bias_initializer="ones", prefix="cell_")
        cell.initialize(mx.init.One())
        found.append([cell.decided, {name: list(p.shape) for name, p in cell.collect_params().items()}])
        if layout == "NCHW":
            output, _ = cell(mx.nd.ones((1, *shape)) * 0.01, cell.begin_state(1))
            found.append(numbers(output))
    return found
