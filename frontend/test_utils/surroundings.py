"""The environment of tests: contexts, environment variables, retries, discarded output."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from .. import context
from ..context import Context, current_context
from ..io import DataBatch, DataIter
from ..util import setenv


def default_context() -> Context:
    """The current context."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make a context the current one of this thread."""
    context._current.context = ctx


def list_gpus() -> range:
    """The numbers of the GPUs."""
    return range(context.num_gpus())


def is_cd_run() -> bool:
    """True if MXNet's continuous delivery pipeline runs the tests."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """True on AArch64 machines."""
    return platform.machine() == "aarch64"


def has_tvm_ops() -> bool:
    """False: mxforge has no operators that TVM compiled."""
    return False


def is_op_runnable() -> bool:
    """True: operators that TVM compiled would run on the current context."""
    return True


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set one environment variable, `environment(name, value)`, or those of a dictionary, in a `with` block; None
    removes a variable. The previous values are restored afterwards."""
    if len(args) == 1 and isinstance(args[0], dict):
        values = args[0]
    elif len(args) == 2:
        values = {args[0]: args[1]}
    else:
        raise AssertionError("Expecting one dict arg or two args: env var name and value")
    before = {name: os.environ.get(name) for name in values}
    try:
        for name, value in values.items():
            setenv(name, value)
        yield
    finally:
        for name, value in before.items():
            setenv(name, value)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator that runs a test up to `n` times until it raises no AssertionError."""
    if n <= 0:
        raise AssertionError("n must be positive")

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for left in reversed(range(n)):
                try:
                    function(*args, **kwargs)
                    return
                except AssertionError:
                    if not left:
                        raise

        return wrapper

    return decorate


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discard output to the standard error of the process."""
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # not a file, as under pytest
        yield
        return
    kept = os.dup(number)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), number)
            yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


class DummyIter(DataIter):
    """Repeats the first batch of an iterator, for measurements without the cost of loading."""

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch: DataBatch = next(real_iter)

    def next(self) -> DataBatch:
        return self.the_batch
