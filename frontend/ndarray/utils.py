"""MXNet's module path for the functions that make arrays of any storage type, and for files."""

from __future__ import annotations

from .creation import array, empty, zeros
from .files import load, load_frombuffer, save

__all__ = ["array", "empty", "load", "load_frombuffer", "save", "zeros"]
