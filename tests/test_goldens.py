"""The records of MXNet are complete and consistent."""

from __future__ import annotations

import numpy as np
from goldens import operator_goldens, signatures

MISDOCUMENTED = {"_linspace"}  # MXNet lists the parameters of _arange
UNDOCUMENTED = {"_linalg_potrf": {"lower"}, "_linalg_potri": {"lower"}}  # parameters that MXNet does not list


def test_each_record_agrees_with_its_signature() -> None:
    for golden in (g for g in operator_goldens() if g.op not in MISDOCUMENTED):
        signature = signatures()[golden.op]
        allowed = set(signature["parameters"]) | {signature["variadic"]} | UNDOCUMENTED.get(golden.op, set())
        assert set(golden.attributes) <= allowed, str(golden)
        required = {name for name, parameter in signature["parameters"].items() if "default" not in parameter}
        assert required <= set(golden.attributes), str(golden)


def test_record_of_dense_layer_is_its_formula() -> None:
    golden = next(g for g in operator_goldens() if g.op == "FullyConnected")
    x, weight, bias = golden.inputs
    np.testing.assert_allclose(golden.outputs[0], x @ weight.T + bias, rtol=1e-5, atol=1e-6)
    assert golden.names == (("op_data", "op_weight", "op_bias"), (), ("op_output",))


def test_shared_arrays_are_read_only() -> None:
    assert not any(x.flags.writeable for golden in operator_goldens() for x in golden.inputs + golden.outputs)
