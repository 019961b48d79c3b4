"""`mxforge.test_utils`: helpers for tests of MXNet and of packages that use it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import random as rnd

from ...runtime import Features
from ..context import Context, current_context
from ..ndarray import array
from ..symbol import Symbol
from ..util import get_cuda_compute_capability, getenv, setenv, use_np
from .agreement import check_consistency, check_gluon_hybridize_consistency, compare_optimizer
from .arrays import (
    _get_powerlaw_dataset_csr,
    _get_uniform_dataset_csr,
    _validate_csr_generation_inputs,
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
    create_sparse_array,
    create_sparse_array_zd,
    create_vector,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    rand_sparse_ndarray,
    random_arrays,
    random_sample,
    random_uniform_arrays,
    shuffle_csr_column_indices,
)
from .checks import (
    _parse_aux_states,
    _parse_location,
    _sorted_dict,
    _sorted_items,
    check_numeric_gradient,
    check_speed,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    simple_forward,
)
from .comparison import (
    _find_max_violation,
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    default_atols,
    default_dtype,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    locationError,
    same,
    same_array,
    same_symbol_structure,
)
from .datasets import (
    download,
    download_model,
    get_bz2_data,
    get_cifar10,
    get_im2rec_path,
    get_mnist,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from .generators import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from .surroundings import (
    DummyIter,
    default_context,
    discard_stderr,
    environment,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    retry,
    set_default_context,
)

mx: Any = sys.modules[__name__.partition(".frontend")[0]]
_features = Features()
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}


def __getattr__(name: str) -> Any:
    if name == "np_symbol":  # the class of symbols with NumPy semantics
        numpy = getattr(mx.symbol, "numpy", None)
        if numpy is not None:
            return numpy._Symbol
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
