"""Checkpoint folders as models: their summary by headers, and several of them in one command, those
of a hub's cache too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.cli.fleet import _KINDS, make_template
from graphshare.files.schema import find_violations
from graphshare.fleet.listing import GRAPHS
from tests.processes import ROOT, done, graphshare, refused
from tests.shard_folders import INDEX, encode_shard, write_shards

EMBEDDING, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
LLAMA = {"architectures": ["LlamaForCausalLM"]}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """``models`` with a checkpoint in two shards, one in a single file with its output twice, and
    one in a hub's cache.
    """
    folder = tmp_path / "models"
    two = {"model-1.safetensors": [EMBEDDING, "a.weight"], "model-2.safetensors": ["b.weight"]}
    write_shards(folder / "good", two, tied=True, **LLAMA)
    write_shards(
        folder / "twice",
        {"model.safetensors": [EMBEDDING, OUTPUT]},
        tied=True,
        indexed=False,
        **LLAMA,
    )
    snapshot = folder / "models--org--net" / "snapshots" / ("0" * 40)
    write_shards(snapshot, two | {"model-3.safetensors": [OUTPUT]}, tied=True, **LLAMA)
    (blobs := folder / "models--org--net" / "blobs").mkdir()
    for number, path in enumerate(sorted(snapshot.iterdir())):
        os.rename(path, blobs / f"{number:064}")
        path.symlink_to(f"../../blobs/{number:064}")
    return folder


def run(folder: Path, *words: str, code: int = 0) -> list[dict[str, Any]]:
    """Run ``foreach`` in a process of its own and return its results by model."""
    process = graphshare(
        "foreach",
        *words[: words.index("--")],
        "--report",
        "json",
        *words[words.index("--") :],
        cwd=folder.parent,
    )
    assert process.returncode == code, process.stderr
    report = json.loads(process.stdout)
    assert find_violations(report, "foreach") == []
    return sorted(report["models"], key=lambda result: str(result["source"]))


def sources(results: list[dict[str, Any]]) -> list[str]:
    return [result["source"] for result in results]


def test_folders_are_models_of_the_commands_that_take_them(models: Path) -> None:
    cached = f"models/models--org--net/snapshots/{'0' * 40}"
    every = ["models/good", cached, "models/twice"]
    before = contents(models)
    commands = {
        "params convert": ["params", "convert", "{}", "{name}.npz"],
        "params diff": ["params", "diff", "{}", "models/good", "--atol", "1"],
        "params rename": ["params", "rename", "{}", "--prefix", "n_", "--dry-run"],
        "params tie": ["params", "tie", "{}", "--dry-run"],
        "params untie": ["params", "untie", "{}", "--dry-run"],
    }
    for name in _KINDS:
        results = run(models, "models", "--", *commands.get(name, [*name.split(), "{}"]),
                      code={"params diff": 1, "params tie": 2, "params untie": 2}.get(name, 0))  # fmt: skip
        assert sources(results) == every, name
    assert sources(run(models, "models/*", "--", "check", "{}")) == every[::2]
    assert sources(run(models, "models/good", "models/**", "--", "params", "list", "{}")) == every
    assert sources(run(models, "models/*/snapshots/*", "--", "inspect", "{}")) == [cached]
    warnings = {
        result["source"]: result["figures"]["counts.warning"]
        for result in run(models, "models", "--", "check", "{}")
    }
    assert warnings == dict(zip(every, (0, 1, 1), strict=True))
    assert contents(models) == before


def test_other_commands_take_no_folder_and_say_so(models: Path) -> None:
    done(
        graphshare(
            "rename",
            str(ROOT / "fixtures" / "lenet"),
            "--prefix",
            "n_",
            "-o",
            "models/good/net",
            cwd=models.parent,
        )
    )
    assert sources(run(models, "models", "--", "format", "{}", "--check")) == [
        "models/good/net-symbol.json"
    ]
    assert len(run(models, "models", "--", "check", "{}")) == 4
    assert sources(run(models, "models/*", "--", "params", "untie", "{}", "--dry-run", code=2)) == [
        "models/good",
        "models/twice",
    ]
    for command in (
        ["-o", "out", "--", "duplicate", "{}", "-p", "b-"],
        ["--", "inspect", "{}", "--fingerprint"],
    ):
        process = graphshare("foreach", "models/tw*", *command, cwd=models.parent)
        refused(process, "models/tw*: matches no model", "a pattern matches symbol files")
    refused(
        graphshare("foreach", "none", "--", "check", "{}", cwd=models.parent),
        "stems, checkpoint folders or folders of these",
    )
    refused(
        graphshare("foreach", "none", "--", "params", "tie", "{}", "--dry-run", cwd=models.parent),
        "matches checkpoint folders",
    )
    assert make_template(["duplicate", "{}", "-p", "b-"]).kinds == GRAPHS


def test_the_folders_that_are_written_are_those_of_the_command_one_by_one(models: Path) -> None:
    results = run(models, "models/*", "-o", "out", "--", "params", "tie", "{}", code=2)
    assert {result["source"]: result["result"] for result in results} == {
        "models/good": "failed",
        "models/twice": "done",
    }
    assert sorted(path.name for path in (models.parent / "out").iterdir()) == ["twice"]
    gs.tie_params(models / "twice", models.parent / "alone")
    assert contents(models.parent / "out" / "twice") == contents(models.parent / "alone")
    results = run(models, "models", "-o", "named", "--", "params", "rename", "{}", "--prefix", "n_")
    assert all(Path(models.parent, *result["outputs"]).is_file() for result in results)
    assert [array.key for array in gs.list_params(models.parent / "named" / "twice.safetensors").arrays] == [
        f"n_{EMBEDDING}", f"n_{OUTPUT}"
    ]  # fmt: skip
    (single,) = run(models, "models/twice", "-o", "one", "--", "params", "tie", "{}")
    assert single["outputs"] == [os.path.join("one", "twice")]
    refused(
        graphshare(
            "foreach",
            "models/models*",
            "-o",
            "models",
            "--",
            "params",
            "tie",
            "{}",
            cwd=models.parent,
        ),
        "matches no model",
    )


def test_a_manifest_knows_a_folder_by_the_state_of_its_files(models: Path) -> None:
    words = ("models/*", "--manifest", "m.jsonl", "--", "check", "{}")
    assert not any(result.get("was_skipped") for result in run(models, *words))
    assert all(result.get("was_skipped") for result in run(models, *words))
    lines = [json.loads(line) for line in (models.parent / "m.jsonl").read_text().splitlines()]
    assert [find_violations(line, "manifest") for line in lines] == [[], []]
    (models / "good" / "model-2.safetensors").write_bytes(encode_shard(["b.weight"], format="np"))
    assert [bool(result.get("was_skipped")) for result in run(models, *words)] == [False, True]
    (models / "good" / "model-2.safetensors").unlink()
    assert [result["result"] for result in run(models, *words, code=1)] == ["no", "done"]


def test_a_summary_has_what_headers_tell(models: Path) -> None:
    facts = gs.inspect_checkpoint(models / "good")
    assert (facts.architectures, facts.tied, facts.index) == (("LlamaForCausalLM",), True, INDEX)
    assert (facts.shards, facts.tensors, facts.numbers, facts.size, facts.dtypes) == (
        2,
        3,
        240,
        960,
        {"float32": 960},
    )
    assert [(tie.name, tie.kept, tie.stored, tie.size) for tie in facts.ties] == [
        (OUTPUT, EMBEDDING, "once", 0)
    ]
    (tie,) = gs.inspect_checkpoint(models / "twice").ties
    assert (tie.stored, tie.size) == ("twice", 320)
    (models / "twice" / "model.safetensors").write_bytes(
        encode_shard([EMBEDDING, OUTPUT], forms={OUTPUT: ("F16", [40, 4])})
    )
    (tie,) = gs.inspect_checkpoint(models / "twice").ties
    assert (tie.stored, tie.size) == ("unlike", 320)
    os.remove(models / "twice" / "config.json")
    silent = gs.inspect_checkpoint(models / "twice")
    assert (silent.architectures, silent.tied, silent.statement) == (
        (),
        None,
        "config says nothing",
    )


def test_inspect_prints_a_folder_or_a_line_for_each(models: Path) -> None:
    shown = done(graphshare("inspect", "models/good/", cwd=models.parent)).stdout.decode()
    for text in (
        "models/good",
        "2 shards",
        INDEX,
        "LlamaForCausalLM",
        "240 numbers",
        "float32 960 B",
        "is true",
        "stored once",
    ):
        assert text in shown, shown
    shown = done(graphshare("inspect", "models", cwd=models.parent)).stdout.decode()
    assert [line.split()[:3] for line in shown.splitlines()[1:]] == [
        ["models/good", "-", "240"], [f"models/models--org--net/snapshots/{'0' * 40}", "-", "320"], ["models/twice", "-", "160"]
    ]  # fmt: skip
    process = graphshare("inspect", "models", "--format", "json", cwd=models.parent)
    assert find_violations(json.loads(process.stdout), "inspect-folder") == []
    assert [facts.parameters for facts in gs.inspect_folder(models)] == [3, 4, 2]
    (models.parent / "empty").mkdir()
    refused(graphshare("inspect", "empty", cwd=models.parent), "*.safetensors beside config.json")
    refused(
        graphshare("inspect", "models", "--fingerprint", cwd=models.parent),
        "--fingerprint concerns graphs",
    )
    (models / "twice" / "model.safetensors").write_bytes(b"{")
    assert graphshare("inspect", "models", cwd=models.parent).returncode == 2
    refused(graphshare("inspect", "models/twice", cwd=models.parent), "model.safetensors")


@pytest.mark.parametrize("option", ["--epoch 1", "--params x.npz", "--as-input x", "--as-parameter x", "--shape x=1", "--names",
                                    "--module", "--shared", "--fingerprint"])  # fmt: skip
def test_options_of_graphs_are_refused_by_name(option: str, models: Path) -> None:
    process = graphshare("inspect", "models/good", *option.split(), cwd=models.parent)
    refused(process, f"{option.split()[0]} concerns graphs, and models/good is a checkpoint folder")


def test_what_does_not_fit_the_index_is_a_remark(models: Path) -> None:
    (models / "good" / "model-2.safetensors").write_bytes(encode_shard(["a.weight", "c.weight"]))
    process = done(graphshare("inspect", "models/good", cwd=models.parent))
    for text in (
        "no shard has it",
        "is in model-1.safetensors, model-2.safetensors",
        "is not in the index",
    ):
        assert text in process.stderr.decode()
    assert len(gs.inspect_checkpoint(models / "good").remarks) == 3


def test_a_shape_of_more_numbers_than_bits_is_a_fault(models: Path) -> None:
    shard = models / "twice" / "model.safetensors"
    shard.write_bytes(encode_shard([EMBEDDING, OUTPUT], forms={OUTPUT: ("F4", [1 << 62, 1 << 62])}))
    refused(
        graphshare("inspect", "models/twice", "--format", "json", cwd=models.parent),
        "not what its shape and dtype need",
    )
    assert "GS710" in {
        finding.code for finding in gs.check(models / "twice", isolated=True).findings
    }
    shard.write_bytes(encode_shard([EMBEDDING, OUTPUT], forms={OUTPUT: ("F4", [640])}))
    assert gs.inspect_checkpoint(models / "twice").numbers == 720


def test_a_quoted_glob_finds_folders_and_takes_their_files_once(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    for pattern, count in (("models/*", 2), ("models/good/**", 1), ("models/t*", 1)):
        report = gs.check(pattern, isolated=True)
        assert len(report.files) == count, pattern
        assert {finding.code for finding in report.findings} <= {"GS701"}
