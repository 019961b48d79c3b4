"""CPU kernels of contractions: convolutions and matrix products with their epilogues."""
