"""What commands print as JSON is what the shipped schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from jsonschema import Draft202012Validator

from graphshare.files.schema import find_violations, load_schema
from graphshare.verification.findings import make_report
from graphshare.verification.report import Report
from tests.processes import ROOT, done, graphshare, write_json, write_params
from tests.symbols import old_batch_norm, siamese, two_layers

SCHEMAS = sorted(
    path.name.removesuffix(".schema.json") for path in (ROOT / "schemas").glob("*.schema.json")
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))
    assert find_violations(17, name)


def test_verify_and_compare_print_one_report() -> None:
    verify, compare = (
        {k: v for k, v in load_schema(n).items() if k not in ("$id", "title")}
        for n in ("verify", "compare")
    )
    assert verify == compare


def test_every_stage_has_a_rule() -> None:
    """Formats of findings name a rule for each stage that fails."""
    stages = load_schema("compare")["$defs"]["stage"]["properties"]["name"]["enum"]
    rules = {rule.code for rule in make_report(Report(()), "model.onnx").rules}
    assert rules == {f"verify-{name}" for name in (*stages, "verdict")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, found in (
        ("siamese", siamese()),
        ("layers", two_layers()),
        ("old", old_batch_norm()),
    ):
        write_json(tmp_path / f"{name}.json", found)
    write_params(tmp_path / "old.params", ["arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var",
                                           "arg:fc_weight", "arg:fc_bias"])  # fmt: skip
    write_params(tmp_path / "nameless.params", [])
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,28,28] data) => (float[1,1,28,28] '
        "y) { y = Relu(data) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "fixed.onnx")
    return tmp_path


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        *(("inspect", ["inspect", f"{name}.json"]) for name in ("siamese", "layers", "old")),
        ("inspect", ["inspect", "old.json", "--params", "old.params"]),
        *(
            ("inspect", ["inspect", f"{name}.json", "--shape", "data=1,1,9,9"])
            for name in ("siamese", "layers", "old")
        ),
        (
            "run",
            [
                "run",
                "siamese.json",
                "--seed",
                "1",
                "--random-params",
                "1",
                "--shape",
                "data=1,1,9,9",
                "--profile",
            ],
        ),
        *(
            ("module", ["inspect", f"{name}.json", "--module"])
            for name in ("siamese", "layers", "old")
        ),
        (
            "plan",
            [
                "duplicate",
                "layers.json",
                "--prefix",
                "a-",
                "--prefix",
                "b-",
                "--tie",
                "fc*",
                "--dry-run",
            ],
        ),
        (
            "plan",
            ["duplicate", "old.json", "--params", "old.params", "--prefix", "a-", "--dry-run"],
        ),
        ("plan", ["extract", "layers.json", "--target", "fc1", "--dry-run"]),
        (
            "plan",
            ["group", "layers.json", "siamese.json", "--connect", "fc1_output=data", "--dry-run"],
        ),
        ("plan", ["group", "old.json", "old.json", "--on-collision", "prefix", "--dry-run"]),
        ("plan", ["duplicate", "siamese.json", "--prefix", "a-", "--mode", "batch", "--dry-run"]),
        ("plan", ["rename", "old.json", "--prefix", "a-", "--dry-run"]),
        ("plan", ["upgrade", "old.json", "--params", "old.params", "--dry-run"]),
        ("plan", ["fold", "old.json", "--params", "old.params", "--dry-run"]),
        ("plan", ["fold", str(ROOT / "fixtures" / "lenet"), "--dry-run"]),
        ("plan", ["reshape", "fixed.onnx", "--shape", "data=n,1,28,w", "--dry-run"]),
        ("plan", ["reshape", "fixed.onnx", "--dynamic-batch", "--no-verify", "--dry-run"]),
        ("params-list", ["params", "list", "old.params"]),
        ("params-list", ["params", "list", "nameless.params"]),
        ("params-list", ["params", "list", str(ROOT / "fixtures" / "gpt")]),
        ("inspect-checkpoint", ["inspect", str(ROOT / "fixtures" / "gpt")]),
        ("inspect-checkpoint", ["inspect", str(ROOT / "fixtures" / "gpt-twice")]),
        (
            "inspect-folder",
            ["inspect", str(ROOT / "fixtures" / "gpt"), str(ROOT / "fixtures" / "lenet")],
        ),
        ("params-tie", ["params", "tie", str(ROOT / "fixtures" / "gpt-twice"), "--dry-run"]),
        ("params-tie", ["params", "untie", str(ROOT / "fixtures" / "gpt"), "--dry-run"]),
    ],
)
def test_printed_json_fits_its_schema(schema: str, arguments: list[str], folder: Path) -> None:
    found: Any = json.loads(done(graphshare(*arguments, "--format", "json", cwd=folder)).stdout)
    assert find_violations(found, schema) == []
    if schema == "plan":
        assert (
            find_violations(
                {
                    key: value
                    for key, value in found.items()
                    if key not in ("records", "removed", "folding", "reshaping")
                },
                "map",
            )
            == []
        )


def test_map_files_fit_their_schema(folder: Path) -> None:
    commands = (["duplicate", "old.json", "--prefix", "a-"], ["duplicate", "layers.json", "--prefix", "a-", "--mode", "tie"],
                ["duplicate", "layers.json", "--prefix", "a-", "--drop-original", "--upto", "fc1"],
                ["extract", "layers.json", "--target", "bn", "--cut", "fc1"], ["upgrade", "old.json"],
                ["rename", "siamese.json", "--prefix", "a-"],
                ["group", "old.json", "old.json", "--on-collision", "prefix"],
                ["duplicate", "siamese.json", "--prefix", "a-", "--mode", "batch"],
                ["duplicate", "old.json", "--prefix", "a-", "--upgrade"])  # fmt: skip
    for command in commands:
        done(graphshare(*command, "-o", "out.json", "--map-out", "out.map", cwd=folder))
        assert find_violations(json.loads((folder / "out.map").read_text()), "map") == []


@pytest.mark.parametrize(("count", "rest"), [(99, 0), (100, 0), (101, 1), (150, 1)])
def test_the_first_100_faults_are_listed(count: int, rest: int) -> None:
    faults = find_violations({"version": 1, "entries": [1] * count, "sources": []}, "map")
    assert len(faults) == min(count, 101)
    assert sum("only the first 100 faults" in fault.message for fault in faults) == rest
