"""The documentation as a site: `sphinx-build -W docs FOLDER` (needs `pip install 'mxforge[docs]'`)."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import mxforge

project = "mxforge"
copyright = "the contributors of mxforge"
release = version = mxforge.mxforge_version

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"mxforge {release}"
html_copy_source = False
suppress_warnings = ["ref.python"]  # a name of several classes, such as the type of a store
myst_heading_anchors = 3  # links such as benchmarks.md#how-figures-are-made
default_role = "code"  # docstrings write `x` for code
autodoc_member_order = "alphabetical"
autodoc_default_options = {"members": True}

_QUOTED_OR_SPECIAL = re.compile(r"(`[^`]*`)|([*|_](?!\w)|[*|])")
_SECTION = re.compile(r"-{3,}$")


def setup(app: Any) -> None:
    """Connect the handlers below. Docstrings are prepared before napoleon reads them."""
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)
    app.connect("autodoc-skip-member", skip_member)


def prepare_docstring(_app: Any, _kind: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Changes a docstring, which is plain text, to reStructuredText: indented formulas are literal, `*` is a `*`."""
    result: list[str] = []
    formulas, literal = True, False  # formulas precede the first section
    for line in lines:
        formulas = formulas and not _SECTION.match(line)
        literal = bool(line.strip()) if line.lstrip().startswith(">>>") else literal and bool(line.strip())
        indented = formulas and line.startswith("    ")
        if indented and (not result or not result[-1].strip()):
            result += ["::", ""]
        result.append(line if literal or indented else _QUOTED_OR_SPECIAL.sub(_escaped, line))
    lines[:] = result


def _escaped(match: re.Match[str]) -> str:
    return match[1] or f"\\{match[2]}"


def skip_member(app: Any, kind: str, _name: str, member: object, _skip: bool, _options: object) -> bool | None:
    """Skips what a module of MXNet's API has from another one, from Python or from NumPy, as MXNet's modules do."""
    if kind != "module" or not isinstance(member, type | FunctionType):
        return None
    module, origin = app.env.current_document.autodoc_module, member.__module__
    own = f"{origin}.".startswith((f"{module}.", "mxforge.frontend.", "mxforge.runtime."))
    return None if own else True
