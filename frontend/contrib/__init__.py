"""`mxforge.contrib`: what MXNet kept apart from its stable interface."""

from __future__ import annotations

from . import amp
