"""Signatures of ``optimizer``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import outputs_by_attribute, read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, InputRule, Signature, SlotRule

_CLIPPED = "rescale_grad:float=1; clip_gradient:float=-1"
_DECAYED = f"wd:float=0; {_CLIPPED}"
_LAZY = "lazy_update:bool=True"
_MOMENTUM = f"lr:float=!; momentum:float=0; {_DECAYED}"
_BETAS = "beta1:float=0.899999976; beta2:float=0.999000013"
_ADAM = f"{_BETAS}; epsilon:float=9.99999994e-09"
_ADAMW = f"lr:float=!; {_ADAM}; wd:float=0; eta:float=!; clip_gradient:float=-1"
_MULTI_ADAMW = (
    f"lrs:floats=!; {_ADAM}; wds:floats=!; etas:floats=!; clip_gradient:float=-1; num_weights:int=1"
)
_BOUNDS = "lower_bound:float=-1; upper_bound:float=-1"
_LAMB = f"{_BETAS}; epsilon:float=9.99999997e-07"
_LAMB_PHASE1 = f"{_LAMB}; t:int=!; bias_correction:bool=True; wd:float=!; {_CLIPPED}"
_MULTI_LAMB = (
    f"learning_rates:floats=!; {_LAMB}; wds:floats=!; rescale_grad:float=1; {_BOUNDS}; clip_gradient:float=-1; "
    "bias_correction:bool=True; step_count:tuple32=!; num_tensors:int=1"
)
_RATES = "lrs:floats=!; wds:floats=!"
_MULTI_SGD = f"{_CLIPPED}; num_weights:int=1"
_MULTI_MOMENTUM = f"momentum:float=0; {_MULTI_SGD}"

_define = partial(
    define, no_kernel="it updates parameters or checks updates, which belongs to training"
)
_update = partial(_define, registers_inputs=False)


def repeat_inputs(group: Sequence[str], tail: str) -> InputRule:
    """Return numbered groups, then ``tail``: ``weight_0 grad_0 weight_1 grad_1 lrs``."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        weights = range(read_count(signature, attrs, "num_weights"))
        return (*(f"{name}_{i}" for i in weights for name in group), *tail.split())

    return rule


def repeat_slots(width: int, slots: tuple[int, ...], count: str) -> SlotRule:
    """Return each group's mutable places."""

    def rule(
        signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]
    ) -> tuple[int, ...]:
        return tuple(
            width * i + slot for i in range(read_count(signature, attrs, count)) for slot in slots
        )

    return rule


def all_slots(
    signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]
) -> tuple[int, ...]:
    """Return all inputs: all are written."""
    return tuple(range(num_inputs))


def name_fused_inputs(group: Sequence[str], count: str, tail: int) -> InputRule:
    """Return MXNet 1.9.1's names: weight number and place in the group are exchanged."""

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        total, width = len(group) * read_count(signature, attrs, count) + tail, len(group) + tail
        return tuple(f"{group[i // width % len(group)]}_{i // width}" for i in range(total))

    return rule


def _multi(
    name: str, names: str, attributes: str, slots: tuple[int, ...] = (), *, tail: str = ""
) -> list[Signature]:
    group, count = names.split(), "num_weights"
    return _define(
        name,
        repeat_inputs(group, tail),
        attributes,
        results=outputs_by_attribute(count),
        mutable=repeat_slots(len(group), slots, count) if slots else (),
    )


def _define_group(
    name: str, names: str, attributes: str, slots: tuple[int, ...], count: str, *, tail: int = 0
) -> list[Signature]:
    """``tail`` more inputs follow the groups."""
    group = names.split()
    return _define(
        name,
        name_fused_inputs(group, count, tail),
        attributes,
        results=outputs_by_attribute(count),
        mutable=repeat_slots(len(group), slots, count),
    )


OPERATORS = (
    *_update("_adamw_update", "weight grad mean var rescale_grad", _ADAMW, mutable=(2, 3)),
    *_update(
        "_contrib_group_adagrad_update",
        "weight grad history",
        f"lr:float=!; {_CLIPPED}; epsilon:float=9.99999975e-06",
        mutable=(2,),
    ),
    *_update(
        "_mp_adamw_update", "weight grad mean var weight32 rescale_grad", _ADAMW, mutable=(2, 3, 4)
    ),
    # These misname their inputs, see name_fused_inputs.
    *_define_group(
        "_multi_adamw_update", "weight grad mean var", _MULTI_ADAMW, (2, 3), "num_weights", tail=1
    ),
    *_define_group(
        "_multi_lamb_update", "weight grad mean var", _MULTI_LAMB, (2, 3), "num_tensors"
    ),
    *_define_group(
        "_multi_mp_adamw_update",
        "weight grad mean var weight32",
        _MULTI_ADAMW,
        (2, 3, 4),
        "num_weights",
        tail=1,
    ),
    *_define_group(
        "_multi_mp_lamb_update",
        "weight grad mean var weight32",
        _MULTI_LAMB,
        (2, 3, 4),
        "num_tensors",
    ),
    *_update(
        "_sparse_adagrad_update",
        "weight grad history",
        f"lr:float=!; epsilon:float=1.00000001e-07; {_DECAYED}",
        mutable=(2,),
    ),
    *_update(
        "adam_update(_sparse_adam_update)",
        "weight grad mean var",
        f"lr:float=!; {_ADAM}; {_DECAYED}; {_LAZY}",
        mutable=(2, 3),
    ),
    *_define("all_finite", "data", "init_output:bool=True"),
    *_update(
        "ftml_update",
        "weight grad d v z",
        "lr:float=!; beta1:float[0:1]=0.600000024; beta2:float[0:1]=0.999000013; "
        "epsilon:double=9.9999999392252903e-09; "
        "t:int=!; wd:float=0; rescale_grad:float=1; clip_grad:float=-1",
        mutable=(2, 3, 4),
    ),
    *_update(
        "ftrl_update(_sparse_ftrl_update)",
        "weight grad z n",
        f"lr:float=!; lamda1:float=0.00999999978; beta:float=1; {_DECAYED}",
        mutable=(2, 3),
    ),
    *_update("lamb_update_phase1", "weight grad mean var", _LAMB_PHASE1, mutable=(2, 3)),
    *_update("lamb_update_phase2", "weight g r1 r2", f"lr:float=!; {_BOUNDS}"),
    *_update(
        "mp_lamb_update_phase1", "weight grad mean var weight32", _LAMB_PHASE1, mutable=(2, 3)
    ),
    *_update(
        "mp_lamb_update_phase2", "weight g r1 r2 weight32", f"lr:float=!; {_BOUNDS}", mutable=(4,)
    ),
    *_update("mp_nag_mom_update", "weight grad mom weight32", _MOMENTUM, mutable=(2, 3)),
    *_update(
        "mp_sgd_mom_update", "weight grad mom weight32", f"{_MOMENTUM}; {_LAZY}", mutable=(2, 3)
    ),
    *_update(
        "mp_sgd_update", "weight grad weight32", f"lr:float=!; {_DECAYED}; {_LAZY}", mutable=(2,)
    ),
    *_define("multi_all_finite", "array_*num_arrays", "num_arrays:int=1; init_output:bool=True"),
    *_define(
        "multi_lars",
        "lrs weights_sum_sq grads_sum_sq wds",
        "eta:float=!; eps:float=!; rescale_grad:float=1",
    ),
    *_multi(
        "multi_mp_sgd_mom_update",
        "weight grad mom weight32",
        f"{_RATES}; {_MULTI_MOMENTUM}",
        (2, 3),
    ),
    *_multi("multi_mp_sgd_update", "weight grad weight32", f"{_RATES}; {_MULTI_SGD}", (2,)),
    *_multi("multi_sgd_mom_update", "weight grad mom", f"{_RATES}; {_MULTI_MOMENTUM}", (2,)),
    *_multi("multi_sgd_update", "weight grad", f"{_RATES}; {_MULTI_SGD}"),
    *_define("multi_sum_sq", "array_*num_arrays", "num_arrays:int=!"),
    *_update("nag_mom_update", "weight grad mom", _MOMENTUM, mutable=(2,)),
    *_multi(
        "preloaded_multi_mp_sgd_mom_update",
        "weight grad mom weight32",
        _MULTI_MOMENTUM,
        (2, 3),
        tail="lrs wds",
    ),
    *_multi(
        "preloaded_multi_mp_sgd_update", "weight grad weight32", _MULTI_SGD, (2,), tail="lrs wds"
    ),
    *_multi(
        "preloaded_multi_sgd_mom_update", "weight grad mom", _MULTI_MOMENTUM, (2,), tail="lrs wds"
    ),
    *_multi("preloaded_multi_sgd_update", "weight grad", _MULTI_SGD, tail="lrs wds"),
    *_define(
        "reset_arrays", "array_*num_arrays", "num_arrays:int=!", results="", mutable=all_slots
    ),
    *_update(
        "rmsprop_update",
        "weight grad n",
        f"lr:float=!; gamma1:float=0.949999988; epsilon:float=9.99999994e-09; {_DECAYED}; clip_weights:float=-1",
        mutable=(2,),
    ),
    *_update(
        "rmspropalex_update",
        "weight grad n g delta",
        "lr:float=!; gamma1:float=0.949999988; gamma2:float=0.899999976; epsilon:float=9.99999994e-09; "
        f"{_DECAYED}; clip_weights:float=-1",
        mutable=(2, 3, 4),
    ),
    *_update(
        "sgd_mom_update(_sparse_sgd_mom_update)",
        "weight grad mom",
        f"{_MOMENTUM}; {_LAZY}",
        mutable=(2,),
    ),
    *_update("sgd_update(_sparse_sgd_update)", "weight grad", f"lr:float=!; {_DECAYED}; {_LAZY}"),
    *_update("signsgd_update", "weight grad", f"lr:float=!; {_DECAYED}"),
    *_update("signum_update", "weight grad mom", f"{_MOMENTUM}; wd_lh:float=0", mutable=(2,)),
)
