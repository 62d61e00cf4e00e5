"""The verdict on two models is the right one, in either order, and with options that only show more.

What is wrong today is an expected failure that says why: a change that sets it right takes it out of the table here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

import graphshare as gs
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
    regions = [region for branch in report.branches for each in branch.regions for region in each.regions]
    first = next((region.ends[0][0] for region in regions if not region), "")
    word = {"equal": "EQUAL", "not equal": "NOT EQUAL", "not proved": "NOT PROVED", "not judged": "not judged"}[report.outcome]
    is_exact = report.rung == "exact" if other is not None else report.verdict.startswith(("EQUAL", "STRUCTURE EQUAL"))
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


class _Wrong(NamedTuple):
    """Why the verdicts on some pairs are wrong today, and for which questions."""

    reason: str
    pairs: tuple[str, ...]
    questions: tuple[str, ...] = (*_ORDERS, *_LAYERS)


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
_MASKED = tuple(f"masked-{mask}-renamed" for mask in ("relu", "clip", "where", "max-pool"))
_BATCH = ("flattened-batch", "flattened-batch-refused", "mean-over-batch", "first-of-batch", "squeezed-batch")
_FILES_OF_BATCH = tuple(f"verify/batch_{kind}_a and verify/batch_{kind}_b" for kind in ("flat", "norm", "sq"))
_EVERYTHING = (*_ASKED, "orders", "itself", "command")

_WRONG = (
    _Wrong(
        "a second round draws inputs in a session that the first round has closed",
        ("fused-rounds", "fused-in-body-rounds", "verify/rounds_p and verify/rounds_q"),
        (*_ORDERS, "orders", "command"),
    ),
    _Wrong(
        "`layers` of two models refuses `rounds`",
        ("fused-rounds", "fused-in-body-rounds", "verify/rounds_p and verify/rounds_q"),
        _LAYERS,
    ),
    _Wrong(
        "a sequence that a body of a region reads is cut out as if it were an array",
        ("sequence-mapped", "sequence-mapped-wrong", "verify/seq_opt and verify/seq_opt_mutant"),
        (*_ASKED, "orders", "command"),
    ),
    _Wrong(
        "a table of outputs by name has one entry for an output that is listed twice",
        ("listed-twice", "listed-twice-wrong", "verify/dup_a and verify/dup_c"),
        _EVERYTHING,
    ),
    _Wrong(
        "values of one name are one value, though the name has moved",
        ("folded-normalization", "verify/o and verify/s"),
        ("backward", *_LAYERS, "orders"),
    ),
    _Wrong("layers of one name are one value, though the name has moved", ("moved-name",), _LAYERS),
    _Wrong(
        "values of one name are one value, though the quantizer has moved the name",
        ("verify/relu_f32 and verify/relu_qdq",),
        ("first",),
    ),
    _Wrong(
        "nodes pair inputs by their places where names say otherwise, and both conditions are drawn alike",
        (
            "exchanged-conditions",
            "nested-conditions",
            "nested-conditions-of-one-name",
            "verify/bool_a and verify/bool_b",
            "verify/nested_shadow and verify/nested_shadow_c1c2",
        ),
    ),
    _Wrong("layers of one name are one value, though the tables are exchanged", ("verify/int_a and verify/int_b",), _LAYERS),
    _Wrong("one sample is drawn", (*_BATCH, *_FILES_OF_BATCH)),
    _Wrong("one size is drawn", ("shape-factors", "shape-bodies", "verify/shape_arith and verify/shape_arith_branches")),
    _Wrong(
        "a small number may differ by a share of itself, not of the largest in its output",
        (
            "scaled-difference",
            "verify/slim_convtransposemul/before0 and verify/slim_convtransposemul/after0",
            "verify/oscript_00780_osrule/before0 and verify/oscript_00780_osrule/after0",
        ),
        _ORDERS,
    ),
    _Wrong(
        "random numbers are compared, which two sessions draw alike or not",
        ("random-dropout", "random-normal", "verify/rnd2 and verify/rnd2"),
        (*_ASKED, "itself"),
    ),
    _Wrong(
        "a call of a function is one operator, whose definition is not looked at",
        (
            "inlined",
            "inlined-in-part",
            "inlined-choice",
            "verify/irpy_00153_irpass/before0 and verify/irpy_00153_irpass/after0",
            "verify/func_if and verify/func_if__inline",
        ),
    ),
    _Wrong(
        "other inputs of a region are drawn apart, where the second model starts behind what the first starts from",
        ("moved-axis",),
        ("backward", "layers backward", "orders"),
    ),
    _Wrong("the first model decides which bodies are compared", ("inlined-choice-wrong",), ("orders",)),
    _Wrong(
        "an output that is an initializer of the first model has no value",
        ("folded-strings",),
        ("backward", "layers backward", "orders"),
    ),
    _Wrong("an `auto_pad` is compared as it is spelled", ("padding-valid",)),
    _Wrong("the indices of a sparse weight are compared with their dtype", ("sparse-indices",)),
    _Wrong(
        "numpy has no bfloat16",
        ("bfloat16", "bfloat16-wrong", "types/bf and types/bf"),
        (*_ASKED, "itself", "command"),
    ),
    _Wrong(
        "values are computed even where an operator is allowed to have no kernel",
        ("unknown", "unknown-wrong", "types/custom and types/custom"),
        _EVERYTHING,
    ),
    _Wrong("a region ends behind what hides its fault, as no earlier value has one name", _MASKED),
)
"""What is wrong today."""


_Asked = TypeVar("_Asked", Pair, Case)


def _list_cases(questions: Iterable[str], pairs: Iterable[_Asked], *, one_in: int = 1) -> list[Any]:
    """Return pairs and questions; those with a wrong answer today are expected to fail, and one in so many is of everyday."""
    reasons = {(name, question): wrong.reason for wrong in _WRONG for name in wrong.pairs for question in wrong.questions}
    pairs, questions = list(pairs), list(questions)
    everyday = pick_everyday([pair.name for pair in pairs], one_in)
    listed = []
    for pair in pairs:
        for question in questions:
            reason = reasons.get((pair.name, question))
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            marks += [pytest.mark.large] if pair.name not in everyday else []
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


@pytest.mark.parametrize(("pair", "question"), [*_list_cases(_ORDERS, PAIRS), *_list_cases(_LAYERS, PAIRS, one_in=3)])
def test_a_pair_has_the_right_verdict(pair: Pair, question: str, folder: Path) -> None:
    order, options = _ASKED[question]
    answer = judge(*_paths(folder, pair)[::order], **pair.options, **options)
    assert answer.word in pair.right
    assert answer.first == pair.first or not pair.first


@pytest.mark.parametrize(
    ("pair", "question"), _list_cases(["orders"], [pair for pair in PAIRS if len(pair.right) > 1], one_in=3)
)
def test_the_order_of_two_models_does_not_change_the_verdict(pair: Pair, question: str, folder: Path) -> None:
    """Where several verdicts are right, too."""
    paths = _paths(folder, pair)
    assert judge(*paths, **pair.options).word == judge(*paths[::-1], **pair.options).word


@pytest.mark.parametrize(("pair", "question"), _list_cases(["itself"], PAIRS, one_in=3))
def test_a_model_is_exact_against_itself(pair: Pair, question: str, folder: Path) -> None:
    for path in _paths(folder, pair):
        assert judge(path, path, **pair.options).word == pair.own


@pytest.mark.parametrize(("pair", "question"), _list_cases(["command"], PAIRS, one_in=8))
def test_every_format_of_a_report_has_the_exit_code_of_the_verdict(pair: Pair, question: str, folder: Path) -> None:
    paths = _paths(folder, pair)
    words = ["compare", paths[0], paths[1]]
    for name, value in pair.options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    codes = {form: in_process(*words, "--format", form).returncode for form in ("text", "json", "html")}
    assert codes == dict.fromkeys(codes, _EXIT_CODES[judge(*paths, **pair.options).word])


def test_what_is_wrong_is_a_pair_or_a_case() -> None:
    names = {case.name for case in (*PAIRS, *_CASES)}
    assert {name for wrong in _WRONG for name in wrong.pairs} <= names
    assert {question for wrong in _WRONG for question in wrong.questions} <= {*_EVERYTHING, "first"}


@pytest.mark.parametrize(("case", "question"), [*_list_cases(_ORDERS, _CASES), *_list_cases(_LAYERS, _CASES, one_in=3)])
def test_a_case_has_the_right_verdict(case: Case, question: str, cases: Path) -> None:
    order, options = _ASKED[question]
    paths = [cases / f"{name}.onnx" for name in (case.model, case.other)][::order]
    assert judge(*paths, **case.options, **options).word in case.right


@pytest.mark.parametrize(("case", "question"), _list_cases(["first"], [case for case in _CASES if "relu" in case.name]))
def test_a_name_that_a_quantizer_uses_again_is_not_the_first_difference(case: Case, question: str, cases: Path) -> None:
    """The quantizer drops a Relu, and gives its name to what comes before."""
    paths = [cases / f"{name}.onnx" for name in (case.model, case.other)]
    assert judge(*paths).first not in ("", "r0")
    assert judge(*paths[::-1]).first not in ("", "r0")


@pytest.mark.xfail(strict=True, reason="an output that is an initializer of the first model has no value")
def test_a_case_whose_output_onnxruntime_folds_is_equal_in_both_orders(cases: Path, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    options.log_severity_level = 3
    original = cases / "verify" / "gh_issue_17392.onnx"
    onnxruntime.InferenceSession(original, options)
    assert judge(original, tmp_path / "folded.onnx").word in SAME
    assert judge(tmp_path / "folded.onnx", original).word in SAME


@pytest.mark.xfail(strict=True, reason="values are computed even where an operator is allowed to have no kernel")
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
