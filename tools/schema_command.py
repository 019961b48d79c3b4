"""`mxforge schema`: prints the JSON Schema of what a command prints, or lists the names of schemas."""

from __future__ import annotations

import argparse
import json

from .inspect_text import table
from .schemas.catalogue import SCHEMAS
from .schemas.print_json import schema_of


def run(options: argparse.Namespace) -> int:
    """Print the schema or the list; returns status 0."""
    if options.name is None:
        print("\n".join(table([(name, what) for name, (_, _, what) in SCHEMAS.items()], "ll")))
    else:
        print(json.dumps(schema_of(options.name), indent=1))
    return 0
