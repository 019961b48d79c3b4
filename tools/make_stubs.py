"""Generates files from operator declarations: the type stubs of nd and sym, the texts of methods, and the index of
files.

python -m mxforge.tools.make_stubs          run it after declaring operators; a test checks that the files are current
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

from ..frontend.generated_functions import METHODS, full_name, names_of
from ..frontend.ndarray import _internal, contrib, image, linalg, op
from ..frontend.ndarray.fluent import Fluent
from ..frontend.symbol.operators import MORE_METHODS
from ..ir.dialects.mx.describe import Parameter, arguments, parameters, sentence
from ..ir.dialects.mx.operator import Operator, all_names, lookup

FOLDER = Path(__file__).resolve().parent.parent / "frontend" / "ndarray"
_MODULES: dict[str, tuple[str, ModuleType]] = {
    "op": ("", op),
    "_internal": ("_internal", _internal),
    "contrib": ("contrib", contrib),
    "image": ("image", image),
    "linalg": ("linalg", linalg),
}
_HEADER = '''"""{doc} Written by tools/make_stubs.py: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from .ndarray import NDArray

'''
_SYMBOLS = FOLDER.parent / "symbol"
_SYMBOL_CONTROL = {"name": "str | None", "attr": "dict[str, str] | None", "out": "Any"}
_SYMBOL_HEADER = '''"""The operators as functions of symbols. Written by tools/make_stubs.py, not by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .symbol import Symbol
'''
_TYPES = {
    "int": "int",
    "float": "float",
    "boolean": "bool",
    "string": "str",
    "None": "None",
    "Shape(tuple)": "int | Sequence[int | None]",
    "tuple of <float>": "Sequence[float]",
}
_CONTROL = {"out": "NDArray | Sequence[NDArray] | None", "name": "str | None", "ctx": "Context | None"}
_TEXTS = '''"""A sentence for each method that is an operator. It is here because importing the declarations is slow.

Written by tools/make_stubs.py: not to be changed by hand.
"""

from __future__ import annotations

METHOD_TEXTS = {{
{rows}
}}
'''
_LITERALS = re.compile(r"\{[^{}]*\}")


_INDEX = Path(__file__).resolve().parent.parent / "ir" / "dialects" / "mx"
_INDEX_TEXT = '''"""The files that declare operators and the names in each, so that a look-up imports one file.

Written by tools/make_stubs.py: not to be changed by hand.
"""

from __future__ import annotations

DECLARED_NAMES: dict[str, str] = {{
{rows}
}}

FAMILY_OF = {{name: family for family, names in DECLARED_NAMES.items() for name in names.split()}}
'''


def index() -> str:
    """The content of ir/dialects/mx/families.py."""
    families: dict[str, list[str]] = {}
    for path in sorted(_INDEX.glob("*.py")):
        import_module(f"..ir.dialects.mx.{path.stem}", __package__)
    for name, operator in all_names().items():
        families.setdefault(operator.__module__.rpartition(".")[2], []).append(name)
    return _INDEX_TEXT.format(rows="\n".join(_index_rows(sorted(families.items()))))


def _index_rows(families: Iterable[tuple[str, list[str]]]) -> Iterable[str]:
    for family, names in families:
        lines = textwrap.wrap(" ".join(names), 108)
        if len(lines) == 1 and len(family) + len(lines[0]) < 106:
            yield f'    "{family}": ("{lines[0]}"),'
            continue
        yield f'    "{family}": ('
        yield from (f'        "{line}{" " * (line is not lines[-1])}"' for line in lines)
        yield "    ),"


def stubs() -> dict[Path, str]:
    """The content of every generated file."""
    files = {FOLDER / f"{name}.pyi": _module(*entry) for name, entry in _MODULES.items()}
    files[FOLDER / "fluent.pyi"] = _fluent()
    files[_SYMBOLS / "op.pyi"] = _symbols()
    files[FOLDER.parent / "method_texts.py"] = method_texts()
    files[_INDEX / "families.py"] = index()
    return files


def method_texts() -> str:
    """The content of frontend/method_texts.py: a sentence for each method that is an operator."""
    rows: list[str] = []
    for name in sorted({*METHODS, *MORE_METHODS, "cast"}):
        text = f'"{sentence(lookup(name))}"'
        short = f'    "{name}": {text},'
        rows += [short] if len(short) <= 120 else [f'    "{name}": (', f"        {text}", "    ),"]
    return _TEXTS.format(rows="\n".join(rows))


def main() -> None:
    for path, text in stubs().items():
        path.write_text(text)


def _module(namespace: str, module: ModuleType) -> str:
    borrowed = set(getattr(module, "__all__", ())) - set(names_of(namespace))  # without operators that the module uses
    functions = [f for f in vars(module).values() if isinstance(f, FunctionType)]
    written = [f for f in functions if f.__globals__ is vars(module) or f.__name__ in borrowed]
    own = [_written_function(f) for f in written if not f.__name__.startswith("_")]
    taken = {f.__name__ for f in written}
    names = [n for n in names_of(namespace) if n.isidentifier() and n not in taken]
    generated = [function_stub(n, lookup(full_name(namespace, n))) for n in names]
    doc = (module.__doc__ or "").strip().partition("\n")[0]
    base = ["from .ndarray import NDArray as NDArrayBase\n"] if namespace == "_internal" else []
    return "\n".join([_header(doc), *base, *own, *generated, ""])


def _symbols() -> str:
    """The functions of sym: the functions of nd on symbols, with `name` and `attr` instead of a context."""
    names = [n for n in names_of("") if n.isidentifier()]
    generated = [function_stub(n, lookup(n), _SYMBOL_CONTROL).replace("NDArray", "Symbol") for n in names]
    return "\n".join([_SYMBOL_HEADER, *generated, ""])


def _header(doc: str) -> str:
    return _HEADER.format(doc=doc)


def _written_function(function: FunctionType) -> str:
    signature = str(inspect.signature(function)).replace("'", "").replace("self: NDArray", "self")
    return f"def {function.__name__}{signature}: ..."


def function_stub(name: str, cls: type[Operator], control: Mapping[str, str] = _CONTROL) -> str:
    """The stub of an operator under one of its names, in one line; `control` are the arguments of all operators."""
    return f'def {name}({", ".join(_parameters(cls, control))}) -> {_result(cls)}: """{sentence(cls)}"""'


def _parameters(cls: type[Operator], control: Mapping[str, str]) -> Iterable[str]:
    inputs = arguments(cls)
    variadic = [i for i in inputs if i.startswith("*")]
    if variadic:
        yield f"{variadic[0]}: NDArray | Sequence[NDArray]"
    else:
        yield from (f"{i}: NDArray | None = ..." for i in inputs)
    named = [p for p in parameters(cls) if p.name.isidentifier() and p.name not in (*inputs, *control)]
    yield from (f"{p.name}: {_type(p)} = ..." for p in named)
    for name, type in control.items():
        if name == "ctx" and not variadic:
            yield "*"  # only the parameters before it can be positional
        yield f"{name}: {type} = ..."


def _type(parameter: Parameter) -> str:
    if "dtype" in parameter.name:
        return "Any"
    words = _LITERALS.sub("string", parameter.type).split(" or ")
    return " | ".join(dict.fromkeys(_TYPES[word] for word in words))


def _result(cls: type[Operator]) -> str:
    varies = "output_names" in vars(cls) or "visible_outputs" in vars(cls) or cls.outputs == ()
    return "NDArray" if len(cls.outputs) - cls.hidden == 1 and not varies else "Any"


def _fluent() -> str:
    """The class Fluent: the methods in its table from the operators, the methods that it defines from the file."""
    lines = [_header("The operators that are methods of arrays."), "METHODS: list[str]\n", "class Fluent:"]
    for name in sorted(METHODS):
        stub = function_stub(name, lookup(name))
        first, _, rest = stub.partition("(")[2].partition(",")
        assert first.split(":")[0].lstrip("*") == arguments(lookup(name))[0].lstrip("*"), name
        lines.append(f"    def {name}(self, {rest.lstrip()}")
    own = (f for n, f in vars(Fluent).items() if isinstance(f, FunctionType) and n not in METHODS)
    lines += [f"    {_written_function(f)}" for f in own]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
