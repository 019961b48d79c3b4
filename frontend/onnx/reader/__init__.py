"""Reads ONNX models as graphs of core: one rule for each operator of ONNX."""
