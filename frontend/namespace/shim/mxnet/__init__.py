"""Stands for MXNet where this folder's parent is on PYTHONPATH: whoever imports `mxnet` gets mxforge."""

import sys

del sys.modules[__name__]  # what comes next puts mxforge there

import mxforge.frontend.namespace.as_mxnet  # noqa: E402
