"""The older name of `mxforge.onnx`. Export is implemented, import is not."""

from __future__ import annotations

from typing import Any, NoReturn

from ...base import MXNetError

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]


def export_model(*args: Any, **kwargs: Any) -> str:
    """As `mxforge.onnx.export_model`."""
    from ...onnx import export_model

    return export_model(*args, **kwargs)


def import_model(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: importing ONNX models is not implemented yet."""
    _unsupported("import_model")


def get_model_metadata(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: importing ONNX models is not implemented yet."""
    _unsupported("get_model_metadata")


def import_to_gluon(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: importing ONNX models is not implemented yet."""
    _unsupported("import_to_gluon")


def _unsupported(name: str) -> NoReturn:
    raise MXNetError(f"contrib.onnx.{name}: ONNX models cannot be read yet, only written (export_model)")
