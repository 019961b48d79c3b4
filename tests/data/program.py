"""What programs that run on real MXNet and on mxforge alike share; see make_programs.py."""

import numpy as np


def gather():
    """An empty table of programs and the decorator that puts functions into it under their names."""
    programs = {}

    def program(function):
        programs[function.__name__] = function
        return function

    return programs, program


def numbers(array):
    """An array's shape and its elements, as float64."""
    return {"shape": list(array.shape), "values": array.asnumpy().astype("float64").reshape(-1).tolist()}


def sketch(array):
    """An array's shape and its sums along four fixed directions: few numbers that any wrong element changes."""
    values = array.asnumpy().astype("float64").reshape(-1)
    places = np.arange(values.size)
    sums = [np.cos(places * k + k) @ values for k in (0, 0.7, 1.9, 2.8)]
    return {"shape": list(array.shape), "values": [float(f"{value:.7g}") for value in sums]}


def fill(net):
    """Give all parameters values that depend on their names' order alone; variances stay positive."""
    for number, param in enumerate(net.collect_params().values()):
        values = np.sin(np.arange(np.prod(param.shape)) * 0.7 + number).reshape(param.shape) * 0.5
        if param.name.endswith("running_var"):
            values = np.abs(values) + 0.5
        param.set_data(net_array(param, values))


def net_array(param, values):
    data = param.data().copy()
    data[:] = values.astype("float32")
    return data


def ramp(mx, *shape):
    """An array of fixed values between -1 and 1."""
    return mx.nd.array(np.cos(np.arange(np.prod(shape)) * 0.37).reshape(shape).astype("float32"))


def described(symbol):
    return {
        "name": symbol.name,
        "repr": repr(symbol),
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "auxiliary": symbol.list_auxiliary_states(),
        "inputs": symbol.list_inputs(),
        "internals": symbol.get_internals().list_outputs(),
        "attributes": symbol.attr_dict(),
        "json": symbol.tojson(),
    }


def failure(function, *args, **kwargs):
    """The type of the error that a call raises."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "none"
