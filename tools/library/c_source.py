"""The C source of a library: the sources of the package, with names of their own, so that a program can contain several
libraries.
"""

from __future__ import annotations

import re

from ...codegen.records import KERNELS
from ...runtime.host.native_objects import SOURCES
from .header import FUNCTIONS
from .tables import MODEL, PREDICT

_SOURCES = {
    "model": ("pool.h", "model.h", "pool.c", "processors.h", "instance.h", "model.c"),
    "predict": ("predict_error.h", "lists.h", "predict.h", "predict.c"),
}
_OWN_INCLUDE = re.compile(r'^#include "\w+\.h"\n', re.MULTILINE)
_OTHER_NAMES = ("mxf_open", "mxf_run", "mxf_resize", "mxf_stop", "mxf_threads")


def kernel_names(name: str) -> dict[str, str]:
    """The names in a library of the kernels that every program has."""
    return {kernel: f"{name}_{kernel}" for kernel in KERNELS}


def c_source(name: str, part: str = "model") -> str:
    """The source of a part, model or predict. It reads the tables, which are in an object."""
    lines = [
        f"/* The library {name}. Compile it as C11 with -pthread, and link it with {name}_code.o and -lm. */",
        "#define _GNU_SOURCE",
        '#include "mxforge.h"',
        *(f"#define {old} {new}" for old, new in kernel_names(name).items()),
        *(f"#define {other} {name}_{other}" for other in _OTHER_NAMES),
        *(f"#define model_{function} {name}_{function}" for function in FUNCTIONS),
        f"#define mxf_context {name}_context",
        f"#define {MODEL} {name}_data",
        f"#define {PREDICT} {name}_predict_data",
        *(_OWN_INCLUDE.sub("", (SOURCES / file).read_text()) for file in _SOURCES[part]),
    ]
    return "\n".join(lines)
