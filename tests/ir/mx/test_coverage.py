"""Which of MXNet's operators are declared."""

from __future__ import annotations

from goldens import operator_goldens, signatures
from mxforge.ir.dialects.mx.operator import all_names, all_operators, lookup

# Operators of MXNet 1.9.1 that are not declared: losses and heads for training, optimizers, images,
# sparse storage, quantisation, graphs and control flow. An operator that gets declared must leave this list.
NOT_DECLARED = frozenset(
    """
    IdentityAttachKLSparseReg
    SVMOutput
    _contrib_boolean_mask
    _onehot_encode
    _set_value
    """.split()
)


def test_every_operator_is_declared_or_listed() -> None:
    canonical = {record["op"] for record in signatures().values()}
    assert canonical - set(all_names()) == NOT_DECLARED


def test_every_recorded_operator_is_declared() -> None:
    assert not {golden.op for golden in operator_goldens()} & NOT_DECLARED


def test_names_and_aliases_find_one_class() -> None:
    assert lookup("_plus") is lookup("_Plus") is lookup("elemwise_add")
    assert len({op.mx_name() for op in all_operators()}) == len(all_operators())
    assert all(lookup(alias) is op for op in all_operators() for alias in op.aliases)
