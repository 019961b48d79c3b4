"""A sample of ONNX's node tests, which the package onnx generates: the importer passes or refuses each."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from typing import Any

import pytest
from run_onnx_nodes import OTHER, PASS, REFUSED, judged

# The modules of the package whose cases are run, and how many of them pass with its version 1.18 or newer, at least.
SAMPLE = {
    "add": 2,
    "batch_normalization": 4,
    "clip": 8,
    "constantofshape": 3,
    "conv": 6,
    "convtranspose": 8,
    "deformconv": 4,
    "depthtospace": 2,
    "dequantizelinear": 4,
    "einsum": 5,
    "gather": 4,
    "gathernd": 3,
    "gemm": 11,
    "globalaveragepool": 2,
    "gridsample": 14,
    "gru": 4,
    "layernormalization": 18,
    "logsoftmax": 7,
    "lstm": 4,
    "maxunpool": 2,
    "negativeloglikelihoodloss": 30,
    "pad": 5,
    "quantizelinear": 4,
    "reduce_log_sum_exp": 6,
    "reshape": 8,
    "resize": 35,
    "rnn": 4,
    "roialign": 1,
    "scatternd": 4,
    "slice": 7,
    "softmax": 7,
    "topk": 3,
    "trilu": 18,
    "where": 2,
}


def generated(module: str) -> list[Any]:
    """The cases of a module: the package adds them to a list when it is imported."""
    node = pytest.importorskip("onnx.backend.test.case.node")
    first = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{node.__name__}.{module}")
    return node._NodeTestCases[first:]


@pytest.mark.parametrize("module", SAMPLE)
def test_no_case_is_wrong(module: str) -> None:
    cases = generated(module)
    if not cases:
        pytest.skip("another test has imported the module")
    results = {case.name: judged(case) for case in cases}
    wrong = {name: r for name, r in results.items() if r[0] not in (PASS, REFUSED, OTHER)}
    assert not wrong
    assert Counter(r[0] for r in results.values())[PASS] >= SAMPLE[module], results
