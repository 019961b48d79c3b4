"""gluonfr: networks for faces, and the losses they are trained with, forward."""

import cases
import mxnet as mx
from gluonfr import loss, model_zoo
from gluonfr.nn.basic_blocks import NormDense


def network(name, size=112, **options):
    def case():
        net = model_zoo.get_model(name, **options)
        net.initialize()
        net.hybridize()
        x = cases.ramp(1, 3, size, size)
        net(x)
        cases.fill(net)
        return {"names": cases.names(net), "outputs": net(x)}

    return case


def losses():
    labels = mx.nd.array([0, 2, 1, 3])
    scores, embedding = cases.ramp(4, 5), cases.ramp(4, 8, number=1)
    ring, center = loss.RingLoss(0.1), loss.CenterLoss(5, 8, 0.1)
    ring.initialize(), center.initialize()
    cases.fill(center)
    return [
        loss.ArcLoss(5)(scores, labels),
        loss.ArcLoss(5, easy_margin=False)(scores, labels),
        loss.CosLoss(5, 0.2, 16)(scores, labels),
        loss.L2Softmax(5, 4)(scores, labels),
        loss.SVXSoftmax(5, 16, 1.1, m2=0.1)(scores, labels),
        loss.TripletLoss()(embedding, embedding * 2, embedding + 1),
        loss.ContrastiveLoss()(embedding, embedding + 0.1, mx.nd.array([0, 1, 1, 0])),
        ring(scores, labels, embedding),
        center(scores, labels, embedding),
    ]


def blocks():
    dense = NormDense(5, weight_norm=True, feature_norm=True, in_units=8)
    dense.initialize()
    cases.fill(dense)
    return dense(cases.ramp(3, 8))


CASES = {
    "mobile facenet": network("mobilefacenet", classes=10),
    "se resnet18": network("l_se_resnet18v2", classes=10),
    "attention net": network("attentionfacenet56", classes=10),
    "losses": losses,
    "blocks": blocks,
}

if __name__ == "__main__":
    cases.run(CASES)
