"""gluonfr: steps with the losses that faces are recognized by."""

import cases
import mxnet as mx
import training
from gluonfr import loss as losses
from gluonfr import model_zoo
from gluonfr.nn.basic_blocks import NormDense


def head(make, weight_norm=False, feature_norm=False):
    """A dense network, then normalized scores and a loss with a margin."""

    def case():
        labels, criterion = mx.nd.array([0, 2, 1, 3]), make()
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=6))
        net.add(NormDense(5, weight_norm=weight_norm, feature_norm=feature_norm, in_units=8))
        net.initialize()
        cases.fill(net)
        net.hybridize()
        return training.fit(net, lambda step: criterion(net(cases.ramp(4, 6, number=step)), labels), size=4)

    return case


def embedding(make):
    """A loss that also looks at the features, some with parameters of their own."""

    def case():
        labels, criterion = mx.nd.array([0, 2, 1, 3]), make()
        features, scores = mx.gluon.nn.Dense(8, in_units=6), mx.gluon.nn.Dense(5, in_units=8)
        every = mx.gluon.ParameterDict()
        for block in (features, scores, criterion):
            block.initialize()
            cases.fill(block)
            every.update(block.collect_params())

        def loss(step):
            found = features(cases.ramp(4, 6, number=step))
            return criterion(scores(found), labels, found)

        return training.fit(every, loss, size=4)

    return case


def triplets():
    net = mx.gluon.nn.Dense(8, in_units=6)
    net.initialize()
    cases.fill(net)
    criterion = losses.TripletLoss()

    def loss(step):
        one, two, three = (net(cases.ramp(4, 6, number=3 * step + i)) for i in range(3))
        return criterion(one, two, three)

    return training.fit(net, loss, size=4)


def network():
    net = model_zoo.get_model("mobilefacenet", classes=10)
    net.initialize()
    net(cases.ramp(2, 3, 112, 112))
    cases.fill(net)
    net.hybridize()
    criterion = losses.ArcLoss(10)

    def loss(step):
        out = net(cases.ramp(2, 3, 112, 112, number=step))
        scores = out[1] if isinstance(out, (list, tuple)) else out
        return criterion(mx.nd.L2Normalization(scores), mx.nd.array([3, 7]))

    return training.fit(net, loss, "nag", steps=2, size=2, learning_rate=1e-10, momentum=0.9)


CASES = {
    "arc": head(lambda: losses.ArcLoss(5), True, True),
    "arc without easy margin": head(lambda: losses.ArcLoss(5, easy_margin=False), True, True),
    "cosine": head(lambda: losses.CosLoss(5, 0.2, 16), True, True),
    "norm": head(lambda: losses.L2Softmax(5, 4), False, True),
    "support vectors": head(lambda: losses.SVXSoftmax(5, 16, 1.1, m2=0.1), True, True),
    "ring": embedding(lambda: losses.RingLoss(0.1)),
    "center": embedding(lambda: losses.CenterLoss(5, 8, 0.1)),
    "triplets": triplets,
    "mobile facenet": network,
}

if __name__ == "__main__":
    cases.run(CASES)
