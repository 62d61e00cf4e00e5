"""Operators that MXNet before 1.9.1 computes differently, or not at all
(``benchmarks/old_versions.py``).

A difference for all inputs refuses a node; one that depends on inputs, or on the device, is a note.
Older versions lose NaN in maxima; this does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from graphshare.ir.graph import Node
from graphshare.ops.signature import Signature

Values = Callable[[str], Any]
"""Returns the value of an attribute of a node."""


class Difference(msgspec.Struct, frozen=True):
    """A difference in operators before ``fixed``, the first measured version without it.

    Matrices, such as outputs of dense layers, do not show a difference with ``more_axes``.
    """

    operators: tuple[str, ...]
    fixed: int
    what: str
    is_met: Callable[[Values], Any] = lambda value: True
    more_axes: bool = False


def _has_unlike_dilate(value: Values) -> bool:
    return len(set(value("dilate") or ())) > 1


def _leaves_picture(value: Values) -> bool:
    """A window may lie beyond the edge if strides exceed it and the last step is complete."""
    steps = zip(value("stride") or (), value("kernel") or (), strict=False)
    if value("global_pool") or value("pooling_convention") != "full":
        return False
    return any(step > size for step, size in steps)


def _has_negative_axis(value: Values) -> bool:
    axis = value("axis")
    return any(each < 0 for each in (axis if isinstance(axis, tuple) else (axis or 0,)))


def _has_unlike_axes(value: Values) -> bool:
    return not value("multi_output") and not value("preserve_shape")


_BEYOND_GATES = (
    "projection_size",
    "lstm_state_clip_min",
    "lstm_state_clip_max",
    "use_sequence_length",
)


def _has_more_than_gates(value: Values) -> bool:
    return any(map(value, _BEYOND_GATES))


def _makes_matrix(node: Node) -> bool:
    return node.op in ("FullyConnected", "Flatten") and "flatten" not in node.attrs


_FLATTENS = "normalizes data of four axes over all but the first, not over the last"
REFUSED: Sequence[Difference] = (
    Difference(("BatchNorm",), 1000, "output_mean_var=True", lambda v: v("output_mean_var")),
    Difference(("Convolution",), 1201, "unlike numbers in dilate", _has_unlike_dilate),
    Difference(("Deconvolution",), 10900, "unlike numbers in dilate", _has_unlike_dilate),
    Difference(
        ("Pooling",),
        10401,
        "windows beyond the edge",
        lambda v: v("pool_type") == "avg" and _leaves_picture(v),
    ),
    Difference(("Pooling_v1",), 10600, "windows beyond the edge", _leaves_picture),
    Difference(("LRN",), 10900, "an even nsize", lambda v: v("nsize") % 2 == 0),
    Difference(("_contrib_MultiBoxDetection",), 10401, "nms_topk", lambda v: v("nms_topk") > 0),
    Difference(
        ("_contrib_MultiBoxPrior",),
        10600,
        "ratios that do not begin with 1",
        lambda v: v("ratios")[0] != 1,
    ),
    Difference(("take",), 10401, "an axis other than 0", lambda v: v("axis") != 0),
    Difference(("take",), 10401, "a mode other than clip", lambda v: v("mode") != "clip"),
    Difference(("argmax", "argmin"), 10600, "all axes at once", lambda v: v("axis") is None),
    Difference(("norm",), 10401, "ord=1", lambda v: v("ord") == 1),
    Difference(("pick",), 1000, "keepdims=True", lambda v: v("keepdims")),
    Difference(
        ("sum", "mean", "max", "min", "prod", "nansum", "nanprod"),
        1201,
        "a negative axis",
        _has_negative_axis,
    ),
)
NOTED: Sequence[Difference] = (
    Difference(("LRN",), 1201, "sums other channels for the first one"),
    Difference(("SoftmaxOutput",), 10900, _FLATTENS, _has_unlike_axes, more_axes=True),
    Difference(("SpatialTransformer",), 1201, "reads what is outside of the picture otherwise"),
    Difference(
        ("_contrib_MultiBoxPrior",), 1201, "makes other boxes of pictures that are not square"
    ),
    Difference(("_contrib_box_nms",), 10401, "keeps boxes whose score is 0 or less"),
    Difference(
        ("_contrib_box_nms",), 10600, "keeps boxes of class -1", lambda v: v("id_index") >= 0
    ),
    Difference(
        ("RNN",),
        10401,
        "is computed on a GPU alone (from 1.2 on a CPU too for mode=lstm with state_outputs=True)",
    ),
    Difference(
        ("RNN",),
        10900,
        "is computed on a GPU alone with projections, limits of states or lengths",
        _has_more_than_gates,
    ),
    Difference(
        ("Deconvolution",),
        10201,
        "of one axis is computed on a GPU alone",
        lambda v: len(v("kernel") or ()) == 1,
    ),
    Difference(
        ("Deconvolution",),
        10900,
        "of three axes is computed on a GPU alone",
        lambda v: len(v("kernel") or ()) == 3,
    ),
    Difference(("_contrib_PSROIPooling",), 10401, "is computed on a GPU alone"),
    Difference(
        ("_contrib_DeformableConvolution", "_contrib_DeformablePSROIPooling"),
        10600,
        "is computed on a GPU alone",
    ),
)


def find_differences(
    differences: Sequence[Difference], node: Node, signature: Signature, version: int
) -> Iterator[str]:
    """Yield descriptions of the differences that affect a node in a version."""
    for each in differences:
        if node.op not in each.operators or version >= each.fixed:
            continue
        if each.more_axes and _makes_matrix(node.inputs[0].node):
            continue
        if each.is_met(lambda key: signature.value(node.attrs, key)):
            yield each.what
