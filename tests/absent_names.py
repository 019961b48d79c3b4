"""Private names of MXNet that mxforge does not have, by reason."""

from __future__ import annotations

import re

_FULL_NAMES = r"(ndarray|symbol)\.(_internal|gen__internal)\."
_CONTRIB = r"(contrib\.)?(ndarray|symbol)(\.contrib|\.gen_contrib)?\."

PATTERNS = {
    "operators of quantisation, and of graphs for DGL": rf"{_CONTRIB}"
    r"(quantize\w*|quantized_\w+|dequantize|requantize|calibrate_entropy|dgl_\w+|edge_id)|"
    r"(contrib\.symbol|symbol\.contrib|symbol\.gen_contrib)\.getnnz",
    "operators of MXNet's backward passes": rf"{_FULL_NAMES}(_backward_\w+|_broadcast_backward|_split_v2_backward)",
    "operators of mx.np": rf"{_FULL_NAMES}_np\w*",
    "operators that plugins and oneDNN's passes make": rf"{_FULL_NAMES}"
    r"(_sg_mkldnn_\w+|_NDArray|_Native|_CustomFunction|_CrossDeviceCopy|_NoGradient)",
    "second names of mx.image's functions": rf"{_FULL_NAMES}(_cv\w+|_imdecode)",
    "functions and classes on C pointers": r".*\.(_ndarray_cls|_np_ndarray_cls|_new_empty_handle|_new_alloc_handle|"
    r"_new_from_shared_mem|_storage_type|_monitor_callback_wrapper|_updater_wrapper|_ctype_\w+|_imperative_invoke|"
    r"_set_(np_)?(ndarray|symbol)_class|_set_handle|_tvm_\w+|_to_shared_mem|"
    r"DL(Context|DataType|ManagedTensor|Tensor)|\w*dlpack_deleter|_c_str_\w*dltensor|DeleterFunc|PyCapsuleDestructor|"
    r"dl_managed_tensor_deleter|c_int_p|_bwd_functype|_del_functype|_notify_shutdown|_load_lib|_symbol_creator|"
    r"_get_kvstore_server_command_type|_LUAJIT)",
    "what makes Python functions of C operators": r".*\."
    r"(_init_\w*(module|np_op_module)|_make_(ndarray|symbol|torch)_function|"
    r"_make_io_iterator|_verify_\w+|_generate_\w+|_build_doc)",
}
"""Regular expressions for "module.name" and "module.Class.name", by reason."""

NAMES = {
    "training": {
        "autograd": "_parse_head",
    },
    "mixed precision wraps no functions": {
        "contrib.amp.amp": "_get_fun_to_wrap _wrap_loss_output_functions _wrap_symbol_functions",
    },
    "charts in notebooks": {
        "notebook": "Bokeh_Failed_To_Import bokeh",
        "notebook.callback": "Pandas_Failed_To_Import _add_new_columns _extend args_wrapper pd",
    },
    "modules of MXNet's NumPy interface, and what they import": {
        "ndarray.numpy.linalg": "_mx_nd_np _npi",
        "ndarray.numpy.random": "NDArray _npi current_context np",
        "ndarray.numpy_extension.random": "_npi current_context",
        "numpy": "_STR_2_DTYPE_",
        "numpy.linalg": "_mx_nd_np fallback_linalg",
        "numpy.multiarray": """Context NDArray NDArrayHandle _DTYPE_NP_TO_MX _GRAD_REQ_MAP _LIB
        _NDARRAY_ADVANCED_INDEXING _NDARRAY_BASIC_INDEXING _NDARRAY_EMPTY_TUPLE_INDEXING
        _NDARRAY_NO_ZERO_DIM_BOOL_ARRAY _NDARRAY_UNSUPPORTED_INDEXING
        _NDARRAY_ZERO_DIM_BOOL_ARRAY_FALSE _NDARRAY_ZERO_DIM_BOOL_ARRAY_TRUE
        _NUMPY_ARRAY_FUNCTION_DICT _NUMPY_ARRAY_UFUNC_DICT _as_mx_np_array _as_onp_array
        _get_np_op _mx_nd_np _mx_np_op _np _npi _reshape_view c_array c_array_buf check_call
        ctypes current_context from_numpy get_indexing_dispatch_code
        get_oshape_of_gather_nd_op indexing_key_expand_implicit_axes integer_types
        is_recording mx_real_t mx_uint native_array numeric_types py_slice
        set_module warnings wrap_np_binary_func wrap_np_unary_func""",
        "numpy.random": "_mx_nd_np",
        "numpy_extension": "check_call classproperty ctypes threading warnings with_metaclass",
        "numpy_extension.image": """Augmenter BrightnessJitterAug CastAug CenterCropAug ColorJitterAug ColorNormalizeAug
        ContrastJitterAug CreateAugmenter CreateDetAugmenter CreateMultiRandCropAugmenter
        DetAugmenter DetBorrowAug DetHorizontalFlipAug DetRandomCropAug DetRandomPadAug
        DetRandomSelectAug ForceResizeAug HorizontalFlipAug HueJitterAug ImageDetIter
        ImageIter LightingAug Number RandomCropAug RandomGrayAug RandomOrderAug
        RandomSizedCropAug ResizeAug SaturationJitterAug SequentialAug center_crop
        color_normalize copyMakeBorder cv2 det detection fixed_crop image imdecode imread
        imresize imrotate io is_np_array json logging nd np numeric_types os random
        random_crop random_rotate random_size_crop recordio resize_short scale_down sys
        warnings""",
        "numpy_extension.random": "_mx_nd_npx _mx_rand",
        "symbol.numpy._symbol": """Group Symbol SymbolHandle _LIB _mx_np_op _np _npi _sanity_check_params _ufunc_helper
        _unary_func_helper c_str check_call ctypes current_context integer_types load
        load_json mx_uint numeric_types py_slice py_str set_module string_types
        wrap_np_binary_func wrap_np_unary_func""",
        "symbol.numpy.linalg": "_mx_sym_np _npi _symbol",
        "symbol.numpy.random": "_npi current_context",
        "symbol.numpy_extension.random": "_npi current_context",
    },
    "worker processes of MXNet's loaders": {
        "gluon.data.dataloader": """ConnectionWrapper Queue SimpleQueue _MultiWorkerIterV1 _thread_worker_initializer
        _worker_dataset _worker_initializer fetcher_loop_v1 rebuild_ndarray rebuild_np_ndarray
        reduce_ndarray reduce_np_ndarray worker_loop_v1""",
    },
    "mxforge.runtime is a package of mxforge's own": {
        "runtime": "_LIB check_call collections ctypes",
    },
    "how MXNet's own code is divided": {
        "gluon.block": "_infer_param_types",
        "gluon.model_zoo.vision.inception": "_make_A _make_B _make_C _make_D _make_E _make_basic_conv _make_branch",
        "gluon.model_zoo.vision.mobilenet": "_add_conv_dw",
        "module.base_module": "_check_names_match",
        "module.executor_group": "_load_data _load_general _load_label _merge_multi_context _prepare_group2ctxs",
        "ndarray.contrib": "_flatten_list _get_rescale_grad",
        "ndarray.ndarray": "_INT64_TENSOR_SIZE_ENABLED _SIGNED_INT32_UPPER_LIMIT _ufunc_helper",
        "ndarray.random": "_random_helper",
        "ndarray.register": "_adamw_update _mp_adamw_update",
        "ndarray.sparse": """_STORAGE_AUX_TYPES _csr_matrix_from_definition _prepare_default_dtype _prepare_src_array
        _row_sparse_ndarray_from_definition _ufunc_helper""",
        "operator": "_Registry _registry",
        "optimizer.optimizer": "_as_classic _flatten_list",
        "rnn.rnn_cell": """_cells_begin_state _cells_pack_weights _cells_state_info _cells_state_shape
        _cells_unpack_weights _normalize_sequence""",
        "rtc": "_DTYPE_CPP_TO_NP",
        "symbol.contrib": """_check_data _construct_subgraph _cut_subgraph _get_graph_inputs _get_sym_uniq_name
        _get_unique_subgraph_name""",
        "symbol.random": "_random_helper",
        "symbol.register": "_adamw_update _mp_adamw_update",
        "symbol.symbol": "_SIGNED_INT32_UPPER_LIMIT",
        "util": "_CUDA_SUCCESS _sanity_check_params _set_np_array_logged _set_np_shape_logged",
    },
}
"""Names by module, by reason."""

MEMBERS = {
    "what frees C pointers, and makes objects of them": r"(executor|kvstore|profiler|rtc|ndarray|numpy|symbol)\..*"
    r"\.__del__|"
    r"symbol\.symbol\.Symbol\.(__setstate__|_get_ndarray_inputs)|model\.FeedForward\.__setstate__|autograd\.Function\._[rR]egistry|runtime\.Feature\._\w+",
    "charts in notebooks": r"notebook\.callback\.\w+\.\w+",
    "how MXNet's own code is divided": r"context\.Context\._default_ctx|"
    r"contrib\.text\..*\._index_(counter_keys|unknown\w+)|"
    r".*\.CheckpointHandler\._find_max_iteration|.*\._controller|log\._Formatter\._get_\w+|"
    r"module\.executor_group\.DataParallelExecutorGroup\.(_bind_ith_exec|_sliced_shape)|"
    r".*\.(_get_index_nd|_prepare_value_nd|_[gs]et_np_\w+_indexing)|"
    r"symbol\.numpy\._Symbol\.(__setitem__|__setstate__|num_outputs|_get_ndarray_inputs)",
}
"""Regular expressions for "module.Class.name", by reason."""


def is_absent(place: str, name: str) -> bool:
    """True if a name of a module or a class is listed here."""
    full = f"{place}.{name}"
    listed = any(name in table.get(place, "").split() for table in NAMES.values())
    return listed or any(re.fullmatch(pattern, full) for table in (PATTERNS, MEMBERS) for pattern in table.values())
