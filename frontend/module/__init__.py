"""`mxforge.mod`: modules, which train and run symbols."""

from __future__ import annotations

from ..absent import refuse_absent
from .base_module import BaseModule
from .module import Module

__getattr__ = refuse_absent(__name__, "module")
