"""Writes the dialects as an IRDL module, with which MLIR's parser and verifier check printed IR.

    mlir-opt --irdl-file=dialects.irdl.mlir printed.mlir          without --allow-unregistered-dialect

An IRDL variable is ONE type or attribute, so each operand, result and attribute has its own. An op with a variable
number of operands has the counts in its name and is declared once per combination used in the texts. Optional
attributes are not declared: IRDL does not support them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, get_args, get_origin

import numpy as np

from .dialects.text import field_hints
from .graph import Graph, Op
from .kernel_dialect import KERNEL, PROGRAM
from .lazy_dataclass import dataclass
from .registry import find_dialect, stem_of
from .step_fields import fields_of
from .steps import KINDS
from .types import DType, Layout, TensorType

TENSOR = '"!builtin.tensor"'
INTEGER, FLOAT, STRING, TYPE = ("integer",), ("float",), ("string",), ("type",)
INTEGERS, LIST, ELEMENTS = ("dense_array",), ("array", "dense_array"), ("dense_typed_elements",)

_OPERANDS = {
    "core.constant": 0,
    "core.iota": 0,
    "core.size": 0,
    "core.csr_dot": 4,
    "core.pad": 2,
    "core.gather": 2,
    "core.dot": 2,
    "core.triangular_solve": 2,
    "core.conv": 2,
    "core.conv_weight_gradient": 2,
    "core.select_and_scatter": 2,
    "core.scatter": 3,
}
"""Number of operands of primitives that do not have exactly one."""
_RESULTS = {"core.lu": 2, "core.lq": 2, "core.symmetric_eigen": 2}
"""Number of results of primitives that do not have exactly one."""
_ATTRIBUTES: dict[str, dict[str, Sequence[str]]] = {
    "core.constant": {"value": ELEMENTS, "dtype": TYPE},
    "core.relayout": {},
    "core.host_callback": {"functions": LIST, "results": LIST},
}
"""Attributes of primitives whose attributes differ from their fields."""
_COUNTED = re.compile(r'"((core|mx)\.\w+?)_(\d+)_(\d+)(?:_(\d+))?"\(')


@dataclass(frozen=True)
class Definition:
    """An operation in IRDL. `rest` describes operands after the listed ones: "" | "optional" | "variadic"."""

    name: str
    operands: int
    results: int
    attributes: Mapping[str, Sequence[str]]
    regions: int = 0
    rest: str = ""


def irdl_module(*texts: str) -> str:
    """The IRDL of all dialects. Ops with a variable number of operands are declared as the printed `texts` use them."""
    definitions = [*_fixed("core"), *_fixed("mx"), *_counted(texts)]
    dialects = {prefix: [d for d in definitions if d.name.startswith(prefix + ".")] for prefix in ("core", "mx")}
    parts = [_dialect(prefix, "\n".join(map(_operation, ops))) for prefix, ops in dialects.items()]
    program = "\n".join([PROGRAM, *map(_operation, _steps())])
    return "\n".join([*parts, _dialect("kernel", KERNEL), _dialect("program", program)])


def attributes_of(op: type[Op]) -> Mapping[str, Sequence[str]]:
    """The attributes that every printed op of this class has, with the MLIR attribute kinds allowed for each."""
    if op.name in _ATTRIBUTES:
        return _ATTRIBUTES[op.name]
    if op.name.startswith("core."):
        return {
            name: kinds for name, hint in field_hints(op).items() if (kinds := _kinds(hint)) and not _optional(hint)
        }
    return {name: _kinds(field.type) or LIST for name, field in op.parameters().items()}  # type: ignore[attr-defined]


def _fixed(prefix: str) -> Iterable[Definition]:
    dialect = find_dialect(prefix)
    for op in dialect.operations():
        if dialect.is_variadic(op):
            continue
        if prefix == "core":
            rest = "variadic" if op.name == "core.pointwise" else ""
            operands, results = _OPERANDS.get(op.name, 1), _RESULTS.get(op.name, 1)
            yield Definition(stem_of(op), operands, results, attributes_of(op), rest=rest)
        else:
            yield _operator(op)


def _steps() -> Iterable[Definition]:
    """The steps of programs."""
    for mnemonic, kind in KINDS.items():
        fields = fields_of(kind).all
        attributes = {name: (type.attribute,) for name, type in fields.items() if type.attribute}
        yield Definition(f"program.{mnemonic}", 0, 0, attributes, sum(type.has_steps for type in fields.values()))


def _operator(op: Any) -> Definition:
    """An mx operator; at most its last input is optional."""
    optional = bool(op.inputs) and "?" in op.inputs[-1]
    listed = len(op.inputs) - optional
    return Definition(stem_of(op), listed, len(op.outputs), attributes_of(op), rest="optional" if optional else "")


def _counted(texts: Iterable[str]) -> Iterable[Definition]:
    """The variadic ops in the texts, one definition per combination of counts."""
    variadic = {
        stem_of(op): op
        for dialect in map(find_dialect, ("core", "mx"))
        for op in dialect.operations()
        if dialect.is_variadic(op)
    }
    used = {match.group(0)[1:-2]: match for text in texts for match in _COUNTED.finditer(text)}
    for name, match in sorted(used.items()):
        stem, _, operands, results, regions = match.groups()
        op = variadic.get(stem) or variadic.get(f"{stem}_")
        if op is not None:
            count = int(regions) if regions else _region_count(op)
            yield Definition(name, int(operands), int(results), attributes_of(op), count)


def _region_count(op: type[Op]) -> int:
    return int(any(hint is Graph for hint in field_hints(op).values())) if op.name.startswith("core.") else 0


# --- attributes ---------------------------------------------------------------------------------------------------


def _optional(hint: Any) -> bool:
    return NoneType in get_args(hint)


_SCALARS: dict[Any, Sequence[str]] = {
    bool: INTEGER,
    int: INTEGER,
    float: FLOAT,
    str: STRING,
    NoneType: STRING,
    DType: TYPE,
    TensorType: TYPE,
    np.ndarray: ELEMENTS,
    Graph: (),
    Layout: (),
}


def _kinds(hint: Any) -> tuple[str, ...]:
    """The MLIR attribute kinds of a Python type. The mx dialect prints None as the text "None"."""
    if hint in _SCALARS:
        return tuple(_SCALARS[hint])
    if isinstance(hint, type) and not get_args(hint):
        return STRING  # an enumeration, by its mnemonic
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is np.ndarray:
        return ELEMENTS
    if origin is tuple:
        return _tuple_kinds(arguments[0])
    if origin is not None and hasattr(hint, "__metadata__"):
        return _kinds(arguments[0])
    if any(isinstance(a, str) for a in arguments):
        return STRING  # Literal
    return tuple(dict.fromkeys(base for a in arguments for base in _kinds(a)))


def _tuple_kinds(item: Any) -> tuple[str, ...]:
    if _optional(item):
        return ("dense_array", "string")
    numbers = item in (bool, int, float) or get_origin(item) is tuple
    return INTEGERS if numbers else LIST


# --- text ---------------------------------------------------------------------------------------------------------


def _dialect(prefix: str, operations: str) -> str:
    return f"irdl.dialect @{prefix} {{\n{operations}\n}}\n"


def _operation(d: Definition) -> str:
    variables = [f"%o{i} = irdl.base {TENSOR}" for i in range(d.operands + bool(d.rest))]
    variables += [f"%r{i} = irdl.base {TENSOR}" for i in range(d.results)]
    clauses: list[str] = []
    operands = [f"o{i}: %o{i}" for i in range(d.operands)] + ([f"rest: {d.rest} %o{d.operands}"] if d.rest else [])
    if operands:
        clauses.append(f"irdl.operands({', '.join(operands)})")
    if d.results:
        clauses.append(f"irdl.results({', '.join(f'r{i}: %r{i}' for i in range(d.results))})")
    if d.attributes:
        constraints = [_constraint(f"%a{i}", kinds) for i, kinds in enumerate(d.attributes.values())]
        variables += [line for lines in constraints for line in lines]
        listed = ", ".join(f'"{name}" = %a{i}' for i, name in enumerate(d.attributes))
        clauses.append(f"irdl.attributes {{{listed}}}")
    if d.regions:
        variables += [f"%g{i} = irdl.region with size 1" for i in range(d.regions)]
        clauses.append(f"irdl.regions({', '.join(f'g{i}: %g{i}' for i in range(d.regions))})")
    body = "\n    ".join([*variables, *clauses])
    return f"  irdl.operation @{d.name.partition('.')[2]} {{\n    {body}\n  }}"


def _constraint(variable: str, types: Sequence[str]) -> list[str]:
    """The lines that define one variable as any of the kinds."""
    bases = [f'irdl.base "#builtin.{kind}"' for kind in types]
    if len(bases) == 1:
        return [f"{variable} = {bases[0]}"]
    parts = [f"{variable}_{i} = {base}" for i, base in enumerate(bases)]
    return [*parts, f"{variable} = irdl.any_of({', '.join(f'{variable}_{i}' for i in range(len(bases)))})"]
