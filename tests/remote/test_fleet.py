"""``foreach`` on URLs: the same patterns, one listing, tags in place of hashes, and no secret in the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.fleet.listing import list_models
from graphshare.fleet.records import Task
from tests.cli.test_foreach import inline
from tests.processes import ROOT
from tests.remote.bucket import compare_ways, serve_models
from tests.remote.models import fixture_models
from tests.remote.web_server import WebServer

__all__ = ["inline"]  # a fixture
fsspec = pytest.importorskip("fsspec")
FILES = sorted(
    path for path in (ROOT / "fixtures").glob("*-*.*") if path.suffix in (".json", ".params")
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of an object store with the fixtures in two folders."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for path in FILES:
        for folder in ("a", "b/c"):
            memory.pipe_file(f"/{tmp_path.name}/{folder}/{path.name}", path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return f"memory://{tmp_path.name}"


def relatives(*patterns: str) -> list[str]:
    return [model.relative for model in list_models(patterns)]


def test_what_a_url_matches(store: str) -> None:
    assert relatives(f"{store}/a/*") == ["blog-symbol.json", "lenet-symbol.json", "nin-symbol.json"]
    assert relatives(f"{store}/a/*net") == ["lenet-symbol.json"]
    assert relatives(f"{store}/a/*.json") == [
        "blog-symbol.json",
        "lenet-symbol.json",
        "nin-symbol.json",
    ]
    assert relatives(f"{store}/**/l*") == ["a/lenet-symbol.json", "b/c/lenet-symbol.json"]
    assert relatives(f"{store}/b") == [f"c/{name}-symbol.json" for name in ("blog", "lenet", "nin")]
    assert relatives(f"{store}/a/lenet", f"{store}/a/nin-symbol.json") == [
        "lenet-symbol.json",
        "nin-symbol.json",
    ]
    (lenet,) = list_models([f"{store}/a/lenet"])
    assert lenet.params == f"{store}/a/lenet-0000.params"
    with pytest.raises(gs.GraphshareError, match="matches no model"):
        list_models([f"{store}/a/none*"])


def test_checkpoint_folders_of_a_store_are_models(store: str, inline: list[Task]) -> None:
    memory = fsspec.filesystem("memory")
    for path in (ROOT / "fixtures" / "gpt").iterdir():
        for folder in ("one", "more/two"):
            memory.pipe_file(
                f"/{store.removeprefix('memory://')}/{folder}/{path.name}", path.read_bytes()
            )
    words = ["params", "rename", "{}", "--prefix", "{name}_"]
    patterns = [f"{store}/one", f"{store}/more"]
    results = list(gs.foreach(patterns, words, out="out", manifest="run.jsonl"))
    assert [(result.outputs, result.error) for result in results] == [
        ((f"out/{name}.safetensors",), "") for name in ("one", "two")
    ]
    assert gs.list_params("out/two.safetensors").arrays[0].key == "two_transformer.wte.weight"
    assert all(
        result.was_skipped
        for result in gs.foreach(patterns, words, out="out", manifest="run.jsonl")
    )
    memory.pipe_file(f"/{store.removeprefix('memory://')}/one/config.json", b"{}")
    again = gs.foreach(patterns, words, out="out", manifest="run.jsonl")
    assert [result.was_skipped for result in again] == [False, True]
    refused = gs.foreach([f"{store}/one/"], ["params", "untie", "{}"], out="out")
    assert "is a URL" in next(refused).error


def test_a_second_run_does_what_has_changed_in_the_store(
    store: str, inline: list[Task], tmp_path: Path
) -> None:
    words = ["duplicate", "{}", "--prefix", "b-"]
    assert all(gs.foreach(f"{store}/a/*", words, out="out", manifest="run.jsonl"))
    for name in ("blog", "lenet", "nin"):
        gs.save(gs.duplicate(gs.load(ROOT / "fixtures" / name), "b-"), tmp_path / f"{name}-alone")
        assert (tmp_path / "out" / f"{name}-symbol.json").read_bytes() == (
            tmp_path / f"{name}-alone-symbol.json"
        ).read_bytes()
    memory = fsspec.filesystem("memory")
    path = f"/{tmp_path.name}/a/nin-symbol.json"
    memory.pipe_file(path, memory.cat_file(path) + b"\n")
    inline.clear()
    results = list(gs.foreach(f"{store}/a/*", words, out="out", manifest="run.jsonl"))
    assert [task.model.relative for task in inline] == ["nin-symbol.json"]
    assert [result.was_skipped for result in results] == [True, True, False]


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("m/../../up-symbol.json", "*/.*/.*/*.json"),
        ("m/../a-symbol.json", "*/.*/*.json"),
        ("../up-symbol.json", ".*/*.json"),
    ],
)
def test_a_key_that_leads_out_of_the_folder_of_the_outputs(
    key: str, pattern: str, store: str, inline: list[Task], tmp_path: Path
) -> None:
    memory = fsspec.filesystem("memory")
    memory.store[f"/{tmp_path.name}/d/{key}"] = memory.store[f"/{tmp_path.name}/a/nin-symbol.json"]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(gs.GraphshareError, match="its outputs would be outside of out") as raised:
        gs.foreach(
            [f"{store}/d/{pattern}", f"{store}/a"], ["duplicate", "{}", "--prefix", "b-"], out="out"
        )
    assert [fault.where for fault in raised.value.faults] == [f"{store}/d/{key}"]
    with pytest.raises(gs.GraphshareError, match="would be outside of"):
        gs.foreach(
            f"{store}/d/{pattern}", ["duplicate", "{}", "--prefix", "b-"], out="memory://out"
        )
    assert (inline, sorted(tmp_path.rglob("*"))) == ([], before)


def test_outputs_at_urls_are_replaced_only_by_a_run_that_goes_on(
    store: str, inline: list[Task], tmp_path: Path
) -> None:
    words, out = ["duplicate", "{}", "--prefix", "b-"], f"{store}/out"
    memory = fsspec.filesystem("memory")
    assert all(gs.foreach(f"{store}/a/*", words, out=out, manifest="run.jsonl"))
    there = {path.rpartition("/")[2] for path in memory.find(f"/{tmp_path.name}/out")}
    assert there == {
        f"{name}{end}"
        for name in ("blog", "lenet")
        for end in ("-symbol.json", "-0000.params", "-map.json")
    } | {
        "nin-symbol.json",
        "nin-map.json",
    }
    (result, *_) = gs.foreach(f"{store}/a/lenet", words, out=out)
    assert result.result == "failed"
    assert "already exists" in result.error
    with gs.overwriting():
        assert all(gs.foreach(f"{store}/a/lenet", words, out=out))
    lines = (tmp_path / "run.jsonl").read_text().splitlines(keepends=True)
    # As if it was killed after the objects, before the line
    (tmp_path / "run.jsonl").write_text("".join(lines[:2]))
    inline.clear()
    assert all(gs.foreach(f"{store}/a/*", words, out=out, manifest="run.jsonl"))
    assert len(inline) == 1


def test_neither_credentials_nor_queries_reach_the_manifest(
    site: WebServer, inline: list[Task], tmp_path: Path
) -> None:
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    url = f"{site.url}/lenet-symbol.json?token=secret".replace("://", "://user:secret@")
    manifest = tmp_path / "run.jsonl"
    for _ in range(2):
        results = list(gs.foreach([url], ["inspect", "{}"], manifest=manifest))
        assert len(results) == 1
    assert "secret" not in manifest.read_text()
    assert "secret" not in repr(results)
    assert all(
        json.loads(line)["source"].startswith("http://")
        for line in manifest.read_text().splitlines()
    )


@pytest.mark.large
def test_a_bucket_gives_the_same_bytes_one_by_one_by_processes_and_by_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from distributed import LocalCluster

    for name in (
        "AWS_ENDPOINT_URL",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.setenv(name, "")  # restored in the end
    lines: list[str] = []
    with (
        serve_models(fixture_models(), 4) as (server, stems),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
    ):
        compare_ways(server, stems, cluster.scheduler_address, lines.append)
    assert [line.partition(":")[0] for line in lines] == [
        "alone",
        "processes",
        "cluster",
        "answers (export, check)",
    ]
