"""`mxforge.onnx`: exports models to ONNX files. `mxforge.contrib.onnx` imports them."""

from __future__ import annotations

from .export_model import export_model, get_operator_support
