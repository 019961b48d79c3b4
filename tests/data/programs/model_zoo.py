"""The networks of gluon.model_zoo.vision: their structure, all of them, and what some compute."""

import hashlib

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()

SMALL = {"mobilenet0.25": 64, "mobilenetv2_0.25": 64, "squeezenet1.1": 224, "resnet18_v1": 64, "resnet18_v2": 64}


def names(mx):
    """What get_model knows, from the text of its error."""
    try:
        mx.gluon.model_zoo.vision.get_model("")
    except ValueError as error:
        return str(error).split("\n\t")[1:]


@program
def structures(mx):
    """For each network: the number of parameters, and digests of their names and shapes and of the symbol's file."""
    found = {}
    for name in names(mx):
        with mx.name.NameManager():
            net = mx.gluon.model_zoo.vision.get_model(name, classes=10, prefix="net_")
            parameters = net.collect_params()
            text = repr([(p.name, p.shape, p.grad_req) for p in parameters.values()])
            file = net(mx.sym.var("data")).tojson()
        found[name] = [len(parameters.keys())] + [hashlib.sha256(t.encode()).hexdigest()[:16] for t in (text, file)]
    return found


@program
def outputs(mx):
    """Scores for an image; the parameters follow from their order alone, scaled to keep activations near 1."""
    found = {}
    for name, size in SMALL.items():
        net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
        x = mx.nd.array(np.cos(np.arange(3 * size * size) * 0.37).reshape(1, 3, size, size))
        net.initialize()
        net.infer_shape(x)
        for number, param in enumerate(net.collect_params().values()):
            values = np.sin(np.arange(np.prod(param.shape)) * 0.7 + number).reshape(param.shape)
            if param.name.endswith(("var", "gamma")):
                values = 1 + 0.5 * values
            elif len(param.shape) > 1:
                values *= (2 / np.prod(param.shape[1:])) ** 0.5
            param.set_data(mx.nd.array(values.astype("float32")))
        net.hybridize()
        found[name] = numbers(net(x))
    return found
