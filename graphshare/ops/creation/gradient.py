"""Gradients of the operators of family ``creation``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = (
    *no_gradient(
        "it has no floating-point inputs",
        "_zeros",
        "_ones",
        "_full",
        "_arange",
        "_linspace",
        "_eye",
        "_npi_zeros",
        "_npi_ones",
        "_npi_identity",
        "_npi_arange",
        "_npi_eye",
    ),
    *no_gradient("it reads only the shape of its input", "_contrib_arange_like", "_npi_full_like"),
    *no_gradient(
        "the result is counted, compared or constant",
        "_npi_blackman",
        "_npi_diag_indices_from",
        "_npi_hamming",
        "_npi_hanning",
        "_npi_indices",
        "_npi_logspace",
        "_zeros_without_dtype",
    ),
)
