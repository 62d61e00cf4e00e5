"""Generated graphs keep the invariants; a planted fault is found, and shrunk to the node that has it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tests.generate import invariants
from tests.generate.gradients import compare_gradients, differentiable
from tests.generate.grow import Grower, Model
from tests.generate.judge import judge, list_entries
from tests.generate.shrink import cut_all, shrink, single_node
from tests.oracle.known_differences import is_known
from tests.oracle.known_in_graphs import NO_GRADIENT
from tests.surroundings import size_of_day

GRAPHS = size_of_day(20, 100)


@cache
def grower() -> Grower:
    """Return the grower of all tests; it reads every recorded case."""
    return Grower()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def grow_valid(seed: int) -> Model:
    """Return the first graph from this seed on that ends in no refused node."""
    return next(
        model for model in map(grower().grow, range(seed, seed + 50)) if model.refused is None
    )


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_generated_graph_keeps_every_invariant(seed: int) -> None:
    model = grower().grow(seed)
    assert model.bugs == ()
    if model.refused is None:
        assert {
            name: check(model) for name, check in invariants.INVARIANTS.items()
        } == dict.fromkeys(invariants.INVARIANTS)


def test_a_seed_grows_the_same_graph_again() -> None:
    first, again = Grower().grow(7), grower().grow(7)
    assert first.document == again.document
    assert all(
        np.array_equal(x, again.feeds[name], equal_nan=x.dtype.kind == "f")
        for name, x in first.feeds.items()
    )


def test_graphs_have_many_operators_with_shared_inputs_and_several_heads() -> None:
    models = [grower().grow(seed) for seed in range(30)]
    assert all(5 <= len(model.cases) <= 61 for model in models if model.refused is None)
    assert sum(len(model.document["heads"]) > 1 for model in models) > 20
    entries = [
        (seed, i, k)
        for seed, model in enumerate(models)
        for r in model.document["nodes"]
        for i, k, _ in r["inputs"]
    ]
    assert len(entries) - len(set(entries)) > 100  # inputs that several nodes use
    assert any(model.np_shape for model in models)
    assert len({case["op"] for model in models for case in model.cases.values()}) > 300


def answer_of(model: Model) -> dict[str, object]:
    """What MXNet would answer if it agreed in every inner value."""
    order = list_entries(model)
    inner = [model.values[entry] for entry in order]
    records = [(x.dtype.name, x.shape, x.tobytes()) for x in inner]
    heads = [records[order.index((i, k))] for i, k, _ in model.document["heads"]]
    return {"all": records, "forward": heads, "infer": {"error": ""}, "backward": {"error": ""}}


def test_a_wrong_inner_value_is_found_at_its_node() -> None:
    model = grow_valid(100)
    answer = answer_of(model)
    assert judge(model, answer).disagreements == []
    assert judge(model, answer).counts["compared values"] > len(model.cases)
    records = answer["all"]
    assert isinstance(records, list)
    for entry in list_float_values(model):
        place = list_entries(model).index(entry)
        right, wrong = records[place], model.values[entry] + 1
        records[place] = (wrong.dtype.name, wrong.shape, wrong.tobytes())
        verdict = judge(model, answer)
        records[place] = right
        assert f"n{entry[0]}" in {found.node for found in verdict.disagreements}, model.cases[
            entry[0]
        ]


def list_float_values(model: Model) -> list[tuple[int, int]]:
    """Return the computed values of float32 that are compared in each element."""
    entries = []
    for (number, index), x in model.values.items():
        case = model.cases.get(number)
        if (
            case is None
            or x.dtype != np.float32
            or not x.size
            or not np.isfinite(x).all()
            or abs(x).max() > 100
        ):
            continue
        arrays = [model.values[i, k] for i, k, _ in model.document["nodes"][number]["inputs"]]
        if not is_known(case, arrays, f"output {index}: values"):
            entries.append((number, index))
    return entries


def test_a_wrong_shape_and_a_refusal_are_found() -> None:
    model = grow_valid(200)
    answer = answer_of(model)
    answer["all"] = answer["forward"] = {"error": "Check failed"}
    assert [found.what for found in judge(model, answer).disagreements] == ["refusal"]


def test_a_graph_without_some_operators_computes_the_rest() -> None:
    model = grow_valid(400)
    cut = sorted(model.cases)[::2]
    rest = cut_all(model, cut)
    assert len(rest.cases) == len(model.cases) - len(cut)
    assert invariants.check_extract(rest) is None
    assert {case["op"] for case in rest.cases.values()} <= {
        case["op"] for case in model.cases.values()
    }


def test_gradients_that_mxnet_does_not_compute_are_cut_away() -> None:
    smooth = [differentiable(grow_valid(seed)) for seed in range(400, 420)]
    assert not {case["op"] for model in smooth for case in model.cases.values()} & NO_GRADIENT


def test_a_wrong_gradient_is_found() -> None:
    for seed in range(500, 600, 10):
        model = differentiable(grow_valid(seed))
        word, found = compare_gradients(model, {"error": "not asked"})
        if not word.startswith("gradients refused by MXNet"):
            continue
        right = {name: x for name, x in model.feeds.items() if x.dtype == np.float32 and x.size}
        records = {name: ("float32", x.shape, (x + 1e6).tobytes()) for name, x in right.items()}
        _, found = compare_gradients(model, records)
        assert {disagreement.what for disagreement in found} <= {"gradient"}
        assert found or not records
        return
    raise AssertionError("no graph with gradients")


def test_a_failure_shrinks_to_the_node_that_causes_it() -> None:
    model = grow_valid(300)
    target = sorted({case["op"] for case in model.cases.values()})[0]

    def fails(candidate: Model) -> bool:
        return any(case["op"] == target for case in candidate.cases.values())

    small = shrink(model, fails)
    assert fails(small)
    assert len(small.cases) < max(3, len(model.cases) // 3)
    number = next(n for n, case in small.cases.items() if case["op"] == target)
    alone = single_node(small, number)
    assert [case["op"] for case in alone.cases.values()] == [target]
    assert {name: check(alone) for name, check in invariants.INVARIANTS.items()} == dict.fromkeys(
        invariants.INVARIANTS
    )
