"""The rows of the hardware table: what is measured, on mxforge and on PyTorch.

A spec is the JSON object that `ours.py` and `peer.py` get: "kind" names a function of both files, and the other keys
are its parameters. `tiny` replaces some of them on the fake driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

_IMAGE, _SMALL_IMAGE = (3, 224, 224), (3, 32, 32)
_EAGER = ("eager",)
_ALL = ("eager", "graph", "compile")
_SMALL = {"network": "small", "shape": (2, 32)}


@dataclass(frozen=True)
class Row:
    """One row. A result is in `unit`: a time, or a rate of the `work` (bytes or operations) of a call.

    `goal` is the aim for mxforge, `peer` the best time of PyTorch, both measured or set for an H200.
    """

    name: str
    unit: str
    spec: dict[str, Any]
    goal: float | None = None
    peer: float | None = None
    work: float = 0
    tiny: dict[str, Any] = field(default_factory=dict)

    def value(self, microseconds: float) -> float:
        """A time in the unit of this row."""
        if self.unit in ("TB/s", "TFLOP/s"):
            return self.work / microseconds / 1e6
        return microseconds / {"us": 1, "ms": 1e3, "s": 1e6}[self.unit]

    @property
    def is_rate(self) -> bool:
        """True if more is better."""
        return self.unit.endswith("/s")


def rows() -> list[Row]:
    """All rows, the quickest first."""
    return [*_calls(), *_bandwidths(), *_products(), *_inferences(), *_trainings(), _first()]


def selected(patterns: str) -> list[Row]:
    """The rows whose names match one of the patterns, separated by commas; "all" and "none" are patterns too.

    ValueError for a pattern that matches no row.
    """
    if patterns in ("all", "none"):
        return rows() if patterns == "all" else []
    chosen = [pattern.strip() for pattern in patterns.split(",")]
    for pattern in chosen:
        if not any(fnmatchcase(row.name, pattern) for row in rows()):
            raise ValueError(f"no row {pattern!r}; rows are {', '.join(row.name for row in rows())}")
    return [row for row in rows() if any(fnmatchcase(row.name, pattern) for pattern in chosen)]


def _calls() -> list[Row]:
    tiny = {"kind": "network", "network": "small", "shape": (32, 128), "dtype": "float32", "peers": _ALL}
    return [
        Row("eager a + b", "us", {"kind": "sum_of_two", "shape": (10, 10), "peers": _EAGER}, 6, 8.3),
        Row("small network", "us", tiny, 12, 26, tiny={"shape": (2, 128)}),
    ]


def _bandwidths() -> list[Row]:
    """(name, shape, passes over the operand)"""
    found = []
    for name, passes in (("copy", 2), ("softmax", 2), ("layer_norm", 2), ("sum", 1), ("column_sum", 1)):
        shape = (1 << 16, 1024)
        spec = {"kind": "operator", "operator": name, "shape": shape, "dtype": "float32", "peers": _EAGER}
        found.append(Row(name, "TB/s", spec, work=4 * passes * shape[0] * shape[1], tiny={"shape": (4, 32)}))
    return found


def _products() -> list[Row]:
    found = []
    for dtype in ("float32", "tf32", "float16", "bfloat16"):
        for n in (1024, 4096, 8192):
            spec = {"kind": "operator", "operator": "product", "shape": (n, n), "dtype": dtype, "peers": _EAGER}
            found.append(Row(f"product {dtype} {n}", "TFLOP/s", spec, work=2 * n**3, tiny={"shape": (32, 32)}))
    return found


def _inferences() -> list[Row]:
    found = []
    for network, dtype, batch, peer, goal in (
        ("resnet50", "float32", 1, 2.09, 0.45),
        ("resnet50", "float32", 32, 10.6, 2.9),
        ("resnet50", "tf32", 1, 0.54, 0.33),
        ("resnet50", "tf32", 32, 2.43, 1.6),
        ("resnet50", "float16", 1, 0.40, 0.23),
        ("resnet50", "float16", 32, 1.24, 0.90),
        ("mobilenet_v2", "float16", 1, 0.25, 0.16),
        ("mobilenet_v2", "float16", 32, 0.83, 0.65),
        ("mobilenet_v2", "float32", 32, 2.8, 1.3),
        ("bert", "float32", 1, 1.37, 0.70),
        ("bert", "float32", 8, 5.16, 2.0),
        ("bert", "float16", 1, 0.46, 0.33),
        ("bert", "float16", 8, 0.675, 0.60),
        ("lstm", "float32", 32, 1.55, 0.8),
        ("lstm", "tf32", 32, 0.85, 0.35),
        ("lstm", "float16", 32, 0.49, 0.22),
    ):
        spec = {"kind": "network", "network": network, "shape": _shape(network, batch), "dtype": dtype}
        spec["peers"] = ("eager", "graph") if network == "lstm" else _ALL
        found.append(Row(f"{network} {dtype} b{batch}", "ms", spec, goal, peer, tiny=_SMALL))
    return found


def _shape(network: str, batch: int) -> tuple[int, ...]:
    return {"bert": (batch, 128, 768), "lstm": (35, batch, 650)}.get(network, (batch, *_IMAGE))


def _trainings() -> list[Row]:
    found = []
    for network, dtype, shape, classes, goal, peer in (
        ("small", "float32", (32, 128), 0, None, None),
        ("resnet18_thumbnail", "float32", (128, *_SMALL_IMAGE), 10, 8, 17.3),
        ("resnet50", "bfloat16", (32, *_IMAGE), 1000, 9, 20.5),
        ("bert", "bfloat16", (8, 128, 768), 0, 8, 14.4),
    ):
        spec = {"kind": "training", "network": network, "shape": shape, "classes": classes, "dtype": dtype}
        spec["peers"] = _ALL
        name = f"train {network} {dtype} b{shape[0]}"
        found.append(Row(name, "ms", spec, goal, peer, tiny={**_SMALL, "classes": 0}))
    adam = {"kind": "adam", "layers": 12, "peers": ("eager", "graph")}
    return [*found, Row("Adam 109 M in 197 arrays", "ms", adam, 0.8, 1.09, tiny={"layers": 0, "divisor": 256})]


def _first() -> Row:
    """With empty caches, from the initialized network to its result."""
    spec = {"kind": "first", "network": "resnet50", "shape": (1, *_IMAGE), "dtype": "float32"}
    return Row("first result of resnet50", "s", {**spec, "peers": ("eager", "compile")}, 3, 30, tiny=_SMALL)
