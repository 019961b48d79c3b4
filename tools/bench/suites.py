"""The arrays of the micro workloads, by name. `engines.py` defines the computations for each framework."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Arrays = dict[str, np.ndarray]
_Make = Callable[[np.random.Generator], Arrays]


def _normal(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape, np.float32)


def _pointwise(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 4096, 4096), "y": _normal(g, 4096, 4096)}


def _softmax(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 4096, 1024)}


def _layernorm(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 4096, 1024), "gamma": _normal(g, 1024), "beta": _normal(g, 1024)}


def _eager(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 10, 10), "y": _normal(g, 10, 10)}


def _mlp(g: np.random.Generator) -> Arrays:
    return {
        "x": _normal(g, 1, 8),
        "weight1": _normal(g, 16, 8),
        "bias1": _normal(g, 16),
        "weight2": _normal(g, 4, 16),
        "bias2": _normal(g, 4),
    }


def _one(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 4096, 4096)}


def _with_row(g: np.random.Generator) -> Arrays:
    return {"x": _normal(g, 4096, 4096), "y": _normal(g, 1, 4096)}


def _factors(n: int) -> _Make:
    return lambda g: {"x": _normal(g, n, n), "y": _normal(g, n, n)}


def _permuted(*shape: int) -> _Make:
    """Different numbers in each row."""

    def make(g: np.random.Generator) -> Arrays:
        x = np.broadcast_to(np.arange(shape[-1], dtype=np.float32), shape)
        return {"x": g.permuted(x, axis=-1)}

    return make


_LONG, _ROWS = _permuted(1000000), _permuted(4096, 1024)

_SUITES: dict[str, tuple[str, _Make]] = {
    "pointwise": ("z = sigmoid(x) * y + tanh(x - y), t = 2z - 1, relu(t) + exp(-|t|)", _pointwise),
    "softmax": ("softmax of rows", _softmax),
    "layernorm": ("layer norm of rows", _layernorm),
    "eager": ("one eager addition", _eager),
    "mlp": ("a hybridized network of two layers", _mlp),
    "exp": ("exp(x), eager", _one),
    "add": ("x + y, eager", _pointwise),
    "add-row": ("x plus a row, eager", _with_row),
    "sum-rows": ("sums of rows, eager", _one),
    "sum-columns": ("sums of columns, eager", _one),
    "transpose": ("the transpose as a copy, eager", _one),
    "concat": ("a concatenation of two arrays, eager", _pointwise),
    "slice": ("a copy of inner rows and columns, eager", _one),
    "slice-step": ("a copy of every second column, eager", _one),
    "product-256": ("a matrix product, eager", _factors(256)),
    "product": ("a matrix product, eager", _factors(1024)),
    "product-2048": ("a matrix product, eager", _factors(2048)),
    "sort": ("a sorted copy, eager", _LONG),
    "sort-rows": ("sorted rows, eager", _ROWS),
    "argsort": ("positions in order, eager", _LONG),
    "argsort-rows": ("positions in order in each row, eager", _ROWS),
    "top": ("the 100 largest elements in order, eager", _LONG),
    "top-rows": ("the 10 largest elements of each row in order, eager", _ROWS),
    "running-sums-rows": ("running sums of rows, eager", _ROWS),
    "running-sums-columns": ("running sums of columns, eager", _ROWS),
}


def suite(name: str) -> tuple[str, Arrays]:
    """A description of the workload, and its arrays, which are the same in every run."""
    words, make = _SUITES[name]
    return words, make(np.random.default_rng(0))
