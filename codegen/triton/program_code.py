"""The code of the kernels of one program: from the store, or compiled while the emitter emits more kernels."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from ...passes.manager import Context
from ..observe import observe_text
from ..statistics import statistics
from .emit import TritonSource

if TYPE_CHECKING:
    from .parallel import Compilations
    from .part import Part
    from .target import GpuTarget

_SOURCE = 5  # MXFORGE_DEBUG from which the generated source is printed


class ProgramCode:
    """Kernels by their names, in the order in which they were added."""

    def __init__(self, target: GpuTarget, context: Context) -> None:
        self._target, self._context = target, context
        self.sources: dict[str, TritonSource] = {}
        self._stored: dict[str, bytes | None] = {}
        self._parts: dict[str, Part] = {}
        self._compilations: Compilations | None = None  # imported when the store does not have a kernel

    def add(self, source: TritonSource, part: Part | None = None) -> None:
        """Add a kernel, unless there is one with its name. A `part` is compiled after all others, if it is kept."""
        if source.name in self.sources:
            return
        self.sources[source.name] = source
        if part is None:
            self._begin(source)
        else:
            self._parts[source.name] = part

    def _begin(self, source: TritonSource) -> None:
        """Find a kernel, or let it be compiled."""
        self._stored[source.name] = code = self._context.kernels.find(source.identity)
        if code is None:
            observe_text(source.name, "py", source.text, _SOURCE, self._context)
            self._compiler().add(source)

    def parts(self) -> dict[str, Part]:
        """The kernels that can be parts of others."""
        return dict(self._parts)

    def keep(self, names: Collection[str]) -> None:
        """Forget the parts without these names."""
        self._parts = {name: part for name, part in self._parts.items() if name in names}

    def objects(self) -> tuple[bytes, ...]:
        """The code of all kernels, which the store has from now on."""
        for name in self._parts:
            self._begin(self.sources[name])
        compiled = {} if self._compilations is None else self._compiled(self._compilations)
        return tuple(compiled[name] if code is None else code for name, code in self._stored.items())

    def _compiler(self) -> Compilations:
        if self._compilations is None:
            from .parallel import Compilations

            self._compilations = Compilations(self._target.untuned)
        return self._compilations

    def _compiled(self, compilations: Compilations) -> dict[str, bytes]:
        start, codes = time.perf_counter(), dict[str, bytes]()
        for name, kernel in compilations.kernels().items():
            codes[name] = kernel.to_bytes()
            self._context.kernels.add(self.sources[name].identity, codes[name])
            self._context.dump(name, kernel.form, kernel.code)
        statistics.modules += len(codes)
        self._context.trace.append(("triton", time.perf_counter() - start))
        return codes
