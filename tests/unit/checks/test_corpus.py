"""Real graphs: what MXNet runs gets no error, what it refuses gets one, and every warning has its reason here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from graphshare.checks.context import CheckContext
from graphshare.checks.engine import run_rules
from graphshare.reports.model import Finding, Level
from tests.surroundings import NONE, corpus_stems, pick_everyday, recorded

pytestmark = pytest.mark.corpus

ONE_IN = 4
"""One graph in so many is checked everyday."""
RUN = corpus_stems(lambda meta: bool(meta["loads"] and meta.get("forward")))
REFUSED = corpus_stems(lambda meta: not meta["loads"])
LOADED = corpus_stems(lambda meta: bool(meta["loads"]))

# Graphs that MXNet loads and never ran, and what is wrong with them.
BROKEN = {
    "h2oai+deepwater__mxnet__test__symbol_unet-cpp": "a generator used the names pool2 to pool5 for two blocks each",
    "h2oai+deepwater__mxnet__test__symbol_unet-cpp.v2": "the same file with another input",
}
# Every warning that a real graph gets, with the reason why it is right.
WARNINGS = {
    ("GS204", "hand_group_out_index"): "one output is named twice, made so to see what MXNet does",
    ("GS206", "h2oai+deepwater__mxnet__test__symbol_unet-cpp"): "see BROKEN",
    ("GS206", "h2oai+deepwater__mxnet__test__symbol_unet-cpp.v2"): "see BROKEN",
    ("GS207", "h2oai+deepwater__mxnet__test__symbol_resnet-cpp"): "the sums of its residual blocks have no names",
    ("GS207", "h2oai+deepwater__mxnet__test__symbol_resnet-cpp.v2"): "the same network",
    ("GS207", "hand_empty_name"): "a node without a name, made so to see what MXNet does",
    **{
        ("GS310", f"dmlc+gluon-cv__gluoncv__model_zoo__quantized__ssd_512_{net}_voc_int8-symbol"):
            "its __init__ is the text of a Python object: <mxnet.initializer.Xavier object at 0x...>"
        for net in ("mobilenet1.0", "resnet50_v1")
    },
    ("GS405", "aws+sagemaker-mxnet-serving-container__test__resources__gluon_hosting__model__model"):
        "saved by Gluon's save_params; load cannot read it",
}  # fmt: skip


def findings(corpus: Path, stem: str, *, params: bool = False) -> list[Finding]:
    name = recorded(corpus, stem).get("params_file") if params else None
    return _findings(corpus / "graphs" / f"{stem}.json", str(corpus / name) if name else "")


@cache
def _findings(path: Path, params_path: str) -> list[Finding]:
    found, suppressed = run_rules(CheckContext(str(path), path.read_bytes(), params=params_path))
    assert suppressed == 0
    return found


@pytest.mark.parametrize("stem", RUN)
def test_what_runs_has_no_error(corpus: Path, stem: str) -> None:
    assert [finding for finding in findings(corpus, stem) if finding.level is Level.ERROR] == []


@pytest.mark.parametrize("stem", REFUSED)
def test_what_mxnet_refuses_has_an_error(corpus: Path, stem: str) -> None:
    assert [finding for finding in findings(corpus, stem) if finding.level is Level.ERROR]


@pytest.mark.parametrize("stem", LOADED)
def test_what_loads_has_errors_only_for_a_reason(corpus: Path, stem: str) -> None:
    errors = [finding for finding in findings(corpus, stem) if finding.level is Level.ERROR]
    assert bool(errors) == (stem in BROKEN)


@pytest.mark.parametrize("stem", corpus_stems(lambda meta: meta.get("params") == "file"))
def test_what_runs_has_no_error_with_its_parameters(corpus: Path, stem: str) -> None:
    assert [
        finding for finding in findings(corpus, stem, params=True) if finding.level is Level.ERROR
    ] == []


def test_every_warning_has_a_reason(corpus: Path) -> None:
    assert LOADED != [NONE]
    found = {
        (finding.code, stem)
        for stem in pick_everyday(LOADED, ONE_IN)
        for finding in findings(corpus, stem, params=True)
        if finding.level is Level.WARNING
    }
    assert found - WARNINGS.keys() == set()


def test_the_line_of_a_finding_is_in_its_node(corpus: Path) -> None:
    """A finding with a line points into the node that it speaks of."""
    looked_at = 0
    for stem in pick_everyday(LOADED, ONE_IN):
        lines = (corpus / "graphs" / f"{stem}.json").read_text(encoding="utf-8").split("\n")
        for finding in findings(corpus, stem):
            if (
                finding.node
                and finding.path.startswith("$.nodes[")
                and "subgraphs" not in finding.path
                and len(lines) > 10
            ):
                near = "\n".join(lines[finding.line - 1 : finding.line + 60])
                assert f'"{finding.node}"' in near, (stem, finding)
                looked_at += 1
    assert looked_at
