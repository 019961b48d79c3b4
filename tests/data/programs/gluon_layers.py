"""Programs on losses and on the layers of gluon.contrib, step by step and hybridized."""

import hashlib
import warnings

from program import fill, gather, numbers, ramp

PROGRAMS, program = gather()


def both_ways(block, *inputs):
    """The results step by step and hybridized, and a digest of the graph."""
    eager = numbers(block(*inputs))
    block.hybridize()
    compiled = numbers(block(*inputs))
    return [eager, compiled, hashlib.sha256(block._get_graph(*inputs)[1].tojson().encode()).hexdigest()[:8]]


def operands(mx):
    pred, other = ramp(mx, 3, 4), mx.nd.sin(ramp(mx, 3, 4) * 3)
    return {
        "pred": pred,
        "other": other,
        "third": mx.nd.cos(pred * 2),
        "weights": mx.nd.array([[1], [2], [0.5]]),
        "classes": mx.nd.array([1, 0, 3]),
        "probability": mx.nd.sigmoid(pred),
        "binary": other > 0,
        "signs": (other > 0) * 2 - 1,
        "counts": (other > 0) * 3 + 1,
        "distribution": mx.nd.softmax(other * 4),
        "logarithms": mx.nd.log_softmax(pred),
        "pairs": mx.nd.array([1, -1, 1]),
        "sequence": ramp(mx, 2, 5, 4),
        "labels": mx.nd.array([[0, 1, -1], [2, 2, 1]]),
        "labels_by_time": mx.nd.array([[0, 2], [1, 2], [-1, 1]]),
        "lengths": mx.nd.array([4, 5]),
        "label_lengths": mx.nd.array([2, 3]),
    }


LOSSES = {
    "l2": (lambda loss: loss.L2Loss(), "pred other"),
    "l2_axis": (lambda loss: loss.L2Loss(weight=0.3, batch_axis=1), "pred other"),
    "l2_weighted": (lambda loss: loss.L2Loss(), "pred other weights"),
    "l1": (lambda loss: loss.L1Loss(0.5), "pred other weights"),
    "sigmoid": (lambda loss: loss.SigmoidBCELoss(), "pred binary"),
    "sigmoid_positive": (lambda loss: loss.SigmoidBCELoss(), "pred binary weights weights"),
    "probability": (lambda loss: loss.SigmoidBCELoss(from_sigmoid=True), "probability binary weights"),
    "probability_positive": (lambda loss: loss.SigmoidBCELoss(True, 0.2), "probability binary none weights"),
    "softmax": (lambda loss: loss.SoftmaxCELoss(), "pred classes"),
    "softmax_dense": (lambda loss: loss.SoftmaxCELoss(sparse_label=False, weight=2), "pred distribution weights"),
    "softmax_logits": (lambda loss: loss.SoftmaxCrossEntropyLoss(from_logits=True), "logarithms classes"),
    "kl": (lambda loss: loss.KLDivLoss(), "logarithms distribution"),
    "kl_logits": (lambda loss: loss.KLDivLoss(from_logits=False, weight=0.3), "pred distribution weights"),
    "huber": (lambda loss: loss.HuberLoss(0.5), "pred other"),
    "hinge": (lambda loss: loss.HingeLoss(), "pred signs weights"),
    "squared_hinge": (lambda loss: loss.SquaredHingeLoss(2, 0.1), "pred signs"),
    "logistic": (lambda loss: loss.LogisticLoss(), "pred signs"),
    "logistic_binary": (lambda loss: loss.LogisticLoss(label_format="binary"), "pred binary"),
    "triplet": (lambda loss: loss.TripletLoss(), "pred other third"),
    "triplet_weighted": (lambda loss: loss.TripletLoss(3, 0.5), "pred other third"),
    "poisson": (lambda loss: loss.PoissonNLLLoss(), "pred binary"),
    "poisson_counts": (lambda loss: loss.PoissonNLLLoss(from_logits=False), "probability counts weights"),
    "ctc": (lambda loss: loss.CTCLoss(), "sequence labels"),
    "ctc_lengths": (lambda loss: loss.CTCLoss(weight=2), "sequence labels lengths label_lengths"),
    "ctc_layouts": (lambda loss: loss.CTCLoss("NTC", "TN"), "sequence labels_by_time"),
}


def computed(mx, table):
    given = {**operands(mx), "none": None}
    found = {}
    for name, (make, names) in table.items():
        with mx.name.NameManager():
            block = make(mx.gluon.loss)
            found[name] = [repr(block), block.name, both_ways(block, *[given[key] for key in names.split()])]
    return found


@program
def losses(mx):
    return computed(mx, LOSSES)


@program
def losses_of_arrays(mx):
    """Losses of which MXNet's graph has a parameter that its operator does not know, or that need shapes."""
    given, loss = operands(mx), mx.gluon.loss
    found = [
        loss.SDMLLoss()(given["pred"], given["other"]),
        loss.CosineEmbeddingLoss()(given["pred"], given["other"], given["pairs"]),
        loss.CosineEmbeddingLoss(0.3, margin=0.1)(given["pred"], given["other"], given["pairs"], given["weights"]),
        loss.PoissonNLLLoss(from_logits=False, compute_full=True)(given["probability"], given["counts"]),
    ]
    return [numbers(one) for one in found]


def beside(kind, mx):
    block = kind(axis=1)
    with block.name_scope():
        block.add(mx.gluon.nn.Dense(3), mx.gluon.nn.Dense(2), mx.gluon.contrib.nn.Identity())
    return block


LAYERS = {
    "concurrent": (lambda mx, nn: beside(nn.HybridConcurrent, mx), (2, 3)),
    "shuffle1": (lambda mx, nn: nn.PixelShuffle1D(2), (1, 4, 3)),
    "shuffle2": (lambda mx, nn: nn.PixelShuffle2D((2, 3)), (1, 12, 2, 2)),
    "shuffle2_square": (lambda mx, nn: nn.PixelShuffle2D(2), (1, 8, 2, 2)),
    "shuffle3": (lambda mx, nn: nn.PixelShuffle3D((2, 1, 3)), (1, 12, 2, 1, 2)),
    "batch_norm": (lambda mx, nn: nn.SyncBatchNorm(num_devices=1), (2, 3, 4)),
    "deformable": (lambda mx, nn: mx.gluon.contrib.cnn.DeformableConvolution(3, 3, padding=1), (1, 2, 5, 5)),
    "deformable_groups": (
        lambda mx, nn: mx.gluon.contrib.cnn.DeformableConvolution(
            4, (3, 2), use_bias=False, offset_use_bias=False, num_deformable_group=2, activation="relu"
        ),
        (1, 4, 5, 5),
    ),
    "modulated": (lambda mx, nn: mx.gluon.contrib.cnn.ModulatedDeformableConvolution(3, 3, padding=1), (1, 2, 5, 5)),
}


def called(mx, table):
    found = {}
    for name, (make, shape) in table.items():
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            block = make(mx, mx.gluon.contrib.nn)
            block.initialize()
            shown, names = repr(block), list(block.collect_params())
            x = ramp(mx, *shape)
            block(x)
            fill(block)
            found[name] = [shown, repr(block), names, both_ways(block, x)]
    return found


@program
def contrib_layers(mx):
    found = called(mx, LAYERS)
    concurrent = beside(mx.gluon.contrib.nn.Concurrent, mx)
    concurrent.initialize()
    concurrent(ramp(mx, 2, 3))
    fill(concurrent)
    found["step_by_step"] = numbers(concurrent(ramp(mx, 2, 3)))
    return found
