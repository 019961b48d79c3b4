"""Runs the cases of a program and prints their results as a few numbers a line: what all programs share."""

import json
import sys
import time
import traceback
import warnings
import zlib

import mxnet as mx
import numpy as np

warnings.simplefilter("ignore")


def ramp(*shape, number=0):
    """Values in [-1, 1] that depend on their places alone."""
    return mx.nd.array(np.random.RandomState(number).uniform(-1, 1, shape).astype("float32"))


def fill(block):
    """Gives every parameter of a known shape values that depend on its place in the list, its shape and its kind."""
    for number, parameter in enumerate(block.collect_params().values()):
        if parameter.shape is None or 0 in parameter.shape or is_constant(parameter):
            continue
        values = np.random.RandomState(number).uniform(-1, 1, parameter.shape)
        if parameter.name.endswith("gamma"):
            values = 0.7 + 0.2 * values
        elif parameter.name.endswith("var"):
            values = 1 + 0.3 * values
        elif values.ndim > 1:
            values *= (4 / np.prod(parameter.shape[1:])) ** 0.5
        else:
            values *= 0.1
        parameter.set_data(mx.nd.array(values.astype("float32")))


def is_constant(parameter):
    return parameter.grad_req == "null" and not parameter.name.endswith(("mean", "var", "gamma", "beta"))


def names(block):
    """One number for the names and shapes of all parameters."""
    return zlib.crc32(repr([(p.name, tuple(p.shape)) for p in block.collect_params().values()]).encode())


def flat(value):
    """The arrays in nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in flat(item)]
    return [] if value is None else [value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)]


def numbers(array):
    """Shape, largest magnitude, two sums over all elements, and some of them."""
    array = np.asarray(array)
    values = array.astype("float64").ravel()
    finite = np.where(np.isfinite(values), values, 0)
    wave = np.cos(np.arange(values.size) * 0.37)
    some = values[:: max(1, values.size // 12)][:12]
    count = max(1, values.size)
    sums = [float(abs(finite).sum() / count), float((finite * wave).sum() / count)]
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "largest": float(abs(finite).max()) if values.size else 0.0,
        "values": [float("%.7g" % v) for v in sums + some.tolist()],
    }


def run(cases):
    """Runs the cases (name: function) that the command line names, or all, and prints a line for each.

    With `--list` their names are printed instead.
    """
    if sys.argv[1:] == ["--list"]:
        print("\n".join("case " + name for name in cases))
        return
    for name in sys.argv[1:] or list(cases):
        start = time.time()
        line = {"case": name}
        try:
            with mx.name.NameManager():
                line.update(results(cases[name]()))
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)[-4:]
            line["error"] = type(error).__name__ + ": " + str(error)[:400]
            line["at"] = [place.filename.split("site-packages/")[-1] + ":" + str(place.lineno) for place in places]
        line["seconds"] = round(time.time() - start, 1)
        print(json.dumps(line), flush=True)


def results(outcome):
    """A case returns arrays, or a dictionary of arrays, numbers and text."""
    if not isinstance(outcome, dict):
        outcome = {"outputs": outcome}
    facts = {k: v for k, v in outcome.items() if isinstance(v, (str, int, float))}
    arrays = [array for v in outcome.values() if not isinstance(v, (str, int, float)) for array in flat(v)]
    return {"facts": facts, "outputs": [numbers(array) for array in arrays]}
