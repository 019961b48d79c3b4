"""Records which names MXNet 1.9.1 gives to the casts of operators' outputs when it converts a symbol.

`python tests/data/make_output_names.py`, where `mxnet==1.9.1` is installed, writes `output_names.json` beside itself:
operators whose outputs have numbers instead of names, and those whose outputs have names.
"""

import json
import os
import signal
from importlib import import_module
from pathlib import Path

from golden_case import Case
from make_goldens import cases_of, operator_handle

FEW = """LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss _contrib_allclose
_contrib_boolean_mask _contrib_box_iou _contrib_fft _contrib_gradientmultiplier _contrib_ifft _contrib_index_array
_contrib_index_copy _contrib_quadratic _contrib_round_ste _contrib_sign_ste _copyto _identity_with_attr_like_rhs
_image_random_flip_left_right _image_random_flip_top_bottom _random_normal_like _random_uniform_like
_rnn_param_concat _sample_gamma _sample_multinomial _sample_normal _sample_uniform _scatter_elemwise_div _shuffle
_square_sum batch_take cast_storage shape_array size_array softmax_cross_entropy""".split()
"""Operators without cases, which need no attributes."""
HERE = Path(__file__).resolve().parent
CASES = 3  # how many cases of an operator are tried
SECONDS = 15


def names_of(case):
    """The parts of the casts' names after that of the operator."""
    import mxnet as mx
    from mxnet._ctypes.symbol import _symbol_creator

    amp = import_module("mxnet.contrib.amp")
    variables = [mx.sym.var("v%d" % i) for i in range(len(case.inputs))]
    keys, values = list(case.attributes), list(case.attributes.values())
    symbol = _symbol_creator(operator_handle(case.op), variables, None, keys, values, "n", False)
    dense = [mx.sym.FullyConnected(s, num_hidden=1, name="fc%d" % i) for i, s in enumerate(symbol)]
    lists = {"target_dtype_ops": ["FullyConnected"], "fp32_ops": [], "conditional_fp32_ops": []}
    made = amp.convert_symbol(mx.sym.Group(dense), excluded_sym_names=["n"] * (case.op == "FullyConnected"), **lists)
    names = [node["name"] for node in json.loads(made.tojson(remove_amp_cast=False))["nodes"]]
    return sorted(n[2:].partition("_amp_cast")[0] for n in names if n.startswith("n_") and "_amp_cast" in n)


def in_a_process(case):
    """`names_of`, or None where MXNet refuses or ends the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            os.write(writer, json.dumps(names_of(case)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def main():
    import mxnet  # noqa: F401  (once, before processes are made)

    found = {}
    for path in sorted((HERE / "operators").glob("*.py")):
        for case in cases_of(path.stem):
            if case.inputs:
                found.setdefault(case.op, []).append(case)
    kinds = {"numbers": [], "names": []}
    for op in FEW:
        found[op] = [Case(op, (None,) * count, {}) for count in (1, 2, 3)]
    found["cast_storage"] = [Case("cast_storage", (None,), {"stype": "default"})]
    for op in sorted(found):
        for case in found[op][:CASES]:
            names = in_a_process(case)
            if names:
                kinds["numbers" if names[0].isdigit() else "names"].append(op)
                break
        else:
            print("no names of", op)
    (HERE / "output_names.json").write_text(json.dumps(kinds, indent=0) + "\n")


if __name__ == "__main__":
    main()
