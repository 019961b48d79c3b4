"""The recorded schemas of what crosses the command line as JSON. A schema of one version never changes.

python tests/schemas.py       records the schemas whose versions are new, after a change
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mxforge.tools.schemas.catalogue import SCHEMAS
from mxforge.tools.schemas.print_json import schema_of

RECORD = Path(__file__).resolve().parent / "data" / "schemas.json"


def version_of(name: str, schema: dict[str, Any]) -> str:
    """The name with the number of the version, as reports contain it."""
    measured = schema["$defs"]["Measurement"] if name == "bench" else schema
    fields = measured["properties"]
    return f"tuning/{fields['format']['const']}" if name == "tuning" else fields["schema"]["const"]


def current() -> dict[str, dict[str, Any]]:
    """The schemas of this version by name and number."""
    schemas = {name: schema_of(name) for name in SCHEMAS}
    return {version_of(name, schema): schema for name, schema in schemas.items()}


def meaning(schema: Any) -> Any:
    """A schema without its words: titles and descriptions, which do not change what is valid."""
    if isinstance(schema, list):
        return [meaning(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    words = {name for name in ("title", "description") if isinstance(schema.get(name), str)}
    return {key: meaning(value) for key, value in schema.items() if key not in words}


def recorded() -> dict[str, dict[str, Any]]:
    """All schemas so far."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


if __name__ == "__main__":
    new = {version: meaning(schema) for version, schema in current().items()}
    RECORD.write_text(json.dumps({**new, **recorded()}, indent=1, sort_keys=True) + "\n")
