"""ONNX under the name it had before `mxforge.onnx`: models are written; reading them is not there yet."""

from __future__ import annotations

from typing import Any, NoReturn

from ...base import MXNetError

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]


def export_model(*args: Any, **kwargs: Any) -> str:
    """As `mxforge.onnx.export_model`."""
    from ...onnx import export_model

    return export_model(*args, **kwargs)


def import_model(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: models are written as ONNX, and not read yet."""
    _refuse("import_model")


def get_model_metadata(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: models are written as ONNX, and not read yet."""
    _refuse("get_model_metadata")


def import_to_gluon(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: models are written as ONNX, and not read yet."""
    _refuse("import_to_gluon")


def _refuse(name: str) -> NoReturn:
    raise MXNetError(f"contrib.onnx.{name}: ONNX models cannot be read yet, only written (export_model)")
