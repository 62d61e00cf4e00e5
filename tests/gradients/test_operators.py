"""Every gradient against a central difference in float64, on the inputs that the kernels are recorded on."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops import registry
from graphshare.ops.gradient import Gradient, NoGradient, sum_to_shape
from graphshare.ops.registry import canonical, find_kernel
from tests.gradients.agreement import check_gradients, recorded_gradients
from tests.gradients.checker import STEP, Check, check, slightly_wrong
from tests.gradients.more_cases import CASES, CHECKED, drawn
from tests.gradients.numpy_cases import NUMPY, REFUSED, SMOOTH
from tests.gradients.one_operator import gradients_of, graph_of
from tests.kernels.recordings import (
    FAMILIES,
    WITH_BODIES,
    cases_of,
    recorded,
    recorded_inputs,
    recorded_outputs,
)
from tests.kernels.unrecorded import UNRECORDED
from tests.symbols import document, operator, variable

LIMIT = 1e-5
GRADIENTS = registry.GRADIENTS.all()

PLACES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"),
        (3, 4),
    ),
    **dict.fromkeys(("SequenceMask", "SequenceLast", "SequenceReverse"), (1,)),
    **dict.fromkeys(("ROIPooling", "_contrib_PSROIPooling", "_contrib_ROIAlign"), (1,)),
    **dict.fromkeys(
        ("take", "pick", "batch_take", "gather_nd", "scatter_nd", "_contrib_boolean_mask"), (1,)
    ),
    **dict.fromkeys(
        ("Embedding", "_contrib_SparseEmbedding", "where", "_npi_where", "_npi_where_rscalar"), (0,)
    ),
    **dict.fromkeys(
        ("softmax", "softmax_cross_entropy", "reshape_like", "slice_like", "broadcast_like"), (1,)
    ),
    **dict.fromkeys(("_contrib_DeformablePSROIPooling", "_contrib_index_copy"), (1,)),
    **dict.fromkeys(
        (
            f"_random_pdf_{n}"
            for n in ("poisson", "negative_binomial", "generalized_negative_binomial")
        ),
        (0,),
    ),
    "CTCLoss": (1, 2, 3),
    "_contrib_hawkesll": (3, 4, 5, 6, 7),
}
"""Inputs that a gradient is not for: places, lengths, labels, counts, gathered statistics."""

FIRST_ONLY = (
    "BatchNorm",
    "BatchNorm_v1",
    "_contrib_SyncBatchNorm",
    "_contrib_BatchNormWithReLU",
    "LayerNorm",
    "GroupNorm",
    "topk",
    "_contrib_hawkesll",
)
"""Operators that pass the gradient of their first output alone: statistics, places and memories have none."""

RECORDED_SMOOTH = ("_random_pdf_", "_contrib_hawkesll")
"""How the names of operators begin that are recorded at values of their own choice, around which they are smooth."""

STEPS = {"_image_adjust_lighting": 2.0**-4}
"""Of operators that compute in float32 whatever they are given: so large that a difference is left. They are linear."""

OWN_RULES = {
    "_contrib_round_ste": "it rounds, and passes gradients as if it did not",
    "_contrib_sign_ste": "likewise",
    "_contrib_gradientmultiplier": "it is the identity, with a factor for its gradient",
    "IdentityAttachKLSparseReg": "its gradient has a penalty that its output has not",
    "_contrib_box_nms": "scores decide which rows stay, and the format may change",
    "_image_flip_left_right": "its gradient is not flipped",
    "_image_flip_top_bottom": "likewise",
    "_image_to_tensor": "its gradient is neither divided by 255 nor has it the channels moved back",
    "SoftmaxActivation": "its gradient is that over the channels also where it is over the last axis",
    "_npi_rot90": "its gradient is turned on instead of back",
    "_linalg_potrf": "its gradient is of the symmetric matrix, though one triangle is read",
    "_linalg_syevd": "likewise",
    "_npi_cholesky": "likewise",
    "_npi_rarctan2_scalar": "MXNet puts the array where the number belongs",
    "_npi_where_lscalar": "MXNet has the condition the wrong way round",
    "_foreach": "has subgraphs: test_control.py",
    "_while_loop": "likewise",
    "_cond": "likewise",
}
"""Gradients that are not the derivative, as MXNet has it, or are checked elsewhere."""


def sound(case: dict[str, Any]) -> bool:
    """Whether the outputs are smooth at the inputs, and of float64 where these are."""
    attrs, op = case["attrs"], canonical(case["op"])
    if attrs.get("act_type") == "selu":  # MXNet's rule is not the derivative
        return False
    if any(
        attrs.get(key, "") in ("float16", "float32", "int8", "uint8", "int32", "int64", "bool")
        for key in ("dtype", "out_dtype")
    ):
        return op == "Embedding"
    if op == "_npi_pad" and attrs["mode"] != "constant":
        return False
    if op == "_npi_where_rscalar":  # right where the array is stretched alone
        return False
    if op == "_npi_norm" and len(literal_eval(attrs.get("axis", "(0, 1)"))) == 2:
        # For the others MXNet squares the output's gradient
        return int(attrs["flag"]) in (-2, 1, 2)
    if attrs.get("fix_gamma", "True") == "True" and op in FIRST_ONLY[:4]:
        return False
    if op.startswith(RECORDED_SMOOTH):
        return True
    # Where a probability is below 1e-8 the output is held, the gradient is not
    if op == "softmax_cross_entropy":
        return all(spec.get("scale", 1) < 10 for spec in case["inputs"])
    for i, spec in enumerate(case["inputs"]):
        if i not in PLACES.get(op, ()) and (
            spec.get("dtype", "float32") != "float32" or {"values", "low", "value"} & set(spec)
        ):
            return False
    return attrs.get("scalar") != "0"


@cache
def cases() -> dict[str, list[tuple[dict[str, Any], list[Any], int, int]]]:
    """By operator: the case, its inputs, the number of its outputs, and its number."""
    found: dict[str, list[tuple[dict[str, Any], list[Any], int, int]]] = {}
    for case, inputs, outputs, number in _all():
        op = canonical(case["op"])
        found.setdefault(op, []).append((case, inputs, 1 if op in FIRST_ONLY else outputs, number))
    return found


def _all() -> Iterator[tuple[dict[str, Any], list[Any], int, int]]:
    for family in sorted((*FAMILIES, *WITH_BODIES)):
        for number, case in enumerate(cases_of(family)):
            if sound(case):
                yield (
                    case,
                    recorded_inputs(family, number),
                    len(recorded_outputs(family, number)),
                    number,
                )
    for known in (CHECKED, SMOOTH, UNRECORDED):
        kept = drawn(known)
        for number, case in enumerate(known):
            yield case, [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))], 1, number


def checked(op: str, *, small: bool = False) -> Iterator[tuple[dict[str, Any], int, Check]]:
    for case, inputs, outputs, number in cases().get(op, []):
        variables, heads = graph_of(case, len(inputs), outputs)
        wanted = [v for i, v in enumerate(variables) if i not in PLACES.get(op, ())]
        found = check(
            heads,
            dict(zip(variables, inputs, strict=True)),
            wanted,
            step=STEPS.get(op, STEP),
            small=small,
        )
        if found is not None:
            yield case, number, found


@pytest.mark.parametrize("family", recorded_gradients())
def test_gradients_are_those_that_mxnet_gave(family: str) -> None:
    """``record.py`` asks MXNet again after a change of the cases."""
    known = {"more": CASES, "numpy": NUMPY}.get(family)
    known, kept = (
        (known, drawn(known)) if known is not None else (cases_of(family), recorded(family))
    )
    check_gradients(known, kept, recorded_gradients()[family])


DERIVATIVES = [
    op
    for op, g in GRADIENTS.items()
    if isinstance(g, Gradient) and not g.is_loss and op not in OWN_RULES
]


def test_rules_of_their_own_are_of_gradients() -> None:
    assert all(isinstance(GRADIENTS[op], Gradient) for op in OWN_RULES)


@pytest.mark.parametrize("small", [False, True], ids=["all entries", "small entries"])
@pytest.mark.parametrize("op", DERIVATIVES)
def test_the_gradient_is_the_derivative(op: str, small: bool) -> None:
    count = 0
    for case, number, found in checked(op, small=small):
        assert found.apart <= LIMIT, (
            f"case {number} {case['attrs']}: {found.gradient} where {found.difference} is right"
        )
        count += 1
    assert count, f"no recorded case of {op} can be checked"


@pytest.mark.parametrize(
    "op", ["Convolution", "FullyConnected", "Pooling", "softmax", "RNN", "BatchNorm", "tanh"]
)
def test_a_gradient_that_is_slightly_wrong_is_found(op: str) -> None:
    with slightly_wrong(op):
        assert max(found.apart for _, _, found in checked(op)) > LIMIT
    assert max(found.apart for _, _, found in checked(op)) <= LIMIT


@pytest.mark.parametrize("op", ["Convolution", "FullyConnected", "RNN"])
def test_a_gradient_whose_small_entries_are_slightly_wrong_is_found(op: str) -> None:
    with slightly_wrong(op, share=0.05):
        both = list(zip(checked(op), checked(op, small=True), strict=True))
    # Whose large entries hide it
    assert any(small.apart > LIMIT >= found.apart for (_, _, found), (_, _, small) in both)


@pytest.mark.parametrize("op", ["_npi_cholesky", "_linalg_potrf", "_linalg_syevd"])
def test_the_gradient_of_a_symmetric_matrix_is_the_derivative(op: str) -> None:
    nodes = [
        variable("a"),
        operator("transpose", "turned", [0]),
        operator("elemwise_add", "sum", [0, 1]),
    ]
    nodes.append(operator(op, "node", [2]))
    graph = read_symbol(json.dumps(document(nodes, [(3, 0, 0)], row_ptr=False)).encode())
    value = np.array([[3.1, 0.3, -0.4], [0.5, 2.2, 0.2], [-0.6, 0.8, 4.6]])
    found = check(graph.heads, {graph.nodes[0]: value}, graph.nodes[:1])
    assert found is not None
    assert found.apart <= LIMIT


def test_outside_training_the_slope_of_rrelu_is_the_middle_of_its_bounds() -> None:
    attrs = {"act_type": "rrelu", "lower_bound": "0.25", "upper_bound": "0.75"}
    (data,), heads = graph_of({"op": "LeakyReLU", "attrs": attrs}, 1, 1)
    value = np.array([-3.0, -0.0, 0.0, 2.0])
    tape = Tape(make_plan(heads), {data: value}, [data], training=False)
    np.testing.assert_array_equal(tape.outputs[0], [-1.5, 0, 0, 2])
    np.testing.assert_array_equal(
        tape.backward([np.array([1.0, 3.0, 5.0, 7.0])]).gradients[data], [0.5, 1.5, 2.5, 7]
    )


def test_the_gradient_of_eigenvectors_and_eigenvalues_is_the_derivative() -> None:
    nodes = [
        variable("a"),
        operator("transpose", "turned", [0]),
        operator("elemwise_add", "sum", [0, 1]),
    ]
    nodes.append(operator("_linalg_syevd", "node", [2]))
    graph = read_symbol(json.dumps(document(nodes, [(3, 0, 0), (3, 1, 0)], row_ptr=False)).encode())
    value = np.array([[3.1, 0.3, -0.4], [0.5, 2.2, 0.2], [-0.6, 0.8, 4.6]])
    found = check(graph.heads, {graph.nodes[0]: value}, graph.nodes[:1])
    assert found is not None
    assert found.apart <= LIMIT


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_gradient_that_mxnet_does_not_give_is_refused(number: int) -> None:
    case = REFUSED[number]
    kept = drawn(REFUSED)
    inputs = [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))]
    with pytest.raises(RefusedError, match=r"gradient|cannot take"):
        gradients_of(case, inputs, 1, number)


def test_every_kernel_has_a_gradient_or_the_reason_why_not() -> None:
    from graphshare.ops.registry import known_kernels

    assert set(GRADIENTS) == set(known_kernels())
    assert all(g.reason for g in GRADIENTS.values() if isinstance(g, NoGradient))
    assert find_kernel("Convolution") is not None


@pytest.mark.parametrize(
    ("shape", "broadcast"),
    [
        ((1, 4, 1), (2, 5, 4, 1)),
        ((3, 1), (3, 4)),
        ((), (2, 3)),
        ((1, 1), (1, 1)),
        ((2, 1, 1), (2, 1, 3)),
    ],
)
def test_a_gradient_is_summed_over_the_axes_of_a_broadcast(
    shape: tuple[int, ...], broadcast: tuple[int, ...]
) -> None:
    gradient = np.random.default_rng(0).integers(-9, 9, broadcast).astype(np.float64)
    wanted = np.zeros(shape)
    for index in np.ndindex(broadcast):
        at = index[len(broadcast) - len(shape) :]
        wanted[tuple(i if size > 1 else 0 for i, size in zip(at, shape, strict=True))] += gradient[
            index
        ]
    assert np.array_equal(sum_to_shape(gradient, shape), wanted)
