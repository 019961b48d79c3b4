"""The order of test files: those that take longest first, so that the workers of a session end together."""

from __future__ import annotations

LONGEST = """
    frontend/test_random_gradients frontend/test_programs test_pages frontend/test_random_programs
    codegen/test_swept_cpu codegen/test_operators_cpu frontend/test_agreement frontend/test_ndarray_goldens
    passes/test_operator_gradients codegen/test_dynamic frontend/test_gpu_operators tools/test_launch tools/test_bench
    tools/test_tune
    tools/test_libraries tools/test_examples frontend/test_gpu_training ir/test_locks tools/test_schemas
    tools/test_library_programs codegen/test_triton_contractions
    codegen/test_triton_routines codegen/test_triton_attention
    codegen/test_mlir_calls codegen/test_mlir_scalars codegen/test_triton_calls frontend/test_gpu_random_programs
    frontend/test_gpu_extents_of_one
    frontend/test_gluon_layers frontend/test_forks codegen/test_bfloat16
""".split()
"""The files of 9 seconds or more, the longest first; others follow in the order of their names."""


def place(file: str) -> tuple[int, str]:
    """The key of a file by which files are ordered; its path is below `tests`."""
    name = file.removesuffix(".py")
    return (LONGEST.index(name) if name in LONGEST else len(LONGEST)), name
