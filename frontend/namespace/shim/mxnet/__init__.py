"""Replaces MXNet if this folder's parent is on PYTHONPATH: `import mxnet` then imports mxforge."""

import sys

del sys.modules[__name__]  # the next import sets it to mxforge

import mxforge.frontend.namespace.as_mxnet  # noqa: E402
