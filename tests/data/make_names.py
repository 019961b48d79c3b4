"""Records the public names of MXNet with their signatures, in names.json: python make_names.py, under real MXNet 1.9.1.

A module's entry has each public name that is its own: the signature of a function, or that of a class and its members.
A member that is no function is "property", a signature that cannot be told is null, a default that is no literal "...".
"""

import inspect
import json
import pathlib
import types
from importlib import import_module

MODULES = """ndarray ndarray.random ndarray.linalg ndarray.contrib ndarray.image ndarray.sparse ndarray.utils
    symbol symbol.random symbol.linalg symbol.contrib symbol.image symbol.sparse
    gluon gluon.nn gluon.rnn gluon.block gluon.parameter gluon.utils gluon.loss gluon.trainer gluon.data
    gluon.data.vision.transforms gluon.contrib.nn gluon.contrib.rnn gluon.contrib.cnn
    gluon.model_zoo.vision gluon.model_zoo.model_store
    module model initializer metric visualization name attribute context runtime util engine profiler test_utils
    executor executor_manager random autograd callback optimizer lr_scheduler io recordio kvstore monitor operator
    registry rnn library rtc log image""".split()
LITERALS = (type(None), bool, int, float, str)


def default(value):
    if value is inspect.Parameter.empty:
        return None
    if isinstance(value, LITERALS) or (
        isinstance(value, (tuple, list)) and all(isinstance(v, LITERALS) for v in value)
    ):
        text = repr(value)
        return text if ".mxnet" not in text else "..."
    return "..."


def signature(function):
    """[name, default] for each parameter; names of `*args` and `**kwargs` begin with their stars."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [[stars.get(p.kind, "") + p.name, default(p.default)] for p in found.parameters.values()]


def members(cls):
    """The public members of a class and of its private bases; those of public bases are recorded there."""
    bases = [base for base in cls.__mro__ if base is cls or base.__name__.startswith("_")]
    names = sorted({name for base in bases for name in vars(base) if not name.startswith("_")})
    values = {name: getattr(cls, name, None) for name in names}
    return {name: signature(value) if inspect.isroutine(value) else "property" for name, value in values.items()}


def describe(value):
    if inspect.isclass(value):
        return {"signature": signature(value), "members": members(value)}
    return signature(value)


def is_own(module, value):
    """Whether a module defines or gathers this; generated functions of operators say no module of MXNet."""
    place = getattr(value, "__module__", "") or ""
    if not place.startswith("mxnet"):
        return module.__name__.startswith(("mxnet.ndarray", "mxnet.symbol")) and isinstance(value, types.FunctionType)
    return place.startswith(module.__name__.rpartition(".")[0] if "." in module.__name__[6:] else module.__name__)


def record(name):
    module = import_module("mxnet." + name)
    found = {}
    for key, value in sorted(vars(module).items()):
        if not key.startswith("_") and callable(value) and is_own(module, value):
            found[key] = describe(value)
    return found


if __name__ == "__main__":
    lines = ["{}: {}".format(json.dumps(m), json.dumps(record(m), separators=(",", ":"))) for m in MODULES]
    (pathlib.Path(__file__).resolve().parent / "names.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
