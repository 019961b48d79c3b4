"""Predefined networks. `vision` contains networks for images."""

from __future__ import annotations

from . import model_store, vision
