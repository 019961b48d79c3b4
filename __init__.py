"""mxforge: Apache MXNet 1.x's API on a compiler written in Python."""

import os
from typing import TYPE_CHECKING, Any

if os.environ.get("DMLC_ROLE") in ("server", "scheduler"):  # MXNet's launchers start such processes; nothing needs them
    raise SystemExit(0)

mxforge_version = "0.1.0"
__version__ = "1.9.1"  # the version of MXNet whose API this is: programs compare it

_ALIASES = {
    "nd": "ndarray",
    "ndarray": "ndarray",
    "sym": "symbol",
    "symbol": "symbol",
    "as_mxnet": "namespace.as_mxnet",
    "attribute": "attribute",
    "autograd": "autograd",
    "base": "base",
    "callback": "callback",
    "context": "context",
    "contrib": "contrib",
    "device": "context",
    "engine": "engine",
    "error": "error",
    "executor": "executor",
    "executor_manager": "executor_manager",
    "gluon": "gluon",
    "image": "image",
    "img": "image",
    "init": "initializer",
    "initializer": "initializer",
    "io": "io",
    "kv": "kvstore",
    "kvstore": "kvstore",
    "libinfo": "libinfo",
    "library": "library",
    "log": "log",
    "lr_scheduler": "lr_scheduler",
    "metric": "metric",
    "misc": "misc",
    "mlir": "mlir",
    "mod": "module",
    "model": "model",
    "module": "module",
    "mon": "monitor",
    "monitor": "monitor",
    "name": "name",
    "ndarray_doc": "ndarray_doc",
    "notebook": "notebook",
    "np": "numpy",
    "np_symbol": "symbol.numpy",
    "npx": "numpy_extension",
    "numpy": "numpy",
    "numpy_extension": "numpy_extension",
    "onnx": "onnx",
    "operator": "operator",
    "opt": "optimizer",
    "optimizer": "optimizer",
    "profiler": "profiler",
    "random": "random",
    "recordio": "recordio",
    "registry": "registry",
    "rnd": "random",
    "rnn": "rnn",
    "rtc": "rtc",
    "symbol_doc": "symbol_doc",
    "test_utils": "test_utils",
    "th": "torch",
    "torch": "torch",
    "util": "util",
    "visualization": "visualization",
    "viz": "visualization",
}
"""Modules of MXNet's API and where they stand in `frontend`; each is imported when it is first used."""

_MEMBERS = {
    "AttrScope": "attribute",
    "Context": "context",
    "Device": "context",
    "MXNetError": "base",
    "cpu": "context",
    "cpu_pinned": "context",
    "current_context": "context",
    "current_device": "context",
    "gpu": "context",
    "gpu_memory_info": "context",
    "is_np_array": "util",
    "is_np_shape": "util",
    "load_compiled": "frontend.compiled",
    "np_array": "util",
    "np_shape": "util",
    "num_gpus": "context",
    "set_np_shape": "util",
    "use_np": "util",
    "use_np_array": "util",
    "use_np_shape": "util",
}
"""Names of the face that are members of such a module."""


if __name__ == "mxforge":  # the checkout's own folder name is not the package
    from .frontend.namespace.aliases import install_aliases
    from .frontend.namespace.atomic_imports import install_atomic_imports

    install_atomic_imports(__name__)
    install_aliases(__name__, _ALIASES)

    if TYPE_CHECKING:
        from .frontend import (
            attribute,
            autograd,
            base,
            callback,
            context,
            contrib,
            engine,
            error,
            executor,
            executor_manager,
            gluon,
            image,
            initializer,
            io,
            kvstore,
            libinfo,
            library,
            log,
            lr_scheduler,
            metric,
            mlir,
            model,
            module,
            monitor,
            name,
            ndarray,
            operator,
            optimizer,
            profiler,
            random,
            recordio,
            registry,
            rnn,
            rtc,
            symbol,
            test_utils,
            util,
            visualization,
        )
        from .frontend import initializer as init
        from .frontend import kvstore as kv
        from .frontend import module as mod
        from .frontend import monitor as mon
        from .frontend import ndarray as nd
        from .frontend import optimizer as opt
        from .frontend import random as rnd
        from .frontend import symbol as sym
        from .frontend import visualization as viz
        from .frontend.attribute import AttrScope
        from .frontend.base import MXNetError
        from .frontend.compiled import load_compiled
        from .frontend.context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MEMBERS:
        found = getattr(import_module(f"{__name__}.{_MEMBERS[name]}"), name)
    elif name in _ALIASES or name == "runtime":  # the package of that name answers for mx.runtime
        found = import_module(f"{__name__}.{name}")
    elif name == "__all__":
        return sorted(name for name in {*_ALIASES, *_MEMBERS, "runtime"} if not name.startswith("_"))
    else:
        from .frontend.namespace.absent_modules import absent_module
        from .frontend.namespace.attribute_error import attribute_error

        found = absent_module(__name__, name)
        if found is None:
            raise attribute_error(__name__, "", name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    attributes = {name for name in globals() if name.startswith("__") and name != "__dir__" and name != "__getattr__"}
    return sorted({*attributes, *_ALIASES, *_MEMBERS, "mxforge_version", "runtime"})
