"""`mxforge.mod`: modules, which train and run symbols."""

from __future__ import annotations

from .base_module import BaseModule
from .module import Module
