"""Results at URLs: complete objects, the graph last, and nothing replaced unless that is meant."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import graphshare as gs
from graphshare.cli import main
from graphshare.errors import OutputError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.remote import retries
from graphshare.files.remote.filesystem import RemotePath
from tests.processes import ROOT
from tests.remote.answers import refuse

LENET = str(ROOT / "fixtures" / "lenet")


@pytest.fixture
def memory() -> Iterator[Any]:
    """The file system in memory, empty."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    found.pseudo_dirs[:] = [""]
    yield found
    found.store.clear()


@pytest.fixture
def written(memory: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the objects in the order in which they are written."""
    names: list[str] = []
    real = type(memory).pipe_file

    def note(self: Any, path: str, value: bytes, **options: Any) -> None:
        names.append(path.rpartition("/")[2])
        real(self, path, value, **options)

    monkeypatch.setattr(type(memory), "pipe_file", note)
    return names


def write(*names: str) -> None:
    with OutputTransaction() as stage:
        for name in names:
            stage.open(f"memory://out/{name}").write(b"new")
        stage.commit()


def run(*words: str) -> int:
    return main.run(list(words))


def test_outputs_at_a_url_are_those_of_a_path(
    memory: Any, written: list[str], tmp_path: Path
) -> None:
    assert (
        run(
            "duplicate",
            LENET,
            "-p",
            "a-",
            "-o",
            "memory://out/siam",
            "--map-out",
            "memory://out/siam-map.json",
        )
        == 0
    )
    assert (
        run(
            "duplicate",
            LENET,
            "-p",
            "a-",
            "-o",
            str(tmp_path / "siam"),
            "--map-out",
            str(tmp_path / "siam-map.json"),
        )
        == 0
    )
    # Readers open the graph first
    assert written == ["siam-0000.params", "siam-map.json", "siam-symbol.json"]
    for path in tmp_path.iterdir():
        assert memory.cat_file(f"/out/{path.name}") == path.read_bytes()
    assert run("verify", "memory://out/siam") == 0


def test_a_directory_and_a_model_in_onnx(memory: Any, written: list[str]) -> None:
    memory.pipe_file("/in/lenet-symbol.json", Path(f"{LENET}-symbol.json").read_bytes())
    memory.pipe_file("/in/lenet-0000.params", Path(f"{LENET}-0000.params").read_bytes())
    written.clear()
    assert (
        run(
            "export",
            "memory://in/lenet",
            "-o",
            "memory://out/",
            "--shape",
            "data=1,1,28,28",
            "--weights",
            "external",
        )
        == 0
    )
    assert written == ["lenet.onnx.data", "lenet.onnx"]
    assert (
        run(
            "rename",
            "memory://in/lenet",
            "--match",
            "conv1",
            "--to",
            "first",
            "-o",
            "memory://out/",
        )
        == 0
    )
    assert written[2:] == ["lenet-0000.params", "lenet-symbol.json"]


def test_what_is_there_is_replaced_only_when_that_is_meant(
    memory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["duplicate", LENET, "-p", "a-", "-o", "memory://out/siam"]
    assert run(*command) == 0
    memory.pipe_file("/out/siam-symbol.json", b"old")
    assert run(*command) == 2
    assert "memory://out/siam-symbol.json: already exists" in (said := capsys.readouterr().err)
    assert "--overwrite" in said
    assert memory.cat_file("/out/siam-symbol.json") == b"old"
    assert run(*command, "--overwrite") == 0
    assert memory.cat_file("/out/siam-symbol.json") != b"old"
    with pytest.raises(OutputError, match="already exists"):
        gs.save(gs.load(LENET), "memory://out/siam")
    with gs.overwriting():
        gs.save(gs.load(LENET), "memory://out/siam")


def test_an_input_is_not_replaced(memory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gs.save(gs.load(LENET), "memory://lenet")
    rename = ["rename", "memory://lenet", "--match", "conv1", "--to", "first"]
    assert (
        run(
            *rename,
            "-o",
            "memory://lenet-symbol.json",
            "--params-out",
            "memory://x.params",
            "--overwrite",
        )
        == 2
    )
    assert "is also the input" in capsys.readouterr().err
    assert run(*rename, "--in-place", "--overwrite") == 0
    assert any(node.name == "first" for node in gs.load("memory://lenet").graph.nodes)


def test_an_interrupt_leaves_nothing(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(memory).pipe_file

    def interrupt(self: Any, path: str, value: bytes) -> None:
        if path.endswith("-symbol.json"):
            raise KeyboardInterrupt
        real(self, path, value)

    monkeypatch.setattr(type(memory), "pipe_file", interrupt)
    assert run("duplicate", LENET, "-p", "a-", "-o", "memory://out/siam") == main.INTERRUPTED
    assert memory.find("/out") == []


@pytest.mark.parametrize("fails", ["siam-0000.params", "siam-symbol.json"])
def test_a_failure_leaves_nothing(
    memory: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: str
) -> None:
    real = type(memory).pipe_file

    def fail(self: Any, path: str, value: bytes, **options: Any) -> None:
        if path.endswith(fails):
            raise PermissionError(13, "Permission denied")
        real(self, path, value, **options)

    monkeypatch.setattr(type(memory), "pipe_file", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "a-map.json").write_text("old")
    with pytest.raises(
        OutputError, match=r"memory://out/siam.*: cannot be written: Permission denied"
    ):
        gs.save(gs.load(LENET), "memory://out/siam", map=tmp_path / "a-map.json")
    assert memory.find("/out") == []
    assert (tmp_path / "a-map.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a-map.json"]


def test_an_object_that_replaced_another_is_named_after_a_failure(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe_file("/out/a", b"old")
    real = type(memory).pipe_file

    def fail(self: Any, path: str, value: bytes, **options: Any) -> None:
        if path.endswith("/b"):
            raise OSError(5, "Input/output error")
        real(self, path, value, **options)

    monkeypatch.setattr(type(memory), "pipe_file", fail)
    with pytest.raises(OutputError) as caught, gs.overwriting():
        write("a", "b")
    assert [(fault.where, fault.message) for fault in caught.value.faults] == [
        ("memory://out/b", "cannot be written: Input/output error"),
        ("memory://out/a", "was written before the error"),
    ]


def test_a_short_write_is_an_error(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(memory).pipe_file
    monkeypatch.setattr(
        type(memory), "pipe_file", lambda self, path, value: real(self, path, value[:-1])
    )
    with pytest.raises(OutputError, match="has 2 bytes after 3 were written"):
        write("a")
    assert memory.find("/out") == []


def test_a_write_that_fails_for_a_moment_is_repeated(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(memory).pipe_file
    failures = [ConnectionResetError(104, "reset"), TimeoutError()]

    def fail(self: Any, path: str, value: bytes, **options: Any) -> None:
        if failures:
            raise failures.pop()
        real(self, path, value, **options)

    monkeypatch.setattr(type(memory), "pipe_file", fail)
    gs.save(gs.load(LENET), "memory://out/siam")
    assert len(memory.find("/out")) == 2


@pytest.mark.parametrize(
    ("error", "attempts", "message"),
    [
        (PermissionError(13, "denied"), 1, "cannot be written: denied"),
        (TimeoutError(), 3, "Timeout: no connection in 10 s"),
        (refuse(503), 3, "the server answered 503"),
        (refuse(412), 1, "was written by another process meanwhile"),
        (FileExistsError(), 1, "was written by another process meanwhile"),
    ],
)
def test_a_write_is_repeated_only_while_it_may_succeed(
    error: Exception, attempts: int, message: str, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def fail(self: Any, path: str, value: bytes, **options: Any) -> None:
        calls.append(path)
        raise error

    monkeypatch.setattr(type(memory), "pipe_file", fail)
    monkeypatch.setattr(retries, "DELAYS", (0, 0))
    with pytest.raises(OutputError, match=f"^memory://out/a: {message}"):
        write("a")
    assert len(calls) == attempts


def test_elsewhere_an_object_is_written_under_another_name_first(
    memory: Any, monkeypatch: pytest.MonkeyPatch, written: list[str]
) -> None:
    monkeypatch.setattr(RemotePath, "__init__", _as_other_scheme(RemotePath.__init__))
    names: list[str] = []
    monkeypatch.setattr(
        type(memory),
        "put_file",
        lambda self, local, path: names.append(path) or self.pipe_file(path, b"new"),
    )
    write("a")
    assert names[0].startswith("/out/.graphshare-")
    assert memory.find("/out") == ["/out/a"]


def _as_other_scheme(real: Any) -> Any:
    def init(self: RemotePath, url: str) -> None:
        real(self, url)
        self.scheme = "sftp"

    return init


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/x-symbol.json", "a web server is read-only here"),
        ("zip://x-symbol.json::memory://a.zip", "an archive is read-only here"),
        ("memory://x.json.gz", "outputs are written without compression"),
        ("nowhere://x-symbol.json", "Protocol not known"),
    ],
)
def test_urls_that_nothing_is_written_to(
    memory: Any, url: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("format", f"{LENET}-symbol.json", "--layout", "compact", "-o", url) == 2
    assert words in capsys.readouterr().err


def test_reports_and_maps_and_rules_and_feeds_may_be_urls(memory: Any, tmp_path: Path) -> None:
    gs.save(gs.load(LENET), "memory://in/lenet")
    assert (
        run(
            "check",
            "memory://in/*-symbol.json",
            "--format",
            "json",
            "-o",
            "memory://out/report.json",
        )
        == 0
    )
    assert memory.cat_file("/out/report.json").startswith(b"{")
    memory.pipe_file("/rules.json", b'{"version": 1, "rules": []}')
    assert run("rules", "check", "memory://rules.json") == 0
    assert run(
        "run",
        "memory://in/lenet",
        "--shape",
        "data=1,1,28,28",
        "--seed",
        "0",
        "-o",
        "memory://out/y.npz",
    ) in (0, 2)
    assert run("draw", "memory://in/lenet", "-o", "memory://out/lenet.svg") == 0
    assert memory.cat_file("/out/lenet.svg").startswith(b"<")
    assert run("params", "convert", "memory://in/lenet-0000.params", "memory://out/lenet.npz") == 0
    assert run("params", "diff", "memory://in/lenet-0000.params", "memory://out/lenet.npz") == 0
