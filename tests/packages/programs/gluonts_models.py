"""gluonts: distributions, the losses of estimators' networks, and forecasts that are not drawn."""

import cases
import mxnet as mx
import numpy as np
import pandas as pd
from gluonts.dataset.common import ListDataset
from gluonts.mx import Trainer, distribution
from gluonts.mx.model import deepar, n_beats, seq2seq, simple_feedforward, transformer
from gluonts.mx.util import get_hybrid_forward_input_names


def positive(*shape, number=0):
    return mx.nd.exp(cases.ramp(*shape, number=number))


def distributions():
    mu, sigma, x = cases.ramp(3, 4), positive(3, 4, number=1), cases.ramp(3, 4, number=2)
    made = [
        distribution.Gaussian(mu, sigma),
        distribution.Laplace(mu, sigma),
        distribution.StudentT(mu, sigma, positive(3, 4, number=3) + 2),
        distribution.Uniform(mu, mu + sigma),
        distribution.Categorical(mx.nd.log_softmax(cases.ramp(3, 4, 5))),
        distribution.Deterministic(mu),
    ]
    counts = [
        distribution.NegativeBinomial(sigma, sigma),
        distribution.Poisson(sigma),
        distribution.Gamma(sigma, sigma),
    ]
    whole = mx.nd.array(np.arange(12).reshape(3, 4) % 4 + 1)
    mixture = distribution.MixtureDistribution(mx.nd.softmax(cases.ramp(3, 4, 2)), made[:2])
    correlated = distribution.MultivariateGaussian(
        mu, mx.nd.array(np.tril(np.ones((4, 4))) + np.eye(4)).broadcast_to((3, 4, 4))
    )
    found = [[d.mean, d.stddev, d.log_prob(x)] for d in made[:3]] + [[d.mean, d.log_prob(whole)] for d in counts]
    found += [
        made[3].mean,
        made[4].log_prob(whole),
        made[5].mean,
        mixture.mean,
        mixture.log_prob(x),
        correlated.log_prob(x),
    ]
    found += [made[0].cdf(x), made[1].cdf(x), made[0].quantile(mx.nd.array([0.1, 0.5, 0.9]))]
    return found


def data(length=120):
    series = [np.sin(np.arange(length) * 0.3 + i) * 3 + 10 + i for i in range(3)]
    return ListDataset([{"start": pd.Timestamp("2020-01-01"), "target": s.astype("float32")} for s in series], freq="D")


def trainer():
    return Trainer(epochs=1, num_batches_per_epoch=1, hybridize=False)


def loss_of(estimator):
    """The loss of an estimator's training network on a batch of its own loader."""

    def case():
        np.random.seed(0)
        mx.random.seed(0)
        made = estimator()
        net = made.create_training_network()
        transformed = made.create_transformation().apply(data(), is_train=True)
        batch = next(iter(made.create_training_data_loader(transformed)))
        inputs = [batch[name] for name in get_hybrid_forward_input_names(type(net))]
        net.initialize()
        net(*inputs)
        cases.fill(net)
        shapes = str([tuple(array.shape) for array in inputs])
        return {
            "inputs": shapes,
            "outputs": list(
                cases.flat(list(net(*inputs)) if isinstance(net(*inputs), (list, tuple)) else net(*inputs))
            ),
        }

    return case


def forecast(estimator, exact=True):
    """What a predictor says of three series; of drawn forecasts only their shapes are compared."""

    def case():
        made = estimator()
        net = made.create_training_network()
        net.initialize()
        transformation = made.create_transformation()
        np.random.seed(0)
        batch = next(iter(made.create_training_data_loader(transformation.apply(data(), is_train=True))))
        net(*[batch[name] for name in get_hybrid_forward_input_names(type(net))])
        cases.fill(net)
        found = list(made.create_predictor(transformation, net).predict(data()))
        arrays = [getattr(f, "forecast_array", getattr(f, "samples", None)) for f in found]
        facts = {"starts": str([str(f.start_date) for f in found]), "shapes": str([a.shape for a in arrays])}
        return {**facts, "outputs": arrays if exact else []}

    return case


SIZES = {"prediction_length": 4, "context_length": 12}
COMMON = {"batch_size": 4, "trainer": trainer()}


def deep_ar():
    return deepar.DeepAREstimator(freq="D", num_cells=8, dropout_rate=0.0, **SIZES, **COMMON)


def feed_forward():
    return simple_feedforward.SimpleFeedForwardEstimator(num_hidden_dimensions=[8, 8], **SIZES, **COMMON)


def convolutional():
    return seq2seq.MQCNNEstimator(
        freq="D", channels_seq=[4, 4], kernel_size_seq=[3, 3], dilation_seq=[1, 2], scaling=False, **SIZES, **COMMON
    )


def recurrent():
    return seq2seq.MQRNNEstimator(freq="D", **SIZES, **COMMON)


def beats():
    return n_beats.NBEATSEstimator(
        freq="D", num_stacks=2, widths=[8], num_blocks=[1], loss_function="MAPE", **SIZES, **COMMON
    )


def attention():
    return transformer.TransformerEstimator(freq="D", model_dim=8, num_heads=2, dropout_rate=0.0, **SIZES, **COMMON)


CASES = {
    "distributions": distributions,
    "loss of deepar": loss_of(deep_ar),
    "loss of feed forward": loss_of(feed_forward),
    "loss of mqcnn": loss_of(convolutional),
    "loss of n-beats": loss_of(beats),
    "loss of transformer": loss_of(attention),
    "forecast of mqcnn": forecast(convolutional),
    "forecast of mqrnn": forecast(recurrent),
    "forecast of n-beats": forecast(beats),
    "forecast of deepar": forecast(deep_ar, exact=False),
    "forecast of feed forward": forecast(feed_forward, exact=False),
}

if __name__ == "__main__":
    cases.run(CASES)
