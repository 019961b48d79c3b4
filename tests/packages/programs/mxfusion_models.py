"""MXFusion: kernels, densities, and predictions of Gaussian processes."""

import cases
import mxnet as mx
import numpy as np
from mxfusion import Model, Variable
from mxfusion.components.distributions import Gamma, MultivariateNormal, Normal
from mxfusion.components.distributions.gp import kernels
from mxfusion.components.variables import PositiveTransformation
from mxfusion.inference import MAP, GradBasedInference, ModulePredictionAlgorithm, TransferInference
from mxfusion.modules.gp_modules import GPRegression


def array(*shape, number=0):
    return mx.nd.array(np.random.RandomState(number).uniform(-1, 1, shape), dtype="float64")


def gram():
    x, y = array(1, 5, 2), array(1, 4, 2, number=1)
    found = []
    for kind in (
        kernels.RBF,
        kernels.Matern12,
        kernels.Matern32,
        kernels.Matern52,
        kernels.Linear,
        kernels.Bias,
        kernels.White,
    ):
        kernel = kind(2, name="kernel", dtype="float64")
        values = {name: mx.nd.full((1, *v.shape), 0.7, dtype="float64") for name, v in kernel.parameters.items()}
        found.append([kernel.K(mx.nd, x, **values), kernel.K(mx.nd, x, y, **values), kernel.Kdiag(mx.nd, x, **values)])
    return found


def regression_of():
    np.random.seed(0)
    x, y = np.random.uniform(-3, 3, (12, 1)), np.random.uniform(-1, 1, (12, 1))
    model = Model()
    model.N = Variable()
    model.X = Variable(shape=(model.N, 1))
    model.noise_var = Variable(shape=(1,), transformation=PositiveTransformation(), initial_value=0.1)
    model.kernel = kernels.RBF(input_dim=1, variance=1, lengthscale=1)
    model.Y = GPRegression.define_variable(
        X=model.X, kernel=model.kernel, noise_var=model.noise_var, shape=(model.N, 1)
    )
    inference = GradBasedInference(inference_algorithm=MAP(model=model, observed=[model.X, model.Y]))
    data = [mx.nd.array(x), mx.nd.array(y)]
    inference.initialize(X=data[0], Y=data[1])
    return model, inference, data


def regression():
    _, inference, data = regression_of()
    density = inference.create_executor()(mx.nd.zeros(1), *data)
    return list(density)


def prediction():
    model, inference, data = regression_of()
    inference.create_executor()(mx.nd.zeros(1), *data)  # the factors of the training data stay
    kind = ModulePredictionAlgorithm(model=model, observed=[model.X], target_variables=[model.Y])
    predicted = TransferInference(kind, infr_params=inference.params).run(X=mx.nd.array(np.linspace(-3, 3, 7)[:, None]))
    return list(predicted[0])


def densities():
    x = mx.nd.array([[0.3, -0.7]])
    one, two = mx.nd.array([[0.5, 1.0]]), mx.nd.array([[1.5, 0.4]])
    matrix = mx.nd.array([[[2.0, 0.3], [0.3, 1.0]]])
    normal = Normal.define_variable(mean=Variable(), variance=Variable(), shape=(2,)).factor
    gamma = Gamma.define_variable(alpha=Variable(), beta=Variable(), shape=(2,)).factor
    several = MultivariateNormal.define_variable(mean=Variable(), covariance=Variable(), shape=(2,)).factor
    return [
        normal.log_pdf_impl(mean=one, variance=two, random_variable=x, F=mx.nd),
        gamma.log_pdf_impl(alpha=one, beta=two, random_variable=two, F=mx.nd),
        several.log_pdf_impl(mean=one, covariance=matrix, random_variable=x, F=mx.nd),
        normal.draw_samples_impl(mean=one, variance=two * 0, rv_shape=(1, 2), num_samples=1, F=mx.nd),
    ]


CASES = {"kernels": gram, "density of a regression": regression, "prediction": prediction, "densities": densities}

if __name__ == "__main__":
    cases.run(CASES)
