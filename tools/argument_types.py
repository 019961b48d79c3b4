"""Types of arguments of the command line."""

from __future__ import annotations

import argparse
import re

_CONTEXT = re.compile(r"(cpu|gpu)(\(\d+\))?")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def context(text: str) -> str:
    """The text of a context: cpu, gpu, or with a number such as gpu(0)."""
    if not _CONTEXT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a context such as cpu, gpu or gpu(0)")
    return text


def positives(text: str) -> tuple[int, ...]:
    """Different positive whole numbers, separated by commas, in their order."""
    return tuple(dict.fromkeys(positive(number.strip()) for number in text.split(",")))


def positive_number(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return number
