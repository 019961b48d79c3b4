"""Every operator of MXNet is declared or listed as missing."""

from __future__ import annotations

from goldens import operator_goldens, signatures
from mxforge.ir.dialects.mx.operator import all_names, all_operators, lookup

# Operators of MXNet 1.9.1 that are not declared, of those in signatures.json: `NO_SIGNATURE` in data/make_goldens.py
# leaves out quantisation, graphs, MXNet's newer NumPy interface and its plumbing.
NOT_DECLARED: frozenset[str] = frozenset()


def test_every_operator_is_declared_or_listed() -> None:
    canonical = {record["op"] for record in signatures().values()}
    assert canonical - set(all_names()) == NOT_DECLARED


def test_every_recorded_operator_is_declared() -> None:
    assert not {golden.op for golden in operator_goldens()} & NOT_DECLARED


def test_names_and_aliases_find_one_class() -> None:
    assert lookup("_plus") is lookup("_Plus") is lookup("elemwise_add")
    assert len({op.mx_name() for op in all_operators()}) == len(all_operators())
    assert all(lookup(alias) is op for op in all_operators() for alias in op.aliases)
