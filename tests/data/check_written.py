"""Checks by hand that real MXNet 1.9.1 loads what mxforge writes, with equal values.

usage: python check_written.py write DIR      where mxforge is installed
then:  python check_written.py check DIR      in an environment with mxnet==1.9.1 and numpy<1.24

Covers every dtype that MXNet 1.9.1 knows, bfloat16, csr, row_sparse, scalars, and all symbol files of tests/data.
Not in: MXNet 2.0's unsigned dtypes, which 1.9.1 has no name for, and arrays that were never allocated, which its C++
loads and its Python has no class for.
"""

import sys
from pathlib import Path

import numpy as np

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
VALUES = np.array([[0, 1, 2], [3, 100, 5]])
MATRIX = np.array([[0, 1.5, 0, 0], [0, 0, 0, 0], [2, 0, 0, 3]], np.float32)
DATA = Path(__file__).parent


def write(folder):
    from mxforge.frontend.artifacts import BFloat16Data, CSRData, RowSparseData, write_params

    arrays = {dtype: VALUES.astype(dtype) for dtype in DTYPES}
    arrays["bfloat16"] = BFloat16Data.from_float32(VALUES.astype(np.float32))
    arrays["csr"] = CSRData(MATRIX.shape, MATRIX[MATRIX != 0], np.nonzero(MATRIX)[1], np.array([0, 1, 1, 3]))
    arrays["row_sparse"] = RowSparseData(MATRIX.shape, MATRIX[[0, 2]], np.array([0, 2]))
    arrays["empty"] = np.zeros((0, 3), np.float32)
    write_params(folder / "named.params", list(arrays), list(arrays.values()))
    write_params(folder / "list.params", [], [VALUES.astype(np.float32), np.ones(1, np.int8)])
    write_params(folder / "scalar.params", ["s"], [np.array(3.5, np.float32)])
    write_symbols(folder)


def write_symbols(folder):
    from mxforge.frontend.artifacts import read_symbol_json, write_symbol_json

    for source in DATA.glob("*/*-symbol.json"):
        (folder / source.name).write_text(write_symbol_json(read_symbol_json(source.read_text())))


def check(folder):
    import mxnet as mx

    arrays = mx.nd.load(str(folder / "named.params"))
    for dtype in DTYPES:
        assert arrays[dtype].dtype == np.dtype(dtype), dtype
        np.testing.assert_array_equal(arrays[dtype].asnumpy(), VALUES.astype(dtype))
    np.testing.assert_array_equal(arrays["bfloat16"].astype("float32").asnumpy(), VALUES)
    for storage in ("csr", "row_sparse"):
        assert arrays[storage].stype == storage
        arrays[storage].check_format()
        np.testing.assert_array_equal(arrays[storage].asnumpy(), MATRIX)
    assert arrays["empty"].shape == (0, 3)
    first, second = mx.nd.load(str(folder / "list.params"))
    np.testing.assert_array_equal(first.asnumpy(), VALUES)
    assert second.dtype == np.int8
    with mx.util.np_shape(True), mx.util.np_array(True):
        scalar = mx.npx.load(str(folder / "scalar.params"))["s"]
        assert scalar.shape == () and scalar.asnumpy() == 3.5
    for path in folder.glob("*-symbol.json"):
        with mx.util.np_shape("is_np_shape" in path.read_text()):
            assert mx.sym.load(str(path)).tojson() == path.read_text(), path
    print("all equal")


{"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
