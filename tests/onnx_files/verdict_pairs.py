"""Pairs of small models, each with the verdict that a proof of the two must give, in either order.

Every pair stands for a kind of rewrite, or of fault, that a proof once judged wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from tests.onnx_files.verdict_models import (
    FLOAT,
    MASKS,
    STRING,
    added_zero,
    bfloat16_output,
    divided_by_zero,
    doubled_size,
    exchanged_conditions,
    exchanged_integers,
    exchanged_numbers,
    first_of_batch,
    flattened,
    folded_normalization,
    folded_output,
    fused,
    fused_in_body,
    idle_dropout,
    inlined,
    inlined_choice,
    inlined_in_part,
    listed_twice,
    lost_output,
    mapped_sequence,
    masked,
    moved_axis,
    moved_name,
    narrow_input,
    nested,
    over_batch,
    padding,
    random_dropout,
    random_normal,
    read_other_input,
    refused_inputs,
    scaled_difference,
    sequence,
    shape_bodies,
    shape_factors,
    sparse,
    squeezed_batch,
    unknown,
    unread_input,
    unread_node,
    unread_output,
)

NARROW = (
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "INT4",
    "UINT4",
    "BFLOAT16",
)
SAME = ("exact", "EQUAL")
DIFFERENT = ("NOT EQUAL",)
UNSEEN = ("NOT EQUAL", "NOT PROVED")
"""A difference that may change no value that is drawn: then no output shows it, and the models are still not equal."""

ODD_SIZES = (*UNSEEN, "not judged")
"""A difference at other sizes than those that are drawn, behind arithmetic with sizes that a proof need not judge."""


class Pair(NamedTuple):
    """Two models and the verdicts that are right; ``first`` is the value or node that a proof must name.

    ``own`` is the verdict of each model compared with itself.
    """

    name: str
    model: onnx.ModelProto
    other: onnx.ModelProto
    right: tuple[str, ...]
    first: str = ""
    options: Mapping[str, Any] = {}
    own: str = "exact"


def _nested_pairs() -> list[Pair]:
    """Return the pairs of Ifs in Ifs."""
    order, factors = ("c1", "c2"), (2.0, -3.0, 5.0, 7.0)
    changes: dict[str, tuple[Sequence[str], Sequence[float]]] = {
        "conditions": (("c2", "c1"), factors),
        "inner-constants": (order, (2.0, -3.0, 7.0, 5.0)),
        "outer-constants": (order, (5.0, 7.0, 2.0, -3.0)),
    }
    return [
        Pair(
            f"nested-{what}{'-of-one-name' if is_named_alike else ''}",
            nested(order, factors, is_named_alike=is_named_alike),
            nested(*change, is_named_alike=is_named_alike),
            DIFFERENT,
        )
        for what, change in changes.items()
        for is_named_alike in (False, True)
    ]


def _masked_pairs() -> list[Pair]:
    """Return the pairs with faults that something hides, and the right fusions before it."""
    pairs = []
    for mask in MASKS:
        pairs += [
            Pair(f"masked-{mask}", *masked(mask, 0.75), UNSEEN),
            Pair(f"masked-{mask}-fused", *masked(mask, 0.75, "h"), UNSEEN, "h"),
            Pair(f"masked-{mask}-renamed", *masked(mask, 0.75, "other"), UNSEEN),
            Pair(f"right-{mask}-fused", *masked(mask, 0.5, "h"), SAME),
            Pair(f"right-{mask}-renamed", *masked(mask, 0.5, "other"), SAME),
        ]
    return pairs


_FOLD = (-0.75, -0.9375)

PAIRS = [
    Pair("fused", *fused(), SAME),
    Pair("fused-rounds", *fused(), SAME, options={"rounds": 2}),
    Pair("fused-in-body-rounds", *fused_in_body(), SAME, options={"rounds": 2}),
    *(
        Pair(
            f"{kind}-{'right' if op == 'Mul' else 'wrong'}",
            *sequence(kind, op),
            SAME if op == "Mul" else DIFFERENT,
        )
        for kind in ("sequence", "optional", "inner")
        for op in ("Mul", "Add")
    ),
    Pair("sequence-mapped", *mapped_sequence("Add"), SAME),
    Pair("sequence-mapped-wrong", *mapped_sequence("Mul"), DIFFERENT),
    Pair("listed-twice", *listed_twice("Max"), SAME),
    Pair("listed-twice-wrong", *listed_twice("Sub"), DIFFERENT),
    Pair("folded-normalization", *folded_normalization(_FOLD), SAME),
    Pair("folded-normalization-wrong", *folded_normalization((0.25, -0.875)), DIFFERENT),
    Pair("moved-name", *moved_name(3.0), ("exact",)),
    Pair("moved-name-wrong", *moved_name(3.5), DIFFERENT, "p"),
    Pair("moved-axis", *moved_axis(1), SAME),
    Pair("moved-axis-wrong", *moved_axis(2), DIFFERENT),
    Pair("exchanged-conditions", *exchanged_conditions(), DIFFERENT),
    Pair("exchanged-integers", *exchanged_integers(), DIFFERENT),
    Pair("exchanged-numbers", *exchanged_numbers(), DIFFERENT),
    *_nested_pairs(),
    Pair("flattened-batch", *flattened(is_multiplied=False), DIFFERENT),
    Pair("flattened-batch-refused", *flattened(is_multiplied=True), DIFFERENT),
    Pair("mean-over-batch", *over_batch(), DIFFERENT),
    Pair("first-of-batch", *first_of_batch(), DIFFERENT),
    Pair("squeezed-batch", *squeezed_batch(), DIFFERENT),
    Pair("divided-by-zero", divided_by_zero(0.0), divided_by_zero(-0.0), DIFFERENT),
    Pair("added-zero", added_zero(0.0), added_zero(-0.0), ("EQUAL", "NOT PROVED")),
    Pair("shape-doubled", *doubled_size(), SAME),
    Pair("shape-factors", *shape_factors(), ODD_SIZES),
    Pair("shape-bodies", shape_bodies("Abs", "Relu"), shape_bodies("Relu", "Abs"), ODD_SIZES),
    Pair("scaled-difference", *scaled_difference(1.0), ("EQUAL",)),
    Pair("scaled-difference-wrong", *scaled_difference(1.01), DIFFERENT),
    Pair(
        "random-dropout", random_dropout(), random_dropout(), ("not judged",), "y", own="not judged"
    ),
    Pair("random-normal", random_normal(), random_normal(), ("not judged",), "n", own="not judged"),
    Pair("inlined", *inlined("Add"), ("exact",)),
    Pair("inlined-wrong", *inlined("Mul"), DIFFERENT),
    Pair("inlined-in-part", *inlined_in_part("Add"), ("exact",)),
    Pair("inlined-in-part-wrong", *inlined_in_part("Mul"), DIFFERENT),
    Pair("inlined-choice", *inlined_choice(), ("exact",)),
    Pair("inlined-choice-wrong", *inlined_choice("Abs"), UNSEEN),
    Pair("folded-numbers", *folded_output({"value_floats": [1.0, 2.0]}, [1.0, 2.0], FLOAT), SAME),
    Pair(
        "folded-numbers-wrong",
        *folded_output({"value_floats": [1.0, 2.0]}, [1.0, 3.0], FLOAT),
        DIFFERENT,
    ),
    Pair("folded-strings", *folded_output({"value_strings": ["a", "b"]}, ["a", "b"], STRING), SAME),
    Pair(
        "folded-strings-wrong",
        *folded_output({"value_strings": ["a", "b"]}, ["a", "c"], STRING),
        DIFFERENT,
    ),
    Pair("unread-input", *unread_input(), ("exact",)),
    Pair("read-other-input", *read_other_input("a"), DIFFERENT),
    Pair("read-other-input-alone", *read_other_input(), DIFFERENT),
    Pair("unread-output", *unread_output(), ("exact",)),
    Pair("lost-output", *lost_output(is_computed=False), ("not judged",), "z"),
    Pair(
        "lost-output-chosen", *lost_output(is_computed=False), ("exact",), options={"targets": "y"}
    ),
    Pair("unlisted-output", *lost_output(is_computed=True), ("not judged",), "z"),
    Pair("unread-node", *unread_node(), ("exact",)),
    Pair("padding-stated", padding(auto_pad="NOTSET"), padding(), ("exact",)),
    Pair("padding-valid", padding(auto_pad="VALID"), padding(), ("exact",)),
    Pair("padding-wrong", padding(auto_pad="SAME_UPPER"), padding(), DIFFERENT),
    Pair("idle-dropout", *idle_dropout(), ("exact",)),
    Pair("sparse-indices", sparse(np.int64, 2.0), sparse(np.int32, 2.0), ("exact",)),
    Pair("sparse-values", sparse(np.int64, 2.0), sparse(np.int64, 3.0), DIFFERENT),
    *(
        Pair(f"narrow-{dtype}", narrow_input(dtype), narrow_input(dtype), ("exact",))
        for dtype in NARROW
    ),
    Pair("refused-inputs", refused_inputs(), refused_inputs(), ("exact",)),
    Pair("bfloat16", bfloat16_output(2.0), bfloat16_output(2.0), ("exact",)),
    Pair("bfloat16-wrong", bfloat16_output(2.0), bfloat16_output(2.5), DIFFERENT),
    Pair(
        "unknown", unknown("abc"), unknown("pqr"), ("exact",), options={"allow_unsupported": True}
    ),
    Pair(
        "unknown-wrong",
        unknown("abc"),
        unknown("abc", 0.75),
        UNSEEN,
        options={"allow_unsupported": True},
    ),
    *_masked_pairs(),
]
