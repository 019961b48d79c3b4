"""Prints reports as JSON, and their schemas. pydantic is imported when one of these functions is called."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from .catalogue import SCHEMAS

_PACKAGE = __name__.partition(".")[0]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def as_json(name: str, report: object) -> str:
    """The report as JSON that is valid for the schema of this name."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(_type_of(name))
    return json.dumps(adapter.dump_python(adapter.validate_python(report), mode="json"), indent=1)


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of this name."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(_type_of(name))
    mode = "validation" if name == "tuning" else "serialization"
    return {"$schema": _DIALECT, **adapter.json_schema(mode=mode)}


def _type_of(name: str) -> Any:
    module, type_name, _ = SCHEMAS[name]
    return getattr(import_module(f"{_PACKAGE}.{module}"), type_name)
