"""`horovod.mxnet`: the module of mxforge."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("mxforge.frontend.horovod.mxnet")
