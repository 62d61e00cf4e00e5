"""Random numbers of the numpy interface (``_npi_*``). Inputs stand in for parameters that are None."""

from __future__ import annotations

from graphshare.operators.rules import asked_for, standing_in
from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_npi_bernoulli",
        "input1[prob=None&logit=None]",
        "prob:float?=!; logit:float?=!; size:tuple32?=None; ctx:string=cpu; "
        "dtype:{bool/float16/float32/float64/int32/uint8}=float32; is_logit:bool=!",
    ),
    *define(
        "_npi_choice",
        asked_for("a", "weighted"),
        "a:int64?=!; size:shape?=!; ctx:string=cpu; replace:bool=True; weighted:bool=False",
    ),
    *define(
        "_npi_exponential _npi_rayleigh",
        "input1[scale=None]",
        "scale:float?=1; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *define(
        "_npi_gamma",
        standing_in("shape", "scale"),
        "shape:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
    ),
    *define(
        "_npi_gumbel _npi_logistic",
        standing_in("loc", "scale"),
        "loc:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *define("_npi_multinomial", "a", "n:int=!; pvals:doubles?=None; size:tuple32?=None", registers_inputs=False),
    *define(
        "_npi_normal _npi_normal_n",
        standing_in("loc", "scale"),
        "loc:float?=!; scale:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
        results="output0 output1",
        visible=1,
    ),
    *define(
        "_npi_pareto _npi_weibull",
        "input1[a=None]",
        "a:float?=None; size:tuple32?=None; ctx:string=cpu",
        results="output0 output1",
        visible=1,
    ),
    *define("_npi_powerd", "input1[a=None]", "a:float?=None; size:tuple32?=None"),
    *define(
        "_npi_uniform _npi_uniform_n",
        standing_in("low", "high"),
        "low:float?=!; high:float?=!; size:tuple32?=None; ctx:string=cpu; dtype:{float16/float32/float64}=float32",
    ),
)
