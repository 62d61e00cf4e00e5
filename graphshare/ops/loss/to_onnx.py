"""Losses in ONNX: what they compute at inference, which most do without the label."""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.loss.ctc_onnx import translate_ctc_loss
from graphshare.ops.loss.hawkes_onnx import translate_log_likelihood
from graphshare.ops.translation import Translation, Translator


def translate_softmax_output(t: Translation) -> str:
    """Emit ``Softmax`` over axis 1 (``multi_output``), the last axis, or each sample as a whole, as the kernel does."""
    x = t.inputs[0]
    if t.attrs["multi_output"]:
        if x.rank < 2:
            t.refuse("its data has no axis 1 for multi_output")
        return t.emit("Softmax", x, axis=1)
    if t.attrs["preserve_shape"] or x.rank == 2 or (x.dtype == "float32" and x.rank in (1, 4)):
        return t.emit("Softmax", x, axis=-1)
    rows = t.reshape(x, (x.shape[0], prod(x.shape[1:])))
    return t.reshape(t.emit("Softmax", rows, axis=-1), x.shape)


def translate_data(t: Translation) -> str:
    """Return the data: the loss shows only in gradients."""
    return t.inputs[0].name


def translate_logistic(t: Translation) -> str:
    """Emit ``Sigmoid``."""
    return t.emit("Sigmoid", t.inputs[0])


def translate_softmax_cross_entropy(t: Translation) -> str:
    """Emit minus the sum of the logarithms of the labels' probabilities, which are at least 1e-8."""
    x, label = t.inputs
    wide = "float64" if x.dtype == "float64" else "float32"
    logs = t.emit("LogSoftmax", t.cast(x, wide), axis=1)
    classes = t.emit("Unsqueeze", t.cast(label, "int64"), t.integers([1]))
    chosen = t.emit("GatherElements", logs, classes, axis=1)
    floor = t.number(np.log(np.asarray(1e-8, wide)), wide)
    total = t.reduce("ReduceSum", t.cast(t.emit("Max", chosen, floor), "float64", of=wide), [0])
    return t.cast(t.emit("Neg", total), x.dtype, of="float64")


TRANSLATIONS = (
    Translator("SoftmaxOutput", translate_softmax_output, "its data has an axis 1, with multi_output"),
    *(Translator(name, translate_data) for name in ("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", "MakeLoss")),
    Translator("LogisticRegressionOutput", translate_logistic),
    Translator("softmax_cross_entropy", translate_softmax_cross_entropy),
    Translator("CTCLoss", translate_ctc_loss),
    Translator("_contrib_hawkesll", translate_log_likelihood, "its sequences have elements"),
)
