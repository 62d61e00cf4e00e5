"""Signatures of the operators of family ``optimizer``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import outputs_by_attribute, read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, InputRule, Signature, SlotRule

_update = partial(define, no_kernel="it updates parameters or watches over that, which is training")


def repeat_inputs(names: str, count: str, tail: str = "") -> InputRule:
    """A group of inputs for every weight, numbered, and what follows once: ``weight_0 grad_0 weight_1 grad_1 lrs``."""
    group, once = names.split(), tuple(tail.split())

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        return tuple(f"{name}{i}" for i in range(read_count(signature, attrs, count)) for name in group) + once

    return rule


def repeat_slots(width: int, slots: tuple[int, ...], count: str) -> SlotRule:
    """The same mutable places in every group of ``width`` inputs."""

    def rule(signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]) -> tuple[int, ...]:
        return tuple(width * i + slot for i in range(read_count(signature, attrs, count)) for slot in slots)

    return rule


def all_slots(signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]) -> tuple[int, ...]:
    """Every input is written."""
    return tuple(range(num_inputs))


def fused_update(width: int, count: str, tail: int = 0) -> InputRule:
    """MXNet 1.9.1 names these inputs by the weight's number where it means the place in the group; so do its files."""
    places = ("weight_", "grad_", "mean_", "var_", "weight32_")[:width]

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        total = width * read_count(signature, attrs, count) + tail
        return tuple(_input_name(places, i, width + tail) for i in range(total))

    return rule


def _input_name(places: tuple[str, ...], position: int, width: int) -> str:
    group = position // width
    return f"{places[group % len(places)]}{group}"


OPERATORS = (
    *_update(
        "_adamw_update",
        "weight grad mean var rescale_grad",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "eta:float=!; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "_contrib_group_adagrad_update",
        "weight grad history",
        "lr:float=!; rescale_grad:float=1; clip_gradient:float=-1; epsilon:float=9.99999975e-06",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "_mp_adamw_update",
        "weight grad mean var weight32 rescale_grad",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "eta:float=!; clip_gradient:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *_update(
        "_multi_adamw_update",
        fused_update(4, "num_weights", tail=1),
        "lrs:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wds:floats=!; "
        "etas:floats=!; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(4, (2, 3), "num_weights"),
    ),
    *_update(
        "_multi_lamb_update",
        fused_update(4, "num_tensors"),
        "learning_rates:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; "
        "wds:floats=!; rescale_grad:float=1; lower_bound:float=-1; upper_bound:float=-1; clip_gradient:float=-1; "
        "bias_correction:bool=True; step_count:tuple32=!; num_tensors:int=1",
        results=outputs_by_attribute("num_tensors"),
        mutable=repeat_slots(4, (2, 3), "num_tensors"),
    ),
    *_update(
        "_multi_mp_adamw_update",
        fused_update(5, "num_weights", tail=1),
        "lrs:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wds:floats=!; "
        "etas:floats=!; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(5, (2, 3, 4), "num_weights"),
    ),
    *_update(
        "_multi_mp_lamb_update",
        fused_update(5, "num_tensors"),
        "learning_rates:floats=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; "
        "wds:floats=!; rescale_grad:float=1; lower_bound:float=-1; upper_bound:float=-1; clip_gradient:float=-1; "
        "bias_correction:bool=True; step_count:tuple32=!; num_tensors:int=1",
        results=outputs_by_attribute("num_tensors"),
        mutable=repeat_slots(5, (2, 3, 4), "num_tensors"),
    ),
    *_update(
        "_sparse_adagrad_update",
        "weight grad history",
        "lr:float=!; epsilon:float=1.00000001e-07; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "adam_update(_sparse_adam_update)",
        "weight grad mean var",
        "lr:float=!; beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999994e-09; wd:float=0; "
        "rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "all_finite",
        "data",
        "init_output:bool=True",
    ),
    *_update(
        "ftml_update",
        "weight grad d v z",
        "lr:float=!; beta1:float[0:1]=0.600000024; beta2:float[0:1]=0.999000013; epsilon:double=9.9999999392252903e-09; "
        "t:int=!; wd:float=0; rescale_grad:float=1; clip_grad:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *_update(
        "ftrl_update(_sparse_ftrl_update)",
        "weight grad z n",
        "lr:float=!; lamda1:float=0.00999999978; beta:float=1; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "lamb_update_phase1",
        "weight grad mean var",
        "beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; t:int=!; "
        "bias_correction:bool=True; wd:float=!; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "lamb_update_phase2",
        "weight g r1 r2",
        "lr:float=!; lower_bound:float=-1; upper_bound:float=-1",
        registers_inputs=False,
    ),
    *_update(
        "mp_lamb_update_phase1",
        "weight grad mean var weight32",
        "beta1:float=0.899999976; beta2:float=0.999000013; epsilon:float=9.99999997e-07; t:int=!; "
        "bias_correction:bool=True; wd:float=!; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "mp_lamb_update_phase2",
        "weight g r1 r2 weight32",
        "lr:float=!; lower_bound:float=-1; upper_bound:float=-1",
        mutable=(4,),
        registers_inputs=False,
    ),
    *_update(
        "mp_nag_mom_update",
        "weight grad mom weight32",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "mp_sgd_mom_update",
        "weight grad mom weight32",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2, 3),
        registers_inputs=False,
    ),
    *_update(
        "mp_sgd_update",
        "weight grad weight32",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "multi_all_finite",
        "array_*num_arrays",
        "num_arrays:int=1; init_output:bool=True",
    ),
    *_update(
        "multi_lars",
        "lrs weights_sum_sq grads_sum_sq wds",
        "eta:float=!; eps:float=!; rescale_grad:float=1",
    ),
    *_update(
        "multi_mp_sgd_mom_update",
        repeat_inputs("weight_ grad_ mom_ weight32_", "num_weights"),
        "lrs:floats=!; wds:floats=!; momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(4, (2, 3), "num_weights"),
    ),
    *_update(
        "multi_mp_sgd_update",
        repeat_inputs("weight_ grad_ weight32_", "num_weights"),
        "lrs:floats=!; wds:floats=!; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(3, (2,), "num_weights"),
    ),
    *_update(
        "multi_sgd_mom_update",
        repeat_inputs("weight_ grad_ mom_", "num_weights"),
        "lrs:floats=!; wds:floats=!; momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(3, (2,), "num_weights"),
    ),
    *_update(
        "multi_sgd_update",
        repeat_inputs("weight_ grad_", "num_weights"),
        "lrs:floats=!; wds:floats=!; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
    ),
    *_update(
        "multi_sum_sq",
        "array_*num_arrays",
        "num_arrays:int=!",
    ),
    *_update(
        "nag_mom_update",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "preloaded_multi_mp_sgd_mom_update",
        repeat_inputs("weight_ grad_ mom_ weight32_", "num_weights", "lrs wds"),
        "momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(4, (2, 3), "num_weights"),
    ),
    *_update(
        "preloaded_multi_mp_sgd_update",
        repeat_inputs("weight_ grad_ weight32_", "num_weights", "lrs wds"),
        "rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(3, (2,), "num_weights"),
    ),
    *_update(
        "preloaded_multi_sgd_mom_update",
        repeat_inputs("weight_ grad_ mom_", "num_weights", "lrs wds"),
        "momentum:float=0; rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
        mutable=repeat_slots(3, (2,), "num_weights"),
    ),
    *_update(
        "preloaded_multi_sgd_update",
        repeat_inputs("weight_ grad_", "num_weights", "lrs wds"),
        "rescale_grad:float=1; clip_gradient:float=-1; num_weights:int=1",
        results=outputs_by_attribute("num_weights"),
    ),
    *_update(
        "reset_arrays",
        "array_*num_arrays",
        "num_arrays:int=!",
        results="",
        mutable=all_slots,
    ),
    *_update(
        "rmsprop_update",
        "weight grad n",
        "lr:float=!; gamma1:float=0.949999988; epsilon:float=9.99999994e-09; wd:float=0; rescale_grad:float=1; "
        "clip_gradient:float=-1; clip_weights:float=-1",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "rmspropalex_update",
        "weight grad n g delta",
        "lr:float=!; gamma1:float=0.949999988; gamma2:float=0.899999976; epsilon:float=9.99999994e-09; wd:float=0; "
        "rescale_grad:float=1; clip_gradient:float=-1; clip_weights:float=-1",
        mutable=(2, 3, 4),
        registers_inputs=False,
    ),
    *_update(
        "sgd_mom_update(_sparse_sgd_mom_update)",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        mutable=(2,),
        registers_inputs=False,
    ),
    *_update(
        "sgd_update(_sparse_sgd_update)",
        "weight grad",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; lazy_update:bool=True",
        registers_inputs=False,
    ),
    *_update(
        "signsgd_update",
        "weight grad",
        "lr:float=!; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1",
        registers_inputs=False,
    ),
    *_update(
        "signum_update",
        "weight grad mom",
        "lr:float=!; momentum:float=0; wd:float=0; rescale_grad:float=1; clip_gradient:float=-1; wd_lh:float=0",
        mutable=(2,),
        registers_inputs=False,
    ),
)
