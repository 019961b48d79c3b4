"""Compiles the pieces of modules to objects, and stores them: programs have many in common."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...passes.manager import Context
from ..llvm.compile import Compilations, emit_assembly
from ..llvm.cpu import Cpu
from ..observe import observe_text
from .link import Piece

_LONG = 1 << 18
"""Characters of a text that is long because it has many operations, which are small: LLVM's passes do not pay."""

_ASSEMBLY = 5  # level of MXFORGE_DEBUG from which assembly is printed


def compile_pieces(pieces: Sequence[Piece], target: Cpu, context: Context) -> tuple[bytes, ...]:
    """The objects of pieces, in order; LLVM compiles those that are not stored."""
    start = time.perf_counter()
    objects = {piece.name: context.kernels.find(piece.text) for piece in pieces}
    missing = [piece for piece in pieces if objects[piece.name] is None]
    compilations = Compilations(target)
    for piece in missing:
        context.dump(piece.name, "ll", piece.text)
        compilations.add(piece.text, _level(piece))
    for piece, code in zip(missing, compilations.objects(), strict=True):
        objects[piece.name] = code
        context.kernels.add(piece.text, code)
    context.trace.append(("llvm", time.perf_counter() - start))
    if context.settings.debug >= _ASSEMBLY or context.settings.dump is not None:
        for piece in missing:
            assembly = emit_assembly(piece.text, target, optimize=_level(piece))
            observe_text(piece.name, "s", assembly, _ASSEMBLY, context)
    return tuple([code for code in objects.values() if code is not None])


def _level(piece: Piece) -> int:
    """The level of optimisation, see `compile_object`: MLIR does not vectorise all loops."""
    return 3 if len(piece.text) < _LONG else 1
