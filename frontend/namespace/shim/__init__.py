"""The folder that `mxforge exec` adds to PYTHONPATH. Its package `mxnet` is mxforge."""
