"""Families of signatures: one computation on inputs that differ only in extents, with its programs and derivatives.

The first signature of a family is compiled for its shapes by the caller. The others run dynamic programs
(`dynamic.py`), or are compiled for their shapes too for the reason `refusal`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from ..ir.graph import GraphError
from ..ir.settings import settings
from ..ir.types import Shape, TensorType
from ..passes.manager import Options
from .compile import dynamic_programs, executable_for, why_specialised
from .device import Device, Numbers, Runnable
from .dynamic import DynamicPrograms, OpenCall, Source, graph_of
from .watch import is_watched

if TYPE_CHECKING:
    from .derivative import Derivative, DerivativeKey, Differentiable
    from .dynamic_derivatives import DynamicDerivatives, OpenDerivative


class ShapeFamily:
    """The programs of signatures that differ in the extents of inputs other than parameters. `title` and `layers` are
    the names of the graph and of its nodes."""

    def __init__(self, title: str, layers: tuple[str, ...], device: Device) -> None:
        self.title, self.layers, self.device = title, layers, device
        self._programs: DynamicPrograms | None = None
        self._derivatives: dict[DerivativeKey, DynamicDerivatives] = {}
        self._refusal: str | None = None

    def executable(self, types: tuple[TensorType, ...], options: Options, source: Source) -> Runnable:
        """The executable for a further signature. `source` returns the computation, which is only needed to compile it.
        GraphError names a node that cannot be compiled."""
        source = cache(source)
        refusal = self._why_fixed(source)
        if not refusal:
            try:
                if self._programs is None:
                    self._programs = dynamic_programs(source(), replace(options, dynamic=True), self.device)
                return self._programs.executable(types, source)
            except GraphError as error:
                refusal = str(error)
        self._report(refusal)
        return executable_for(graph_of(source()), options, self.device)

    def differentiable(
        self, types: tuple[TensorType, ...], options: Options, source: Source, origin: tuple[object, int]
    ) -> Differentiable:
        """The computation for a further signature as a function that can be differentiated."""
        from .dynamic_derivatives import FamilyDifferentiable

        source = cache(source)
        derivative = partial(self._derivative, types, options, source)
        return FamilyDifferentiable(derivative, lambda: graph_of(source()), options, self.device, origin)

    def _derivative(
        self, types: tuple[TensorType, ...], options: Options, source: Source, key: DerivativeKey
    ) -> Derivative | None:
        """The derivative for a further signature; None if it must be compiled for its shapes."""
        from .dynamic_derivatives import dynamic_derivatives

        refusal = "its programs are watched" if is_watched(self.device) else self._why_fixed(source)
        if not refusal:
            try:
                derivatives = self._derivatives.get(key)
                if derivatives is None:
                    dynamic = replace(options, dynamic=True)
                    derivatives = self._derivatives[key] = dynamic_derivatives(source(), key, dynamic, self.device)
                return derivatives.derivative(types, source, self.title, self.layers)
            except GraphError as error:
                refusal = str(error)
        self._report(refusal)
        return None

    def open(self, shapes: Sequence[Shape]) -> tuple[OpenCall, Numbers] | None:
        """See `Dynamics.open`."""
        return None if self._programs is None or is_watched(self.device) else self._programs.open(shapes)

    def open_derivative(self, key: DerivativeKey, shapes: Sequence[Shape]) -> tuple[OpenDerivative, Numbers] | None:
        """See `Dynamics.open`."""
        derivatives = self._derivatives.get(key)
        return None if derivatives is None or is_watched(self.device) else derivatives.open(shapes)

    def _why_fixed(self, source: Source) -> str:
        if self._refusal is None:
            self._refusal = why_specialised(source(), self.device)
        return self._refusal

    def _report(self, refusal: str) -> None:
        if settings().debug >= 1:
            print(f"mxforge: {self.title} is compiled for the shapes of this call alone: {refusal}", file=sys.stderr)
