"""The names of MXNet that mxforge does not implement, and the error for an access to one."""

from __future__ import annotations

from .modules import ABSENT_MODULES, NOT_YET

ABSENT = {
    "gluon": "",
    "gluon.contrib": "",
    "io": "",
    "numpy": "",
}
"""Names that are not implemented, by the path of MXNet's module below the root."""


def attribute_error(root: str, module: str, name: str) -> AttributeError:
    """The AttributeError for a name that `module` (a path below the package `root`) does not have."""
    full_name = f"{root}.{module}" if module else root
    text = f"module {full_name!r} has no attribute {name!r}"
    if module in ABSENT_MODULES:
        text += f": {ABSENT_MODULES[module]}"
    elif name in ABSENT.get(module, "").split():
        text += f": {NOT_YET}"
    return AttributeError(text, name=name)
