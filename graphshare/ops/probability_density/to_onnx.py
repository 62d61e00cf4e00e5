"""Densities of random distributions in ONNX: the formulas of the kernels, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary.onnx_special import gammaln_of_double

Density = Callable[..., Term]


def _log(x: Term) -> Term:
    return x.apply("Log")


def _uniform(x: Term, low: Term, high: Term) -> Term:
    return -_log(high - low) + x * 0


def _normal(x: Term, mu: Term, sigma: Term) -> Term:
    distance = (x - mu) / sigma
    return distance * distance * -0.5 - _log(sigma * math.sqrt(2 * math.pi))


def _gamma(x: Term, alpha: Term, beta: Term) -> Term:
    return alpha * _log(beta) + (alpha - 1) * _log(x) - beta * x - gammaln_of_double(alpha)


def _exponential(x: Term, rate: Term) -> Term:
    return _log(rate) - rate * x


def _poisson(x: Term, rate: Term) -> Term:
    return x * _log(rate) - gammaln_of_double(x + 1) - rate


def _negative_binomial(x: Term, limit: Term, chance: Term) -> Term:
    combinations = gammaln_of_double(x + limit) - gammaln_of_double(x + 1) - gammaln_of_double(limit)
    return combinations + limit * _log(chance) + x * _log(1 - chance)


def _generalized_negative_binomial(x: Term, mu: Term, alpha: Term) -> Term:
    return _negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1))


_DENSITIES: dict[str, Density] = {
    "_random_pdf_uniform": _uniform,
    "_random_pdf_normal": _normal,
    "_random_pdf_gamma": _gamma,
    "_random_pdf_exponential": _exponential,
    "_random_pdf_poisson": _poisson,
    "_random_pdf_negative_binomial": _negative_binomial,
    "_random_pdf_generalized_negative_binomial": _generalized_negative_binomial,
}


def _finish(t: Translation, logarithm: Term) -> str:
    return (logarithm if t.attrs["is_log"] else logarithm.apply("Exp")).cast(t.inputs[0].dtype).name


def translate_density(t: Translation) -> str:
    """Emit the density of samples, whose parameters are those of their row."""
    rank = t.inputs[0].rank
    parameters = [Term(t, t.reshape(p, (*p.shape, *(1,) * (rank - p.rank))), p.dtype).cast("float64") for p in t.inputs[1:]]
    return _finish(t, _DENSITIES[t.op](term(t).cast("float64"), *parameters))


def translate_dirichlet(t: Translation) -> str:
    """Emit the density of samples of several shares each."""
    x, alpha = t.inputs
    wide = term(t).cast("float64")
    a = Term(t, t.reshape(alpha, (*alpha.shape[:-1], 1, alpha.shape[-1])), alpha.dtype).cast("float64")
    last = (x.rank - 1,)
    shares = ((a - 1) * _log(wide)).reduce("ReduceSum", last)
    return _finish(t, shares + gammaln_of_double(a.reduce("ReduceSum", last)) - gammaln_of_double(a).reduce("ReduceSum", last))


TRANSLATIONS = (
    *(Translator(name, translate_density) for name in _DENSITIES),
    Translator("_random_pdf_dirichlet", translate_dirichlet),
)
