"""`mxforge.notebook`: callbacks that draw charts during training, which mxforge does not implement."""

from __future__ import annotations

from . import callback
