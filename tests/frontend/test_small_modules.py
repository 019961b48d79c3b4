"""The small modules: base, error, util, log, libinfo, engine, runtime, context."""

from __future__ import annotations

import array
import ctypes
import logging
import warnings
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import MXNetError


def test_c_values() -> None:
    base = mx.base
    assert base.c_str("Grün").value == "Grün".encode()
    assert list(base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert list(base.c_array(base.mx_uint, [1, 2])) == [1, 2]
    numbers = array.array("i", [1, 2, 3])
    shared = base.c_array_buf(ctypes.c_int, numbers)
    shared[0] = 9
    assert list(numbers) == [9, 2, 3]
    x = mx.nd.ones(3)
    assert base.c_handle_array([x])[0] == x.handle.value
    text = ctypes.create_string_buffer(b"abc")
    assert base.ctypes2buffer(ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 2) == b"ab"
    floats = ctypes.cast((ctypes.c_float * 4)(1, 2, 3, 4), base.mx_float_p)
    assert base.ctypes2numpy_shared(floats, (2, 2)).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="char pointer"):
        base.ctypes2buffer(floats, 1)


def test_check_call() -> None:
    mx.base.check_call(0)
    with pytest.raises(MXNetError):
        mx.base.check_call(-1)


def test_messages_of_cpp() -> None:
    text = "ValueError: no\nStack trace:\n  [0] a\n  [1] b\nmore\n"
    shown = "Traceback (most recent call last):\n  [1] b\n  [0] a\nValueError: no\nmore"
    assert mx.base.c2pyerror(text) == (shown, "ValueError")
    assert mx.base.c2pyerror("what is this") == ("what is this", None)


def test_registered_errors() -> None:
    @mx.error.register
    class Odd(MXNetError):
        """An error class for this test."""

    assert mx.base.error_types["Odd"] is Odd and mx.base.error_types["ValueError"] is ValueError
    assert "MXNet hint:" in str(mx.error.InternalError("x"))
    shown = str(mx.base.NotSupportedForSparseNDArray(print, None, 1))
    assert shown.startswith("Function print with arguments (<class 'int'>) is not supported for SparseNDArray")


def test_class_properties() -> None:
    class Holder(metaclass=mx.base._MXClassPropertyMetaClass):
        value = 1

        @mx.base.classproperty
        def current(cls: Any) -> int:
            return cls.value

    assert Holder.current == 1
    with pytest.raises(MXNetError):
        Holder.current = 2
    made: Any = mx.base.with_metaclass(type, dict)
    assert issubclass(type("Made", (made,), {}), dict)


def test_parameter_docs() -> None:
    doc = mx.base.build_param_doc(["a", "num_args", "a", "b"], ["int", "int", "int", "str"], ["first", "", "", ""])
    assert doc == "Parameters\n----------\na : int\n    first\nb : str\n"


def test_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", "/somewhere")
    assert mx.base.data_dir() == "/somewhere"
    monkeypatch.delenv("MXNET_HOME")
    assert mx.base.data_dir() == mx.base.data_dir_default() == str(Path.home() / ".mxnet")


def test_ufunc_options() -> None:
    wrapped = mx.util.wrap_np_unary_func(lambda x, out=None: -x)
    assert wrapped(2, where=True) == -2
    with pytest.raises(NotImplementedError):
        wrapped(2, dtype="int8")
    with pytest.raises(TypeError, match="not understood"):
        wrapped(2, dtype="nonsense")
    with pytest.raises(TypeError, match="invalid keyword"):
        wrapped(2, nonsense=1)


def test_loggers(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    logger = mx.log.get_logger("mxforge.test", str(file), "w", mx.log.INFO)
    assert mx.log.get_logger("mxforge.test") is logger and logger.level == logging.INFO
    logger.info("hello")
    logger.handlers[0].close()
    logger.removeHandler(logger.handlers[0])
    assert file.read_text() == "hello\n"
    line = mx.log._Formatter().format(logging.LogRecord("x", logging.WARNING, "/f.py", 3, "m", (), None, "g"))
    assert line.startswith("\x1b[31mW") and line.endswith("/f.py:g:3]\x1b[0m m")
    with pytest.warns(DeprecationWarning, match="get_logger"):
        mx.log.getLogger("mxforge.test")


def test_bulk_sizes() -> None:
    before = mx.engine.set_bulk_size(5)
    with mx.engine.bulk(7):
        assert mx.engine.set_bulk_size(7) == 7
    assert mx.engine.set_bulk_size(before) == 5


def test_features() -> None:
    features = mx.runtime.Features()
    assert features is mx.runtime.Features() and len(features) == len(mx.runtime.feature_list()) == 32
    assert not features.is_enabled("cuda") and features.is_enabled("INT64_TENSOR_SIZE")
    assert repr(features["CUDA"]) == "✖ CUDA"
    with pytest.raises(RuntimeError, match="unknown"):
        features.is_enabled("nonsense")


def test_no_native_files() -> None:
    for find in (mx.libinfo.find_lib_path, mx.libinfo.find_include_path, mx.libinfo.find_conf_path):
        with pytest.raises(RuntimeError, match="written in Python"):
            find()


def test_contexts_by_text_and_by_default() -> None:
    assert mx.nd.ones((1,), "cpu(2)").context == mx.cpu(2)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="nope"):
        mx.Context("nope")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.Context.default_ctx = mx.cpu(3)
        assert mx.nd.ones((1,)).context == mx.Context.default_ctx == mx.cpu(3)
        mx.Context.default_ctx = mx.cpu(0)
    with pytest.warns(DeprecationWarning, match="current_context"):
        assert mx.Context.default_ctx == mx.cpu(0)


def test_seeds_are_integers() -> None:
    mx.random.seed(np.int32(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="int"):
        mx.random.seed(1.5)  # type: ignore[arg-type]
