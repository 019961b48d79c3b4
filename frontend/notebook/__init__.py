"""`mxforge.notebook`: callbacks that draw while a notebook trains, which mxforge does not have."""

from __future__ import annotations

from . import callback
