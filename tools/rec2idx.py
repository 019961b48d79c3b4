"""`mxforge rec2idx`: makes the index of a record file, as MXNet's tools/rec2idx.py does."""

from __future__ import annotations

import argparse

from ..frontend.io.records import RecordFiles
from ..ir.file_errors import names_file
from .inspect_text import counted
from .progress import Progress


def run(options: argparse.Namespace) -> int:
    """Write the index and print the number of records; returns status 0."""
    files = RecordFiles([options.record])
    count = 0
    with names_file(options.index), open(options.index, "w", encoding="utf-8") as index, Progress(options.index):
        for count, record in enumerate(files.records(0, files.size), start=1):
            index.write(f"{count - 1}\t{record.position}\n")
    print(f"{options.index}: {counted(count, 'record')}")
    return 0
