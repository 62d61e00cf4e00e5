"""Signatures of ``random``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import inputs_by_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, InputRule, Signature


_numpy_random = partial(
    define,
    no_kernel="it draws random numbers in MXNet's own order, so its values cannot be compared",
)
_FLOAT = "dtype:{'None'/float16/float32/float64}=None"
_DRAWN = f"shape:shape=None; ctx:string=; {_FLOAT}"
_SAMPLED = f"shape:shape=[]; {_FLOAT}"


def inputs_for_missing(*keys: str) -> InputRule:
    """Return a rule: inputs ``input1``, ``input2``, one for each parameter that is None."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        missing = [key for key in keys if signature.value(attrs, key) is None]
        return tuple(f"input{i}" for i in range(1, len(missing) + 1))

    return rule


OPERATORS = (
    *_numpy_random(
        "_npi_bernoulli",
        "input1[prob=None&logit=None]",
        "prob:float?=!; logit:float?=!; size:tuple32?=None; ctx:string=cpu; "
        "dtype:{bool/float16/float32/float64/int32/uint8}=float32; is_logit:bool=!",
    ),
    *_numpy_random(
        "_npi_choice",
        inputs_by_flags("a", "weighted"),
        "a:int64?=!; size:shape?=!; ctx:string=cpu; replace:bool=True; weighted:bool=False",
    ),
    *_numpy_random(
        "_npi_exponential _npi_rayleigh",
        "input1[scale=None]",
        "scale:float?=1; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *_numpy_random(
        "_npi_gamma",
        inputs_for_missing("shape", "scale"),
        "shape:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
    ),
    *_numpy_random(
        "_npi_gumbel _npi_logistic",
        inputs_for_missing("loc", "scale"),
        "loc:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *_numpy_random(
        "_npi_multinomial",
        "a",
        "n:int=!; pvals:doubles?=None; size:tuple32?=None",
        registers_inputs=False,
    ),
    *_numpy_random(
        "_npi_normal _npi_normal_n",
        inputs_for_missing("loc", "scale"),
        "loc:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
        results="output0 output1",
        visible=1,
    ),
    *_numpy_random(
        "_npi_pareto _npi_weibull",
        "input1[a=None]",
        "a:float?=None; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *_numpy_random("_npi_powerd", "input1[a=None]", "a:float?=None; size:tuple32?=None"),
    *_numpy_random(
        "_npi_uniform _npi_uniform_n",
        inputs_for_missing("low", "high"),
        "low:float?=!; high:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
    ),
    *define(
        "_random_exponential(random_exponential) _random_poisson(random_poisson)",
        "",
        f"lam:float=1; {_DRAWN}",
    ),
    *define(
        "_random_exponential_like _random_poisson_like",
        "data",
        "lam:float=1",
        registers_inputs=False,
    ),
    *define("_random_gamma(random_gamma)", "", f"alpha:float=1; beta:float=1; {_DRAWN}"),
    *define("_random_gamma_like", "data", "alpha:float=1; beta:float=1", registers_inputs=False),
    *define(
        "_random_generalized_negative_binomial(random_generalized_negative_binomial)",
        "",
        f"mu:float=1; alpha:float=1; {_DRAWN}",
    ),
    *define(
        "_random_generalized_negative_binomial_like",
        "data",
        "mu:float=1; alpha:float=1",
        registers_inputs=False,
    ),
    *define(
        "_random_negative_binomial(random_negative_binomial)", "", f"k:int=1; p:float=1; {_DRAWN}"
    ),
    *define("_random_negative_binomial_like", "data", "k:int=1; p:float=1", registers_inputs=False),
    *define("_random_normal(normal,random_normal)", "", f"loc:float=0; scale:float=1; {_DRAWN}"),
    *define("_random_normal_like", "data", "loc:float=0; scale:float=1", registers_inputs=False),
    *define(
        "_random_randint(_npi_random_randint,random_randint)",
        "",
        "low:int64=!; high:int64=!; shape:shape=None; ctx:string=; dtype:{'None'/int32/int64}=None",
    ),
    *define("_random_uniform(random_uniform,uniform)", "", f"low:float=0; high:float=1; {_DRAWN}"),
    *define("_random_uniform_like", "data", "low:float=0; high:float=1", registers_inputs=False),
    *define(
        "_sample_exponential(sample_exponential) _sample_poisson(sample_poisson)", "lam", _SAMPLED
    ),
    *define("_sample_gamma(sample_gamma)", "alpha beta", _SAMPLED),
    *define(
        "_sample_generalized_negative_binomial(sample_generalized_negative_binomial)",
        "mu alpha",
        _SAMPLED,
    ),
    *define(
        "_sample_multinomial(sample_multinomial)",
        "data",
        "shape:shape=[]; get_prob:bool=False; dtype:{float16/float32/float64/int32/uint8}=int32",
        results="output[!get_prob] output0[get_prob] output1[get_prob]",
        registers_inputs=False,
    ),
    *define("_sample_negative_binomial(sample_negative_binomial)", "k p", _SAMPLED),
    *define("_sample_normal(sample_normal)", "mu sigma", _SAMPLED),
    *define("_sample_uniform(sample_uniform)", "low high", _SAMPLED),
    *_numpy_random(
        "_sample_unique_zipfian", "", "range_max:int=!; shape:shape=None", results="output0 output1"
    ),
    *define("_shuffle(_npi_shuffle,shuffle)", "data", registers_inputs=False),
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
    *define(
        "_random_pdf_negative_binomial(random_pdf_negative_binomial)",
        "sample k p",
        "is_log:bool=False",
    ),
    *define("_random_pdf_normal(random_pdf_normal)", "sample mu sigma", "is_log:bool=False"),
    *define("_random_pdf_uniform(random_pdf_uniform)", "sample low high", "is_log:bool=False"),
)
