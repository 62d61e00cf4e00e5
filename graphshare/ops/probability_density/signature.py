"""Signatures of the operators of family ``probability_density``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define("_random_pdf_dirichlet(random_pdf_dirichlet)", "sample alpha", "is_log:bool=False"),
    *define(
        "_random_pdf_exponential(random_pdf_exponential) _random_pdf_poisson(random_pdf_poisson)",
        "sample lam",
        "is_log:bool=False",
    ),
    *define("_random_pdf_gamma(random_pdf_gamma)", "sample alpha beta", "is_log:bool=False"),
    *define(
        "_random_pdf_generalized_negative_binomial(random_pdf_generalized_negative_binomial)",
        "sample mu alpha",
        "is_log:bool=False",
    ),
    *define("_random_pdf_negative_binomial(random_pdf_negative_binomial)", "sample k p", "is_log:bool=False"),
    *define("_random_pdf_normal(random_pdf_normal)", "sample mu sigma", "is_log:bool=False"),
    *define("_random_pdf_uniform(random_pdf_uniform)", "sample low high", "is_log:bool=False"),
)
