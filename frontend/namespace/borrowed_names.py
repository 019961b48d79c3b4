"""The tables of borrowed.py: the names that modules of MXNet 1.9.1 import from other modules and so re-export, and
layers and metrics that MXNet 2 has in other modules."""

from __future__ import annotations

SOURCES = {
    ".": "mx=",
    ".attribute": "AttrScope",
    ".autograd": "_RecordingStateScope=_Scope",
    ".base": """MXCallbackList _LIB _MXClassPropertyMetaClass _Null _as_list _build_param_doc=build_param_doc base
    c_array c_array_buf c_handle_array c_str c_str_array check_call classproperty ctypes2buffer ctypes2numpy_shared
    integer_types mx_real_t numeric_types py_str string_types with_metaclass""",
    ".context": "Context context cpu cpu_pinned ctx= current_context gpu gpu_memory_info num_gpus",
    ".contrib.amp.lists": "lists",
    ".contrib.onnx": """get_model_metadata_=get_model_metadata import_model_=import_model
    import_to_gluon_=import_to_gluon""",
    ".contrib.quantization": "quant=",
    ".contrib.svrg_optimization": "svrg_optimization",
    ".contrib.text.vocab": "vocab",
    ".executor": "Executor",
    ".executor_manager": "DataParallelExecutorManager _check_arguments _load_data _load_label _split_input_slice",
    ".gluon.block": "Block HybridBlock _flatten _regroup",
    ".gluon.data.dataset": "dataset",
    ".gluon.data.sampler": "_sampler=",
    ".gluon.parameter": "tensor_types",
    ".gluon.rnn.rnn_cell": "SequentialRNNCell rnn_cell",
    ".gluon.trainer": "trainer",
    ".gluon.utils": "_get_repo_file_url _indent check_sha1 download",
    ".image.detection": "det=",
    ".image.image": """Augmenter CastAug ColorJitterAug ColorNormalizeAug ForceResizeAug HueJitterAug ImageIter
    LightingAug RandomGrayAug RandomOrderAug ResizeAug copyMakeBorder fixed_crop""",
    ".initializer": "Uniform init=",
    ".io": """PrefetchingIter io CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordIter_v1
    ImageRecordUInt8Iter ImageRecordUInt8Iter_v1 LibSVMIter MNISTIter MXDataIter""",
    ".io.io": "DataBatch DataDesc DataIter",
    ".io.utils": "_getdata_by_idx _has_instance _init_data _slice_along_batch_axis utils",
    ".kvstore": "kvs=",
    ".kvstore.kvstore": "KVStore create",
    ".libinfo": "libinfo",
    ".metric": "CompositeEvalMetric EvalMetric",
    ".model": """_create_kvstore _create_sparse_kvstore _initialize_kvstore _update_params _update_params_on_kvstore
    load_checkpoint save_checkpoint""",
    ".module.base_module": "BaseModule",
    ".module.bucketing_module": "BucketingModule",
    ".ndarray": """CachedOp NDnorm=norm adam_update add clip concat concatenate divide empty equal from_dlpack
    from_numpy ftml_update ftrl_update get_indexing_dispatch_code get_oshape_of_gather_nd_op greater greater_equal
    indexing_key_expand_implicit_axes lamb_update_phase1 lamb_update_phase2 lesser lesser_equal logical_and
    logical_or logical_xor maximum mean modulo moveaxis mp_lamb_update_phase1 mp_lamb_update_phase2 mp_nag_mom_update
    mp_sgd_mom_update mp_sgd_update multi_all_finite multi_lars multi_mp_sgd_mom_update multi_mp_sgd_update
    multi_sgd_mom_update
    multi_sgd_update multi_sum_sq multiply nag_mom_update nd= ndarray not_equal onehot_encode
    preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_sgd_mom_update
    preloaded_multi_sgd_update rmsprop_update rmspropalex_update sgd_mom_update sgd_update signsgd_update
    signum_update sqrt square subtract tile to_dlpack_for_read to_dlpack_for_write true_divide waitall zeros_like""",
    ".ndarray.contrib": "contrib multi_lamb_update multi_mp_lamb_update",
    ".ndarray.key_helpers": """_broadcast_shapes _get_broadcast_shape _get_dim_size _get_index_range _get_slice_len
    _int64_enabled _int_to_slice _is_advanced_index _shape_for_bcast""",
    ".ndarray.keys": """_NDARRAY_ADVANCED_INDEXING _NDARRAY_BASIC_INDEXING _NDARRAY_EMPTY_TUPLE_INDEXING
    _NDARRAY_NO_ZERO_DIM_BOOL_ARRAY _NDARRAY_UNSUPPORTED_INDEXING _NDARRAY_ZERO_DIM_BOOL_ARRAY_FALSE
    _NDARRAY_ZERO_DIM_BOOL_ARRAY_TRUE check_boolean_array_dimension""",
    ".frontend.type_flags": """_DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP _STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT
    _STORAGE_TYPE_ID_TO_STR _STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED""",
    ".ndarray.ndarray": "NDArray NDArrayBase _array=array _empty_ndarray=empty _zeros_ndarray=zeros",
    ".ndarray.numpy._internal": "_npi=",
    ".numpy_extension": "_mx_npx= npx=",
    ".ndarray.random": "normal uniform",
    ".ndarray.sparse": "_empty_sparse_ndarray=empty _sparse_array=array _zeros_sparse_ndarray=zeros sparse",
    ".ndarray.utils": "load zeros",
    ".numpy": "_mx_np=",
    ".onnx": "export_model export_model_=export_model get_operator_support",
    ".optimizer": "opt=",
    ".optimizer.optimizer": "get_updater",
    ".profiler": "set_kvstore_handle",
    ".random": "seed",
    ".recordio": "recordio",
    ".runtime": "Features",
    ".symbol": """Group SymbolBase=Symbol Variable arange eye fromjson full histogram hypot linspace load_json minimum
    ones pow power split_v2 sym= symbol var""",
    ".symbol._internal": "_internal",
    ".symbol.contrib": "symbol_contrib=",
    ".symbol.numpy": "np_symbol=",
    ".symbol.op": "op",
    ".symbol.symbol": "Symbol",
    ".util": "get_cuda_compute_capability is_np_array is_np_shape reset_np set_np",
    "array": "array=array native_array=array py_array=array",
    "atexit": "atexit",
    "bisect": "bisect",
    "builtins": "BASE_ESTIMATOR=object basestring=str long=int py_slice=slice py_sum=sum",
    "bz2": "bz2",
    "collections": "OrderedDict collections defaultdict namedtuple",
    "contextlib": "contextlib contextmanager",
    "copy": "copy",
    "ctypes": """CFUNCTYPE CachedOpHandle=c_void_p CudaKernelHandle=c_void_p CudaModuleHandle=c_void_p
    DLPackHandle=c_void_p DataIterCreatorHandle=c_void_p DataIterHandle=c_void_p ExecutorHandle=c_void_p
    FunctionHandle=c_void_p KVStoreHandle=c_void_p NDArrayHandle=c_void_p OpHandle=c_void_p POINTER
    ProfileHandle=c_void_p RecordIOHandle=c_void_p RtcHandle=c_void_p Structure SymbolHandle=c_void_p c_bool c_char
    c_char_p c_int c_void_p cast ctypes mx_float=c_float mx_int64=c_long mx_int=c_int mx_uint=c_uint pointer""",
    "cv2?": "cv2",
    "datetime": "datetime",
    "errno": "errno",
    "functools": "functools reduce",
    "gzip": "gzip",
    "hashlib": "hashlib",
    "inspect": "inspect",
    "json": "json",
    "logging": "logging",
    "math": "floor math",
    "multiprocessing": "multiprocessing",
    "multiprocessing.process": "current_process",
    "numbers": "Number numbers",
    "numpy": "_np= _numpy= np= numpy",
    "numpy.testing": "npt=",
    "operator": "operator",
    "os": "_os= os",
    "pickle": "pickle",
    "platform": "platform",
    "random": "random",
    "re": "_re= re",
    "requests?": "requests",
    "scipy.sparse?": "spsp=",
    "scipy.stats?": "ss=",
    "shutil": "shutil",
    "signal": "signal",
    "struct": "struct",
    "sys": "_sys= sys",
    "tarfile": "tarfile",
    "tempfile": "tempfile",
    "threading": "Lock threading",
    "time": "time",
    "traceback": "traceback",
    "uuid": "uuid",
    "warnings": "warnings",
    "zipfile": "zipfile",
}
"""The origins of borrowed names. A key is a module: ".base" is below the root, "os" is a module of Python or a package,
and "scipy?" is an optional package (the value is None if it is missing). A value lists names: `name` is the member of
that name (or the module, if it is the module's name), `name=member` a member with another name, `name=` the module."""

BORROWED = {
    "_ctypes.ndarray": "CachedOp NDArrayBase",
    "_ctypes.symbol": "SymbolBase=.symbol.symbol:SymbolBase",
    "attribute": "_MXClassPropertyMetaClass classproperty defaultdict with_metaclass",
    "autograd": """CFUNCTYPE Lock MXCallbackList NDArray NDArrayHandle POINTER Symbol SymbolHandle _GRAD_REQ_MAP _LIB
    _RecordingStateScope array c_array c_array_buf c_handle_array c_int c_void_p cast check_call ctypes mx_uint
    string_types traceback""",
    "base": """CachedOpHandle CudaKernelHandle CudaModuleHandle DLPackHandle DataIterCreatorHandle DataIterHandle
    ExecutorHandle FunctionHandle KVStoreHandle OpHandle ProfileHandle RecordIOHandle RtcHandle _np atexit basestring
    libinfo long mx_int mx_int64 re""",
    "callback": "",
    "context": "_LIB ctypes",
    "contrib": "quant svrg_optimization",
    "contrib.amp": "",
    "contrib.amp.amp": """BucketingModule NDArray Symbol SymbolHandle _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _LIB array base
    c_array_buf c_str_array check_call contextlib ctypes gpu lists logging mx_uint ndarray np opt symbol symbol_contrib
    trainer""",
    "contrib.amp.lists": "",
    "contrib.amp.lists.symbol_bf16": "",
    "contrib.amp.lists.symbol_fp16": "",
    "contrib.amp.loss_scaler": "multi_all_finite",
    "contrib.autograd": """NDArrayHandle _GRAD_REQ_MAP _LIB array c_array c_array_buf c_handle_array check_call ctypes
    functools mx_uint string_types zeros_like""",
    "contrib.io": "",
    "contrib.ndarray": "",
    "contrib.onnx": "export_model_ get_model_metadata_ import_model_ import_to_gluon_",
    "contrib.svrg_optimization": "",
    "contrib.svrg_optimization.svrg_module": "mx time",
    "contrib.svrg_optimization.svrg_optimizer": "mx",
    "contrib.symbol": "",
    "contrib.tensorboard": "",
    "contrib.text.embedding": "_mx_np _mx_npx base is_np_array vocab",
    "contrib.text.utils": "collections",
    "contrib.text.vocab": "collections",
    "engine": "_LIB ctypes",
    "executor": """ExecutorHandle NDArrayHandle SymbolHandle _LIB _check_arguments _load_data _load_label
    _split_input_slice c_array_buf c_handle_array c_str_array check_call copy mx_int mx_uint ndarray py_array py_str""",
    "executor_manager": "np",
    "gluon": """Trainer=.gluon.trainer:Trainer contrib=.gluon.contrib data=.gluon.data metric=.metric
    model_zoo=.gluon.model_zoo rnn=.gluon.rnn trainer""",
    "gluon.block": "OrderedDict _mx_np _mx_npx copy defaultdict json np np_symbol re threading warnings",
    "gluon.contrib": """cnn=.gluon.contrib.cnn data=.gluon.contrib.data estimator=.gluon.contrib.estimator
    nn=.gluon.contrib.nn rnn=.gluon.contrib.rnn""",
    "gluon.contrib.cnn.conv_layers": "numeric_types symbol",
    "gluon.contrib.data": "",
    "gluon.contrib.data.sampler": "",
    "gluon.contrib.data.text": """_get_repo_file_url base check_sha1 dataset download nd np os shutil
    text=.contrib.text: zipfile""",
    "gluon.contrib.estimator": "",
    "gluon.contrib.estimator.batch_processor": "",
    "gluon.contrib.estimator.estimator": "",
    "gluon.contrib.estimator.event_handler": "CompositeEvalMetric EvalMetric np os warnings",
    "gluon.contrib.estimator.utils": "",
    "gluon.contrib.nn.basic_layers": "context nd",
    "gluon.contrib.rnn.conv_rnn_cell": "floor",
    "gluon.contrib.rnn.rnn_cell": "SequentialRNNCell _as_list",
    "gluon.data": "vision=.gluon.data.vision",
    "gluon.data.dataloader": """_mx_np _sampler io=io is_np_array is_np_shape multiprocessing pickle set_np signal sys
    threading""",
    "gluon.data.dataset": "ndarray",
    "gluon.data.vision": "",
    "gluon.data.vision.datasets": """_get_repo_file_url _mx_np base check_sha1 dataset download gzip is_np_array nd np
    struct tarfile""",
    "gluon.data.vision.transforms": "is_np_array np",
    "gluon.model_zoo.model_store": "shutil tempfile uuid",
    "gluon.model_zoo.vision.alexnet": "HybridBlock base cpu os",
    "gluon.model_zoo.vision.densenet": "HybridBlock base cpu os",
    "gluon.model_zoo.vision.inception": "base cpu os",
    "gluon.model_zoo.vision.mobilenet": "base cpu os",
    "gluon.model_zoo.vision.resnet": "base cpu is_np_array os",
    "gluon.model_zoo.vision.squeezenet": "HybridBlock base cpu os",
    "gluon.model_zoo.vision.vgg": "HybridBlock base cpu os",
    "gluon.nn": """Concatenate=.gluon.contrib.nn:Concurrent HybridConcatenate=.gluon.contrib.nn:HybridConcurrent
    DeformableConvolution=.gluon.contrib.cnn:DeformableConvolution
    ModulatedDeformableConvolution=.gluon.contrib.cnn:ModulatedDeformableConvolution
    PixelShuffle1D=.gluon.contrib.nn:PixelShuffle1D PixelShuffle2D=.gluon.contrib.nn:PixelShuffle2D
    PixelShuffle3D=.gluon.contrib.nn:PixelShuffle3D SiLU=.gluon.nn.activations:Swish
    SyncBatchNorm=.gluon.contrib.nn:SyncBatchNorm""",
    "gluon.nn.activations": "is_np_array",
    "gluon.nn.basic_layers": "Block _indent is_np_array nd np sym warnings",
    "gluon.nn.conv_layers": "is_np_array numeric_types",
    "gluon.parameter": "OrderedDict ParameterDict=.gluon.parameter_dict:ParameterDict _mx_np defaultdict np",
    "gluon.rnn": """LSTMPCell=.gluon.contrib.rnn:LSTMPCell
    VariationalDropoutCell=.gluon.contrib.rnn:VariationalDropoutCell Conv1DRNNCell=.gluon.contrib.rnn:Conv1DRNNCell
    Conv2DRNNCell=.gluon.contrib.rnn:Conv2DRNNCell Conv3DRNNCell=.gluon.contrib.rnn:Conv3DRNNCell
    Conv1DLSTMCell=.gluon.contrib.rnn:Conv1DLSTMCell Conv2DLSTMCell=.gluon.contrib.rnn:Conv2DLSTMCell
    Conv3DLSTMCell=.gluon.contrib.rnn:Conv3DLSTMCell Conv1DGRUCell=.gluon.contrib.rnn:Conv1DGRUCell
    Conv2DGRUCell=.gluon.contrib.rnn:Conv2DGRUCell Conv3DGRUCell=.gluon.contrib.rnn:Conv3DGRUCell""",
    "gluon.rnn.rnn_layer": "is_np_array rnn_cell tensor_types",
    "gluon.trainer": "KVStore _create_kvstore _create_sparse_kvstore",
    "gluon.utils": "_mx_np collections hashlib np os requests sys uuid",
    "image": "Number cv2 det io is_np_array json logging nd np numeric_types os random recordio sys warnings",
    "image.detection": """Augmenter CastAug ColorJitterAug ColorNormalizeAug ForceResizeAug HueJitterAug ImageIter
    LightingAug RandomGrayAug RandomOrderAug ResizeAug _mx_np copyMakeBorder fixed_crop io is_np_array json logging nd
    np numeric_types random warnings""",
    "image.image": """Number _internal=.ndarray._internal _mx_np _npi cv2 io is_np_array json logging nd np
    numeric_types os random recordio sys warnings""",
    "initializer": "NDArray _mx_np json load logging ndarray np random=.random re sqrt=math:sqrt warnings",
    "io": "_getdata_by_idx _has_instance _init_data utils",
    "io.io": """CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordIter_v1 ImageRecordUInt8Iter
    ImageRecordUInt8Iter_v1 LibSVMIter MNISTIter MXDataIter DataIterHandle NDArrayHandle PrefetchingIter _LIB
    _build_param_doc _getdata_by_idx _has_instance
    _init_data _slice_along_batch_axis array=.ndarray.utils:array c_str_array check_call concat ctypes logging mx_uint
    py_str sys threading tile""",
    "io.utils": """CSRNDArray=.ndarray.sparse:CSRNDArray OrderedDict array=.ndarray:array h5py=h5py?
    sparse_array=.ndarray.sparse:array""",
    "kvstore.base": """KVStoreHandle _LIB array c_array c_array_buf c_handle_array c_str c_str_array check_call create
    ctypes set_kvstore_handle string_types""",
    "kvstore.kvstore": "KVStoreHandle NDArrayHandle _LIB c_str check_call ctypes mx_uint opt os pickle py_str",
    "kvstore.kvstore_server": "_LIB check_call create ctypes logging pickle sys",
    "libinfo": "logging platform",
    "library": "_LIB check_call ctypes mx_uint sys",
    "log": "",
    "lr_scheduler": "",
    "metric": "OrderedDict math numpy",
    "model": "BASE_ESTIMATOR DataParallelExecutorManager get_updater io kvs logging namedtuple nd opt os sym time",
    "module.base_module": "_as_list cpu ndarray time",
    "module.bucketing_module": "Uniform ctx nd sym",
    "module.executor_group": "OrderedDict _DTYPE_MX_TO_NP ctx nd",
    "module.module": """BaseModule Uniform _create_kvstore _initialize_kvstore _update_params _update_params_on_kvstore
    ctx nd opt""",
    "module.python_module": "Uniform nd",
    "module.sequential_module": "Uniform",
    "monitor": "NDArrayHandle ctypes",
    "name": "_MXClassPropertyMetaClass classproperty with_metaclass",
    "ndarray": """CachedOp=.symbol.cached_op:CachedOp imdecode=.image.nd_imdecode:imdecode np=.numpy:
    npx=.numpy_extension: numpy=.numpy: numpy_extension=.numpy_extension:""",
    "ndarray._internal": "CachedOp NDArrayBase _Null _os _sys",
    "ndarray.contrib": "NDArrayBase _Null _as_list _flatten _regroup mx ndarray=.ndarray.ndarray uniform",
    "ndarray.functions": """NDArrayBase _LIB _Null _is_np_op=.base:_is_np_op _np _os
    _output_is_list=.base:_output_is_list adamw_update=.ndarray.contrib:adamw_update check_call ctypes
    mp_adamw_update=.ndarray.contrib:mp_adamw_update
    mx_uint py_str use_np_shape=.util:use_np_shape""",
    "ndarray.image": "NDArrayBase _Null",
    "ndarray.linalg": "NDArrayBase _Null",
    "ndarray.ndarray": """DLPackHandle Features NDArrayHandle=.base:NDArrayHandle _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX
    _GRAD_REQ_MAP _LIB _NDARRAY_ADVANCED_INDEXING _NDARRAY_BASIC_INDEXING _NDARRAY_EMPTY_TUPLE_INDEXING
    _NDARRAY_NO_ZERO_DIM_BOOL_ARRAY _NDARRAY_UNSUPPORTED_INDEXING _NDARRAY_ZERO_DIM_BOOL_ARRAY_FALSE
    _NDARRAY_ZERO_DIM_BOOL_ARRAY_TRUE _STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ID_TO_STR
    _STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED _broadcast_shapes _get_broadcast_shape
    _get_dim_size _get_index_range _get_slice_len _int64_enabled _int_to_slice _internal=.ndarray._internal:
    _is_advanced_index _shape_for_bcast add arange=.ndarray:arange array=.ndarray:array c_array c_array_buf
    c_handle_array c_str check_boolean_array_dimension check_call concatenate ctypes2buffer current_context divide
    empty equal eye=.ndarray:eye from_dlpack from_numpy full=.ndarray:full get_indexing_dispatch_code
    get_oshape_of_gather_nd_op greater greater_equal histogram=.ndarray:histogram imdecode=.ndarray:imdecode
    indexing_key_expand_implicit_axes integer_types is_np_array lesser lesser_equal linspace=.ndarray:linspace
    logical_and logical_or logical_xor maximum minimum=.ndarray:minimum modulo moveaxis multiply mx_int mx_int64
    mx_real_t mx_uint=.base:mx_uint native_array not_equal numeric_types onehot_encode ones=.ndarray:ones
    op=.ndarray.op: operator power=.ndarray:power py_slice reduce split_v2=.ndarray:split_v2 subtract
    to_dlpack_for_read to_dlpack_for_write true_divide waitall zeros=.ndarray:zeros""",
    "ndarray.op": "CachedOp NDArrayBase _Null",
    "ndarray.random": "NDArrayBase",
    "ndarray.sparse": """NDArrayBase NDArrayHandle=.base:NDArrayHandle
    NotSupportedForSparseNDArray=.base:NotSupportedForSparseNDArray _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _LIB _Null
    _internal=.ndarray._internal: c_array_buf check_call op=.ndarray.op: _STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT
    _STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED _array _int64_enabled _zeros_ndarray
    ctypes py_slice py_sum spsp warnings""",
    "ndarray.utils": """NDArrayHandle _LIB _array _empty_ndarray _empty_sparse_ndarray _sparse_array _zeros_ndarray
    _zeros_sparse_ndarray ctypes mx_uint spsp""",
    "ndarray_doc": "_build_param_doc _re",
    "notebook": "",
    "notebook.callback": "datetime defaultdict time",
    "numpy_extension": """Context cpu cpu_pinned current_context get_cuda_compute_capability gpu gpu_memory_info
    is_np_array is_np_shape num_gpus reset_np set_np waitall""",
    "numpy_extension.random": "seed",
    "onnx": "",
    "onnx.mx2onnx": "export_model get_operator_support",
    "onnx.mx2onnx._export_model": "export_model",
    "operator": """CFUNCTYPE Lock MXCallbackList NDArrayHandle OpHandle POINTER Structure _DTYPE_MX_TO_NP
    _DTYPE_NP_TO_MX _LIB _STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ID_TO_STR _STORAGE_TYPE_ROW_SPARSE
    _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED array c_array c_array_buf c_bool c_char c_char_p c_int c_str
    c_void_p cast check_call collections context ctypes ctypes2numpy_shared is_np_array mx_float mx_int mx_uint pointer
    py_str symbol traceback warnings""",
    "optimizer.contrib": "clip contrib mean sqrt square zeros",
    "optimizer.optimizer": """NDArray NDnorm adam_update array=.ndarray.utils:array cast=.ndarray:cast clip ftml_update
    ftrl_update is_np_array lamb_update_phase1 lamb_update_phase2 logging math maximum mp_lamb_update_phase1
    mp_lamb_update_phase2 mp_nag_mom_update mp_sgd_mom_update mp_sgd_update multi_lamb_update multi_lars
    multi_mp_lamb_update multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update multi_sum_sq
    multiply nag_mom_update normal numpy os pickle preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update
    preloaded_multi_sgd_mom_update preloaded_multi_sgd_update py_str rmsprop_update rmspropalex_update sgd_mom_update
    sgd_update signsgd_update signum_update sparse sqrt square warnings zeros""",
    "profiler": "KVStoreHandle ProfileHandle _LIB c_str c_str_array check_call ctypes py_str",
    "random": """_LIB ctypes exponential=.ndarray.random:exponential gamma=.ndarray.random:gamma
    generalized_negative_binomial=.ndarray.random:generalized_negative_binomial multinomial=.ndarray.random:multinomial
    negative_binomial=.ndarray.random:negative_binomial normal poisson=.ndarray.random:poisson
    randint=.ndarray.random:randint randn=.ndarray.random:randn shuffle=.ndarray.random:shuffle uniform""",
    "recordio": "RecordIOHandle _LIB c_str check_call ctypes current_process cv2",
    "registry": "string_types",
    "rnn": """DataBatch DataDesc DataIter bisect functools init load_checkpoint ndarray np numeric_types random
    save_checkpoint string_types symbol warnings""",
    "rnn.io": "bisect ndarray",
    "rnn.rnn": "",
    "rnn.rnn_cell": "functools init ndarray numeric_types string_types symbol warnings",
    "rtc": """CudaKernelHandle CudaModuleHandle NDArray _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _LIB array c_array c_array_buf
    c_str c_str_array check_call ctypes mx_uint np numeric_types re string_types""",
    "symbol": """np=.symbol.numpy: npx=.symbol.numpy_extension: numpy=.symbol.numpy:
    numpy_extension=.symbol.numpy_extension:""",
    "symbol._internal": "_Null _os _sys",
    "symbol.contrib": """SymbolBase SymbolHandle _LIB _Null _as_list _flatten _regroup check_call copy ctypes
    symbol=.symbol.symbol:""",
    "symbol.image": "SymbolBase _Null",
    "symbol.linalg": "SymbolBase _Null",
    "symbol.op": "SymbolBase _Null",
    "symbol.ops": """AttrScope NameManager=.name:NameManager SymbolBase _LIB _Null _internal=.symbol._internal
    _is_np_op=.base:_is_np_op _np _os _output_is_list=.base:_output_is_list adamw_update=.symbol.contrib:adamw_update
    check_call ctypes mp_adamw_update=.symbol.contrib:mp_adamw_update mx_uint py_str""",
    "symbol.random": "SymbolBase _internal",
    "symbol.sparse": "SymbolBase _Null",
    "symbol.symbol": """AttrScope Context Executor ExecutorHandle Group NDArray NDArrayHandle Number SymbolBase
    SymbolHandle Variable _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP _LIB _STORAGE_TYPE_STR_TO_ID _int64_enabled
    _internal _numpy arange array c_array c_array_buf c_handle_array c_str c_str_array check_call current_context eye
    fromjson full histogram hypot integer_types is_np_shape linspace load=.symbol:load load_json
    maximum=.symbol:maximum minimum mx_int mx_int64 mx_uint numeric_types ones op pow power py_slice py_str split_v2
    string_types var warnings zeros=.symbol:zeros""",
    "symbol_doc": "_build_param_doc _re",
    "test_utils": """OrderedDict bz2 contextmanager errno gzip json logging np_symbol npt numbers os platform requests
    ss struct time traceback zipfile""",
    "torch": """FunctionHandle NDArray _LIB _build_param_doc c_array c_handle_array c_str_array check_call
    ctypes mx_float mx_uint py_str sys""",
    "util": "_LIB ctypes functools inspect threading",
    "visualization": "copy json",
}
"""The names that each module borrows, by its path below `frontend`. SOURCES contains the origin of `name`. The origin
of `name=place:member` is `place:member`."""

LISTED = frozenset(
    """base contrib.amp.amp contrib.ndarray contrib.symbol gluon.block gluon.contrib.cnn.conv_layers
    gluon.contrib.data.sampler gluon.contrib.data.text
    gluon.contrib.estimator.batch_processor gluon.contrib.estimator.estimator gluon.contrib.estimator.event_handler
    gluon.contrib.nn.basic_layers gluon.contrib.rnn.conv_rnn_cell gluon.contrib.rnn.rnn_cell gluon.data.dataloader
    gluon.data.dataset gluon.data.vision.datasets gluon.model_zoo.model_store gluon.model_zoo.vision.alexnet
    gluon.model_zoo.vision.densenet gluon.model_zoo.vision.inception gluon.model_zoo.vision.mobilenet
    gluon.model_zoo.vision.resnet gluon.model_zoo.vision.squeezenet gluon.model_zoo.vision.vgg gluon.nn.activations
    gluon.nn.basic_layers gluon.nn.conv_layers gluon.parameter gluon.rnn.rnn_layer gluon.trainer gluon.utils
    kvstore.base kvstore.kvstore kvstore.kvstore_server ndarray ndarray._internal ndarray.contrib ndarray.image
    ndarray.linalg ndarray.ndarray ndarray.op ndarray.random ndarray.sparse ndarray.utils optimizer.contrib
    optimizer.optimizer symbol symbol._internal symbol.contrib symbol.image symbol.linalg symbol.op symbol.random
    symbol.sparse symbol.symbol""".split()
)
"""The modules that define `__all__` in MXNet: they do not export borrowed names."""

EXPORTED = {
    "gluon.parameter": "ParameterDict",
    "kvstore.base": "create",
    "symbol": "numpy numpy_extension",
    "ndarray": "CachedOp numpy numpy_extension _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP imdecode",
    "ndarray._internal": "CachedOp NDArrayBase",
    "ndarray.ndarray": """_DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP add arange concatenate divide equal eye
    from_dlpack from_numpy full get_indexing_dispatch_code get_oshape_of_gather_nd_op greater greater_equal histogram
    imdecode indexing_key_expand_implicit_axes lesser lesser_equal linspace logical_and logical_or logical_xor maximum
    minimum modulo moveaxis multiply not_equal onehot_encode ones power split_v2 subtract to_dlpack_for_read
    to_dlpack_for_write true_divide waitall zeros""",
    "ndarray.op": "CachedOp",
    "ndarray.sparse": "_contrib_round_ste _contrib_sign_ste",
    "symbol.sparse": "_contrib_round_ste _contrib_sign_ste",
    "symbol.symbol": """Group Variable arange eye full histogram hypot linspace load load_json maximum minimum ones
    pow power split_v2 var zeros""",
}
"""Additional exports of modules in LISTED."""
