"""Modules that are in `sys.modules` before they are loaded: frameworks look there for `mxnet.ndarray` and its kin.

After `import mxnet`, MXNet has loaded all of its modules. Here each is an object that the import system loads when
something of it is first touched. It is the same object before and after, under all its names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import accumulate
from threading import get_ident
from types import ModuleType
from typing import Any

from .absent import ABSENT_MODULES, AbsentModule
from .aliases import SECOND_NAMES, FolderAliases

_LOADED = """
attribute autograd base callback context contrib contrib.autograd contrib.io contrib.ndarray contrib.onnx
contrib.symbol contrib.tensorboard contrib.text contrib.text._constants contrib.text.embedding
contrib.text.utils contrib.text.vocab engine error executor executor_manager gluon gluon.block gluon.contrib
gluon.contrib.cnn gluon.contrib.cnn.conv_layers gluon.contrib.nn gluon.contrib.nn.basic_layers gluon.contrib.rnn
gluon.contrib.rnn.conv_rnn_cell gluon.contrib.rnn.rnn_cell gluon.data gluon.data.dataloader gluon.data.dataset
gluon.data.sampler gluon.data.vision gluon.data.vision.datasets gluon.data.vision.transforms gluon.loss
gluon.model_zoo gluon.model_zoo.model_store gluon.model_zoo.vision gluon.model_zoo.vision.alexnet
gluon.model_zoo.vision.densenet gluon.model_zoo.vision.inception gluon.model_zoo.vision.mobilenet
gluon.model_zoo.vision.resnet gluon.model_zoo.vision.squeezenet gluon.model_zoo.vision.vgg gluon.nn
gluon.nn.activations gluon.nn.basic_layers gluon.nn.conv_layers gluon.parameter gluon.rnn gluon.rnn.rnn_cell
gluon.rnn.rnn_layer gluon.trainer gluon.utils image image.image initializer io io.io io.utils kvstore
kvstore.base kvstore.kvstore kvstore.kvstore_server libinfo library log lr_scheduler metric model module
module.base_module module.bucketing_module module.executor_group module.module module.python_module
module.sequential_module monitor name ndarray ndarray._internal ndarray.contrib ndarray.image ndarray.linalg
ndarray.ndarray ndarray.op ndarray.random ndarray.sparse ndarray.utils ndarray_doc notebook onnx operator
optimizer optimizer.contrib optimizer.optimizer profiler random recordio registry rnn rnn.io rnn.rnn
rnn.rnn_cell rtc runtime symbol symbol._internal symbol.contrib symbol.image symbol.linalg symbol.op
symbol.random symbol.sparse symbol.symbol symbol_doc test_utils torch util visualization
"""
_NOT_LOADED = """
_ctypes.space _ffi.runtime_ctypes cython space contrib.amp.lists contrib.amp.lists.symbol_bf16
contrib.amp.lists.symbol_fp16 contrib.amp.loss_scaler contrib.svrg_optimization
contrib.svrg_optimization.svrg_module contrib.svrg_optimization.svrg_optimizer contrib.tensorrt misc
ndarray.gen_random symbol.gen_random
"""
_QUIET = frozenset("__class__ __name__ __spec__ __loader__ __package__ __file__ __cached__ __warningregistry__".split())
"""What tools ask of every module in `sys.modules`, which must not load them."""


def loaded_paths() -> Iterator[str]:
    """The modules that `import mxnet` loads in MXNet 1.9.1, as paths below the root."""
    yield from _LOADED.split()
    yield from {*ABSENT_MODULES, *SECOND_NAMES} - {*_NOT_LOADED.split()}


class LateModule(ModuleType):
    """A module that is not loaded yet. Once it is, its class is ModuleType."""

    def __init__(self, real: str) -> None:
        super().__init__(real)
        vars_of(self).update(__spec__=ModuleSpec(real, None), _loading_thread=None)

    def __getattribute__(self, name: str) -> Any:
        if name in _QUIET or vars_of(self)["_loading_thread"] == get_ident():
            return super().__getattribute__(name)
        return getattr(_load(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if vars_of(self)["_loading_thread"] == get_ident():
            super().__setattr__(name, value)
        else:
            setattr(_load(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_load(self), name)


def vars_of(module: LateModule) -> dict[str, Any]:
    """The module's names, without loading it."""
    return ModuleType.__getattribute__(module, "__dict__")


def _load(module: LateModule) -> ModuleType:
    """The module, loaded.

    The packages around it come first, each on its own: threads that load a package and a module in it at the same time
    would otherwise each wait for the lock that the other one holds.
    """
    *packages, name = accumulate(vars_of(module)["__name__"].split("."), "{}.{}".format)
    for package in packages:
        import_module(package)
    return import_module(name)


def begin(module: LateModule) -> None:
    """Note that this thread loads the module: it sees what is there so far, and others wait for the import."""
    vars_of(module)["_loading_thread"] = get_ident()


def finish(module: LateModule, loaded: bool) -> None:
    """Make an ordinary module of one that is loaded; one whose import failed is tried again when it is touched."""
    if loaded:
        del vars_of(module)["_loading_thread"]
        object.__setattr__(module, "__class__", ModuleType)
    else:
        vars_of(module)["_loading_thread"] = None


def register_modules(name: str, finder: FolderAliases) -> None:
    """Put the modules that MXNet has after its import into `sys.modules`, as `NAME.path`."""
    for path in loaded_paths():
        sys.modules[f"{name}.{path}"] = _module_at(path, finder)


def _module_at(path: str, finder: FolderAliases) -> ModuleType:
    fullname = f"{finder.root}.{path}"
    if path in ABSENT_MODULES:
        return sys.modules.setdefault(fullname, AbsentModule(finder.root, path))
    real = finder.real_name(fullname) or fullname
    return sys.modules.get(real) or finder.late.setdefault(real, LateModule(real))
