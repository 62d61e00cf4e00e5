"""Random numbers in ONNX: MXNet's distribution, not its numbers.

ONNX draws uniform, normal and multinomial numbers; exponential ones and orders follow from uniform
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

from graphshare.ir.onnx import DTYPE_CODES
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.random.kernel import DISTRIBUTIONS, DensityFunctions
from graphshare.ops.translation import NoTranslation, Translation, Translator, wide_dtype
from graphshare.ops.unary.onnx_special import gammaln_of_double

Transform = Callable[..., Term]
"""A distribution from standard numbers, uniform in ``[0, 1)`` or normal, and parameters."""


class StandardDraw(NamedTuple):
    """The operator, its attributes for ``keys``, and a transform of standard numbers."""

    op_type: str
    keys: tuple[str, ...]
    attributes: tuple[str, ...]
    transform: Transform


_DRAWS = {
    "uniform": StandardDraw(
        "RandomUniform",
        ("low", "high"),
        ("low", "high"),
        lambda x, low, high: x * (high - low) + low,
    ),
    "normal": StandardDraw(
        "RandomNormal", ("loc", "scale"), ("mean", "scale"), lambda x, loc, scale: x * scale + loc
    ),
    # x may be 0 but not 1: log(1 - x) is finite.
    "exponential": StandardDraw(
        "RandomUniform", ("lam",), (), lambda x, rate: -(1 - x).apply("Log") / rate
    ),
}


def translate_random(t: Translation, name: str) -> str:
    """Emit numbers in the output's or the input's shape; parameters are attributes."""
    how, out = _DRAWS[name], t.outputs[0]
    dtype = wide_dtype(out.dtype)
    parameters = [float(t.attrs[key]) for key in how.keys]
    if not dtype.startswith("float"):
        t.refuse(f"its numbers are {dtype}")
    # MXNet refuses these; onnxruntime would end the process.
    if name == "uniform" and parameters[0] > parameters[1]:
        t.refuse(f"its low is {parameters[0]}, above its high, {parameters[1]}")
    if name != "uniform" and parameters[-1] <= 0:
        t.refuse(f"its {how.keys[-1]} is {parameters[-1]}, expected a positive number")
    known = dict(zip(how.attributes, parameters, strict=False))
    if t.inputs:
        # mypy would take a float in `known` for the domain.
        drawn = t.emit(
            f"{how.op_type}Like", t.inputs[0], domain="", dtype=DTYPE_CODES[dtype], **known
        )
    else:
        drawn = t.emit(how.op_type, domain="", shape=out.shape, dtype=DTYPE_CODES[dtype], **known)
    numbers = Term(t, drawn, dtype)
    return (numbers if known else how.transform(numbers, *parameters)).cast(out.dtype).name


def translate_sample(t: Translation, name: str) -> str:
    """Emit numbers for each element of parameter arrays."""
    how, out = _DRAWS[name], t.outputs[0]
    dtype = wide_dtype(out.dtype)
    parameters = [
        Term(t, t.reshape(p, (*p.shape, *(1,) * (out.rank - p.rank))), p.dtype)
        .cast(dtype)
        .expand(out.shape)
        for p in t.inputs
    ]
    drawn = Term(
        t, t.emit(f"{how.op_type}Like", parameters[0].name, dtype=DTYPE_CODES[dtype]), dtype
    )
    return how.transform(drawn, *parameters).cast(out.dtype).name


def translate_integers(t: Translation) -> str:
    """Emit whole numbers from ``low``, below ``high``."""
    low, high = t.attrs["low"], t.attrs["high"]
    drawn = t.emit("RandomUniform", shape=t.outputs[0].shape, dtype=DTYPE_CODES["float64"])
    numbers = Term(t, drawn, "float64") * float(high - low) + float(low)
    return numbers.apply("Floor").cast(t.outputs[0].dtype).name


def translate_multinomial(t: Translation) -> list[str]:
    """Emit ``Multinomial`` of log probabilities, and the logarithms of the drawn ones."""
    x, out = t.inputs[0], t.outputs[0]
    rows = (prod(x.shape[:-1]), x.shape[-1])
    logarithms = term(t).widen().apply("Log").reshape(rows)
    count = prod(t.attrs["shape"] or ())
    chosen = Term(
        t,
        t.emit("Multinomial", logarithms.name, sample_size=count, dtype=DTYPE_CODES["int64"]),
        "int64",
    )
    results = [chosen.reshape(out.shape).cast(out.dtype).name]
    if t.attrs["get_prob"]:
        drawn = logarithms.apply("GatherElements", chosen, axis=1)
        results.append(drawn.reshape(out.shape).cast(x.dtype).name)
    return results


def translate_shuffle(t: Translation) -> str:
    """Emit ``Gather`` in random order."""
    x = t.inputs[0]
    if not x.rank:
        return x.name
    drawn = t.emit("RandomUniform", shape=x.shape[:1], dtype=DTYPE_CODES["float64"])
    _, order = t.emit_several("TopK", 2, drawn, t.integers([x.shape[0]]))
    return t.emit("Gather", x, order, axis=0)


_POSSIBLE = (
    "its numbers are floating point, its low is at most its high, and its scale or lam is positive"
)
_NO_SAMPLER = "ONNX has no random numbers of this distribution"


_PREFIX = "_random_pdf_"
_TERMS = DensityFunctions(lambda x: x.apply("Log"), gammaln_of_double)


def _finish(t: Translation, logarithm: Term) -> str:
    return (logarithm if t.attrs["is_log"] else logarithm.apply("Exp")).cast(t.inputs[0].dtype).name


def translate_density(t: Translation) -> str:
    """Emit the density of samples."""
    rank = t.inputs[0].rank
    parameters = [
        Term(t, t.reshape(p, (*p.shape, *(1,) * (rank - p.rank))), p.dtype).cast("float64")
        for p in t.inputs[1:]
    ]
    return _finish(
        t,
        DISTRIBUTIONS[t.op.removeprefix(_PREFIX)].density(
            _TERMS, term(t).cast("float64"), *parameters
        ),
    )


def translate_dirichlet(t: Translation) -> str:
    """Emit the density of samples of several shares."""
    x, alpha = t.inputs
    wide = term(t).cast("float64")
    a = Term(t, t.reshape(alpha, (*alpha.shape[:-1], 1, alpha.shape[-1])), alpha.dtype).cast(
        "float64"
    )
    last = (x.rank - 1,)
    shares = ((a - 1) * wide.apply("Log")).reduce("ReduceSum", last)
    return _finish(
        t,
        shares
        + gammaln_of_double(a.reduce("ReduceSum", last))
        - gammaln_of_double(a).reduce("ReduceSum", last),
    )


TRANSLATIONS = (
    *(
        Translator(f"_random_{name}{end}", partial(translate_random, name=name), _POSSIBLE)
        for name in _DRAWS
        for end in ("", "_like")
    ),
    *(Translator(f"_sample_{name}", partial(translate_sample, name=name)) for name in _DRAWS),
    Translator("_random_randint", translate_integers),
    Translator("_sample_multinomial", translate_multinomial),
    Translator("_shuffle", translate_shuffle),
    *(
        NoTranslation(operator, _NO_SAMPLER)
        for name in ("gamma", "poisson", "negative_binomial", "generalized_negative_binomial")
        for operator in (f"_random_{name}", f"_random_{name}_like", f"_sample_{name}")
    ),
    *(Translator(f"{_PREFIX}{name}", translate_density) for name in DISTRIBUTIONS),
    Translator("_random_pdf_dirichlet", translate_dirichlet),
)
