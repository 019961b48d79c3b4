"""Names the parts of MXNet that mxforge does not have: modules that import and refuse to be used, and absent names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NOT_YET = "this part of MXNet is not in mxforge yet, see docs/compatibility.md"
_NUMPY = "MXNet's NumPy interface (mx.np, mx.npx) is not in mxforge: use mx.nd, mx.sym and NumPy itself"
_C_INTERFACE = "it belongs to the interface between MXNet's Python and C code, which mxforge does not have"

_ONNX = "mxforge writes ONNX files with code of its own: use mx.onnx.export_model"

_MODULES = {
    _NUMPY: """_numpy_op_doc ndarray.numpy ndarray.numpy._api_internal ndarray.numpy._internal ndarray.numpy._op
    ndarray.numpy._register ndarray.numpy.linalg ndarray.numpy.random ndarray.numpy_extension
    ndarray.numpy_extension._op ndarray.numpy_extension._register ndarray.numpy_extension.image
    ndarray.numpy_extension.random numpy numpy._op numpy._register numpy.arrayprint numpy.fallback
    numpy.fallback_linalg numpy.function_base numpy.io numpy.linalg numpy.multiarray numpy.random numpy.stride_tricks
    numpy.utils numpy_dispatch_protocol numpy_extension numpy_extension._op numpy_extension._register
    numpy_extension.image numpy_extension.random numpy_extension.utils numpy_op_fallback numpy_op_signature
    symbol.numpy symbol.numpy._internal symbol.numpy._op symbol.numpy._register symbol.numpy._symbol
    symbol.numpy.linalg symbol.numpy.random symbol.numpy_extension symbol.numpy_extension._op
    symbol.numpy_extension._register symbol.numpy_extension.image symbol.numpy_extension.random""",
    _C_INTERFACE: """_api_internal _ctypes _ctypes.ndarray _ctypes.space _ctypes.symbol _cy3 _ffi _ffi._ctypes
    _ffi._ctypes.function _ffi._ctypes.object _ffi._ctypes.types _ffi._cy3 _ffi.base _ffi.function _ffi.node_generic
    _ffi.object _ffi.runtime_ctypes _global_var api cython space tvmop""",
    _NOT_YET: """contrib.amp.lists contrib.amp.lists.symbol_bf16 contrib.amp.lists.symbol_fp16 contrib.amp.loss_scaler
    contrib.onnx.onnx2mx contrib.onnx.onnx2mx._import_helper contrib.onnx.onnx2mx._op_translations
    contrib.onnx.onnx2mx._translation_utils contrib.onnx.onnx2mx.import_model contrib.onnx.onnx2mx.import_onnx
    contrib.onnx.onnx2mx.import_to_gluon contrib.quantization contrib.svrg_optimization
    contrib.svrg_optimization.svrg_module contrib.svrg_optimization.svrg_optimizer contrib.tensorrt
    gluon.contrib.data gluon.contrib.data._constants gluon.contrib.data.sampler gluon.contrib.data.text
    gluon.contrib.estimator gluon.contrib.estimator.batch_processor gluon.contrib.estimator.estimator
    gluon.contrib.estimator.event_handler gluon.contrib.estimator.utils image.detection misc""",
    _ONNX: """onnx.mx2onnx onnx.mx2onnx._export_helper onnx.mx2onnx._export_model onnx.mx2onnx._export_onnx
    onnx.mx2onnx._op_translations onnx.mx2onnx._op_translations._op_translations_opset12
    onnx.mx2onnx._op_translations._op_translations_opset13""",
}
ABSENT_MODULES = {path: reason for reason, paths in _MODULES.items() for path in paths.split()}
"""MXNet's modules that are empty here, as paths below the root, and what to say about them."""

_IMAGE = """Augmenter BrightnessJitterAug CastAug CenterCropAug ColorJitterAug ColorNormalizeAug ContrastJitterAug
CreateAugmenter ForceResizeAug HorizontalFlipAug HueJitterAug ImageIter LightingAug RandomCropAug RandomGrayAug
RandomOrderAug RandomSizedCropAug ResizeAug SaturationJitterAug SequentialAug imrotate random_rotate"""
_DETECTION = """CreateDetAugmenter CreateMultiRandCropAugmenter DetAugmenter DetBorrowAug DetHorizontalFlipAug
DetRandomCropAug DetRandomPadAug DetRandomSelectAug ImageDetIter"""
_READERS = """CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordIter_v1 ImageRecordUInt8Iter
ImageRecordUInt8Iter_v1 LibSVMIter MNISTIter MXDataIter"""
_DATA_SETS = "CIFAR10 CIFAR100 FashionMNIST MNIST"

ABSENT = {
    "gluon": "",
    "gluon.data.vision": _DATA_SETS,
    "gluon.data.vision.datasets": _DATA_SETS,
    "gluon.data.vision.transforms": "RandomRotation Rotate",
    "gluon.contrib": "",
    "image": f"{_IMAGE} {_DETECTION}",
    "image.image": _IMAGE,
    "io": _READERS,
    "io.io": _READERS,
}
"""Absent names by the module of MXNet that has them, as its path below the root."""


def attribute_error(root: str, module: str, name: str) -> AttributeError:
    """The error for an attribute that `module` (a path below the package `root`) does not have."""
    place = f"{root}.{module}" if module else root
    text = f"module {place!r} has no attribute {name!r}"
    if module in ABSENT_MODULES:
        text += f": {ABSENT_MODULES[module]}"
    elif name in ABSENT.get(module, "").split():
        text += f": {_NOT_YET}"
    return AttributeError(text, name=name)


def refuse_absent(package: str, module: str, lazy: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose `__package__` or `__name__` is `package`.

    Submodules in `lazy` are imported when they are first asked for.
    """
    root = package.partition(".frontend")[0]

    def refuse(name: str) -> Any:
        if name in lazy:
            return import_module(f"{package}.{name}")
        raise attribute_error(root, module, name)

    return refuse


def absent_module(root: str, path: str) -> ModuleType | None:
    """The absent module of MXNet at this path below `root`; None if there is none."""
    return import_module(f"{root}.{path}") if path in ABSENT_MODULES else None


class AbsentModule(ModuleType):
    """A module of MXNet that mxforge does not have: it imports, and each use of its contents is an AttributeError."""

    def __init__(self, root: str, path: str) -> None:
        super().__init__(f"{root}.{path}", f"Absent: {ABSENT_MODULES[path]}.")
        self.__path__ = []  # the absent modules below it are found by name
        self.__spec__ = ModuleSpec(self.__name__, None, is_package=True)
        self._root, self._below_root = root, path

    def __getattr__(self, name: str) -> Any:
        from .borrowed import find_borrowed

        found = find_borrowed(self._root, self._below_root, name)
        if found is None:
            raise attribute_error(self._root, self._below_root, name)
        return found[0]
