"""The files that declare operators and the names in each, so that a look-up imports one file.

Written by tools/make_stubs.py: not to be changed by hand.
"""

from __future__ import annotations

DECLARED_NAMES: dict[str, str] = {
    "array_functions": ("_set_value _onehot_encode _contrib_boolean_mask _npi_boolean_mask"),
    "broadcast": (
        "broadcast_add _sparse_broadcast_add _sparse_broadcast_plus broadcast_plus broadcast_sub "
        "_sparse_broadcast_minus _sparse_broadcast_sub broadcast_minus broadcast_mul _sparse_broadcast_mul "
        "broadcast_div _sparse_broadcast_div broadcast_mod broadcast_power broadcast_maximum _npi_maximum "
        "broadcast_minimum _npi_minimum broadcast_hypot broadcast_equal broadcast_not_equal broadcast_greater "
        "broadcast_greater_equal broadcast_lesser broadcast_lesser_equal broadcast_logical_and broadcast_logical_or "
        "broadcast_logical_xor broadcast_to broadcast_axis broadcast_axes broadcast_like"
    ),
    "cast_ops": (
        "Cast _npi_cast _npx_cast cast amp_cast BlockGrad _sparse_stop_gradient stop_gradient make_loss "
        "_sparse_make_loss _contrib_gradientmultiplier _contrib_div_sqrt_dim"
    ),
    "contrib_attention": (
        "_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt "
        "_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt"
    ),
    "contrib_deformable": (
        "_contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution _contrib_PSROIPooling "
        "_contrib_DeformablePSROIPooling"
    ),
    "contrib_detection": (
        "_contrib_box_nms _contrib_box_non_maximum_suppression _contrib_MultiBoxPrior _npx_multibox_prior "
        "_contrib_MultiBoxDetection _npx_multibox_detection"
    ),
    "contrib_hawkes": ("_contrib_hawkesll"),
    "contrib_misc": (
        "_contrib_round_ste _sparse__contrib_round_ste _contrib_sign_ste _sparse__contrib_sign_ste _contrib_quadratic "
        "_contrib_backward_hawkesll _contrib_backward_index_copy _contrib_backward_quadratic _contrib_index_array "
        "_contrib_allclose all_finite softmax_cross_entropy _contrib_box_iou"
    ),
    "contrib_proposal": ("_contrib_Proposal _contrib_MultiProposal"),
    "contrib_targets": (
        "_contrib_bipartite_matching _contrib_box_encode _contrib_box_decode _contrib_MultiBoxTarget "
        "_npx_multibox_target"
    ),
    "contrib_transforms": ("_contrib_fft _contrib_ifft _contrib_count_sketch"),
    "contrib_vision": ("ROIPooling _npx_roi_pooling _contrib_ROIAlign _contrib_RROIAlign"),
    "control_flow": ("_foreach _cond _while_loop"),
    "counting": ("_histogram _npi_histogram"),
    "creation_ops": (
        "_zeros _zeros_without_dtype _ones _full _npi_full _eye _arange _linspace _npi_linspace _contrib_arange_like "
        "_npx_arange_like"
    ),
    "custom": ("Custom _npi_Custom"),
    "depth_ops": ("depth_to_space space_to_depth"),
    "elementwise": (
        "abs _sparse_abs arccos _sparse_arccos arccosh _sparse_arccosh arcsin _sparse_arcsin arcsinh _sparse_arcsinh "
        "arctan _sparse_arctan arctanh _sparse_arctanh cbrt _sparse_cbrt ceil _sparse_ceil cos _sparse_cos cosh "
        "_sparse_cosh degrees _sparse_degrees erf _npx_erf erfinv _npx_erfinv exp _sparse_exp expm1 _sparse_expm1 fix "
        "_sparse_fix floor _sparse_floor gamma _npx_gamma _sparse_gamma gammaln _npx_gammaln _sparse_gammaln log "
        "_sparse_log log10 _sparse_log10 log1p _sparse_log1p log2 _sparse_log2 logical_not negative _sparse_negative "
        "radians _sparse_radians rcbrt reciprocal relu _sparse_relu rint _sparse_rint round _sparse_round rsqrt "
        "_sparse_rsqrt sigmoid _sparse_sigmoid sign _sparse_sign sin _sparse_sin sinh _sparse_sinh softsign sqrt "
        "_sparse_sqrt square _sparse_square tan _sparse_tan tanh _sparse_tanh trunc _sparse_trunc _copy identity "
        "_copyto _npi_copyto ones_like zeros_like _sparse_zeros_like elemwise_add _Plus _add _plus "
        "_sparse_elemwise_add elemwise_sub _Minus _minus _sparse_elemwise_sub _sub elemwise_mul _Mul _mul "
        "_sparse_elemwise_mul elemwise_div _Div _div _sparse_elemwise_div _grad_add _scatter_elemwise_div _mod _Mod "
        "_power _Power _maximum _Maximum _minimum _Minimum _hypot _Hypot _equal _Equal _not_equal _Not_Equal _greater "
        "_Greater _greater_equal _Greater_Equal _lesser _Lesser _lesser_equal _Lesser_Equal _logical_and _Logical_And "
        "_logical_or _Logical_Or _logical_xor _Logical_Xor _plus_scalar _PlusScalar _minus_scalar _MinusScalar "
        "_rminus_scalar _RMinusScalar _mul_scalar _MulScalar _div_scalar _DivScalar _rdiv_scalar _RDivScalar "
        "_mod_scalar _ModScalar _rmod_scalar _RModScalar _power_scalar _PowerScalar _rpower_scalar _RPowerScalar "
        "_maximum_scalar _MaximumScalar _npi_maximum_scalar _minimum_scalar _MinimumScalar _npi_minimum_scalar "
        "_hypot_scalar _HypotScalar _npi_hypot_scalar _equal_scalar _EqualScalar _not_equal_scalar _NotEqualScalar "
        "_greater_scalar _GreaterScalar _greater_equal_scalar _GreaterEqualScalar _lesser_scalar _LesserScalar "
        "_lesser_equal_scalar _LesserEqualScalar _logical_and_scalar _LogicalAndScalar _logical_or_scalar "
        "_LogicalOrScalar _logical_xor_scalar _LogicalXorScalar _contrib_backward_gradientmultiplier "
        "_scatter_plus_scalar _scatter_minus_scalar add_n ElementWiseSum _sparse_ElementWiseSum _sparse_add_n where "
        "_sparse_where _identity_with_attr_like_rhs"
    ),
    "image_ops": (
        "_image_to_tensor _npx__image_to_tensor _image_normalize _npx__image_normalize _image_crop _npx__image_crop "
        "_image_resize _npx__image_resize _image_flip_left_right _npx__image_flip_left_right "
        "_image_random_flip_left_right _npx__image_random_flip_left_right _image_flip_top_bottom "
        "_npx__image_flip_top_bottom _image_random_flip_top_bottom _npx__image_random_flip_top_bottom "
        "_image_random_brightness _npx__image_random_brightness _image_random_contrast _npx__image_random_contrast "
        "_image_random_saturation _npx__image_random_saturation _image_random_hue _npx__image_random_hue "
        "_image_random_color_jitter _npx__image_random_color_jitter _image_adjust_lighting "
        "_npx__image_adjust_lighting _image_random_lighting _npx__image_random_lighting"
    ),
    "indexing_ops": (
        "take _npi_take batch_take pick _npx_pick choose_element_0index fill_element_0index one_hot _npx_one_hot "
        "gather_nd _npi_gather_nd _npx_gather_nd scatter_nd _scatter_set_nd _npi_scatter_set_nd _ravel_multi_index "
        "ravel_multi_index _unravel_index unravel_index _contrib_index_copy"
    ),
    "join_ops": (
        "Concat _sparse_concat concat _rnn_param_concat _npi_rnn_param_concat stack SliceChannel split _split_v2 "
        "_npi_split amp_multicast"
    ),
    "linalg": (
        "_linalg_gemm linalg_gemm _linalg_gemm2 linalg_gemm2 _linalg_syrk linalg_syrk _linalg_trmm linalg_trmm "
        "_linalg_trsm linalg_trsm _linalg_potrf linalg_potrf _linalg_potri linalg_potri _linalg_inverse _npi_inv "
        "linalg_inverse _linalg_gelqf linalg_gelqf _linalg_syevd _linalg_det _npi_det linalg_det _linalg_slogdet "
        "_npi_slogdet linalg_slogdet"
    ),
    "linalg_diagonal": (
        "_linalg_sumlogdiag linalg_sumlogdiag _linalg_extractdiag linalg_extractdiag _linalg_makediag linalg_makediag "
        "_linalg_extracttrian linalg_extracttrian _linalg_maketrian linalg_maketrian"
    ),
    "linear": ("dot _sparse_dot batch_dot _npx_batch_dot khatri_rao"),
    "nn_activation": (
        "Activation _npx_activation LeakyReLU _npx_leaky_relu hard_sigmoid clip _sparse_clip _npi_clip smooth_l1 "
        "_npx_smooth_l1 Dropout _npx_dropout"
    ),
    "nn_convolution": ("Convolution _npx_convolution Convolution_v1 Deconvolution _npx_deconvolution"),
    "nn_correlation": ("Correlation"),
    "nn_ctc": ("CTCLoss _contrib_CTCLoss _contrib_ctc_loss ctc_loss"),
    "nn_dense": (
        "FullyConnected _npx_fully_connected _sparse_FullyConnected Embedding _npx_embedding _sparse_Embedding "
        "_contrib_SparseEmbedding"
    ),
    "nn_normalization": (
        "BatchNorm _npx_batch_norm _contrib_BatchNormWithReLU BatchNorm_v1 _contrib_SyncBatchNorm LayerNorm "
        "_npx_layer_norm GroupNorm InstanceNorm L2Normalization LRN"
    ),
    "nn_pooling": ("Pooling _npx_pooling Pooling_v1"),
    "nn_softmax": (
        "softmax _npx_softmax log_softmax _npx_log_softmax _npx_masked_softmax _npx_masked_log_softmax softmin "
        "SoftmaxActivation"
    ),
    "nn_spatial": (
        "UpSampling _contrib_BilinearResize2D _contrib_AdaptiveAvgPooling2D im2col col2im GridGenerator "
        "BilinearSampler SpatialTransformer"
    ),
    "numpy_creation": (
        "_npi_zeros _npi_ones _npi_identity _npi_eye _npi_arange _npi_indices _npi_logspace _npi_hanning _npi_hamming "
        "_npi_blackman _npi_full_like"
    ),
    "numpy_diagonals": (
        "_np_diag _np_diagflat _np_diagonal _np_trace _npi_tril _npi_triu _npi_diff _npi_ediff1d _npi_pad"
    ),
    "numpy_elementwise": (
        "_npi_absolute _npi_abs _npi_arccos _npi_arccosh _npi_arcsin _npi_arcsinh _npi_arctan _npi_arctanh _npi_cbrt "
        "_npi_ceil _npi_cos _npi_cosh _npi_degrees _npi_exp _npi_expm1 _npi_fix _npi_floor _npi_log _npi_log10 "
        "_npi_log1p _npi_log2 _npi_negative _npi_radians _npi_reciprocal _npi_rint _npi_sign _npi_sin _npi_sinh "
        "_npi_sqrt _npi_square _npi_tan _npi_tanh _npi_trunc _npi_bitwise_not _npi_logical_not _npi_isnan _npi_isinf "
        "_npi_isfinite _npi_isposinf _npi_isneginf _npx_relu _npx_sigmoid _npx_digamma _npi_around _npi_nan_to_num "
        "_np_copy _npi_add _npi_add_scalar _npi_subtract _npi_subtract_scalar _npi_rsubtract_scalar _npi_multiply "
        "_npi_multiply_scalar _npi_true_divide _npi_true_divide_scalar _npi_rtrue_divide_scalar _npi_mod "
        "_npi_mod_scalar _npi_rmod_scalar _npi_power _npi_power_scalar _npi_rpower_scalar _npi_hypot _npi_arctan2 "
        "_npi_arctan2_scalar _npi_rarctan2_scalar _npi_copysign _npi_copysign_scalar _npi_rcopysign_scalar _npi_ldexp "
        "_npi_ldexp_scalar _npi_rldexp_scalar _npi_lcm _npi_lcm_scalar _npi_bitwise_and _npi_bitwise_and_scalar "
        "_npi_bitwise_or _npi_bitwise_or_scalar _npi_bitwise_xor _npi_bitwise_xor_scalar _npi_floor_divide "
        "_npi_floor_divide_scalar _npi_rfloor_divide_scalar _npi_fmod _npi_fmod_scalar _npi_rfmod_scalar _npi_fmax "
        "_npi_fmax_scalar _npi_fmin _npi_fmin_scalar _npi_gcd _npi_gcd_scalar _npi_logaddexp _npi_logaddexp_scalar "
        "_npi_bitwise_left_shift _npi_bitwise_left_shift_scalar _npi_rbitwise_left_shift_scalar "
        "_npi_bitwise_right_shift _npi_bitwise_right_shift_scalar _npi_rbitwise_right_shift_scalar _npi_logical_and "
        "_npi_logical_and_scalar _npi_logical_or _npi_logical_or_scalar _npi_logical_xor _npi_logical_xor_scalar "
        "_npi_equal _npi_equal_scalar _npi_not_equal _npi_not_equal_scalar _npi_greater _npi_greater_scalar "
        "_npi_greater_equal _npi_greater_equal_scalar _npi_less _npi_less_scalar _npi_less_equal "
        "_npi_less_equal_scalar"
    ),
    "numpy_indexing": (
        "_npi_where _npi_where_lscalar _npi_where_rscalar _npi_where_scalar2 _npx_nonzero _npi_nonzero _npi_unique "
        "_npi_bincount _npi_polyval _npi_percentile _npi_share_memory _npi_diag_indices_from _npx_constraint_check "
        "_npi_boolean_mask_assign_scalar _npi_boolean_mask_assign_tensor _npi_delete _npi_insert_scalar "
        "_npi_insert_slice"
    ),
    "numpy_joins": (
        "_np_atleast_1d _np_atleast_2d _np_atleast_3d _npi_concatenate _npi_stack _npi_vstack _npi_hstack _npi_dstack "
        "_npi_column_stack _npi_dsplit _npi_hsplit"
    ),
    "numpy_linalg": (
        "_npi_svd _npi_eig _npi_eigvals _npi_eigh _npi_eigvalsh _npi_cholesky _npi_solve _npi_pinv "
        "_npi_pinv_scalar_rcond _npi_tensorinv _npi_tensorsolve _npi_norm"
    ),
    "numpy_products": ("_np_dot _npi_matmul _npi_tensordot _npi_tensordot_int_axes _npi_einsum _npi_kron _npi_cross"),
    "numpy_random": (
        "_npi_uniform _npi_uniform_n _npi_normal _npi_normal_n _npi_gumbel _npi_logistic _npi_gamma _npi_exponential "
        "_npi_rayleigh _npi_weibull _npi_pareto _npi_powerd _npi_bernoulli _npi_multinomial _npi_choice"
    ),
    "numpy_reduce": (
        "_np_sum _np_prod _np_product _np_max _np_amax _np_min _np_amin _npi_mean _npi_var _npi_std _np_all _np_any "
        "_np_sometrue _npi_argmax _npi_argmin _npi_average"
    ),
    "numpy_shape": (
        "_np_reshape _npx_reshape _npi_reshape _np_transpose _np_squeeze _np_moveaxis _np_roll _npi_flip _npi_rot90 "
        "_npi_broadcast_to"
    ),
    "numpy_updates": ("_npx_index_update _npx_index_add _npi_insert_tensor"),
    "optimizer_multi": (
        "multi_sgd_update preloaded_multi_sgd_update multi_sgd_mom_update preloaded_multi_sgd_mom_update "
        "multi_mp_sgd_update preloaded_multi_mp_sgd_update multi_mp_sgd_mom_update preloaded_multi_mp_sgd_mom_update "
        "_multi_adamw_update _multi_mp_adamw_update _multi_lamb_update _multi_mp_lamb_update multi_sum_sq "
        "multi_all_finite multi_lars reset_arrays"
    ),
    "optimizer_ops": (
        "sgd_update _sparse_sgd_update sgd_mom_update _sparse_sgd_mom_update mp_sgd_update mp_sgd_mom_update "
        "nag_mom_update mp_nag_mom_update adam_update _sparse_adam_update ftrl_update _sparse_ftrl_update "
        "rmsprop_update rmspropalex_update signsgd_update signum_update ftml_update lamb_update_phase1 "
        "mp_lamb_update_phase1 lamb_update_phase2 mp_lamb_update_phase2 _adamw_update _mp_adamw_update "
        "_sparse_adagrad_update _contrib_group_adagrad_update"
    ),
    "ordering": ("sort _npi_sort argsort _npi_argsort topk _npx_topk"),
    "output_ops": (
        "SoftmaxOutput Softmax LinearRegressionOutput _sparse_LinearRegressionOutput MAERegressionOutput "
        "_sparse_MAERegressionOutput LogisticRegressionOutput _sparse_LogisticRegressionOutput MakeLoss SVMOutput "
        "IdentityAttachKLSparseReg"
    ),
    "random_densities": (
        "_random_pdf_uniform random_pdf_uniform _random_pdf_normal random_pdf_normal _random_pdf_gamma "
        "random_pdf_gamma _random_pdf_exponential random_pdf_exponential _random_pdf_poisson random_pdf_poisson "
        "_random_pdf_negative_binomial random_pdf_negative_binomial _random_pdf_generalized_negative_binomial "
        "random_pdf_generalized_negative_binomial _random_pdf_dirichlet random_pdf_dirichlet"
    ),
    "random_ops": (
        "_random_uniform random_uniform uniform _random_uniform_like _sample_uniform sample_uniform _random_normal "
        "random_normal normal _random_normal_like _sample_normal sample_normal _random_exponential random_exponential "
        "_random_exponential_like _sample_exponential sample_exponential _random_gamma random_gamma "
        "_random_gamma_like _sample_gamma sample_gamma _random_poisson random_poisson _random_poisson_like "
        "_sample_poisson sample_poisson _random_negative_binomial random_negative_binomial "
        "_random_negative_binomial_like _sample_negative_binomial sample_negative_binomial "
        "_random_generalized_negative_binomial random_generalized_negative_binomial "
        "_random_generalized_negative_binomial_like _sample_generalized_negative_binomial "
        "sample_generalized_negative_binomial _random_randint _npi_random_randint random_randint _shuffle "
        "_npi_shuffle shuffle _sample_multinomial sample_multinomial _sample_unique_zipfian"
    ),
    "reduce": (
        "sum _sparse_sum sum_axis mean _sparse_mean prod max max_axis min min_axis nansum nanprod _square_sum norm "
        "_sparse_norm moments argmax argmin argmax_channel _np_cumsum cumsum _npi_cumprod"
    ),
    "rnn": ("RNN _npx_rnn"),
    "sequence": ("SequenceMask _npx_sequence_mask SequenceLast SequenceReverse"),
    "shape_ops": (
        "Reshape reshape Flatten _npx_batch_flatten flatten transpose SwapAxis _npi_swapaxes swapaxes expand_dims "
        "_npi_expand_dims squeeze reshape_like _npx_reshape_like shape_array _npx_shape_array size_array tile "
        "_npi_tile repeat _np_repeat reverse flip Pad pad diag"
    ),
    "slice_ops": (
        "slice _npi_slice _npx_slice _sparse_slice crop _slice_assign _crop_assign _npi_slice_assign "
        "_slice_assign_scalar _crop_assign_scalar _npi_slice_assign_scalar slice_axis slice_like Crop"
    ),
    "storage_ops": ("cast_storage _sparse_cast_storage _sparse_retain"),
}

FAMILY_OF = {name: family for family, names in DECLARED_NAMES.items() for name in names.split()}
