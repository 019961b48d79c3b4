"""Networks that are ready to use; `vision` has those for images."""

from __future__ import annotations

from . import model_store, vision
