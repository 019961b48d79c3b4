"""The public names are MXNet's: `dir` lists no others, and classes and pickles name MXNet's paths."""

from __future__ import annotations

import base64
import json
import pickle
import pickletools
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import mxforge as mx
import pytest
from mxforge.frontend.namespace.modules import PRESENT

DATA = Path(__file__).resolve().parents[1] / "data"
MXNET_ROOT = """AttrScope Context MXNetError attribute autograd base callback context contrib cpu cpu_pinned
current_context engine error executor executor_manager gluon gpu image img init initializer io is_np_array is_np_shape
kv kvstore libinfo library log lr_scheduler metric mod model module mon monitor name nd ndarray ndarray_doc notebook np
np_array np_shape np_symbol npx numpy numpy_extension onnx operator optimizer profiler random recordio registry rnd rnn
rtc runtime set_np_shape sym symbol symbol_doc test_utils th torch use_np use_np_array use_np_shape util visualization
viz"""
"""`dir(mxnet)` of MXNet 1.9.1, without private modules and the C API."""

OWN_ROOT = "Device as_mxnet current_device device gpu_memory_info load_compiled misc mlir mxforge_version num_gpus opt"
"""Names at mxforge's root that MXNet 1.9.1 does not have (Device, current_device and device are those of MXNet 2), or
(misc) only after an import of the module."""

_PDFS = """pdf_dirichlet pdf_exponential pdf_gamma pdf_generalized_negative_binomial pdf_negative_binomial pdf_normal
pdf_poisson pdf_uniform"""
ALLOWED = {
    "contrib": "amp",
    "contrib.ndarray": "cond foreach isfinite isinf isnan mx ndarray rand_zipfian uniform while_loop",
    "contrib.symbol": """AttrScope Symbol SymbolHandle adamw_update check_call cond copy ctypes foreach
    mp_adamw_update rand_zipfian symbol uniform while_loop""",
    "contrib.text._constants": "FILES",
    "gluon.data.vision": "ImageListDataset",
    "gluon.data.vision.datasets": "ImageListDataset",
    "gluon.nn": "Identity",
    "gluon.nn.basic_layers": "Identity",
    "ndarray.random": _PDFS,
    "numpy_extension": "log_sigmoid mish",
    "notebook": "callback",
    "symbol.numpy": "nonzero",
    "symbol.numpy.random": "multinomial randn",
    "symbol.numpy_extension": "log_sigmoid mish",
    "symbol.random": _PDFS,
    "symbol.symbol": "fromjson",
}
"""Further names in modules: other paths of modules, and operators that MXNet lists elsewhere."""


NUMPY_2 = frozenset("left_shift matrix_transpose right_shift unique_counts vecdot".split())
"""Functions of NumPy 2 that MXNet 2 lacks in `np`."""


@cache
def recorded() -> dict[str, str]:
    return json.loads((DATA / "names.json").read_text())["names"]


def of_mxnet2(path: str) -> set[str]:
    """The names that MXNet 2 has in a module; those of arrays are functions of symbols too."""
    names: dict[str, str] = json.loads((DATA / "names_of_mxnet2.json").read_text())
    arrays = path.removeprefix("symbol.")
    return {*names.get(arrays, "").split(), *(NUMPY_2 if arrays in ("numpy", "numpy.linalg") else ())}


def module_at(path: str) -> Any:
    return import_module(f"mxforge.{path}")


def test_the_root_lists_mxnets_modules_and_members() -> None:
    listed = {name for name in dir(mx) if not name.startswith("__")}
    assert listed == {*MXNET_ROOT.split(), *OWN_ROOT.split()}


@pytest.mark.parametrize("path", sorted(PRESENT))
def test_a_module_lists_only_names_of_mxnet(path: str) -> None:
    listed = {name for name in dir(module_at(path)) if not name.startswith("_")}
    generated = (
        "NDArrayBase",
        "SymbolBase",
    )  # from MXNet's modules gen_contrib, ..., which are not separate in mxforge
    known = {*recorded()[path].split(), *ALLOWED.get(path, "").split(), *generated}
    assert listed - known - of_mxnet2(path) == set()


def public_classes() -> Iterator[tuple[str, type]]:
    """Each public class of mxforge with the module that lists it."""
    for path in sorted(PRESENT):
        module = module_at(path)
        for name in dir(module):
            value = None if name.startswith("_") else getattr(module, name)
            if isinstance(value, type) and value.__module__.startswith("mxforge") and value.__name__ == name:
                yield path, value


def test_paths_of_public_classes_lead_to_them() -> None:
    wrong = []
    for path, cls in public_classes():
        found = getattr(import_module(cls.__module__), cls.__name__, None)
        if ".frontend" in cls.__module__ or found is not cls:
            wrong.append((path, cls))
    assert wrong == []


def test_classes_print_mxnets_path() -> None:
    array = mx.nd.ones((2, 2))
    assert str(type(array)) == "<class 'mxforge.ndarray.NDArray'>"
    assert str(type(array.tostype("csr"))) == "<class 'mxforge.ndarray.sparse.CSRNDArray'>"
    assert str(type(mx.sym.var("x"))) == "<class 'mxforge.symbol.Symbol'>"
    assert str(mx.gluon.nn.Dense) == "<class 'mxforge.gluon.nn.Dense'>"
    assert str(mx.gluon.HybridBlock) == "<class 'mxforge.gluon.HybridBlock'>"
    assert str(mx.gluon.Trainer) == "<class 'mxforge.gluon.trainer.Trainer'>"
    assert str(mx.Context) == "<class 'mxforge.context.Context'>"
    assert (mx.nd.array.__module__, mx.nd.relu.__module__) == ("mxforge.ndarray", "mxforge.ndarray")
    assert (mx.sym.relu.__module__, mx.sym.linalg.gemm2.__module__) == ("mxforge.symbol", "mxforge.symbol.linalg")


def test_functions_are_pickled_by_public_paths() -> None:
    for function, path in ((mx.nd.array, b"mxforge.ndarray\narray"), (mx.sym.relu, b"mxforge.symbol\nrelu")):
        data = pickle.dumps(function, protocol=2)
        assert path in data and pickle.loads(data) is function


def test_a_module_imported_by_its_path_does_not_replace_a_function_of_its_name() -> None:
    import_module("mxforge.gluon.model_zoo.vision.alexnet")
    assert isinstance(mx.gluon.model_zoo.vision.alexnet, FunctionType)


def pickled() -> dict[str, bytes]:
    """Pickles of objects of many modules, written when `frontend` was part of the names of classes."""
    texts: dict[str, str] = json.loads((DATA / "artifacts" / "pickles.json").read_text())
    return {name: base64.b64decode(text) for name, text in texts.items()}


@pytest.mark.parametrize("name", pickled())
def test_old_pickles_load_and_new_ones_name_public_classes(name: str) -> None:
    value = pickle.loads(pickled()[name])
    again = pickle.dumps(value, protocol=2)
    assert type(pickle.loads(again)) is type(value)
    named = {str(argument) for code, argument, _ in pickletools.genops(again) if code.name == "GLOBAL"}
    assert {n for n in named if "mxforge.frontend" in n} <= {
        "mxforge.frontend.gluon.structure BlockScope",
        "mxforge.frontend.ndarray.creation array",  # the function for dense arrays, in a pickle of nd.array
        "mxforge.frontend.ndarray.ndarray _unpickled",
    }
