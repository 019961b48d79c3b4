"""Writing `.params`: the same bytes as MXNet 1.9.1, and errors for arrays that the format cannot represent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.frontend.artifacts import (
    ArtifactError,
    BFloat16Data,
    CSRData,
    ParamsArray,
    RowSparseData,
    dump_params,
    read_params,
    write_params,
)

DATA = Path(__file__).parents[2] / "data"
REAL_FILES = sorted((*DATA.glob("fixtures/*.params"), *DATA.glob("artifacts/*.params")))
DTYPES = ("f4", "f8", "f2", "u1", "i4", "i1", "i8", "?", "i2", "u2", "u4", "u8")


def round_trip(array: ParamsArray) -> Any:
    return read_params(dump_params([], [array])).arrays[0]


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_bytes_equal_what_mxnet_wrote(path: Path) -> None:
    file = read_params(path)
    assert dump_params(file.names, file.arrays) == path.read_bytes()


def test_the_old_file_becomes_a_current_one(tmp_path: Path) -> None:
    old = read_params(DATA / "fixtures/legacy_ndarray.v0")
    write_params(tmp_path / "new.params", old.names, old.arrays)
    new = read_params(tmp_path / "new.params")
    assert dump_params(new.names, new.arrays) == dump_params(old.names, old.arrays)
    for array in new.arrays:
        assert isinstance(array, np.ndarray) and array.tolist() == list(range(128))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (3, 4), (1,) * 8])
def test_every_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    back = round_trip(array)
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_layout_and_byte_order_do_not_matter() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    plain = dump_params([], [array])
    assert dump_params([], [np.asfortranarray(array)]) == plain
    assert dump_params([], [array.astype(">f4")]) == plain
    assert dump_params([], [np.repeat(array, 2, 1)[:, ::2]]) == plain


def test_sparse_and_bfloat16() -> None:
    csr = CSRData((2, 4), np.array([1.5, 2], np.float16), np.array([3, 0]), np.array([0, 1, 2]))
    back = round_trip(csr)
    assert back.shape == (2, 4) and back.data.tolist() == [1.5, 2] and back.data.dtype == np.float16
    assert back.indices.tolist() == [3, 0] and back.indptr.tolist() == [0, 1, 2]
    rows = round_trip(RowSparseData((5, 2), BFloat16Data(np.array([[1, 2]], np.uint16)), np.array([4], np.int32)))
    assert rows.data.bits.tolist() == [[1, 2]] and rows.indices.dtype == np.int32
    assert round_trip(BFloat16Data(np.array(7, np.uint16))).bits == 7


def test_one_version_for_the_whole_file() -> None:
    one, scalar = np.ones(1, np.float32), np.array(1, np.float32)
    assert dump_params([], [one, one]).count(b"\xc9\xfa\x93\xf9") == 2
    assert dump_params([], [one, scalar]).count(b"\xca\xfa\x93\xf9") == 2
    assert dump_params([], [one], numpy_shapes=True).count(b"\xca\xfa\x93\xf9") == 1
    assert round_trip(None) is None
    assert read_params(dump_params([], [None, scalar])).arrays[0] is None


SPARSE = CSRData((1, 2), np.ones(1), np.array([0]), np.array([0, 1]))


@pytest.mark.parametrize(
    ("names", "array", "options", "message"),
    [
        (["a", "b"], np.ones(1), {}, "2 names for 1 arrays"),
        (["weight"], np.ones(1, complex), {}, r"array 0 \('weight'\): .*dtype complex128"),
        (["weight"], np.array(["x"]), {}, "dtype <U1"),
        ([], [1, 2], {}, "array 0: a list cannot be saved"),
        ([], SPARSE, {"numpy_shapes": True}, "NumPy's shapes"),
        ([], np.array(1.0), {"numpy_shapes": False}, "a scalar can be saved with NumPy's shapes only"),
        ([], CSRData((1, 2), np.ones(1), np.array([2]), np.array([0, 1])), {}, "outside 0 to 1"),
        (["\ud800"], np.ones(1), {}, "cannot be written as UTF-8"),
    ],
)
def test_unsupported_arrays_raise_before_anything_is_written(
    tmp_path: Path, names: list[str], array: Any, options: dict[str, bool], message: str
) -> None:
    path = tmp_path / "kept.params"
    path.write_bytes(b"old")
    with pytest.raises(ArtifactError, match=message):
        write_params(path, names, [array], **options)
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["kept.params"]
