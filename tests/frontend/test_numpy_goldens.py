"""`mx.np` and `mx.npx` return what MXNet returns: values, dtypes, shapes and gradients of recorded calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grouped import grouped
from mxforge import gluon, np, util
from mxforge.ir.promotion import promoted
from mxforge.ir.types import DType
from numpy_goldens import FOLDER, evaluated, gradients, recorded, same, used, variables

RESULTS = {
    "np.prod(none)": "MXNet returns 0, which is no product of nothing",
    "np.std(i)": "MXNet truncates the deviation of integers",
    "np.var(i)": "MXNet truncates the variance of integers",
    "np.average(x, axis=0, weights=p[:, 0], returned=True)": "MXNet returns a single sum of weights",
    "np.pad(x, ((1, 0), (0, 1)), constant_values=7)": "MXNet ignores constant_values",
}
"""Results that differ on purpose, with the reason."""

SLOPES = (
    ("np.std", "MXNet has no gradient of the deviation"),
    (".std(", "MXNet has no gradient of the deviation"),
    ("np.var", "MXNet has no gradient of the variance"),
    (".var(", "MXNet has no gradient of the variance"),
    ("np.atleast", "MXNet has no gradient"),
    ("np.linalg.pinv", "MXNet has no gradient"),
    ("np.arctan2(1.5", "MXNet computes another function's gradient"),
    ("np.where(mask, x, 1.5)", "MXNet exchanges the branches"),
    ("np.where(mask, 0, y)", "MXNet exchanges the branches"),
    ("np.linalg.norm(x, ord=1)", "MXNet multiplies by the cotangent twice"),
    ("np.linalg.norm(x, ord=-1)", "MXNet multiplies by the cotangent twice"),
    ("np.linalg.norm(x, ord=2)", "MXNet multiplies by the cotangent twice"),
    ("np.linalg.norm(x, ord=-2)", "MXNet multiplies by the cotangent twice"),
    ("np.abs(odd)", "MXNet has the slope 0 at NaN"),
    ("np.fmod(x, y)", "MXNet rounds the quotient down"),
    ("npx.index_", "MXNet adds 1 to the cotangent of values"),
    ("np.bincount", "counts have no gradient; MXNet returns zeros"),
)
"""Gradients that differ on purpose: parts of calls, with the reason."""


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    util.set_np()
    yield
    util.reset_np()


def group(call: dict[str, Any]) -> str:
    return call["group"]


def text(call: dict[str, Any]) -> str:
    return call["call"]


CALLS = [c for c in recorded() if "error" not in c and c["call"] not in RESULTS]
WITH_SLOPES = [c for c in CALLS if "error" not in c.get("gradients", {"error": 1})]


@grouped("call", CALLS, by=group, ids=text)
def test_results_are_the_recorded_ones(call: dict[str, Any]) -> None:
    same(evaluated(call["call"], variables(np)), call["result"], call["call"])


@grouped("call", [c for c in WITH_SLOPES if not any(p in c["call"] for p, _ in SLOPES)], by=group, ids=text)
def test_gradients_are_the_recorded_ones(call: dict[str, Any]) -> None:
    slopes = gradients(call["call"], call["gradients"])
    for name, expected in call["gradients"].items():
        same(slopes[name], expected, f"{call['call']} by {name}")


ON_ARRAYS_ALONE = frozenset(
    """
    argwhere array asarray broadcast_arrays choose compress corrcoef correlate cov delete extract flatnonzero i0 in1d
    interp intersect1d isclose isin ix_ lexsort meshgrid ndim partition piecewise polyadd real resize rollaxis
    searchsorted select setdiff1d setxor1d shape take_along_axis tril_indices_from union1d vander
    """.split()
)
"""Functions that symbols do not have, as in MXNet, and attributes of arrays."""

FROM_ELEMENTS = frozenset(
    """
    argwhere choose compress corrcoef correlate cov extract flatnonzero histogram i0 in1d interp intersect1d isclose
    isin ix_ lexsort nansum nanvar partition piecewise polyadd ptp real rollaxis searchsorted select setdiff1d setxor1d
    take_along_axis tril_indices_from union1d unravel_index vander
    """.split()
)
"""Functions that NumPy computes: blocks that contain them cannot be traced."""

READ_ELEMENTS = ("np.delete(x, idx, axis=1)", "np.insert(row, idx, big)", "x[True]", "x[False]")
"""Calls that depend on elements of arrays, and keys that traced arrays do not have."""

OTHERWISE = ("x[", "cube[", "one[", "np.where(mask)", "np.nonzero", "np.insert(row, idx", "np.unravel_index")
OTHERWISE += ("np.diag_indices_from", "np.linalg.det", "np.linalg.slogdet")
"""Parts of calls whose result symbols have in another form, or whose keys symbols do not have."""


class Traced(gluon.HybridBlock):
    """A call as a block."""

    def __init__(self, call: str, names: list[str]) -> None:
        super().__init__()
        self.call, self.names = call, names

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:  # type: ignore[override]
        result = eval(self.call, {"np": F.np, "npx": F.npx, **dict(zip(self.names, arrays, strict=True))})
        return list(result) if isinstance(result, tuple) else result


def is_traced(call: dict[str, Any]) -> bool:
    """True for a call of arrays whose result is one array or several."""
    words = set(used(call["call"]))
    has_arrays = isinstance(call["result"], list) or (isinstance(call["result"], dict) and "shape" in call["result"])
    listed = words & ON_ARRAYS_ALONE or any(part in call["call"] for part in OTHERWISE)
    return bool(has_arrays and words & set(variables(np)) and not listed)


@pytest.mark.filterwarnings("ignore:The .* input to HybridBlock is not used")  # letters of einsum name arrays too
@grouped("call", filter(is_traced, CALLS), by=group, ids=text)
def test_hybridized_blocks_give_the_recorded_results(call: dict[str, Any]) -> None:
    arrays = variables(np)
    names = [name for name in dict.fromkeys(used(call["call"])) if name in arrays]
    block = Traced(call["call"], names)
    block.hybridize()
    same(block(*[arrays[name] for name in names]), call["result"], call["call"])


class Written(gluon.HybridBlock):
    """A call as a block whose `forward` takes arrays."""

    def __init__(self, call: str, names: list[str]) -> None:
        super().__init__()
        self.call, self.names = call, names

    def forward(self, *arrays: Any) -> Any:  # type: ignore[override]
        return evaluated(self.call, dict(zip(self.names, arrays, strict=True)))


def is_in_graphs(call: dict[str, Any]) -> bool:
    """True for a call of arrays that can be traced: it returns arrays, and does not compute them from elements."""
    words = set(used(call["call"]))
    results = call["result"] if isinstance(call["result"], list) else [call["result"]]
    are_arrays = all(isinstance(r, dict) and "shape" in r for r in results)
    read = words & FROM_ELEMENTS or call["call"] in READ_ELEMENTS
    return bool(are_arrays and words & set(variables(np)) and not read)


@pytest.mark.filterwarnings("ignore:The .* input to HybridBlock is not used")
@grouped("call", filter(is_in_graphs, CALLS), by=group, ids=text)
def test_traced_blocks_give_the_recorded_results(call: dict[str, Any]) -> None:
    arrays = variables(np)
    names = [name for name in dict.fromkeys(used(call["call"])) if name in arrays]
    block = Written(call["call"], names)
    block.hybridize()
    same(block(*[arrays[name] for name in names]), call["result"], call["call"])


def test_differences_are_recorded_calls() -> None:
    calls = {c["call"] for c in recorded()}
    assert set(RESULTS) <= calls
    assert all(any(part in call for call in calls) for part, _ in SLOPES)


def test_dtypes_promote_as_in_mxnet() -> None:
    table = json.loads((FOLDER / "promotion.json").read_text())
    names = list(table)
    for left, row in table.items():
        for right, expected in zip(names, row, strict=True):
            assert promoted([DType.from_numpy(left), DType.from_numpy(right)]).full_name == expected, (left, right)
