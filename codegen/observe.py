"""Shows kernels during compilation: MXFORGE_DEBUG prints them, MXFORGE_DUMP writes them to files."""

from __future__ import annotations

import sys

from ..ir.kernel import Kernel
from ..passes.manager import Context

_KERNELS = 4
"""The level of MXFORGE_DEBUG from which kernels are printed."""


def observe_kernel(kernel: Kernel, context: Context) -> None:
    """Print or dump a kernel before it is emitted, if the settings request it."""
    if context.settings.debug < _KERNELS and context.settings.dump is None:
        return
    from ..ir.printer import print_kernel

    observe_text("kernel", "mlir", print_kernel(kernel), _KERNELS, context)


def observe_text(stage: str, suffix: str, text: str, level: int, context: Context) -> None:
    """Dump one stage of a compilation, and print it if MXFORGE_DEBUG is `level` or higher."""
    context.dump(stage, suffix, text)
    if context.settings.debug >= level:
        print(text, file=sys.stderr)
