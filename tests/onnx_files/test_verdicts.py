"""The verdict on two models is the right one, in either order, and with options that only show more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

import graphshare as gs
from graphshare.cli.console import name_options
from tests.onnx_files.verdict_models import unknown
from tests.onnx_files.verdict_pairs import DIFFERENT, ODD_SIZES, PAIRS, SAME, Pair
from tests.processes import in_process
from tests.surroundings import pick_everyday

onnxruntime = pytest.importorskip("onnxruntime")

_EXIT_CODES = {"exact": 0, "EQUAL": 0, "NOT EQUAL": 1, "NOT PROVED": 1, "not judged": 2}


class Answer(NamedTuple):
    """A verdict in one or two words, and the value or node that it names first, an empty text where it names none."""

    word: str
    first: str


def judge(model: Path, other: Path | None, **options: Any) -> Answer:
    """Return the verdict on two models, or on the branches of one: all tests of this module ask here."""
    rounds = options.pop("rounds", 1)
    options["inputs"] = gs.Inputs(rounds=rounds)
    report = gs.verify(model, **options) if other is None else gs.compare(model, other, **options)
    regions = [
        region for branch in report.branches for each in branch.regions for region in each.regions
    ]
    first = next((region.ends[0][0] for region in regions if not region), "")
    if report.outcome == "not judged":  # the operator that draws is named instead
        first = report.verdict.split("'")[1]
    word = {
        "equal": "EQUAL",
        "not equal": "NOT EQUAL",
        "not proved": "NOT PROVED",
        "not judged": "not judged",
    }[report.outcome]
    is_exact = (
        report.rung == "exact"
        if other is not None
        else report.verdict.startswith(("EQUAL", "STRUCTURE EQUAL"))
    )
    return Answer("exact" if report and is_exact else word, first)


_ORDERS = ("forward", "backward")
_LAYERS = ("layers forward", "layers backward")
_ASKED: dict[str, tuple[int, dict[str, Any]]] = {
    "forward": (1, {}),
    "backward": (-1, {}),
    "layers forward": (1, {"layers": True}),
    "layers backward": (-1, {"layers": True}),
}
"""The order of the models, and options, by question; none of them may change the verdict."""


class Case(NamedTuple):
    """Two files of the cases, without their suffix, and the verdicts that are right."""

    model: str
    other: str
    right: tuple[str, ...]
    options: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.model} and {self.other}"


_CASES = (
    Case("verify/rounds_p", "verify/rounds_q", SAME, {"rounds": 2}),
    Case("verify/seq_opt", "verify/seq_opt_mutant", DIFFERENT),
    Case("verify/dup_a", "verify/dup_c", SAME),
    Case("verify/o", "verify/s", ("EQUAL",)),
    Case("verify/relu_f32", "verify/relu_qdq", DIFFERENT),
    Case("verify/bool_a", "verify/bool_b", DIFFERENT),
    Case("verify/int_a", "verify/int_b", SAME),  # each is the sum of two rows, in either order
    Case("verify/nested_shadow", "verify/nested_shadow_c1c2", DIFFERENT),
    Case("verify/batch_flat_a", "verify/batch_flat_b", DIFFERENT),
    Case("verify/batch_norm_a", "verify/batch_norm_b", DIFFERENT),
    Case("verify/batch_sq_a", "verify/batch_sq_b", DIFFERENT),
    Case("verify/zero_plus", "verify/zero_minus", DIFFERENT),
    Case("verify/shape_arith", "verify/shape_arith_branches", ODD_SIZES),
    Case("verify/slim_convtransposemul/before0", "verify/slim_convtransposemul/after0", ("EQUAL",)),
    Case("verify/oscript_00780_osrule/before0", "verify/oscript_00780_osrule/after0", ("EQUAL",)),
    Case("verify/rnd2", "verify/rnd2", ("not judged",)),
    Case("verify/irpy_00153_irpass/before0", "verify/irpy_00153_irpass/after0", ("exact",)),
    Case("verify/func_if", "verify/func_if__inline", ("exact",)),
    Case("types/bf", "types/bf", ("exact",)),
    Case("types/custom", "types/custom", ("exact",), {"allow_unsupported": True}),
)
_Asked = TypeVar("_Asked", Pair, Case)


def _list_cases(questions: Iterable[str], pairs: Iterable[_Asked], *, one_in: int = 1) -> list[Any]:
    """Return pairs and questions; one pair in so many is of everyday."""
    pairs, questions = list(pairs), list(questions)
    everyday = pick_everyday([pair.name for pair in pairs], one_in)
    listed = []
    for pair in pairs:
        for question in questions:
            marks = [pytest.mark.large] if pair.name not in everyday else []
            listed.append(pytest.param(pair, question, id=f"{pair.name}, {question}", marks=marks))
    return listed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of all pairs."""
    path = tmp_path_factory.mktemp("pairs")
    for pair in PAIRS:
        for place, model in zip(_paths(path, pair), (pair.model, pair.other), strict=True):
            place.write_bytes(model.SerializeToString())
    return path


def _paths(folder: Path, pair: Pair) -> list[Path]:
    return [folder / f"{pair.name}-{side}.onnx" for side in ("a", "b")]


@pytest.mark.parametrize(
    ("pair", "question"), [*_list_cases(_ORDERS, PAIRS), *_list_cases(_LAYERS, PAIRS, one_in=3)]
)
def test_a_pair_has_the_right_verdict(pair: Pair, question: str, folder: Path) -> None:
    order, options = _ASKED[question]
    answer = judge(*_paths(folder, pair)[::order], **pair.options, **options)
    assert answer.word in pair.right
    assert answer.first == pair.first or not pair.first


@pytest.mark.parametrize(
    ("pair", "question"),
    _list_cases(["orders"], [pair for pair in PAIRS if len(pair.right) > 1], one_in=3),
)
def test_the_order_of_two_models_does_not_change_the_verdict(
    pair: Pair, question: str, folder: Path
) -> None:
    """Where several verdicts are right, too."""
    paths = _paths(folder, pair)
    assert judge(*paths, **pair.options).word == judge(*paths[::-1], **pair.options).word


@pytest.mark.parametrize(("pair", "question"), _list_cases(["itself"], PAIRS, one_in=3))
def test_a_model_is_exact_against_itself(pair: Pair, question: str, folder: Path) -> None:
    for path in _paths(folder, pair):
        assert judge(path, path, **pair.options).word == pair.own


@pytest.mark.parametrize(("pair", "question"), _list_cases(["command"], PAIRS, one_in=8))
def test_every_format_of_a_report_has_the_exit_code_of_the_verdict(
    pair: Pair, question: str, folder: Path
) -> None:
    paths = _paths(folder, pair)
    words = ["compare", paths[0], paths[1]]
    for name, value in pair.options.items():
        words += [name_options(f"`{name}`"), *([] if value is True else [str(value)])]
    codes = {
        form: in_process(*words, "--format", form).returncode
        for form in ("text", "json", "html", "github", "junit", "sarif")
    }
    assert codes == dict.fromkeys(codes, _EXIT_CODES[judge(*paths, **pair.options).word])


@pytest.mark.parametrize(
    ("case", "question"), [*_list_cases(_ORDERS, _CASES), *_list_cases(_LAYERS, _CASES, one_in=3)]
)
def test_a_case_has_the_right_verdict(case: Case, question: str, cases: Path) -> None:
    order, options = _ASKED[question]
    paths = [cases / f"{name}.onnx" for name in (case.model, case.other)][::order]
    assert judge(*paths, **case.options, **options).word in case.right


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_that_a_quantizer_uses_again_is_not_the_first_difference(
    order: int, cases: Path
) -> None:
    """The quantizer drops a Relu, and gives its name to what comes before."""
    paths = [cases / f"verify/{name}.onnx" for name in ("relu_f32", "relu_qdq")][::order]
    (branch,) = gs.compare(*paths).branches
    departed = [
        region
        for each in branch.regions
        for region in each.regions
        if region.comparison is not None and not region
    ]
    assert departed
    assert all(end != ("r0", "r0") for region in departed for end in region.ends)


def test_a_case_whose_output_onnxruntime_folds_is_equal_in_both_orders(
    cases: Path, tmp_path: Path
) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    options.log_severity_level = 3
    original = cases / "verify" / "gh_issue_17392.onnx"
    onnxruntime.InferenceSession(original, options)
    assert judge(original, tmp_path / "folded.onnx").word in SAME
    assert judge(tmp_path / "folded.onnx", original).word in SAME


@pytest.mark.parametrize("is_case", [False, True])
def test_branches_on_one_weight_are_exact_though_an_operator_is_unknown(
    is_case: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "unknown.onnx"
    path.write_bytes(unknown("abc").SerializeToString())
    if is_case:
        path = request.getfixturevalue("cases") / "types" / "custom.onnx"
    gs.save(gs.duplicate(gs.load(path), "b_", mode="tie"), tmp_path / "tied.onnx")
    assert judge(tmp_path / "tied.onnx", None, allow_unsupported=True).word == "exact"
