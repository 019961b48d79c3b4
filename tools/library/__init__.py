"""Writes models as libraries that programs in C call, for `mxforge compile --emit`."""
