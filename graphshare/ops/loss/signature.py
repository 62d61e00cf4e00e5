"""Signatures of ``loss``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Mixes, Outcome, Rule, Use, default_rule, require_axes
from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "_contrib_hawkesll",
        "lda alpha beta state lags marks valid_length max_time",
        results="output out_state",
        couples_batch="never",
    ),
    *define(
        "CTCLoss(_contrib_CTCLoss,_contrib_ctc_loss,ctc_loss)",
        "data label data_lengths[use_data_lengths] label_lengths[use_label_lengths]",
        "use_data_lengths:bool=False; use_label_lengths:bool=False; blank_label:{first/last}=first",
        results="output0 output1",
        visible=1,
        couples_batch="always",
    ),
    *define(
        "LinearRegressionOutput(_sparse_LinearRegressionOutput) "
        "LogisticRegressionOutput(_sparse_LogisticRegressionOutput) "
        "MAERegressionOutput(_sparse_MAERegressionOutput)",
        "data label",
        "grad_scale:float=1",
        checks_attributes=False,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "MakeLoss",
        "data",
        "grad_scale:float=1; valid_thresh:float=0; normalization:{batch/null/valid}=null",
        couples_batch="elementwise",
        is_operator_property=True,
    ),
    *define("softmax_cross_entropy", "data label", couples_batch="always"),
    *define(
        "SoftmaxOutput(Softmax)",
        "data label",
        "grad_scale:float=1; ignore_label:float=-1; multi_output:bool=False; use_ignore:bool=False; "
        "preserve_shape:bool=False; normalization:{batch/null/valid}=null; out_grad:bool=False; "
        "smooth_alpha:float[0:1]=0",
        couples_batch="never",
    ),
    *define(
        "SVMOutput",
        "data label",
        "margin:float=1; regularization_coefficient:float=1; use_linear:bool=False",
        couples_batch="never",
        is_operator_property=True,
    ),
)


def _loss(use: Use) -> Outcome:
    how = use.value("normalization")
    outcome = default_rule(use)
    if how in ("batch", "valid"):
        counted = "all samples" if how == "batch" else "valid values in all samples"
        place = outcome if isinstance(outcome, At) else At(0)
        why = f"divides its gradient by the number of {counted} (normalization {how})"
        # The output keeps samples apart; only the gradient is divided.
        return Mixes(why, [place], only_training=isinstance(outcome, At))
    return outcome


RULES: dict[str, Rule] = {
    "SoftmaxOutput": _loss,
    "MakeLoss": _loss,
    "CTCLoss": require_axes(1, 0, 0, 0, out=At(0)),
}
