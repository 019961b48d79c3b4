"""CPU kernels of contractions: convolutions and matrix products with their epilogues."""

from .emit import emit_contraction, schedule_contraction

__all__ = ["emit_contraction", "schedule_contraction"]
