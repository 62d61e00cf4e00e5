"""Random numbers: samplers and densities."""

from __future__ import annotations

from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_random_exponential _random_poisson",
        "",
        "lam:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_exponential_like _random_poisson_like", "data", "lam:float=1", registers_inputs=False),
    *define(
        "_random_gamma",
        "",
        "alpha:float=1; beta:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_gamma_like", "data", "alpha:float=1; beta:float=1", registers_inputs=False),
    *define(
        "_random_generalized_negative_binomial",
        "",
        "mu:float=1; alpha:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_generalized_negative_binomial_like", "data", "mu:float=1; alpha:float=1", registers_inputs=False),
    *define(
        "_random_negative_binomial",
        "",
        "k:int=1; p:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_negative_binomial_like", "data", "k:int=1; p:float=1", registers_inputs=False),
    *define(
        "_random_normal",
        "",
        "loc:float=0; scale:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_normal_like", "data", "loc:float=0; scale:float=1", registers_inputs=False),
    *define("_random_pdf_dirichlet", "sample alpha", "is_log:bool=False"),
    *define("_random_pdf_exponential _random_pdf_poisson", "sample lam", "is_log:bool=False"),
    *define("_random_pdf_gamma", "sample alpha beta", "is_log:bool=False"),
    *define("_random_pdf_generalized_negative_binomial", "sample mu alpha", "is_log:bool=False"),
    *define("_random_pdf_negative_binomial", "sample k p", "is_log:bool=False"),
    *define("_random_pdf_normal", "sample mu sigma", "is_log:bool=False"),
    *define("_random_pdf_uniform", "sample low high", "is_log:bool=False"),
    *define(
        "_random_randint",
        "",
        "low:int64=!; high:int64=!; shape:shape=None; ctx:string=; dtype:{'None'/int32/int64}=None",
    ),
    *define(
        "_random_uniform",
        "",
        "low:float=0; high:float=1; shape:shape=None; ctx:string=; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define("_random_uniform_like", "data", "low:float=0; high:float=1", registers_inputs=False),
    *define("_sample_exponential _sample_poisson", "lam", "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None"),
    *define("_sample_gamma", "alpha beta", "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None"),
    *define(
        "_sample_generalized_negative_binomial",
        "mu alpha",
        "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None",
    ),
    *define(
        "_sample_multinomial",
        "data",
        "shape:shape=[]; get_prob:bool=False; dtype:{float16/float32/float64/int32/uint8}=int32",
        results="output[!get_prob] output0[get_prob] output1[get_prob]",
        registers_inputs=False,
    ),
    *define("_sample_negative_binomial", "k p", "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None"),
    *define("_sample_normal", "mu sigma", "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None"),
    *define("_sample_uniform", "low high", "shape:shape=[]; dtype:{'None'/float16/float32/float64}=None"),
    *define("_sample_unique_zipfian", "", "range_max:int=!; shape:shape=None", results="output0 output1"),
    *define("_shuffle", "data", registers_inputs=False),
)
