"""Replaces Horovod, whose part for MXNet is mxforge's: `import horovod.mxnet as hvd`."""
