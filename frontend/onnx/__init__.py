"""`mxforge.onnx`: writes models as ONNX files, which other runtimes read."""

from __future__ import annotations

from .export_model import export_model, get_operator_support
