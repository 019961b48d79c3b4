"""Records the names of MXNet, in names.json: python make_names.py, under real MXNet 1.9.1.

"signatures" has for the modules that users know each public name that is their own: the signature of a function, or
that of a class and its members. A member that is no function is "property", a signature that cannot be told is null, a
default that is no literal "...". "loaded" are the modules that `import mxnet` loads. For every module, private ones
too, "names" are all its names, and "exports" those in its `__all__` where it has one; "members" are the names of all
classes, inherited ones too.
"""

import inspect
import json
import pathlib
import pkgutil
import sys
import types
import warnings
from importlib import import_module

MODULES = """ndarray ndarray.random ndarray.linalg ndarray.contrib ndarray.image ndarray.sparse ndarray.utils
    symbol symbol.random symbol.linalg symbol.contrib symbol.image symbol.sparse
    gluon gluon.nn gluon.rnn gluon.block gluon.parameter gluon.utils gluon.loss gluon.trainer gluon.data
    gluon.data.vision.transforms gluon.contrib.nn gluon.contrib.rnn gluon.contrib.cnn gluon.contrib.estimator
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


def loaded():
    """The modules that have been loaded with MXNet, as paths below it."""
    import_module("mxnet")
    return sorted(name[6:] for name in sys.modules if name.startswith("mxnet."))


def all_modules():
    """Every module of MXNet that can be imported, by its path."""
    paths = {info.name for info in pkgutil.walk_packages(import_module("mxnet").__path__, "mxnet.")}
    paths |= {"mxnet." + path for path in loaded()}
    paths -= {"mxnet.libmxnet", "mxnet.onnx.setup"}  # the C library, and a script
    return {path[6:]: import_module(path) for path in sorted(paths)}


def is_plain(name):
    return not (name.startswith("__") and name.endswith("__"))


def class_names(modules):
    """The names of each class that a module defines; special methods only where `object` does not have them."""
    found = {}
    ordinary = set(dir(type("Plain", (), {}))) | set("__annotations__ __slotnames__ __slots__ _abc_impl".split())
    ordinary.add("__abstractmethods__")
    for path, module in modules.items():
        for name, value in sorted(vars(module).items()):
            if inspect.isclass(value) and value.__module__ == module.__name__:
                found[path + "." + name] = " ".join(sorted(set(dir(value)) - ordinary))
    return found


def as_lines(table):
    lines = ["{}: {}".format(json.dumps(k), json.dumps(v, separators=(",", ":"))) for k, v in table.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # some members are deprecated
    at_first = loaded()
    modules = all_modules()
    tables = {
        "signatures": {name: record(name) for name in MODULES},
        "names": {path: " ".join(sorted(filter(is_plain, vars(module)))) for path, module in modules.items()},
        "exports": {p: " ".join(sorted(m.__all__)) for p, m in modules.items() if hasattr(m, "__all__")},
        "members": class_names(modules),
    }
    texts = ['"loaded": ' + json.dumps(" ".join(at_first))]
    texts += ["{}: {}".format(json.dumps(name), as_lines(table)) for name, table in tables.items()]
    (pathlib.Path(__file__).resolve().parent / "names.json").write_text("{\n" + ",\n".join(texts) + "\n}\n")
