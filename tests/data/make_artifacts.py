"""Writes, with real MXNet 1.9.1, the files in tests/data/artifacts that our readers and writers are compared with.

usage: python make_artifacts.py [OUT_DIR]      in an environment with mxnet==1.9.1 and numpy<1.24

NAME.params and NAME-symbol.json are as MXNet saves them. For every hand-made artifacts/old/NAME.json, which stands
for a file of an older MXNet, and for the real one in fixtures, NAME.upgraded.json is what 1.9.1 makes of it.

check_written.py, next to this script, is the other direction: it loads what mxforge wrote into MXNet.
"""

import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

here = Path(__file__).parent
out = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "artifacts"
bfloat16 = np.dtype([("bfloat16", np.uint16)])


def save_params(name, arrays):
    mx.nd.save(str(out / f"{name}.params"), arrays)


def save_symbol(name, symbol):
    (out / f"{name}-symbol.json").write_bytes(symbol.tojson().encode())


def params_files():
    save_params(
        "bool_bfloat16",
        {
            "bool": mx.nd.array([1, 0, 1]).astype("bool"),
            "bfloat16": mx.nd.array([[1, 2.5, -3], [1e-3, 1e30, 0]]).astype(bfloat16),
        },
    )
    save_params("empty", [])
    save_params(
        "unicode", {"é": mx.nd.ones((1,)), "": mx.nd.zeros((2, 1, 3)), "arg:名前": mx.nd.array(np.zeros((0, 3)))}
    )
    save_params(
        "sparse",
        {
            "csr_empty": mx.nd.sparse.zeros("csr", (2, 3)),
            "row_sparse_empty": mx.nd.sparse.zeros("row_sparse", (2, 3)),
            "csr": mx.nd.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]]).astype("float64").tostype("csr"),
            "row_sparse": mx.nd.sparse.row_sparse_array((np.ones((2, 3, 2)), [1, 3]), shape=(5, 3, 2), dtype="float16"),
        },
    )
    with mx.util.np_shape(True), mx.util.np_array(True):
        arrays = {
            "scalar": mx.np.array(3.5),
            "zero_size": mx.np.zeros((0, 3)),
            "int8": mx.np.ones((2, 2), dtype="int8"),
        }
        mx.npx.save(str(out / "numpy_shapes.params"), arrays)


def symbols():
    data, state = mx.sym.var("data"), mx.sym.var("state")
    result, states = mx.sym.contrib.foreach(lambda x, s: (x + s[0], [x * s[0]]), data, [state])
    save_symbol("foreach", mx.sym.Group([result, *states]))

    looped, _ = mx.sym.contrib.while_loop(
        cond=lambda i, x: i < 3,
        func=lambda i, x: (mx.sym.contrib.cond(i < 2, lambda: x * 2, lambda: x + 1), (i + 1, x * x)),
        loop_vars=(mx.sym.var("i"), data),
        max_iterations=5,
    )
    save_symbol("nested_control_flow", looped[0] if isinstance(looped, list) else looped)

    odd = mx.sym.var('é "quoted"\\back\tslash\nline', attr={"one": 'v\r\n"', "__two__": "\x01\x7f"}, shape=(2, 0))
    save_symbol("escapes", odd + 1)
    many = mx.sym.Group([mx.sym.var(f"v{i}") * i for i in range(12)])
    save_symbol("many_heads", mx.sym.Group([many, mx.sym.split(many[0], 3)]))
    with mx.util.np_shape(True):
        save_symbol("numpy_shape_flag", data + state)
    block = nn.HybridSequential(prefix="norm_")
    block.add(nn.BatchNorm(), nn.PReLU(), nn.Dropout(0.5))
    save_symbol("multiple_outputs", block(data))


def upgrades():
    for source in [here / "fixtures/save_000800.json", *sorted((here / "artifacts/old").glob("*.json"))]:
        upgraded = mx.sym.load(str(source)).tojson()
        (out / f"{source.stem}.upgraded.json").write_bytes(upgraded.encode())


out.mkdir(exist_ok=True)
params_files()
symbols()
upgrades()
