"""Decodes, encodes and resizes images for `mx.image`, `mx.io` and `mx.recordio`, which all depend on it."""
