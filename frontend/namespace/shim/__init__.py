"""The folder that `mxforge exec` puts on PYTHONPATH: its package `mxnet` is mxforge."""
