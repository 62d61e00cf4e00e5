"""Generated pairs of models: what differs in value is never called exact, and what is called exact has equal bits."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import graphshare as gs
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from tests.onnx_files.pairs import Recipe, build, change, make_recipe
from tests.onnx_files.running import Session, Unrunnable, are_same

pytest.importorskip("onnxruntime")


_EARLY = {"Softmax": 13, "LogSoftmax": 13, "BatchNormalization": 14}
"""Operators that onnx's evaluator reads by a later version's default, or by whether ``momentum`` is
stated, before that.
"""

_STEEP = {"ArgMax", "ArgMin", "Ceil", "Div", "Floor", "Mod", "Reciprocal", "Round", "Sign", "TopK"}
_SUMS = ("MatMul", "Conv", "Softmax", "LogSoftmax")


def draw(recipe: Recipe) -> list[list[np.ndarray[Any, Any]]]:
    """Return both inputs, at several sizes where sizes are free; the last have numbers that are none."""
    rng = np.random.default_rng(0)
    shapes = [recipe.shape]
    if any(recipe.free):
        shapes += [
            tuple(
                size if is_free else n for n, is_free in zip(recipe.shape, recipe.free, strict=True)
            )
            for size in (1, 3)
        ]
    inputs = [
        [(rng.standard_normal(shape) * 3).astype(recipe.dtype) for _ in range(2)]
        for shape in [*shapes, recipe.shape]
    ]
    for array in inputs[-1]:
        array.reshape(-1)[:4] = (np.inf, -np.inf, np.nan, -0.0)
    return inputs


def run_session(model: onnx.ModelProto, inputs: list[list[np.ndarray[Any, Any]]]) -> list[Any]:
    """Return the outputs in onnxruntime for each of the inputs, None where it refuses them."""
    try:
        session = Session(model.SerializeToString(), optimize=False)
    except Unrunnable:
        return [None] * len(inputs)
    return [
        _try(lambda each=each: list(session.run({"v0": each[0], "v1": each[1]}).values()))
        for each in inputs
    ]


def run_reference(model: onnx.ModelProto, inputs: list[list[np.ndarray[Any, Any]]]) -> list[Any]:
    """Return the outputs in onnx's evaluator for each of the inputs, None where it fails."""
    evaluator = _try(lambda: ReferenceEvaluator(model))
    if evaluator is None:
        return [None] * len(inputs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [
            _try(lambda each=each: evaluator.run(None, {"v0": each[0], "v1": each[1]}))
            for each in inputs
        ]


def _try(compute: Any) -> Any:
    try:
        return compute()
    except Exception:  # each evaluator refuses in its own ways
        return None


def have_equal_bits(a: list[Any], b: list[Any]) -> bool:
    """Whether outputs have equal bits, numbers that are none aside, whose bits depend on the order of operands."""
    return all(
        np.asarray(x).dtype == np.asarray(y).dtype
        and np.asarray(x).shape == np.asarray(y).shape
        and np.array_equal(x, y, equal_nan=True)
        and np.array_equal(np.signbit(np.nan_to_num(x)), np.signbit(np.nan_to_num(y)))
        for x, y in zip(a, b, strict=True)
    )


def are_near(a: list[Any], b: list[Any]) -> bool:
    """Whether outputs are nearly equal: numpy sums in another order what lies in memory in another one."""
    return all(are_same(x, y, exact=False) for x, y in zip(a, b, strict=True))


def differ(
    a: list[Any], b: list[Any], alike: Callable[[list[Any], list[Any]], bool] = have_equal_bits
) -> bool | None:
    """Whether two models differ on inputs that both accept; None where there are none."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    return any(not alike(x, y) for x, y in pairs) if pairs else None


def is_exact(models: list[onnx.ModelProto], folder: Path) -> bool:
    sides = []
    for number, model in enumerate(models):
        path = folder / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        sides.append(gs.load(path))
    report = make_judge(pair_models(*sides, (), {})).find_exact()
    return report is not None


def judge(count: int, folder: Path, *, first: int = 0) -> Counter[str]:
    """Judge pairs until ``count`` differ in value; return how many there were of each kind."""
    seen: Counter[str] = Counter()
    seed = first
    while seen["differ"] < count:
        seed += 1
        rng = Random(seed)
        recipe = make_recipe(rng)
        kind, other = change(recipe, rng)
        models = [build(recipe), build(other)]
        inputs = draw(recipe)
        converted = [[array.astype(other.dtype) for array in each] for each in inputs]
        outputs = [run_session(models[0], inputs), run_session(models[1], converted)]
        is_other = differ(*outputs)
        if is_other is None:
            seen["refused"] += 1
            continue
        exact = is_exact(models, folder)
        assert not (exact and is_other), f"seed {seed}, {kind}: onnxruntime shows that they differ"
        has_sums = any(step.op in _SUMS or step.op.startswith("Reduce") for step in recipe.steps)
        # What is nearly 0 has either sign
        is_steep = has_sums and not _STEEP.isdisjoint(step.op for step in recipe.steps)
        is_early = any(
            each.version < _EARLY.get(step.op, 0) for each in (recipe, other) for step in each.steps
        )
        if exact and not is_early and not is_steep:
            seen["exact in the reference"] += 1
            references = [run_reference(models[0], inputs), run_reference(models[1], converted)]
            assert not differ(*references, are_near if has_sums else have_equal_bits), (
                f"seed {seed}, {kind}: the reference shows that they differ"
            )
        seen["differ" if is_other else "exact" if exact else "equal, not exact"] += 1
        seen[f"{kind}: {'differ' if is_other else 'exact' if exact else 'equal'}"] += 1
    return seen


@pytest.mark.large
def test_pairs_that_differ_are_not_exact(tmp_path: Path) -> None:
    seen = judge(300, tmp_path)
    assert seen["exact"] >= 100, seen
    assert seen["exact in the reference"] >= 50, seen


@pytest.mark.large
def test_many_pairs_that_differ_are_not_exact(tmp_path: Path) -> None:
    seen = judge(2_500, tmp_path, first=1_000_000)
    assert seen["exact"] >= 750, seen
