"""Programs with losses in Python, as MXNet's users write them."""

import numpy as np
from program import gather, numbers
from python_operators import FORMS, block, draw, register

PROGRAMS, program = gather()
DATA = np.random.RandomState(0).randn(4, 3).astype("float32")
LABEL = np.array([0, 1, 1, 2], "float32")


def softmax(mx):
    class Softmax(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            x = in_data[0].asnumpy()
            y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
            y /= y.sum(axis=1).reshape((x.shape[0], 1))
            self.assign(out_data[0], req[0], mx.nd.array(y))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            label = in_data[1].asnumpy().ravel().astype(int)
            y = out_data[0].asnumpy()
            y[np.arange(label.shape[0]), label] -= 1.0
            self.assign(in_grad[0], req[0], mx.nd.array(y))

    shapes = lambda s: ([s[0], (s[0][0],)], [s[0]], [])  # noqa: E731
    register(mx, "program_softmax", Softmax, ("data", "label"), shapes=shapes, top=False)


def dense_and_softmax(mx):
    softmax(mx)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    return dense, mx.sym.Custom(data=dense, name="softmax", op_type="program_softmax")


def trained(mx, symbol, **options):
    module = mx.mod.Module(symbol, **options)
    batches = mx.io.NDArrayIter(DATA, LABEL, batch_size=2)
    settings = {"learning_rate": 0.5, "momentum": 0.9}
    module.fit(batches, eval_metric="loss", num_epoch=3, initializer=mx.init.Constant(0.1), optimizer_params=settings)
    return [numbers(module.get_params()[0][name]) for name in ("fc_bias", "fc_weight")]


@program
def a_softmax_loss_in_modules(mx):
    dense, loss = dense_and_softmax(mx)
    symbols = [loss, mx.sym.load_json(loss.tojson()), mx.sym.Group([loss, mx.sym.BlockGrad(dense)])]
    return [trained(mx, symbol) for symbol in symbols] + [trained(mx, loss, context=[mx.cpu(0), mx.cpu(1)])]


@program
def a_softmax_loss_in_gluon(mx):
    softmax(mx)
    found = []
    for form in FORMS:
        net = mx.gluon.nn.Dense(3, in_units=3)
        net.initialize(mx.init.Constant(0.1))
        loss = block(mx, lambda F, x, y: F.Custom(x, y, op_type="program_softmax"), form)
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        for _ in range(3):
            with mx.autograd.record():
                y = loss(net(mx.nd.array(DATA)), mx.nd.array(LABEL))
            y.backward()
            trainer.step(4)
        found.append([numbers(y), numbers(net.weight.data())])
    return found


@program
def a_focal_loss(mx):
    class FocalLoss(mx.operator.CustomOp):
        def __init__(self, gamma, alpha="0.25"):
            super().__init__()
            self.gamma, self.alpha = float(gamma), float(alpha)

        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], mx.nd.softmax(in_data[0], axis=1))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            p = mx.nd.pick(out_data[0], in_data[1], axis=1, keepdims=True)
            u = 1 - p - (self.gamma * p * mx.nd.log(mx.nd.maximum(p, 1e-14)))
            hot = mx.nd.one_hot(in_data[1], out_data[0].shape[1])
            gradient = (1 - p) ** (self.gamma - 1) * u * (out_data[0] - hot) * self.alpha / p.shape[0]
            self.assign(in_grad[0], req[0], gradient)
            self.assign(in_grad[1], req[1], 0)

    shapes = lambda s: ([s[0], [s[0][0]]], [s[0]])  # noqa: E731
    register(mx, "program_focal", FocalLoss, ("data", "labels"), shapes=shapes, top=False)
    symbol = mx.sym.Custom(mx.sym.var("data"), mx.sym.var("labels"), op_type="program_focal", gamma=1.5, name="f")
    executor = symbol.simple_bind(mx.cpu(), data=(4, 3))
    executor.arg_dict["data"][:] = DATA
    executor.arg_dict["labels"][:] = LABEL
    executor.forward(is_train=True)
    executor.backward()
    x = mx.nd.array(DATA)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x * 2, mx.nd.array(LABEL), op_type="program_focal", gamma=2)
    y.backward()
    return [numbers(a) for a in (executor.outputs[0], *executor.grad_arrays, x.grad)]


def center_loss(mx):
    class CenterLoss(mx.operator.CustomOp):
        def __init__(self, num_class, alpha, scale="1.0", batchsize="4"):
            super().__init__()
            self.alpha, self.scale, self.batch = float(alpha), float(scale), int(batchsize)

        def forward(self, is_train, req, in_data, out_data, aux):
            labels = in_data[1].asnumpy()
            diff, center = aux[0], aux[1]
            for i in range(self.batch):
                diff[i] = in_data[0][i] - center[int(labels[i])]
            self.assign(out_data[0], req[0], mx.nd.sum(mx.nd.square(diff)) / self.batch / 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            diff, center, total = aux
            self.assign(in_grad[0], req[0], diff * (self.scale / self.batch))
            labels = in_data[1].asnumpy().astype(int)
            for label in sorted(set(labels.tolist())):
                rows = np.flatnonzero(labels == label).tolist()
                total[:] = 0
                for i in rows:
                    total[:] = total + diff[i]
                center[label] = center[label] + self.alpha * (total / (1 + len(rows)))

    shapes = lambda s: ([s[0], (4,)], [(1,)], [s[0], (3, s[0][1]), (s[0][1],)])  # noqa: E731
    names = ("diff_bias", "center_bias", "sum_bias")
    register(mx, "program_center", CenterLoss, ("data", "label"), states=names, shapes=shapes, top=False)


@program
def a_center_loss_in_an_executor(mx):
    center_loss(mx)
    label = mx.sym.var("label")
    options = {"op_type": "program_center", "num_class": 3, "alpha": 0.5, "scale": 2}
    symbol = mx.sym.Custom(data=mx.sym.var("data"), label=label, name="center", **options)
    executor = symbol.simple_bind(mx.cpu(), data=(4, 3), grad_req={"data": "write", "label": "null"})
    executor.arg_dict["data"][:] = DATA
    executor.arg_dict["label"][:] = LABEL
    found = []
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward()
        mx.nd.waitall()
        center = executor.aux_dict["center_center_bias"]
        found.append([numbers(a) for a in (executor.outputs[0], executor.grad_dict["data"], center)])
    return found


@program
def a_center_loss_in_a_module(mx):
    center_loss(mx)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    options = {"op_type": "program_center", "num_class": 3, "alpha": 0.5, "name": "center"}
    center = mx.sym.Custom(data=dense, label=mx.sym.var("center_label"), **options)
    both = [mx.sym.SoftmaxOutput(dense, mx.sym.var("softmax_label"), name="softmax"), center]
    found = []
    for symbol in (mx.sym.Group(both), mx.sym.load_json(mx.sym.Group([both[0], mx.sym.MakeLoss(center)]).tojson())):
        module = mx.mod.Module(symbol, label_names=("softmax_label", "center_label"))
        labels = {"softmax_label": LABEL, "center_label": LABEL}
        batches = mx.io.NDArrayIter({"data": DATA}, labels, batch_size=4)
        module.bind(batches.provide_data, batches.provide_label)
        module.init_params(mx.init.Constant(0.3))
        module.init_optimizer(optimizer_params={"learning_rate": 0.1})
        for _ in range(3):
            batches.reset()
            module.forward_backward(batches.next())
            mx.nd.waitall()
            module.update()
        arguments, states = module.get_params()
        found.append([numbers(arguments["fc_weight"]), numbers(states["center_center_bias"])])
    return found


@program
def noise_contrastive_estimation(mx):
    class Nce(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            product = mx.nd.broadcast_mul(mx.nd.expand_dims(in_data[0], 1), in_data[1]).sum(2)
            self.assign(out_data[0], req[0], mx.nd.sigmoid(product))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            g = mx.nd.expand_dims(out_data[0] - in_data[2], 2)
            self.assign(in_grad[0], req[0], mx.nd.broadcast_mul(g, in_data[1]).sum(1))
            self.assign(in_grad[1], req[1], mx.nd.broadcast_mul(g, mx.nd.expand_dims(in_data[0], 1)))

    shapes = lambda s: (s, [s[2]], [])  # noqa: E731
    register(mx, "program_nce", Nce, ("data", "embed", "label"), shapes=shapes, top=False)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    embedded = mx.sym.Embedding(data=mx.sym.var("label"), input_dim=5, output_dim=3, name="embed")
    symbol = mx.sym.Custom(data=dense, embed=embedded, label=mx.sym.var("wanted"), op_type="program_nce", name="nce")
    module = mx.mod.Module(symbol, label_names=("label", "wanted"))
    classes = np.array([[0, 1], [2, 3], [4, 0], [1, 1]], "float32")
    labels = {"label": classes, "wanted": np.array([[1, 0]] * 4, "float32")}
    batches = mx.io.NDArrayIter({"data": DATA}, labels, batch_size=4)
    module.bind(batches.provide_data, batches.provide_label)
    weights = {"embed_weight": draw(2, 5, 3), "fc_weight": draw(1, 3, 3), "fc_bias": np.zeros(3, "float32")}
    module.init_params(arg_params={name: mx.nd.array(value) for name, value in weights.items()})
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.1})
    for _ in range(4):
        batches.reset()
        module.forward_backward(batches.next())
        module.update()
    return {name: numbers(value) for name, value in module.get_params()[0].items()}


@program
def a_bucketing_module(mx):
    class Doubled(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    register(mx, "program_double", Doubled)
    softmax(mx)

    def generate(key):
        x = mx.sym.Embedding(mx.sym.var("data"), input_dim=6, output_dim=4, name="embed")
        x = mx.sym.mean(mx.sym.Custom(x, op_type="program_double", name="double"), axis=1)
        x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
        label = mx.sym.var("softmax_label")
        return mx.sym.Custom(x, label, op_type="program_softmax", name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(generate, default_bucket_key=5)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    weights = {"embed_weight": draw(0, 6, 4), "fc_weight": draw(1, 3, 4), "fc_bias": draw(2, 3)}
    module.init_params(arg_params={name: mx.nd.array(value) for name, value in weights.items()})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    for i, key in enumerate((5, 3, 2, 3, 5)):
        data = mx.nd.array(np.random.RandomState(i).randint(0, 6, (4, key)))
        provided = {"provide_data": [("data", (4, key))], "provide_label": [("softmax_label", (4,))]}
        batch = mx.io.DataBatch([data], [mx.nd.array(LABEL)], bucket_key=key, **provided)
        module.forward(batch, is_train=True)
        module.backward()
        module.update()
    return {name: numbers(value) for name, value in module.get_params()[0].items()}
