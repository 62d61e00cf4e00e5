"""What every rule says, word for word: of its failing example, and of the inputs in ``variations.py``.

``python -m tests.unit.checks.test_findings`` records it in ``findings.txt``: a block for each
input, a line for each finding. It records the examples themselves in ``examples.txt``, as text,
because most changes of an example change no finding. Read what changed before you commit it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from graphshare.checks.context import CheckContext
from graphshare.checks.engine import RULES, run_rules
from graphshare.checks.rule import Example, apply, dense, field, model, value
from graphshare.reports.model import Finding
from tests import params_bytes
from tests.unit.checks.examples import read_context
from tests.unit.checks.variations import VARIATIONS

RECORDED = Path(__file__).with_name("findings.txt")
EXAMPLES = Path(__file__).with_name("examples.txt")
INPUTS = {
    # ONNX's checker has words of its own
    **{f"{code}'s example": rule.fails for code, rule in RULES.items() if code != "GS611"},
    "GS611's passing example": RULES["GS611"].passes,
    **{
        name: example if isinstance(example, Example) else Example(example)
        for name, example in VARIATIONS.items()
    },
}


def list_findings(example: Example, folder: Path) -> list[Finding]:
    return run_rules(read_context(example, folder))[0]


def format_finding(finding: Finding, folder: Path) -> str:
    """One line: what is found, and where; names are quoted, because some have line breaks."""
    place = f"{finding.line}:{finding.column}" if finding.line else "-"
    node = json.dumps(finding.node) if finding.node is not None else "-"
    where = f"{place} {json.dumps(finding.path)} {node}"
    text = f"{finding.code} {finding.level.value} {where}: {finding.message}" + (
        f" [{finding.hint}]" if finding.hint else ""
    )
    return text.replace(f"{folder}{os.sep}", "")


def record() -> str:
    """What the rules say of all inputs."""
    blocks = []
    for name, example in INPUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            lines = [
                format_finding(finding, Path(folder))
                for finding in list_findings(example, Path(folder))
            ]
        blocks.append("\n".join([f"= {name}", *lines]) + "\n")
    return "\n".join(blocks)


def format_example(example: Example) -> list[str]:
    """The lines of an example: its graph, in escapes where it is not ASCII (an ONNX model in one
    line), then the rest.
    """
    graph = example.graph
    if isinstance(graph, bytes):
        lines = [re.sub(r"(\\x00){9,}", lambda zeros: f"({len(zeros[0]) // 4} zeros)", repr(graph))]
    else:
        lines = [ascii(line)[1:-1] for line in graph.split("\n")]
    records = [f"with {record}" for record in example.params or ()]
    shapes = [f"with the shape {name}={shape}" for name, shape in example.shapes.items()]
    flags = (
        [f"named: {example.named}, damaged: {example.damaged}"]
        if example.params is not None
        else []
    )
    return [*(f"> {line}".rstrip() for line in lines), *records, *shapes, *flags]


def record_examples() -> str:
    blocks = [
        "\n".join([f"= {code} {word}", *format_example(example)]) + "\n"
        for code, rule in RULES.items()
        for word, example in (("fails", rule.fails), ("passes", rule.passes))
    ]
    return "\n".join(blocks)


def read_recorded(path: Path) -> dict[str, list[str]]:
    """The recorded lines of each input."""
    blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {
        lines[0].removeprefix("= "): lines[1:] for lines in (block.split("\n") for block in blocks)
    }


EXPECTED, EXPECTED_EXAMPLES = map(read_recorded, (RECORDED, EXAMPLES))


@pytest.mark.parametrize("name", INPUTS)
def test_findings_are_as_recorded(name: str, tmp_path: Path) -> None:
    example = INPUTS[name]
    if (
        isinstance(example.graph, bytes)
        and not example.graph.startswith((b"{", b"\xef"))
        and find_spec("onnx") is None
    ):
        pytest.skip("what ONNX infers needs onnx")
    assert name in EXPECTED, (
        "not recorded: run python -m tests.unit.checks.test_findings, and read what it adds"
    )
    assert [
        format_finding(finding, tmp_path) for finding in list_findings(example, tmp_path)
    ] == EXPECTED[name]


def test_nothing_else_is_recorded() -> None:
    assert list(EXPECTED) == list(INPUTS)


@pytest.mark.parametrize("code", RULES)
def test_examples_are_as_recorded(code: str) -> None:
    """``check --explain`` shows them."""
    for word, example in (("fails", RULES[code].fails), ("passes", RULES[code].passes)):
        assert format_example(example) == EXPECTED_EXAMPLES[f"{code} {word}"]


def test_a_changed_finding_is_noticed(tmp_path: Path) -> None:
    """The comparison itself: every part of a finding is in its line."""
    (finding,) = list_findings(INPUTS["GS006's example"], tmp_path)
    line = format_finding(finding, tmp_path)
    for part in (
        finding.code,
        finding.level.value,
        f"{finding.line}:{finding.column}",
        finding.path,
        finding.message,
        finding.hint,
    ):
        assert part in line


@pytest.mark.parametrize(
    ("count", "more"), [(19, ""), (20, ""), (21, " (and 1 more)"), (40, " (and 20 more)")]
)
def test_the_first_20_foreign_escapes_are_reported(count: int, more: str, tmp_path: Path) -> None:
    text = dense().replace("fc_bias", "fc" + "\\/" * count)
    escapes = [
        finding for finding in list_findings(Example(text), tmp_path) if finding.code == "GS004"
    ]
    start = text.splitlines()[3].index("\\/") + 1
    assert [(finding.line, finding.column) for finding in escapes] == [
        (4, start + 2 * i) for i in range(min(count, 20))
    ]
    assert {finding.message for finding in escapes[:-1]} == {"MXNet does not read the escape \\/"}
    assert escapes[-1].message == f"MXNet does not read the escape \\/{more}"


@pytest.mark.parametrize("byte", [b"\x80", b"\xff"])
def test_a_name_with_a_stray_byte_is_reported(byte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "b.params"
    path.write_bytes(params_bytes.container([params_bytes.dense((2,))], [b"arg:fc" + byte]))
    context = CheckContext("a.json", dense().encode(), params=str(path))
    (finding,) = [finding for finding in run_rules(context)[0] if finding.code == "GS412"]
    assert finding.message == "has a name with bytes that are not UTF-8"


def test_a_compressed_array_that_cannot_be_decoded_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "b.npz"
    arrays = {
        "arg:fc_weight": np.random.default_rng(0).random((2, 999), np.float32),
        "arg:fc_bias": np.ones(2, np.float32),
    }
    np.savez_compressed(path, **arrays)
    context = CheckContext("a.json", dense().encode(), params=str(path))
    assert run_rules(context)[0] == []
    data = path.read_bytes()
    # The second array's header follows the compressed bytes of the first
    end = data.index(b"PK", 4)
    path.write_bytes(
        data[: end - 8] + bytes(byte ^ 255 for byte in data[end - 8 : end]) + data[end:]
    )
    (finding,) = run_rules(CheckContext("a.json", dense().encode(), params=str(path)))[0]
    assert (finding.code, finding.path) == ("GS410", 'record 0 "arg:fc_weight"')


_ALPHA = field(5, field(1, "alpha") + field(2, 0) + field(20, 1))


@pytest.mark.parametrize(
    ("nodes", "path", "node"),
    [
        ([apply("Add", "x w", "y", name="sum")], "$.nodes[2]", "y"),
        (
            [apply("Relu", "x", "h", name="first"), apply("Relu", "h", "y", _ALPHA, name="second")],
            "$.nodes[3]",
            "y",
        ),
        ([apply("Relu", "x", "h", name="first"), apply("Relu", "h", "y", _ALPHA)], "$.graph", None),
    ],
)
def test_a_refusal_of_the_checker_is_at_its_node(
    nodes: list[bytes], path: str, node: str | None, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    data = model(*nodes, value(11, "x", 2), value(11, "w", 3), value(12, "y", 2))
    found = [
        finding for finding in list_findings(Example(data), tmp_path) if finding.code == "GS611"
    ]
    assert [(finding.path, finding.node) for finding in found] == [(path, node)]
    assert found[0].message.startswith("ONNX's checker refuses the model: ")
    assert "Error]" not in found[0].message
    assert "\n" not in found[0].message


if __name__ == "__main__":
    RECORDED.write_text(record(), encoding="utf-8")
    EXAMPLES.write_text(record_examples(), encoding="utf-8")
