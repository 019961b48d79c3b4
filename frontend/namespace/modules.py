"""The modules of MXNet 1.9.1, as paths below the root: implemented modules, absent modules, and aliases."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.suggestions import see

_NOT_YET = "this part of MXNet is not in mxforge yet" + see("compatibility")
_NUMPY = "it belongs to the implementation of MXNet's NumPy interface: use mx.np, mx.npx, mx.sym.np and mx.sym.npx"
_C_INTERFACE = "it belongs to the interface between MXNet's Python and C code, which mxforge does not have"

_ONNX_IMPORT = "mxforge has a different implementation of the ONNX import: use mx.contrib.onnx"
_ONNX = "mxforge has a different implementation of the ONNX export: use mx.onnx.export_model"

_MODULES = {
    _NUMPY: """_numpy_op_doc ndarray.numpy._api_internal ndarray.numpy._internal ndarray.numpy._op
    ndarray.numpy._register ndarray.numpy_extension._op ndarray.numpy_extension._register numpy._op
    numpy._register numpy.arrayprint numpy.fallback numpy.fallback_linalg numpy.function_base numpy.io
    numpy.stride_tricks numpy.utils numpy_dispatch_protocol numpy_extension._op numpy_extension._register
    numpy_extension.utils numpy_op_fallback numpy_op_signature symbol.numpy._internal symbol.numpy._op
    symbol.numpy._register symbol.numpy_extension._op symbol.numpy_extension._register""",
    _C_INTERFACE: """_api_internal _ctypes _ctypes.ndarray _ctypes.space _ctypes.symbol _cy3 _ffi _ffi._ctypes
    _ffi._ctypes.function _ffi._ctypes.object _ffi._ctypes.types _ffi._cy3 _ffi.base _ffi.function _ffi.node_generic
    _ffi.object _ffi.runtime_ctypes _global_var api cython space tvmop""",
    _NOT_YET: "contrib.quantization contrib.tensorrt",
    _ONNX_IMPORT: """contrib.onnx.onnx2mx contrib.onnx.onnx2mx._import_helper contrib.onnx.onnx2mx._op_translations
    contrib.onnx.onnx2mx._translation_utils contrib.onnx.onnx2mx.import_model contrib.onnx.onnx2mx.import_onnx
    contrib.onnx.onnx2mx.import_to_gluon""",
    _ONNX: """onnx.mx2onnx onnx.mx2onnx._export_helper onnx.mx2onnx._export_model onnx.mx2onnx._export_onnx
    onnx.mx2onnx._op_translations onnx.mx2onnx._op_translations._op_translations_opset12
    onnx.mx2onnx._op_translations._op_translations_opset13""",
}
ABSENT_MODULES = {path: reason for reason, paths in _MODULES.items() for path in paths.split()}
"""MXNet's modules that mxforge does not implement, as paths below the root, with the reason for the error text."""

_NUMPY_PACKAGES = (
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "numpy_extension",
    "numpy_extension.image",
    "numpy_extension.random",
)
_GENERATED = ("_internal", "contrib", "image", "linalg", "op", "random", "sparse")
MODULE_ALIASES = {
    **{f"{kind}.gen_{name}": f"{kind}.{name}" for kind in ("ndarray", "symbol") for name in _GENERATED},
    **{f"ndarray.{path}": path for path in _NUMPY_PACKAGES},
    "numpy.multiarray": "numpy",
    "ndarray.register": "ndarray.functions",
    "symbol.numpy._symbol": "symbol.numpy",
    "symbol.register": "symbol.ops",
}
"""MXNet's modules that are aliases of other modules here, by path below the root."""

_LOADED = """
attribute autograd base callback context contrib contrib.autograd contrib.io contrib.ndarray contrib.onnx
contrib.symbol contrib.tensorboard contrib.text contrib.text._constants contrib.text.embedding
contrib.text.utils contrib.text.vocab engine error executor executor_manager gluon gluon.block gluon.contrib
gluon.contrib.cnn gluon.contrib.cnn.conv_layers gluon.contrib.data gluon.contrib.data._constants
gluon.contrib.data.sampler gluon.contrib.data.text gluon.contrib.estimator
gluon.contrib.estimator.batch_processor gluon.contrib.estimator.estimator gluon.contrib.estimator.event_handler
gluon.contrib.estimator.utils gluon.contrib.nn gluon.contrib.nn.basic_layers gluon.contrib.rnn
gluon.contrib.rnn.conv_rnn_cell gluon.contrib.rnn.rnn_cell gluon.data gluon.data.dataloader gluon.data.dataset
gluon.data.sampler gluon.data.vision gluon.data.vision.datasets gluon.data.vision.transforms gluon.loss
gluon.model_zoo gluon.model_zoo.model_store gluon.model_zoo.vision gluon.model_zoo.vision.alexnet
gluon.model_zoo.vision.densenet gluon.model_zoo.vision.inception gluon.model_zoo.vision.mobilenet
gluon.model_zoo.vision.resnet gluon.model_zoo.vision.squeezenet gluon.model_zoo.vision.vgg gluon.nn
gluon.nn.activations gluon.nn.basic_layers gluon.nn.conv_layers gluon.parameter gluon.rnn gluon.rnn.rnn_cell
gluon.rnn.rnn_layer gluon.trainer gluon.utils image image.detection image.image initializer io io.io io.utils
kvstore kvstore.base kvstore.kvstore kvstore.kvstore_server libinfo library log lr_scheduler metric model module
module.base_module module.bucketing_module module.executor_group module.module module.python_module
module.sequential_module monitor name ndarray ndarray._internal ndarray.contrib ndarray.image ndarray.linalg
ndarray.ndarray ndarray.op ndarray.random ndarray.sparse ndarray.utils ndarray_doc notebook numpy numpy.linalg
numpy.random numpy_extension numpy_extension.image numpy_extension.random onnx operator optimizer
optimizer.contrib optimizer.optimizer profiler random recordio registry rnn rnn.io rnn.rnn rnn.rnn_cell rtc
runtime symbol symbol._internal symbol.contrib symbol.image symbol.linalg symbol.numpy symbol.numpy.linalg
symbol.numpy.random symbol.numpy_extension symbol.numpy_extension.image symbol.numpy_extension.random symbol.op
symbol.random symbol.sparse symbol.symbol symbol_doc test_utils torch util visualization
"""
_LOADED_LATER = """
contrib.amp contrib.amp.amp contrib.amp.lists contrib.amp.lists.symbol_bf16 contrib.amp.lists.symbol_fp16
contrib.amp.loss_scaler contrib.svrg_optimization contrib.svrg_optimization.svrg_module
contrib.svrg_optimization.svrg_optimizer misc notebook.callback
"""
PRESENT = frozenset((*_LOADED.split(), *_LOADED_LATER.split()))
"""MXNet's modules that mxforge implements."""

_NOT_LOADED = """
_ctypes.space _ffi.runtime_ctypes cython space contrib.tensorrt
ndarray.gen_random symbol.gen_random
"""


def loaded_paths() -> Iterator[str]:
    """The modules that `import mxnet` loads in MXNet 1.9.1, as paths below the root."""
    yield from _LOADED.split()
    yield from {*ABSENT_MODULES, *MODULE_ALIASES} - {*_NOT_LOADED.split()}
