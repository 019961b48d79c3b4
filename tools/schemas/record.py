"""The base class of what commands print as JSON, and the types of numbers in it.

    @dataclass(frozen=True, kw_only=True)
    class CacheReport(Record):
        schema: Literal["cache/1"] = "cache/1"
        folder: str
        ...

A record is a plain dataclass, so commands fill it and print it as text without pydantic. `print_json.py` gives it to
pydantic, which validates and prints it; `mxforge schema` prints the JSON Schema. Annotations are evaluated for that, so
a module of records imports the types that it names. The text below a field describes it in the schema.

A change of a schema changes its number: tests/tools/test_schemas.py.
"""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ...ir.bounds import Within

if TYPE_CHECKING:
    from pydantic import ConfigDict


def _json_name(field: str) -> str:
    """The name of a field in JSON: a word that Python reserves has an underscore in the class."""
    return field.rstrip("_")


class Record:
    """The base class of records."""

    __pydantic_config__: ClassVar[ConfigDict] = {
        "strict": True,
        "extra": "forbid",
        "allow_inf_nan": False,
        "revalidate_instances": "always",
        "alias_generator": _json_name,
        "validate_by_name": True,
        "serialize_by_alias": True,
        "json_schema_serialization_defaults_required": True,
        "use_attribute_docstrings": True,
    }


Count = Annotated[int, Within(0)]
"""A number of things, or of bytes."""
Seconds = Annotated[float, Within(0)]
Amount = Annotated[float, Within(0)]
"""A number of operations or bytes per second, or a share."""
Real = float | Literal["NaN", "Infinity", "-Infinity"]
"""Any float: JSON has no word for those that are not finite."""


def real(value: float) -> Real:
    """A float as JSON can express it."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
