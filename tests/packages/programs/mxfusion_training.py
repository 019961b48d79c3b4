"""MXFusion: Gaussian processes fitted by their likelihood, sparse ones by a bound, means by variational inference."""

import cases
import mxnet as mx
import mxfusion_models as models
import numpy as np
from mxfusion import Model, Variable
from mxfusion.components.distributions import Normal
from mxfusion.components.distributions.gp import kernels
from mxfusion.components.variables import PositiveTransformation
from mxfusion.inference import MAP, BatchInferenceLoop, GradBasedInference
from mxfusion.modules.gp_modules import SparseGPRegression


def parameters(inference):
    found = inference.params.param_dict
    return [found[name].data() for name in found]


def regression(optimizer="sgd", rate=0.01):
    def case():
        _, inference, data = models.regression_of()
        inference.run(max_iter=6, learning_rate=rate, optimizer=optimizer, X=data[0], Y=data[1])
        return parameters(inference)

    return case


def sparse_regression():
    np.random.seed(0)
    x, y = np.random.uniform(-3, 3, (12, 1)), np.random.uniform(-1, 1, (12, 1))
    model = Model()
    model.N = Variable()
    model.X = Variable(shape=(model.N, 1))
    model.Z = Variable(shape=(4, 1), initial_value=mx.nd.array(np.linspace(-3, 3, 4)[:, None]))
    model.noise_var = Variable(shape=(1,), transformation=PositiveTransformation(), initial_value=0.1)
    model.kernel = kernels.RBF(input_dim=1, variance=1, lengthscale=1)
    model.Y = SparseGPRegression.define_variable(
        X=model.X, kernel=model.kernel, noise_var=model.noise_var, inducing_inputs=model.Z, shape=(model.N, 1)
    )
    model.Y.factor.sgp_log_pdf.jitter = 1e-4
    inference = GradBasedInference(inference_algorithm=MAP(model=model, observed=[model.X, model.Y]))
    data = [mx.nd.array(x), mx.nd.array(y)]
    inference.initialize(X=data[0], Y=data[1])
    inference.run(max_iter=6, learning_rate=0.002, optimizer="sgd", X=data[0], Y=data[1])
    return parameters(inference)


def mean_of_a_normal(loop):
    """The most likely mean and variance of numbers."""

    def case():
        model = Model()
        model.mu = Variable(shape=(1,), initial_value=0.3)
        model.s = Variable(shape=(1,), transformation=PositiveTransformation(), initial_value=2.0)
        model.Y = Normal.define_variable(mean=model.mu, variance=model.s, shape=(12,))
        inference = GradBasedInference(MAP(model=model, observed=[model.Y]), grad_loop=loop())
        inference.run(max_iter=8, learning_rate=0.01, optimizer="adam", Y=mx.nd.array(np.linspace(1, 4, 12)))
        return parameters(inference)

    return case


CASES = {
    "regression": regression(),
    "regression by adam": regression("adam", 0.05),
    "sparse regression": sparse_regression,
    "normal": mean_of_a_normal(BatchInferenceLoop),
}

if __name__ == "__main__":
    cases.run(CASES)
