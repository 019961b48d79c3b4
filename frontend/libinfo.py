"""Paths of MXNet's native files. mxforge is written in Python and has none: the functions read environment variables
and raise RuntimeError if they are not set."""

from __future__ import annotations

import os
from typing import NoReturn

__version__ = "1.9.1"


def _none(what: str) -> NoReturn:
    raise RuntimeError(f"Cannot find {what}: mxforge is written in Python and has no such files")


def _from_environment(variable: str) -> str | None:
    """The path in an environment variable; None if it does not exist."""
    path = os.environ.get(variable)
    return path if path and os.path.exists(path) else None


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """The shared library that MXNET_LIBRARY_PATH names; RuntimeError without one."""
    path = _from_environment("MXNET_LIBRARY_PATH")
    return [path] if path else _none(f"the MXNet library {prefix}")


def find_include_path() -> str:
    """The header files that MXNET_INCLUDE_PATH names; RuntimeError without one."""
    return _from_environment("MXNET_INCLUDE_PATH") or _none("the MXNet include path")


def find_conf_path(prefix: str = "tvmop") -> list[str]:
    """The file that MXNET_CONF_PATH names; RuntimeError without one."""
    path = _from_environment("MXNET_CONF_PATH")
    return [path] if path else _none(f"the TVM op config {prefix}.conf")
