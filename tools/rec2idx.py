"""`mxforge rec2idx`: makes the index of a record file, as MXNet's tools/rec2idx.py does."""

from __future__ import annotations

import argparse

from ..frontend.io.records import RecordFiles
from .progress import Progress


def run(options: argparse.Namespace) -> int:
    """Write the index and print the number of records; returns status 0."""
    files = RecordFiles([options.record])
    with open(options.index, "w", encoding="utf-8") as index, Progress(options.index):
        count = 0
        for count, record in enumerate(files.records(0, files.size), start=1):
            index.write(f"{count - 1}\t{record.position}\n")
    print(f"{options.index}: {count} records")
    return 0
