"""Servers that are dead, silent, slow or out of order: every command ends in time, with an error that names the URL."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from graphshare.cli import main
from graphshare.files.remote import retries
from tests.effort import ends
from tests.processes import ROOT
from tests.remote.bad_server import (
    Behaviour,
    break_chunk,
    drip_body,
    drip_head,
    fail,
    say_nothing,
    serve_badly,
)

LENET = str(ROOT / "fixtures" / "lenet")
ATTEMPTS = 2


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "SILENCE", 0.05)
    monkeypatch.setattr(retries, "CONNECT", 0.05)
    monkeypatch.setattr(retries, "DELAYS", (0.0,) * (ATTEMPTS - 1))


def run_in_time(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail; return what it says. One that waits for the server hangs, and is stopped."""
    with ends():
        assert main.run(list(words)) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("behaviour", [say_nothing, drip_head, drip_body, break_chunk, fail, None])
def test_a_web_server(behaviour: Behaviour | None, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_badly(behaviour) as (address, times):
        said = run_in_time(capsys, "inspect", f"{address}/lenet-symbol.json")
    assert f"{address}/lenet-symbol.json: " in said
    assert ("Timeout" in said) == (behaviour not in (fail, None))
    # The client repeats a request itself when a connection that it kept is gone
    assert len(times) <= ATTEMPTS + 1


@pytest.mark.parametrize("behaviour", [say_nothing, drip_head, drip_body, break_chunk, fail, None])
def test_an_archive_on_a_web_server(
    behaviour: Behaviour | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file system of the archive reads the server itself."""
    with serve_badly(behaviour) as (address, _):
        said = run_in_time(capsys, "inspect", f"zip://lenet-symbol.json::{address}/lenet.zip")
    assert f"zip://lenet-symbol.json::{address}/lenet.zip: " in said


def test_a_time_limit_ends_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(retries, "SILENCE", 30.0)
    with serve_badly(say_nothing) as (address, _):
        said = run_in_time(
            capsys,
            "export",
            f"{address}/lenet-symbol.json",
            "-o",
            "lenet.onnx",
            "--time-limit",
            "0.1",
        )
    assert "the time limit of 0.1 s has passed" in said


@pytest.fixture
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let botocore repeat requests at once, to whatever endpoint the environment names."""
    import s3fs  # slow to import

    s3fs.S3FileSystem.clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0
    )


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ({}, 0),
        ({"Content-Length": "70000"}, 70000),
        ({"Content-Length": "12", "X-Amz-Decoded-Content-Length": "70000"}, 70000),
        ({"Content-Length": "much"}, 0),
    ],
)
def test_a_request_to_s3_has_time_for_its_bytes(
    headers: dict[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpsession = pytest.importorskip("aiobotocore.httpsession")
    asked = []

    async def answer(self: object, request: SimpleNamespace) -> str:
        return f"answer to {request.url}"

    monkeypatch.setattr(httpsession.AIOHTTPSession, "send", answer)
    monkeypatch.setattr(retries, "allow_seconds", lambda size: asked.append(size) or 60.0)
    session = retries._make_session_class()()
    request = SimpleNamespace(url="https://host/a", headers=headers)
    assert asyncio.run(session.send(request)) == "answer to https://host/a"
    assert asked == [size]


@pytest.mark.large
@pytest.mark.usefixtures("_no_backoff")
@pytest.mark.parametrize("behaviour", [say_nothing, drip_head, drip_body, fail, None])
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "s3://models/lenet"),
        ("params", "list", "s3://models/lenet-0000.params"),
        ("check", "s3://models/**/*.json"),
        ("upgrade", f"{LENET}-symbol.json", "-o", "s3://models/out-symbol.json"),
    ],
    ids=lambda words: words[0],
)
def test_an_object_store(
    behaviour: Behaviour | None,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve_badly(behaviour) as (address, times):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        said = run_in_time(capsys, *words)
    assert "s3://models/" in said
    assert len(times) <= 2 * ATTEMPTS
