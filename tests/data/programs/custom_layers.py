"""Programs with layers in Python, as MXNet's users write them."""

import numpy as np
from program import gather, numbers
from python_operators import FORMS, block, draw, register

PROGRAMS, program = gather()
DATA = np.random.RandomState(0).randn(4, 3).astype("float32")


@program
def a_proposal_target_layer(mx):
    class ProposalTarget(mx.operator.CustomOp):
        def __init__(self, num_classes, counts):
            super().__init__()
            assert counts == "[3, 1]", counts

        def forward(self, is_train, req, in_data, out_data, aux):
            rois, boxes = in_data[0].asnumpy(), in_data[1].asnumpy()
            made = [rois[:3], np.arange(3), np.tile(boxes[0, :4], (3, 2)), np.ones((3, 8))]
            for i, value in enumerate(made):
                self.assign(out_data[i], req[i], mx.nd.array(value))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], 0)
            self.assign(in_grad[1], req[1], 0)

    shapes = lambda s: (s, [(3, 5), (3,), (3, 8), (3, 8)], [])  # noqa: E731
    outputs = ("rois_output", "label", "bbox_target", "bbox_weight")
    register(mx, "program_target", ProposalTarget, ("rois", "gt_boxes"), outputs, shapes=shapes, top=False)
    rois = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="fc")
    options = {"op_type": "program_target", "num_classes": 3, "counts": [3, 1], "name": "target"}
    group = mx.sym.Custom(rois=rois, gt_boxes=mx.sym.var("boxes"), **options)
    classes = mx.sym.FullyConnected(group[0], num_hidden=3, name="cls")
    boxes = mx.sym.FullyConnected(group[0], num_hidden=8, name="box")
    loss = mx.sym.smooth_l1(group[3] * (boxes - group[2]), scalar=1.0)
    heads = [mx.sym.SoftmaxOutput(classes, group[1], name="prob"), mx.sym.MakeLoss(loss, grad_scale=1.0 / 3)]
    symbol = mx.sym.Group([*heads, mx.sym.BlockGrad(group[1])])
    requests = {name: "null" if name in ("data", "boxes") else "write" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), data=(4, 6), boxes=(2, 5), grad_req=requests)
    for i, name in enumerate(sorted(executor.arg_dict)):
        executor.arg_dict[name][:] = draw(i, *executor.arg_dict[name].shape)
    executor.forward(is_train=True)
    executor.backward()
    gradients = {name: numbers(a) for name, a in executor.grad_dict.items() if a is not None}
    return [[numbers(a) for a in executor.outputs], gradients]


@program
def roi_pooling(mx):
    class RoiPooling(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            x, out, self.places = in_data[0].asnumpy(), np.zeros(out_data[0].shape, "float32"), []
            for i, (n, left, top, right, bottom) in enumerate(in_data[1].asnumpy().astype(int)):
                region = x[n, :, top : bottom + 1, left : right + 1].reshape(x.shape[1], -1)
                out[i] = region.max(1)
                self.places.append(region.argmax(1))
            self.assign(out_data[0], req[0], mx.nd.array(out))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            g, given = np.zeros(in_data[0].shape, "float32"), out_grad[0].asnumpy()
            for i, (n, left, top, right, _) in enumerate(in_data[1].asnumpy().astype(int)):
                for c, k in enumerate(self.places[i]):
                    row, column = divmod(int(k), right - left + 1)
                    g[n, c, top + row, left + column] += given[i, c]
            self.assign(in_grad[0], req[0], mx.nd.array(g))
            self.assign(in_grad[1], req[1], 0)

    shapes = lambda s: (s, [(s[1][0], s[0][1])], [])  # noqa: E731
    register(mx, "program_roi", RoiPooling, ("data", "rois"), shapes=shapes)
    rois = mx.nd.array([[0, 0, 0, 1, 2], [0, 1, 1, 3, 3], [0, 0, 2, 2, 3]])
    found = []
    for form in FORMS:
        net = block(mx, lambda F, x, rois: F.Custom(F.tanh(x), rois, op_type="program_roi") ** 2, form)
        x = mx.nd.array(draw(5, 1, 2, 4, 4))
        x.attach_grad()
        for _ in range(2):
            with mx.autograd.record():
                results = [net(x, rois), net(x * 2, rois)]
            mx.autograd.backward(results)
        found.append([numbers(results[0]), numbers(x.grad)])
    return found


@program
def a_straight_through_estimator(mx):
    class Binary(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], mx.nd.sign(in_data[0]))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * (mx.nd.abs(in_data[0]) <= 1))

    register(mx, "program_binary", Binary)

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(2, 3))

        def hybrid_forward(self, F, x, weight):
            return F.FullyConnected(x, F.Custom(weight, op_type="program_binary"), no_bias=True, num_hidden=2)

    found = []
    for request in ("write", "add"):
        for form in FORMS:
            net, loss = Net(), mx.gluon.loss.L2Loss()
            net.initialize()
            net.weight.set_data(mx.nd.array(draw(3, 2, 3)))
            net.weight.grad_req = request
            net.hybridize(**{"active": False, **form})
            trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
            for _ in range(3):
                with mx.autograd.record():
                    y = loss(net(mx.nd.array(DATA)), mx.nd.array(DATA[:, :2]))
                y.backward()
                trainer.step(4)
            found.append([numbers(net.weight.data()), numbers(net.weight.grad())])
    return found


@program
def outputs_in_place(mx):
    class SumAndDifference(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            out_data[0][:] = in_data[0]
            out_data[0][:] += in_data[1]
            out_data[1][:] = in_data[0]
            out_data[1] -= in_data[1]
            out_data[2].reshape((-1,))[0] = in_data[0].sum()

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            g = in_grad[0]
            g[:] = out_grad[0]
            g[:] = g + out_grad[1]
            g += out_grad[2].asscalar()
            mx.nd.elemwise_sub(out_grad[0], out_grad[1], out=in_grad[1])

    shapes = lambda s: (s, [s[0], s[0], (1,)], [])  # noqa: E731
    register(mx, "program_sums", SumAndDifference, ("a", "b"), ("sum", "difference", "total"), shapes=shapes)
    found = []
    for used in ((0,), (0, 1), (2,), (0, 1, 2)):
        for form in FORMS:

            def weighted(F, a, b, used=used):
                made = F.Custom(a, b, op_type="program_sums")
                return sum(F.sum(made[i] * (i + 1)) for i in used)

            a, b = mx.nd.array(DATA), mx.nd.array(DATA[::-1].copy())
            a.attach_grad()
            b.attach_grad()
            with mx.autograd.record():
                y = block(mx, weighted, form)(a, b)
            y.backward()
            found.append([numbers(x) for x in (y, a.grad, b.grad)])
    return found


@program
def a_state_in_every_form(mx):
    class Mean(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] - aux[0])
            if is_train:
                aux[0][:] = aux[0] * 0.5 + in_data[0].mean() * 0.5

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * aux[0])

    shapes = lambda s: (s, [s[0]], [(1,)])  # noqa: E731
    register(mx, "program_mean", Mean, states=("mean",), shapes=shapes)
    found = []
    for form in FORMS:
        net = block(mx, lambda F, x, mean: F.Custom(F.exp(x), mean, op_type="program_mean") ** 2, form)
        x, mean = mx.nd.array(DATA), mx.nd.zeros(1)
        x.attach_grad()
        for training in (True, True, False, True):
            with mx.autograd.record() if training else mx.autograd.pause():
                y = net(x, mean)
            if training:
                y.backward()
            mx.nd.waitall()
            found.append([numbers(a) for a in (y, x.grad, mean)])
    return found
