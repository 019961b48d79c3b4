"""A small single-shot detector: anchors, targets with negative mining, training for 20 steps, detections."""

import numpy as np
from program import gather, numbers, sketch

PROGRAMS, program = gather()
STEPS, CLASSES = 20, 2
SIZES, RATIOS = [(0.3, 0.5), (0.6, 0.9)], [(1, 2, 0.5), (1,)]


def batches(count=4):
    """Images with a bright square of either class and its box; some have a second one."""
    random = np.random.RandomState(0)
    for _ in range(STEPS):
        images = random.rand(count, 2, 16, 16).astype("float32") * 0.2
        labels = np.full((count, 2, 5), -1, "float32")
        for i in range(count):
            for box in range(1 + i % 2):
                kind, size = random.randint(CLASSES), random.randint(5, 9)
                x, y = random.randint(0, 16 - size, 2)
                images[i, kind, y : y + size, x : x + size] += 1
                labels[i, box] = [kind, x / 16, y / 16, (x + size) / 16, (y + size) / 16]
        yield images, labels


def network(mx):
    """Class scores (batch, classes + 1, anchors), offsets and anchors, from two scales."""
    sym, x = mx.sym, mx.sym.var("data")
    scores, offsets, anchors = [], [], []
    for scale in range(2):
        x = sym.Convolution(
            x, kernel=(3, 3), pad=(1, 1), stride=(2, 2), num_filter=6, no_bias=True, name=f"conv{scale}"
        )
        x = sym.Activation(sym.BatchNorm(x, fix_gamma=False, name=f"norm{scale}"), act_type="relu")
        boxes = len(SIZES[scale]) + len(RATIOS[scale]) - 1
        for found, channels, name in ((scores, CLASSES + 1, "score"), (offsets, 4, "offset")):
            head = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=boxes * channels, name=f"{name}{scale}")
            found.append(sym.flatten(sym.transpose(head, axes=(0, 2, 3, 1))))
        anchors.append(sym.flatten(sym.contrib.MultiBoxPrior(x, sizes=SIZES[scale], ratios=RATIOS[scale], clip=True)))
    scores = sym.transpose(sym.reshape(sym.concat(*scores, dim=1), shape=(0, -1, CLASSES + 1)), axes=(0, 2, 1))
    return scores, sym.concat(*offsets, dim=1), sym.reshape(sym.concat(*anchors, dim=1), shape=(0, -1, 4))


def training(mx):
    scores, offsets, anchors = network(mx)
    targets = mx.sym.contrib.MultiBoxTarget(
        anchors,
        mx.sym.var("label"),
        scores,
        overlap_threshold=0.5,
        ignore_label=-1,
        negative_mining_ratio=3,
        negative_mining_thresh=0.5,
        variances=(0.1, 0.1, 0.2, 0.2),
    )
    classes = mx.sym.SoftmaxOutput(
        scores, targets[2], ignore_label=-1, use_ignore=True, multi_output=True, normalization="valid", name="classes"
    )
    distance = mx.sym.smooth_l1(targets[1] * (offsets - targets[0]), scalar=1.0)
    distance = mx.sym.MakeLoss(distance, grad_scale=1.0, normalization="valid", name="distance")
    found = mx.sym.contrib.MultiBoxDetection(classes, offsets, anchors, nms_threshold=0.5, name="found")
    return mx.sym.Group([classes, distance, mx.sym.BlockGrad(targets[2]), mx.sym.BlockGrad(found)])


def first_values(symbol, shape):
    random = np.random.RandomState(1)
    arguments, _, _ = symbol.infer_shape(data=shape, label=(shape[0], 2, 5))
    named = [n for n in zip(symbol.list_arguments(), arguments) if n[0] not in ("data", "label")]  # noqa: B905  Python 3.9
    return {n: (random.randn(*s) * 0.15 + n.endswith("gamma")).astype("float32") for n, s in sorted(named)}


@program
def module(mx):
    net, shape = training(mx), (4, 2, 16, 16)
    made = mx.mod.Module(net, label_names=["label"])
    made.bind([("data", shape)], [("label", (4, 2, 5))])
    values = {name: mx.nd.array(value) for name, value in first_values(net, shape).items()}
    made.init_params(arg_params=values, aux_params={n: mx.nd.ones((6,)) for n in net.list_auxiliary_states()})
    made.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 5e-4})
    losses, assigned = [], []
    for images, labels in batches():
        made.forward_backward(mx.io.DataBatch([mx.nd.array(images)], [mx.nd.array(labels)]))
        classes, distance, targets, found = made.get_outputs()
        picked = mx.nd.pick(classes, mx.nd.relu(targets), axis=1)
        losses += [float((-mx.nd.log(picked) * (targets >= 0)).mean().asscalar()), float(distance.sum().asscalar())]
        assigned.append([int((targets > 0).sum().asscalar()), int((targets < 0).sum().asscalar())])
        made.update()
    arguments, auxiliary = made.get_params()
    ends = [sketch(v) for _, v in sorted({**arguments, **auxiliary}.items())]
    best = found.asnumpy()[:, :3]
    return [numbers(mx.nd.array(losses)), assigned, numbers(mx.nd.array(best)), *ends]


@program
def gluon(mx):
    """The same network as a block, with Gluon's losses and masks."""
    shape, contrib, losses = (4, 2, 16, 16), mx.nd.contrib, []
    symbols = network(mx)
    net = mx.gluon.SymbolBlock(mx.sym.Group(symbols), [mx.sym.var("data")])
    net.initialize()
    net(mx.nd.zeros(shape))
    states = {name: np.ones(6) for name, p in net.collect_params().items() if p.grad_req == "null"}
    for name, value in {**first_values(training(mx), shape), **states}.items():
        net.collect_params()[name].set_data(mx.nd.array(value))
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss(axis=1)
    for images, labels in batches():
        with mx.autograd.record():
            scores, offsets, anchors = net(mx.nd.array(images))
            with mx.autograd.pause():
                wanted, mask, classes = contrib.MultiBoxTarget(
                    anchors, mx.nd.array(labels), scores, negative_mining_ratio=3, ignore_label=-1
                )
            chosen = classes >= 0
            loss = entropy(scores, mx.nd.relu(classes), mx.nd.expand_dims(chosen, axis=1)).sum() / chosen.sum()
            distance = (mx.nd.smooth_l1((offsets - wanted) * mask, scalar=2.0)).sum() / mask.sum()
            total = loss + distance
        total.backward()
        trainer.step(1)
        losses += [float(loss.asscalar()), float(distance.asscalar())]
    found = contrib.MultiBoxDetection(mx.nd.softmax(scores, axis=1), offsets, anchors, nms_threshold=0.5)
    ends = [sketch(p.data()) for _, p in sorted(net.collect_params().items())]
    return [numbers(mx.nd.array(losses)), numbers(found[:, :3]), *ends]
