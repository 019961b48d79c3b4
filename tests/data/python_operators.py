"""What programs with operators in Python share; they run on real MXNet and on mxforge alike."""

import numpy as np


def draw(seed, *shape):
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def register(mx, name, operator, arguments=("data",), outputs=("output",), states=(), shapes=None, top=True, **methods):
    """Register an operator, whose constructor takes the parameters."""

    class Prop(mx.operator.CustomOpProp):
        def __init__(self, **parameters):
            super().__init__(need_top_grad=top)
            self.parameters = parameters

        def list_arguments(self):
            return list(arguments)

        def list_outputs(self):
            return list(outputs)

        def list_auxiliary_states(self):
            return list(states)

        def infer_shape(self, in_shape):
            return shapes(in_shape) if shapes else (in_shape, [in_shape[0]] * len(outputs), [])

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return operator(**self.parameters)

    for method, function in methods.items():
        setattr(Prop, method, function)
    mx.operator.register(name)(Prop)


FORMS = ({}, {"active": True}, {"active": True, "static_alloc": True, "static_shape": True})


def block(mx, function, form):
    net = mx.gluon.nn.HybridLambda(function)
    net.hybridize(**{"active": False, **form})
    return net
