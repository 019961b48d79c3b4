"""Hand-written Triton kernels. These files are read as text (`text.py`), never imported: they import Triton."""
