"""The passes of GPU targets: those of all kernels, and attention as one kernel."""

from __future__ import annotations

from ...passes.eliminate import EliminateDeadCode
from ...passes.fuse import Fuse
from ...passes.fuse_attention import FuseAttention
from ...passes.manager import Pass
from ...passes.pipeline import FOR_REFERENCE, lower
from ...passes.sink_reshapes import SinkReshapes

FOR_GPUS: tuple[Pass, ...] = (
    *FOR_REFERENCE,
    SinkReshapes(),  # before simplification, which removes reshapes of reshapes
    *lower(
        FuseAttention(),  # before fusion, which would join the softmax with its scale and its mask
        EliminateDeadCode(),  # what only attention reads is computed in its region
        Fuse(repeated_reads=True),  # last: regions hide their nodes from local rules
    ),
)
"""What `Target.passes` is."""
