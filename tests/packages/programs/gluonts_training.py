"""gluonts: estimators' networks trained by its Trainer on fixed batches, and whole calls of `train`."""

import cases
import gluonts_models as models
import mxnet as mx
import numpy as np
from gluonts.mx import Trainer
from gluonts.mx.trainer import callback
from gluonts.mx.util import get_hybrid_forward_input_names


def fixed(estimator, hybridize=False):
    """The Trainer's own loop over the same batches, from parameters that depend on their places."""

    def case():
        np.random.seed(0)
        mx.random.seed(0)
        made = estimator()
        net = made.create_training_network()
        names = get_hybrid_forward_input_names(type(net))
        loader = made.create_training_data_loader(made.create_transformation().apply(models.data(), is_train=True))
        batch = next(iter(loader))
        batch = {name: batch[name] for name in names}
        net.initialize()
        net(*batch.values())
        cases.fill(net)
        initial = {name: p.data().copy() for name, p in net.collect_params().items()}

        class Same(mx.initializer.Initializer):
            def __call__(self, name, array):
                array[:] = initial[str(name)]

        losses = []

        class Losses(callback.Callback):
            def on_train_batch_end(self, training_network):
                found = training_network(*batch.values())
                losses.append(float((found[0] if isinstance(found, (list, tuple)) else found).mean().asscalar()))
                return True

        Trainer(
            epochs=2,
            num_batches_per_epoch=3,
            init=Same(),
            hybridize=hybridize,
            learning_rate=1e-3,
            clip_gradient=10.0,
            callbacks=[Losses()],
            add_default_callbacks=False,
        )(net, [batch] * 3)
        return [np.array(losses), [p.data() for p in net.collect_params().values() if p.grad_req != "null"][::3]]

    return case


def trained(estimator):
    """`train` as users call it. Windows and parameters are drawn, so only what the forecasts look like is compared."""

    def case():
        np.random.seed(0)
        mx.random.seed(0)
        made = estimator()
        made.trainer = Trainer(epochs=2, num_batches_per_epoch=3, hybridize=True)
        found = list(made.train(models.data()).predict(models.data()))
        arrays = [getattr(f, "forecast_array", getattr(f, "samples", None)) for f in found]
        return {
            "starts": str([str(f.start_date) for f in found]),
            "shapes": str([a.shape for a in arrays]),
            "finite": str(all(np.isfinite(a).all() for a in arrays)),
        }

    return case


CASES = {
    "deepar": fixed(models.deep_ar),
    "deepar, hybridized": fixed(models.deep_ar, True),
    "feed forward": fixed(models.feed_forward, True),
    "mqcnn": fixed(models.convolutional),
    "mqrnn": fixed(models.recurrent),
    "n-beats": fixed(models.beats),
    "transformer": fixed(models.attention),
    "train deepar": trained(models.deep_ar),
    "train feed forward": trained(models.feed_forward),
    "train mqcnn": trained(models.convolutional),
}

if __name__ == "__main__":
    cases.run(CASES)
