"""A message about layers that run on slices of a batch."""

from __future__ import annotations

import sys


def report_slices(command: str, rows: int | None) -> None:
    """Report on stderr that layers run in a loop over slices of so many rows, and how the command sees each layer."""
    if rows is not None:
        layers = f"the convolutional layers run on {rows} rows of the batch at a time, in a loop that is one launch"
        print(f"mxforge: {layers}: {command} the model with a batch of {rows} for each of them", file=sys.stderr)
