"""`mxforge compile --predict-api`: MXNet's C predict API for the model of a library, called through ctypes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.tools.main import main

from .conftest import FIXTURES

CPU, GPU = 1, 2
SYMBOL, PARAMETERS = FIXTURES / "convnet-symbol.json", FIXTURES / "convnet-0000.params"
SHAPE = ("--input-shape", "data=1..2..3,3,32,32")


class Predict:
    """The functions, which raise RuntimeError with MXGetLastError."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.MXGetLastError.restype = ctypes.c_char_p

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            if self._library[name](*arguments):
                raise RuntimeError(self._library.MXGetLastError().decode())

        return call

    def create(self, shapes: Mapping[str, Sequence[int]], device: int = CPU, **files: Any) -> ctypes.c_void_p:
        json = files.get("json", SYMBOL.read_bytes())
        parameters = files.get("parameters", PARAMETERS.read_bytes())
        handle = ctypes.c_void_p()
        given = keys_and_shapes(shapes)
        self.MXPredCreate(json, parameters, len(parameters), device, 0, *given, ctypes.byref(handle))
        return handle

    def set(self, handle: ctypes.c_void_p, key: bytes, x: np.ndarray) -> None:
        self.MXPredSetInput(handle, key, ctypes.c_void_p(x.ctypes.data), x.size)

    def output(self, handle: ctypes.c_void_p) -> np.ndarray:
        extents, rank = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_uint32()
        self.MXPredGetOutputShape(handle, 0, ctypes.byref(extents), ctypes.byref(rank))
        result = np.zeros(extents[: rank.value], np.float32)
        self.MXPredGetOutput(handle, 0, ctypes.c_void_p(result.ctypes.data), result.size)
        return result


def keys_and_shapes(shapes: Mapping[str, Sequence[int]]) -> tuple[Any, ...]:
    starts = np.cumsum([0, *map(len, shapes.values())]).tolist()
    extents = [n for shape in shapes.values() for n in shape]
    keys = (ctypes.c_char_p * len(shapes))(*[name.encode() for name in shapes])
    numbers = (ctypes.c_uint32 * len(starts))(*starts), (ctypes.c_uint32 * len(extents))(*extents)
    return len(shapes), keys, *numbers


@pytest.fixture(scope="module")
def predict(tmp_path_factory: pytest.TempPathFactory) -> Predict:
    folder = tmp_path_factory.mktemp("library") / "net"
    arguments = ["compile", str(FIXTURES / "convnet"), "-o", str(folder), *SHAPE, "--emit", "shared", "--predict-api"]
    assert main(arguments) == 0
    return Predict(folder / "libconvnet.so")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("folder") / "net"
    assert main(["compile", str(FIXTURES / "convnet"), "-o", str(folder), *SHAPE]) == 0
    return mx.load_compiled(folder)


def images(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)


def test_a_program_of_mxnet(predict: Predict, reference: Any) -> None:
    """Labels, which the model does not have, are ignored as by MXNet. Shapes change by a new predictor."""
    handle = predict.create({"data": (3, 3, 32, 32), "softmax_label": (3,)})
    predict.set(handle, b"data", images(3))
    predict.MXPredForward(handle)
    np.testing.assert_array_equal(predict.output(handle), reference(images(3))[0])
    other = ctypes.c_void_p()
    predict.MXPredReshape(*keys_and_shapes({"data": (1, 3, 32, 32)}), handle, ctypes.byref(other))
    predict.set(other, b"data", images(1))
    left = ctypes.c_int(5)
    predict.MXPredPartialForward(other, 1, ctypes.byref(left))
    assert left.value == 0
    np.testing.assert_array_equal(predict.output(other), reference(images(1))[0])
    np.testing.assert_array_equal(predict.output(handle), reference(images(3))[0])
    dtype = ctypes.c_int(9)
    predict.MXPredGetOutputType(handle, 0, ctypes.byref(dtype))
    assert dtype.value == 0
    for each in (handle, other):
        predict.MXPredFree(each)


def test_a_second_thread_gets_an_error(predict: Predict) -> None:
    handle, x = predict.create({"data": (2, 3, 32, 32)}), images(2)
    predict.set(handle, b"data", x)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            with suppress(RuntimeError):
                predict.MXPredForward(handle)

    def reshape() -> None:
        other = ctypes.c_void_p()
        predict.MXPredReshape(*keys_and_shapes({}), handle, ctypes.byref(other))
        predict.MXPredFree(other)

    runs = threading.Thread(target=run)
    runs.start()
    try:
        for call in (lambda: predict.set(handle, b"data", x), reshape):
            with pytest.raises(RuntimeError, match="another thread is using the context"):
                for _ in range(10000):
                    call()
    finally:
        ended.set()
        runs.join()
    predict.MXPredFree(handle)


def test_inputs_are_copied(predict: Predict, reference: Any) -> None:
    handle, x = predict.create({"data": (2, 3, 32, 32)}), images(2)
    predict.set(handle, b"data", x)
    x[:] = 0
    predict.MXPredForward(handle)
    np.testing.assert_array_equal(predict.output(handle), reference(images(2))[0])
    predict.MXPredFree(handle)


def test_other_files_are_refused(predict: Predict) -> None:
    shapes = {"data": (2, 3, 32, 32)}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"json": b"{}"}, "this symbol is not convnet-symbol.json, which the library was compiled from"),
        ({"json": None}, "the symbol is NULL"),
        ({"parameters": PARAMETERS.read_bytes()[:-1] + b"x"}, "these parameters are not convnet-0000.params"),
    )
    for files, text in cases:
        with pytest.raises(RuntimeError, match=text):
            predict.create(shapes, **files)
    predict.MXPredFree(predict.create(shapes, parameters=b""))


def test_wrong_calls(predict: Predict) -> None:
    with pytest.raises(RuntimeError, match="device type 2: the library runs on the CPU"):
        predict.create({"data": (2, 3, 32, 32)}, device=GPU)
    with pytest.raises(RuntimeError, match=r"it takes data \[1..2..3, 3, 32, 32\]"):
        predict.create({"data": (9, 3, 32, 32)})
    handle = predict.create({"data": (2, 3, 32, 32)})
    with pytest.raises(RuntimeError, match="the model has no input 'image'"):
        predict.set(handle, b"image", images(2))
    with pytest.raises(RuntimeError, match="input 'data' has 6144 elements, not 3072"):
        predict.set(handle, b"data", images(1))
    with pytest.raises(RuntimeError, match="output 3: the model has 1"):
        predict.MXPredGetOutput(handle, 3, None, 0)
    with pytest.raises(RuntimeError, match="the predictor is NULL"):
        predict.MXPredForward(None)
    with pytest.raises(RuntimeError, match="the library has the outputs of the model, not 'pool'"):
        keys = (ctypes.c_char_p * 1)(b"pool")
        given = keys_and_shapes({"data": (2, 3, 32, 32)})
        json = SYMBOL.read_bytes()
        predict.MXPredCreatePartialOut(json, None, 0, CPU, 0, *given, 1, keys, ctypes.byref(ctypes.c_void_p()))
    predict.MXPredFree(handle)


def read_list(predict: Predict, data: bytes) -> dict[str, np.ndarray]:
    handle, count = ctypes.c_void_p(), ctypes.c_uint32()
    predict.MXNDListCreate(data, len(data), ctypes.byref(handle), ctypes.byref(count))
    arrays: dict[str, np.ndarray] = {}
    for i in range(count.value):
        name, elements = ctypes.c_char_p(), ctypes.POINTER(ctypes.c_float)()
        extents, rank = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_uint32()
        predict.MXNDListGet(handle, i, *map(ctypes.byref, (name, elements, extents, rank)))
        shape = tuple(extents[: rank.value])
        arrays[(name.value or b"").decode(errors="replace")] = np.ctypeslib.as_array(elements, shape).copy()
    predict.MXNDListFree(handle)
    return arrays


def test_lists_of_arrays(predict: Predict, tmp_path: Path) -> None:
    expected = {"mean": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "std": np.ones(3, np.float32)}
    path = tmp_path / "mean.nd"
    mx.nd.save(str(path), {name: mx.nd.array(array) for name, array in expected.items()})
    found = read_list(predict, path.read_bytes())
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert read_list(predict, (FIXTURES / "legacy_ndarray.v0").read_bytes())
    mx.nd.save(str(path), [mx.nd.array([1, 2], dtype="int32")])
    with pytest.raises(RuntimeError, match="sparse or not float32"):
        read_list(predict, path.read_bytes())


def test_damaged_lists_are_refused(predict: Predict, tmp_path: Path) -> None:
    path = tmp_path / "mean.nd"
    mx.nd.save(str(path), {"mean": mx.nd.ones((2, 3)), "std": mx.nd.ones(3)})
    data = path.read_bytes()
    for end in range(len(data)):
        with pytest.raises(RuntimeError, match="damaged"):
            read_list(predict, data[:end])
    random = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(data)
        for place in random.integers(0, len(data), 3):
            changed[place] = random.choice([0, 1, 127, 128, 255, int(random.integers(256))])
        with suppress(RuntimeError, ValueError):
            read_list(predict, bytes(changed))


def test_the_option_is_for_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(FIXTURES / "convnet"), "-o", str(tmp_path / "net"), *SHAPE, "--predict-api"]) == 2
    assert "--predict-api is for libraries: pass --emit" in capsys.readouterr().err
