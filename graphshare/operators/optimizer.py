"""Optimizer updates: their states are the mutable inputs."""

from __future__ import annotations

from graphshare.operators.rules import all_slots, counted, fused_update, repeated, repeated_slots
from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_adamw_update",
        "weight grad mean var rescale_grad",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "eta:float=!; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "_contrib_group_adagrad_update",
        "weight grad history",
        "lr:float=!; rescale_grad:float=1; clip_gradient:float=-1; epsilon:float=9.99999975e-06",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define(
        "_mp_adamw_update",
        "weight grad mean var weight32 rescale_grad",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "eta:float=!; clip_gradient:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *define(
        "_multi_adamw_update",
        fused_update(4, "num_weights", tail=1),
        "lrs:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wds:floats=!; "
        "etas:floats=!; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(4, (2, 3), "num_weights"),
    ),
    *define(
        "_multi_lamb_update",
        fused_update(4, "num_tensors"),
        "learning_rates:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; "
        "wds:floats=!; rescale_grad:float=1; lower_bound:float=-1; upper_bound:float=-1; clip_gradient:float=-1; "
        "bias_correction:bool=True; step_count:tuple32=!; num_tensors:int=1",
        results=counted("num_tensors"),
        mutable=repeated_slots(4, (2, 3), "num_tensors"),
    ),
    *define(
        "_multi_mp_adamw_update",
        fused_update(5, "num_weights", tail=1),
        "lrs:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wds:floats=!; "
        "etas:floats=!; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(5, (2, 3, 4), "num_weights"),
    ),
    *define(
        "_multi_mp_lamb_update",
        fused_update(5, "num_tensors"),
        "learning_rates:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; "
        "wds:floats=!; rescale_grad:float=1; lower_bound:float=-1; upper_bound:float=-1; clip_gradient:float=-1; "
        "bias_correction:bool=True; step_count:tuple32=!; num_tensors:int=1",
        results=counted("num_tensors"),
        mutable=repeated_slots(5, (2, 3, 4), "num_tensors"),
    ),
    *define(
        "_sparse_adagrad_update",
        "weight grad history",
        "lr:float=!; epsilon:float=1.00000001e-07; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define(
        "adam_update",
        "weight grad mean var",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define("all_finite", "data", "init_output:bool=True"),
    *define(
        "ftml_update",
        "weight grad d v z",
        "lr:float=!; beta1:float[0:1]=0.600000024; beta2:float[0:1]=0.999000013; epsilon:double=9.9999999392252903e-09; "
        "t:int=!; wd:float=0; rescale_grad:float=1; clip_grad:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *define(
        "ftrl_update",
        "weight grad z n",
        "lr:float=!; lamda1:float=0.00999999978; beta:float=1; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "lamb_update_phase1",
        "weight grad mean var",
        "beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; t:int=!; "
        "bias_correction:bool=True; wd:float=!; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "lamb_update_phase2",
        "weight g r1 r2",
        "lr:float=!; lower_bound:float=-1; upper_bound:float=-1",
        registers_inputs=False,
    ),
    *define(
        "mp_lamb_update_phase1",
        "weight grad mean var weight32",
        "beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; t:int=!; "
        "bias_correction:bool=True; wd:float=!; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "mp_lamb_update_phase2",
        "weight g r1 r2 weight32",
        "lr:float=!; lower_bound:float=-1; upper_bound:float=-1",
        mutable=(4,),
        registers_inputs=False,
    ),
    *define(
        "mp_nag_mom_update",
        "weight grad mom weight32",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "mp_sgd_mom_update",
        "weight grad mom weight32",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *define(
        "mp_sgd_update",
        "weight grad weight32",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define("multi_all_finite", "array_*num_arrays", "num_arrays:int=1; init_output:bool=True"),
    *define("multi_lars", "lrs weights_sum_sq grads_sum_sq wds", "eta:float=!; eps:float=!; rescale_grad:float=1"),
    *define(
        "multi_mp_sgd_mom_update",
        repeated("weight_ grad_ mom_ weight32_", "num_weights"),
        "lrs:floats=!; wds:floats=!; momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(4, (2, 3), "num_weights"),
    ),
    *define(
        "multi_mp_sgd_update",
        repeated("weight_ grad_ weight32_", "num_weights"),
        "lrs:floats=!; wds:floats=!; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(3, (2,), "num_weights"),
    ),
    *define(
        "multi_sgd_mom_update",
        repeated("weight_ grad_ mom_", "num_weights"),
        "lrs:floats=!; wds:floats=!; momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(3, (2,), "num_weights"),
    ),
    *define(
        "multi_sgd_update",
        repeated("weight_ grad_", "num_weights"),
        "lrs:floats=!; wds:floats=!; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
    ),
    *define("multi_sum_sq", "array_*num_arrays", "num_arrays:int=!"),
    *define(
        "nag_mom_update",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define(
        "preloaded_multi_mp_sgd_mom_update",
        repeated("weight_ grad_ mom_ weight32_", "num_weights", "lrs wds"),
        "momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(4, (2, 3), "num_weights"),
    ),
    *define(
        "preloaded_multi_mp_sgd_update",
        repeated("weight_ grad_ weight32_", "num_weights", "lrs wds"),
        "rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(3, (2,), "num_weights"),
    ),
    *define(
        "preloaded_multi_sgd_mom_update",
        repeated("weight_ grad_ mom_", "num_weights", "lrs wds"),
        "momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
        mutable=repeated_slots(3, (2,), "num_weights"),
    ),
    *define(
        "preloaded_multi_sgd_update",
        repeated("weight_ grad_", "num_weights", "lrs wds"),
        "rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=counted("num_weights"),
    ),
    *define("reset_arrays", "array_*num_arrays", "num_arrays:int=!", results="", mutable=all_slots),
    *define(
        "rmsprop_update",
        "weight grad n",
        "lr:float=!; gamma1:float=0.949999988; epsilon:float=9.99999994e-09; wd:float=0; rescale_grad:float=1; "
        "clip_gradient:float=-1; clip_weights:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define(
        "rmspropalex_update",
        "weight grad n g delta",
        "lr:float=!; gamma1:float=0.949999988; gamma2:float=0.899999976; epsilon:float=9.99999994e-09; wd:float=0; "
        "rescale_grad:float=1; clip_gradient:float=-1; clip_weights:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *define(
        "sgd_mom_update",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2,),
        registers_inputs=False,
    ),
    *define(
        "sgd_update",
        "weight grad",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        registers_inputs=False,
    ),
    *define(
        "signsgd_update",
        "weight grad",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        registers_inputs=False,
    ),
    *define(
        "signum_update",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; wd_lh:float=0",
        mutable=(2,),
        registers_inputs=False,
    ),
)
