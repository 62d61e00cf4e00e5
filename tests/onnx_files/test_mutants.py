"""One change in every place of a model: ``diff`` sees it, and ``compare`` never calls the models
equal without a word about it.

Each change is shown to have a meaning, or to have none, by onnxruntime on several inputs, which reach every branch.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.differences.difference import Difference
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.backends.session import SessionSettings
from graphshare.verification.report import Report
from tests.onnx_files.mutable import UNKNOWN, Source, draw_inputs
from tests.onnx_files.mutants import Effect, Mutant, choose_mutants, list_mutants, read_source
from tests.onnx_files.running import are_same
from tests.processes import in_process
from tests.surroundings import is_required

pytest.importorskip("onnxruntime")

_BY_NAME = {mutant.name: mutant for mutant in list_mutants()}


class Original(NamedTuple):
    """A model that is changed, with what it computes of each of its inputs; None where nothing computes it."""

    model: gs.Checkpoint
    path: Path
    inputs: list[dict[str, Any]]
    outputs: list[Any] | None


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutants")


def write(source: Source, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in source.files.items():
        (folder / name).write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(source.model.SerializeToString())
    return path


@cache
def load_original(name: str, folder: Path) -> Original:
    source = read_source(name)
    path = write(source, folder / name)
    inputs = [] if name in UNKNOWN else draw_inputs(source.model)
    return Original(gs.load(path), path, inputs, compute(path, inputs) if inputs else None)


def compute(path: Path, inputs: list[dict[str, Any]]) -> list[Any]:
    """Return the outputs for each of the inputs, or the error."""
    try:
        session = ConfinedSession(
            path.read_bytes(),
            str(path.parent),
            settings=SessionSettings(merge_equal=False, awake=False),
        )
    except gs.GraphshareError as error:
        return [str(error)] * len(inputs)
    outputs: list[Any] = []
    for feeds in inputs:
        try:
            outputs.append(session.run(feeds))
        except gs.GraphshareError as error:
            outputs.append(str(error))
    return outputs


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are the same bit for bit."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (
            a.shape == b.shape
            and a.dtype == b.dtype
            and (a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes())
        )
    return type(a) is type(b) and bool(a == b)


def is_endless(source: Source) -> bool:
    """Whether nothing ends a Loop."""
    return any(
        node.op_type == "Loop" and not (node.input and node.input[0])
        for node in source.model.graph.node
    )


def compare(original: Original, path: Path, **options: Any) -> Report | str:
    """Return the report of ``compare``, or the words in which it refuses."""
    try:
        return gs.compare(original.model, path, **options)
    except gs.GraphshareError as error:
        return str(error)


def find_differences(original: Original, path: Path, **options: Any) -> Difference | str:
    try:
        return gs.diff(original.model, path, **options)
    except gs.GraphshareError as error:
        return str(error)


_RARE = r"labels-.*attribute0-dropped"
"""What a number that is none of 20 keys becomes: no input that is drawn for a proof has one."""
_UNSEEN = {
    r"opset.*": "no operator of the model has another meaning in this version",
    r"names of outputs.*": "outputs are computed in their order, and have each other's names",
    r"order of inputs.*": "the operator is commutative",
    r"connection.*": "both values are equal",
    r"attribute.*-dropped": "the default is the same value",
    r"attributes of a function.*": "the default of the operator is the same value",
    r"Constant.*-another name|domain.*": "onnxruntime does not look at it in a Constant",
    r"initializer.*-dtype": "the numbers are the same in both dtypes",
    r".*-rank": "the shape is broadcast",
    r"(Constant|attribute|initializer).*-(first byte.*|one bit|last number|value)": "the number is rounded, clipped or a truth",
    r"number of outputs.*|order of outputs-.*": "nothing reads the output, or a product has its factors exchanged",
    r"operator.*": "the number is added to itself, or all are equal",
}
"""Kinds of changes that no run may show, with the reason; the report has to name them anyway."""


def check_effect(mutant: Mutant, is_seen: bool | None) -> None:
    """Check that what is computed changes where something was changed, and only there."""
    if mutant.effect is Effect.NOTHING:
        assert not is_seen, "a change of nothing changes what is computed"
    if mutant.effect is Effect.COMPUTED and is_seen is False:
        kind = f"{mutant.place}-{mutant.what}"
        assert any(re.fullmatch(pattern, kind) for pattern in _UNSEEN), (
            f"no run shows that this is a change: {kind}"
        )


def check_differences(mutant: Mutant, difference: Difference | str) -> None:
    """Check that a change of the graph is a difference, and that no other is."""
    is_change = mutant.effect is not Effect.NOTHING
    assert bool(difference) is is_change, (
        difference if isinstance(difference, str) else difference.verdict
    )


def is_exact(report: Report) -> bool:
    """Whether identities prove that every operator of two models, which are not one graph, computes the same."""
    return any(
        regions.exact == regions.operators and not regions.regions
        for b in report.branches
        for regions in b.regions
    )


def may_hide(mutant: Mutant, is_seen: bool | None) -> bool:
    """Whether what is computed may not show a change: one of a value, and one in a function or a
    body that a run shows.
    """
    is_value = mutant.place.startswith(
        ("initializer", "sparse_initializer", "attribute", "Constant")
    )
    is_inside = mutant.scope != "graph" and is_seen is not False
    return is_inside or (is_value and mutant.what not in ("dropped", "another name"))


def check_report(mutant: Mutant, report: Report | str, is_seen: bool | None) -> None:
    """Check what is said of two files: a change is found, or proved to be none, or EQUAL names the
    place and the distance.
    """
    if isinstance(report, str):
        assert mutant.effect is not Effect.NOTHING or mutant.source in UNKNOWN, report
        return
    if mutant.effect is Effect.NOTHING:
        assert (report.outcome, report.rung) == ("equal", "exact"), report.verdict
    elif mutant.effect is Effect.DECLARED:
        # Both are computed at a size that one of them fixes
        is_size = mutant.what.startswith("size ")
        assert not report or not is_seen or is_size, (
            "what is declared changes what is computed, and the verdict is EQUAL"
        )
    elif not report:
        assert any(stage.details for branch in report.branches for stage in branch.stages), (
            "nothing says what was changed"
        )
    elif mutant.place != "order of outputs of a graph":  # outputs are paired by their names
        check_equal(mutant, report, is_seen)


def check_equal(mutant: Mutant, report: Report, is_seen: bool | None) -> None:
    """Check the verdict EQUAL on a change: it is not said of what no run reached."""
    (branch,) = report.branches
    stages = {stage.name: stage for stage in branch.stages}
    assert "max abs" in stages["values"].summary
    if report.rung == "exact" or is_exact(report):
        assert not is_seen, f"identities prove what a run refutes: {report.verdict}"
        return
    # Numbers in another dtype are compared within the tolerance of that dtype.
    if "tolerance of" not in report.verdict:
        assert stages["structure"].details, "nothing says what was changed"
        assert "of structure" in report.verdict
    inside = [region for run in branch.regions for region in run.regions if region.place]
    if report.rung == "by weights" or any(region.is_weighed for region in inside):
        return  # the same for every input, rounding apart: a run need not reach it
    regions = [
        region.comparison
        for run in branch.regions
        for region in run.regions
        if region.comparison is not None
    ]
    distances = [*regions, *(output.comparison for run in branch.rounds for output in run.outputs)]
    is_shown = not all(each.identical for each in distances)
    if mutant.what == "formal attribute dropped":
        return  # every call states it, and onnxruntime asks no more
    assert is_shown or not may_hide(mutant, is_seen), "a change that no run reached is EQUAL"


def check_distance(report: Report | str, originals: list[Any], others: list[Any]) -> None:
    """Check that models that are called equal compute nearly the same on inputs that the verdict has not seen."""
    is_narrow = not isinstance(report, str) and "tolerance of" in report.verdict
    if isinstance(report, str) or not report or is_narrow:
        return
    for a, b in zip(originals, others, strict=True):
        assert not isinstance(a, str)
        assert not isinstance(b, str)
        # Outputs are paired by their names, so their order is free.
        assert all(any(are_same(x, y, exact=False) for y in b) for x in a), (
            f"far apart, and {report.verdict}"
        )


def check(mutant: Mutant, folder: Path) -> None:
    """Check what is said of one change."""
    original, source = load_original(mutant.source, folder), mutant.build()
    path = write(source, folder / "mutant")
    ends = not is_endless(source)
    can_run = original.outputs is not None and ends
    others = compute(path, original.inputs) if can_run else []
    is_seen = not is_same(original.outputs, others) if can_run else None
    check_effect(mutant, is_seen)
    check_differences(mutant, find_differences(original, path))
    report = compare(original, path, resources=gs.Resources(time_limit=None if ends else 2))
    check_report(mutant, report, is_seen)
    # Both were compared at a size that these inputs need not have
    is_size = mutant.what.startswith("size ")
    if can_run and is_seen and not is_size and not re.fullmatch(_RARE, mutant.name):
        check_distance(report, original.outputs or [], others)


@pytest.mark.parametrize(
    "name", [mutant.name for mutant in choose_mutants(of_each_model=is_required("large"))]
)
def test_a_change_is_seen(name: str, folder: Path) -> None:
    check(_BY_NAME[name], folder)


def test_every_place_is_changed() -> None:
    """A mutant fewer is a place less that is checked."""
    mutants = choose_mutants(of_each_model=True)
    assert Counter(mutant.effect for mutant in mutants)[Effect.COMPUTED] >= 1100
    assert len({mutant.source for mutant in mutants}) >= 20
    places = Counter(mutant.place for mutant in mutants)
    for kind in (
        "FLOAT",
        "INT",
        "STRING",
        "FLOATS",
        "INTS",
        "STRINGS",
        "TENSORS",
        "GRAPHS",
        "SPARSE_TENSORS",
        "TYPE_PROTO",
    ):
        assert places[f"attribute {kind}"], kind
    for form in ("float", "floats", "int", "ints", "string", "strings"):
        assert places[f"Constant value_{form}"], form
    stores = (
        "raw_data",
        "external data",
        "float_data",
        "int32_data",
        "string_data",
        "int64_data",
        "double_data",
        "uint64_data",
    )
    for store in stores:
        assert any(place.startswith("initializer") and place.endswith(store) for place in places), (
            store
        )
    dtypes = {place.split()[1].rstrip(",") for place in places if place.startswith("initializer")}
    assert len(dtypes) == 18, dtypes
    for place in (
        "Constant t FLOAT",
        "Constant sparse_tensor FLOAT",
        "attribute t FLOAT",
        "sparse_initializer FLOAT",
    ):
        assert any(each.startswith(place) for each in places), place
    for place in ("operator", "domain", "connection", "absent input", "order of inputs", "number of inputs", "order of outputs",
                  "number of outputs", "opset of a model", "opset of a function", "type of an input", "type of an output",
                  "quantization annotation", "order of outputs of a body", "order of inputs of a body", "function default",
                  "attribute reference", "inputs of a function", "names of inputs", "names of outputs"):  # fmt: skip
        assert places[place], place
    scopes = {mutant.scope for mutant in mutants}
    inner = "Loop.body/If.then_branch"
    assert scopes >= {
        "graph",
        "If.then_branch",
        "If.else_branch",
        "Loop.body",
        "Scan.body",
        "function",
        inner,
    }


@pytest.mark.parametrize("source", ["dense", "choices", "loops", "calls", "parts"])
def test_most_changes_are_shown_by_a_run(source: str, folder: Path) -> None:
    """What is called a change of what is computed is one: nearly all give other outputs, the
    versions of operators aside.
    """
    original = load_original(source, folder)
    mutants = [
        m
        for m in choose_mutants(of_each_model=True)
        if m.source == source and m.effect is Effect.COMPUTED and "opset" not in m.place
    ]
    mutants = [mutant for mutant in mutants if not is_endless(mutant.build())]
    seen = [
        not is_same(original.outputs, compute(write(m.build(), folder / "mutant"), original.inputs))
        for m in mutants
    ]
    assert sum(seen) >= 0.85 * len(seen), [
        m.name for m, is_seen in zip(mutants, seen, strict=True) if not is_seen
    ]


# The checks themselves fail where they should.

_OF_A_WEIGHT = "dense-graph.initializer0-last number"


@pytest.mark.parametrize("effect", [Effect.COMPUTED, Effect.DECLARED])
def test_a_change_that_changes_nothing_is_noticed(effect: Effect, folder: Path) -> None:
    idle = _BY_NAME["dense-model-nothing"]._replace(effect=effect)
    check(_BY_NAME["dense-model-nothing"], folder)
    with pytest.raises(AssertionError):
        check(idle, folder)


def test_a_change_that_is_called_nothing_is_noticed(folder: Path) -> None:
    with pytest.raises(AssertionError, match="a change of nothing changes what is computed"):
        check(_BY_NAME[_OF_A_WEIGHT]._replace(effect=Effect.NOTHING), folder)


@pytest.mark.parametrize("function", ["diff", "compare"])
def test_an_answer_that_misses_a_change_is_noticed(
    function: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(gs, function)
    monkeypatch.setattr(
        gs,
        "diff",
        lambda left, right, **options: real(left, left, **options) if function == "diff" else True,
    )
    if function == "compare":
        monkeypatch.setattr(
            gs, "compare", lambda left, right, **options: real(left, left, **options)
        )
    with pytest.raises(AssertionError, match=r"SAME|EQUAL"):
        check(_BY_NAME[_OF_A_WEIGHT], folder)


def test_a_verdict_that_names_no_place_is_noticed(folder: Path) -> None:
    mutant = _BY_NAME["dense-graph.node3.attribute0-one bit"]
    original = load_original("dense", folder)
    report = compare(original, write(mutant.build(), folder / "mutant"))
    assert isinstance(report, Report)
    check_report(mutant, report, True)
    (branch,) = report.branches
    stages = [
        replace(stage, details=()) if stage.name == "structure" else stage
        for stage in branch.stages
    ]
    with pytest.raises(AssertionError, match="nothing says what was changed"):
        check_report(
            mutant, replace(report, branches=(replace(branch, stages=tuple(stages)),)), True
        )


# What the command says.


def compare_files(folder: Path, source: str, name: str, *options: str) -> tuple[int, str]:
    mutant = _BY_NAME[f"{source}-{name}"]
    original = load_original(source, folder).path
    run = in_process("compare", original, write(mutant.build(), folder / "mutant"), *options)
    return run.returncode, (run.stdout + run.stderr).decode()


def test_equal_values_name_the_place_and_the_distance(folder: Path) -> None:
    code, text = compare_files(folder, "dense", "graph.node3.attribute0-one bit")
    assert code == 0
    assert "'g' and 'g': attributes alpha '0.5' and '0.50000006'" in text
    assert "2 outputs compared, 0 bit for bit, max abs" in text
    assert (
        "EQUAL: the other model and the original, by weights for every input; 1 difference of structure"
        in text
    )


_IN_CHOICES = "graph.node1.attribute1.g.node0.attribute0.g.node1-operator"
_IN_LOOPS = "graph.node0.attribute0.g.node2.attribute1.g.node0-operator"
_UNREACHED = {
    "a branch": (
        "made_branches",
        "graph.node1.attribute0.g.node0-operator",
        ("flag=true",),
        "else_branch of 'out'",
    ),
    "a branch in a branch": (
        "choices",
        _IN_CHOICES,
        ("flag=true", "other=true"),
        "else_branch of 'inner' in then_branch of 'y'",
    ),
    "a Loop of no steps": (
        "loops",
        _IN_LOOPS,
        ("count=0", "start=true", "flag=true"),
        "in body of 'last'",
    ),
}


@pytest.mark.parametrize("what", _UNREACHED)
def test_bodies_that_no_run_reached_are_compared(what: str, folder: Path) -> None:
    source, name, feeds, place = _UNREACHED[what]
    code, text = compare_files(
        folder, source, name, *(word for feed in feeds for word in ("--feed", feed))
    )
    assert code == 1, text
    assert re.search(r"\d regions? DIFFER", text), text
    assert re.search(rf"first at .*{re.escape(place)}: values differ", text), text
    assert "NOT PROVED: the outputs are equal, but " in text


def test_what_no_run_reached_is_not_equal(folder: Path) -> None:
    code, text = compare_files(folder, "dense", "graph.node2.attribute0-value")
    assert code == 1, text
    assert "alpha" in text
    assert "  FAIL changes     differences in 1 place changed no value that was computed" in text
    assert (
        "NOT PROVED: the values are equal, but none of them shows the differences between the models"
        in text
    )
    assert "--feed gives inputs that may show them" in text
