"""Stochastic variance reduced gradients (SVRG, Johnson and Zhang 2013): a Module and its optimizer."""

from __future__ import annotations

from . import svrg_module, svrg_optimizer
