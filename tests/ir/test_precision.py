"""The mode of float32 products that the environment asks for."""

from __future__ import annotations

import pytest
from mxforge.ir.precision import default_precision
from mxforge.ir.settings import settings
from mxforge.passes.manager import Options

TENSOR_CORES, CONVERSION, TF32 = (
    "MXNET_CUDA_ALLOW_TENSOR_CORE",
    "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION",
    "NVIDIA_TF32_OVERRIDE",
)
CASES: list[tuple[dict[str, str], str]] = [
    ({}, "float32"),
    ({"MXFORGE_MATMUL": "bf16x3"}, "bf16x3"),
    ({"MXFORGE_MATMUL": "tf32", TF32: "0"}, "float32"),
    ({"MXFORGE_MATMUL": "exact", CONVERSION: "1"}, "exact"),
    ({TENSOR_CORES: "0", CONVERSION: "1"}, "exact"),
    ({TENSOR_CORES: "1"}, "float32"),
    ({CONVERSION: "1"}, "tf32"),
    ({CONVERSION: "1", TF32: "0"}, "float32"),
    ({CONVERSION: "0"}, "float32"),
]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MXFORGE_MATMUL", TENSOR_CORES, CONVERSION, TF32):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("variables", "expected"), CASES)
def test_default(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    try:
        assert default_precision() == Options().precision == expected
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def test_an_unknown_mode_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_MATMUL", "half")
    settings.cache_clear()
    try:
        with pytest.raises(ValueError, match="MXFORGE_MATMUL='half' is unknown: use float32, tf32, bf16x3, exact"):
            default_precision()
    finally:
        monkeypatch.undo()
        settings.cache_clear()
