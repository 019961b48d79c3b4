"""Horovod's package for MXNet: `import horovod.mxnet as hvd` under `mxforge exec` and `mxforge launch`."""
