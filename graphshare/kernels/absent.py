"""Operators that MXNet registers and that have no kernel here, each with the reason."""

from __future__ import annotations

from functools import cache

from graphshare.operators.registry import canonical

_UPDATES = """
_adamw_update _contrib_group_adagrad_update _mp_adamw_update _multi_adamw_update _multi_lamb_update _multi_mp_adamw_update
_multi_mp_lamb_update _sparse_adagrad_update adam_update all_finite ftml_update ftrl_update lamb_update_phase1
lamb_update_phase2 mp_lamb_update_phase1 mp_lamb_update_phase2 mp_nag_mom_update mp_sgd_mom_update mp_sgd_update
multi_all_finite multi_lars multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update multi_sum_sq
nag_mom_update preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_sgd_mom_update
preloaded_multi_sgd_update reset_arrays rmsprop_update rmspropalex_update sgd_mom_update sgd_update signsgd_update
signum_update
"""
_DRAWN = """
_image_random_flip_left_right _image_random_flip_top_bottom _image_random_brightness _image_random_contrast
_image_random_hue _image_random_saturation _image_random_color_jitter _image_random_lighting _npi_bernoulli _npi_choice
_npi_exponential _npi_rayleigh _npi_gamma _npi_gumbel _npi_logistic _npi_multinomial _npi_normal _npi_normal_n _npi_pareto
_npi_weibull _npi_powerd _npi_uniform _npi_uniform_n _sample_unique_zipfian
"""
_OF_SPARSE = """
_contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample _contrib_dgl_csr_neighbor_uniform_sample
_contrib_dgl_graph_compact _contrib_dgl_subgraph _contrib_edge_id _contrib_getnnz _sparse_retain _square_sum
"""

_REASONS: tuple[tuple[str, str], ...] = (
    ("it updates parameters or watches over that, which is training", _UPDATES),
    ("it draws random numbers in MXNet's own order, so its values cannot be compared", _DRAWN),
    ("it is code of the user's own, which the graph only names", "Custom _CustomFunction"),
    (
        "it belongs to a running MXNet process",
        "_CachedOp _CachedOpThreadSafe _Native _NDArray _NoGradient _set_value",
    ),
    (
        "it takes sparse arrays, and only dense ones are computed with",
        _OF_SPARSE,
    ),
    (
        "it reads, decodes or resizes pictures as OpenCV does",
        "_cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _imdecode _image_resize",
    ),
    ("MXNet has it on GPUs only", "_contrib_fft _contrib_ifft _contrib_count_sketch"),
    (
        "MXNet works on its arguments in place, and its graphs cannot hold it",
        "_onehot_encode fill_element_0index _scatter_set_nd _npi_boolean_mask_assign_scalar _npi_boolean_mask_assign_tensor",
    ),
    ("MXNet 1.9.1 writes beyond its results", "_npi_dsplit"),
    ("it serves calibration, not inference", "_contrib_calibrate_entropy"),
)


def why_absent(operator: str) -> str | None:
    """Why nothing here computes an operator, by any of its names; None for one that has a kernel or is not MXNet's."""
    return _by_name().get(canonical(operator))


@cache
def _by_name() -> dict[str, str]:
    return {name: reason for reason, names in _REASONS for name in names.split()}
