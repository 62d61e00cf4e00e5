"""Models in a bucket: requests, results, faults of the network, and a bucket of 20,000 objects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import graphshare as gs
from graphshare.api.params import convert as convert_params
from graphshare.checkpoint.load import sibling_params
from graphshare.cli import main
from graphshare.errors import InputError, OutputError
from graphshare.files.path_matches import match_paths
from graphshare.formats.model_names import FORMAT_NAMES
from graphshare.formats.params.format import read_index
from tests.processes import ROOT
from tests.remote.s3_server import Request, S3Server, serve_s3

pytestmark = pytest.mark.large

FIXTURES = ROOT / "fixtures"
LENET = str(FIXTURES / "lenet")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with serve_s3() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file system of a server with one bucket, ``models``, which holds ``in/lenet``."""
    import boto3  # slow to import
    import s3fs

    settings = {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="models")
    for key in [
        found["Key"] for found in client.list_objects_v2(Bucket="models").get("Contents", [])
    ]:
        client.delete_object(Bucket="models", Key=key)
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        client.put_object(Bucket="models", Key=f"in/{name}", Body=(FIXTURES / name).read_bytes())
    server.faults.clear()
    server.answers.clear()
    server.reset()
    return client


def read(bucket: Any, key: str) -> bytes:
    content: bytes = bucket.get_object(Bucket="models", Key=key)["Body"].read()
    return content


def list_keys(bucket: Any, prefix: str) -> list[str]:
    return [
        found["Key"]
        for found in bucket.list_objects_v2(Bucket="models", Prefix=prefix).get("Contents", [])
    ]


def run(*words: str) -> int:
    return main.run(list(words))


def test_stems_folders_and_globs(bucket: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "s3://models/in/lenet") == 0
    there = capsys.readouterr().out
    assert run("inspect", LENET) == 0
    assert there.replace("s3://models/in/", f"{FIXTURES}/") == capsys.readouterr().out
    assert run("inspect", "s3://models/in/") == 0
    assert (
        run("check", "s3://models/**/*-symbol.json", "s3://models/in", "s3://models/in/lenet") == 0
    )
    assert run("inspect", "s3://models/in/lenot") == 2
    assert "did you mean 's3://models/in/lenet'" in capsys.readouterr().err
    assert run("inspect", "s3://nowhere/lenet") == 2
    assert run("params", "list", "s3://models/in/lenet", "--epoch", "3") == 2
    assert "there are epochs 0" in capsys.readouterr().err


def _own_requests(server: S3Server) -> list[tuple[str, str, str]]:
    """Return the requests without parts of uploads: those that an earlier test broke off may still arrive."""
    return [request for request in server.requests if "uploadId=" not in request[1]]


def test_headers_are_read_in_small_requests(bucket: Any, server: S3Server) -> None:
    assert len(read_index("s3://models/in/lenet-0000.params").records) == 16
    wanted = [re.fullmatch(r"bytes=(\d+)-(\d+)", bounds) for _, _, bounds in _own_requests(server)]
    assert len(wanted) <= 3
    assert all(bounds is not None and int(bounds[2]) - int(bounds[1]) < 4096 for bounds in wanted)


def test_the_headers_of_an_archive_are_requested_together(
    bucket: Any, server: S3Server, tmp_path: Path
) -> None:
    import numpy as np

    np.savez(
        tmp_path / "large.npz",
        **{f"arg:w{number}": np.full(60_000, number, "uint8") for number in range(10)},
    )
    bucket.upload_file(str(tmp_path / "large.npz"), "models", "in/large.npz")
    server.reset()
    assert (
        read_index("s3://models/in/large.npz").records == read_index(tmp_path / "large.npz").records
    )
    assert len(_own_requests(server)) <= 2 + 10


def test_results_are_those_of_a_path(bucket: Any, tmp_path: Path) -> None:
    words = ["duplicate", "s3://models/in/lenet", "-p", "a-"]
    assert (
        run(*words, "-o", "s3://models/out/siam", "--map-out", "s3://models/out/siam-map.json") == 0
    )
    assert (
        run(*words, "-o", str(tmp_path / "siam"), "--map-out", str(tmp_path / "siam-map.json")) == 0
    )
    for path in tmp_path.iterdir():
        assert read(bucket, f"out/{path.name}") == path.read_bytes()
    assert run(*words, "-o", "s3://models/out/siam") == 2
    assert run(*words, "-o", "s3://models/out/siam", "--overwrite") == 0
    assert (
        run("export", "s3://models/in/lenet", "-o", "s3://models/out/", "--shape", "data=1,1,28,28")
        == 0
    )
    assert "out/lenet.onnx" in list_keys(bucket, "out/")
    assert run("inspect", "s3://models/out/lenet.onnx") == 0


def test_the_graph_is_written_last_and_with_checksums(bucket: Any, server: S3Server) -> None:
    gs.save(gs.load(LENET), "s3://models/out/lenet", map="s3://models/out/lenet-map.json")
    puts = [path for method, path, _ in _own_requests(server) if method == "PUT"]
    assert puts == [
        f"/models/out/lenet{end}" for end in ("-0000.params", "-map.json", "-symbol.json")
    ]
    head = bucket.head_object(Bucket="models", Key="out/lenet-0000.params", ChecksumMode="ENABLED")
    assert any(name.startswith("Checksum") for name in head)


def test_a_server_that_is_busy_for_a_moment(bucket: Any, server: S3Server) -> None:
    server.faults += [
        lambda request: request[0] == "GET" and "lenet-0000" in request[1],
        lambda request: request[0] == "PUT",
    ]
    gs.save(gs.load("s3://models/in/lenet"), "s3://models/out/lenet")
    assert server.faults == []
    assert read(bucket, "out/lenet-0000.params") == (FIXTURES / "lenet-0000.params").read_bytes()


def test_an_object_that_changes_while_it_is_read(bucket: Any, server: S3Server) -> None:
    def change(request: Request) -> None:
        if request[0] == "GET" and not request[2].startswith("bytes=0-"):
            server.answers.clear()
            bucket.put_object(Bucket="models", Key="in/lenet-0000.params", Body=bytes(49268))

    server.answers.append(change)
    with pytest.raises(InputError, match="changed while it was being read"):
        read_index("s3://models/in/lenet-0000.params")


def test_an_object_that_another_process_writes_first(bucket: Any, server: S3Server) -> None:
    def change(request: Request) -> None:
        if request[0] == "PUT":
            server.answers.clear()
            bucket.put_object(Bucket="models", Key="out/lenet-0000.params", Body=b"other")

    server.answers.append(change)
    with pytest.raises(OutputError, match="was written by another process meanwhile"):
        gs.save(gs.load(LENET), "s3://models/out/lenet")
    assert list_keys(bucket, "out/") == ["out/lenet-0000.params"]
    assert read(bucket, "out/lenet-0000.params") == b"other"


def test_a_large_object_goes_in_parts(
    bucket: Any, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs.core

    monkeypatch.setattr(s3fs.core, "calculate_chunksize", lambda size, **options: 5 << 20)
    source = tmp_path / "large.npz"
    import numpy as np

    np.savez(
        source, **{"arg:w": np.random.default_rng(0).standard_normal(3 << 20).astype("float32")}
    )
    server.faults.append(lambda request: "partNumber=2" in request[1])
    convert_params(source, tmp_path / "large.params")
    convert_params(source, "s3://models/out/large.params")
    # One of three was refused at first
    assert sum("partNumber=" in path for _, path, _ in server.requests) == 4
    local = hashlib.sha256((tmp_path / "large.params").read_bytes()).hexdigest()
    assert hashlib.sha256(read(bucket, "out/large.params")).hexdigest() == local
    monkeypatch.setattr(server, "refusal", ("403 Forbidden", "AccessDenied"))
    server.faults.append(lambda request: "partNumber=2" in request[1])
    with pytest.raises(OutputError, match="refuses access"):
        convert_params(source, "s3://models/out/other.params")
    assert list_keys(bucket, "out/other") == []
    assert bucket.list_multipart_uploads(Bucket="models").get("Uploads", []) == []


def test_access_that_is_denied_is_said_without_the_key(
    bucket: Any, server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", "s3://user:hidden@models/in/lenet-symbol.json") in (0, 2)
    out, said = capsys.readouterr()
    assert "hidden" not in out + said


@cache
def list_many_names() -> list[str]:
    return [
        f"many/{number % 100:02d}/net{number}-{end}"
        for number in range(10_000)
        for end in ("symbol.json", "0000.params")
    ]


def list_many(request: Request) -> bytes | None:
    """Return a page of a listing of 20,000 objects below ``many/``, as S3 sends it: a thousand to a page."""
    query = dict(parse_qsl(request[1].partition("?")[2]))
    if not query.get("prefix", "").startswith("many/") or "list-type" not in query:
        return None
    names = [name for name in list_many_names() if name.startswith(query["prefix"])]
    start = int(query.get("continuation-token", 0))
    is_cut = start + 1000 < len(names)
    facts = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>"
    facts += f"<NextContinuationToken>{start + 1000}</NextContinuationToken>" if is_cut else ""
    size = "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag><Size>7</Size>"
    found = "".join(
        f"<Contents><Key>{name}</Key>{size}</Contents>" for name in names[start : start + 1000]
    )
    head = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    return f"{head}<Name>models</Name>{facts}{found}</ListBucketResult>".encode()


def test_a_listing_of_20_000_objects(bucket: Any, server: S3Server) -> None:
    server.answers.append(list_many)
    paths = match_paths("s3://models/many/*/*-symbol.json")
    assert len(paths) == 10_000
    assert paths[0] == "s3://models/many/00/net0-symbol.json"
    assert len(_own_requests(server)) == 20
    server.reset()
    assert (
        sibling_params("s3://models/many/07/net107", None, FORMAT_NAMES["mxnet"])
        == "s3://models/many/07/net107-0000.params"
    )
    assert len(_own_requests(server)) == 1  # only what begins with the stem is listed
