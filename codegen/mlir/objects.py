"""Compiles the pieces of modules to objects, and stores them: programs have many in common."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from ...passes.manager import Context
from ..llvm.compile import Compilations, emit_assembly
from ..llvm.cpu import Cpu
from ..observe import observe_text
from .link import Piece

_LONG = 1 << 18
"""Characters of a text that is long because it has many operations, which are small: LLVM's passes do not pay."""

_PRODUCTS = re.compile(r"@llvm\.fmuladd\.v\d+f(?:32|64)\(")
"""Outer products of vectors."""

_ASSEMBLY = 5  # level of MXFORGE_DEBUG from which assembly is printed


class Objects:
    """Compiles pieces, those of one module while the next one is lowered. LLVM compiles those that are not stored."""

    def __init__(self, target: Cpu, context: Context) -> None:
        self._target, self._context = target, context
        self._compilations = Compilations(target)
        self._known: dict[str, bytes | None] = {}
        self._missing: list[Piece] = []

    def add(self, pieces: Sequence[Piece]) -> None:
        """Begin to compile pieces."""
        for piece in pieces:
            if piece.name not in self._known:
                self._known[piece.name] = code = self._context.kernels.find(piece.text)
                if code is None:
                    self._missing.append(piece)
                    self._context.dump(piece.name, "ll", piece.text)
                    self._compilations.add(piece.text, _level(piece))
        self._compilations.begin()

    def finished(self) -> tuple[bytes, ...]:
        """The objects of all pieces, in order."""
        start, context = time.perf_counter(), self._context
        for piece, code in zip(self._missing, self._compilations.objects(), strict=True):
            self._known[piece.name] = code
            context.kernels.add(piece.text, code)
        context.trace.append(("llvm", time.perf_counter() - start))
        if context.settings.debug >= _ASSEMBLY or context.settings.dump is not None:
            for piece in self._missing:
                assembly = emit_assembly(piece.text, self._target, optimize=_level(piece))
                observe_text(piece.name, "s", assembly, _ASSEMBLY, context)
        return tuple([code for code in self._known.values() if code is not None])


def _level(piece: Piece) -> int:
    """The level of optimisation, see `compile_object`. MLIR does not vectorise all loops, but those of contractions."""
    return 1 if len(piece.text) >= _LONG or _PRODUCTS.search(piece.text) else 3
