"""What tests need around them: contexts, environment variables, repetition, silence."""

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
    """Whether MXNet's delivery pipeline runs this."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """Whether the machine is an AArch64 one."""
    return platform.machine() == "aarch64"


def has_tvm_ops() -> bool:
    """Whether there are operators that TVM compiled: there are none."""
    return False


def is_op_runnable() -> bool:
    """Whether operators that TVM compiled would run on the current context."""
    return True


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set an environment variable, `(name, value)`, or those of a dictionary; None removes it. What was comes back."""
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("Expecting one dict arg or two args: env var name and value")
    before = {name: os.environ.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            setenv(name, value)
        yield
    finally:
        for name, value in before.items():
            setenv(name, value)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator: a test may fail with AssertionError `n` - 1 times."""
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
    """Throw away what is written to the process's standard error."""
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
    """The first batch of an iterator again and again, for measurements without the cost of loading."""

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch: DataBatch = next(real_iter)

    def next(self) -> DataBatch:
        return self.the_batch
