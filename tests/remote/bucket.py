"""A campaign: many models in a bucket, exported and checked one by one, by two processes, and by a Dask cluster of two workers.

    python -m tests.remote.bucket --models 2000

The server is on this machine. It prints the seconds and requests of each way, and fails where one byte differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import graphshare as gs
from graphshare.cli.captured import run_captured
from tests.processes import ROOT
from tests.remote.s3_server import S3Server, serve_s3

EXPORT = ("export", "{}", "--shape", "data=1,1,28,28")
NAMES = ("lenet", "blog")


@contextmanager
def serve_models(count: int) -> Iterator[S3Server]:
    """Serve a bucket ``models`` with ``count`` models below ``in``; this process and its children have its address."""
    import boto3  # slow to import

    with serve_s3() as server:
        settings = {"AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        os.environ.update({**settings, "AWS_DEFAULT_REGION": "us-east-1"})
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        for i in range(count):
            name = NAMES[i % len(NAMES)]
            for end in ("-symbol.json", "-0000.params"):
                body = (ROOT / "fixtures" / f"{name}{end}").read_bytes()
                client.put_object(Bucket="models", Key=f"in/{i // 100:03}/{name}{i:05}{end}", Body=body)
        yield server


def compare_ways(server: S3Server, count: int, address: str, say: Callable[[str], None] = print) -> None:
    """Export and check all models in three ways. Raises AssertionError where they differ."""
    found = []
    for way, settings in (("alone", None), ("processes", {"jobs": 2}), ("cluster", {"scheduler": address})):
        server.reset()
        started = time.perf_counter()
        answers = _run_alone(way, count) if settings is None else _run_fleet(way, settings)
        say(f"{way}: {time.perf_counter() - started:.1f} s, {len(server.requests):,} requests, {server.sent:,} bytes sent")
        found.append((answers, _read_objects(f"out-{way}/")))
    assert len(found[0][1]) == count
    assert found[0] == found[1], "two processes give something else than the command alone"
    assert found[0] == found[2], "the cluster gives something else than the command alone"


def _run_alone(way: str, count: int) -> dict[str, int]:
    answers = {}
    for i in range(count):
        model = f"{i // 100:03}/{NAMES[i % len(NAMES)]}{i:05}"
        source = f"s3://models/in/{model}"
        words = [source if word == "{}" else word for word in EXPORT]
        assert run_captured([*words, "-o", f"s3://models/out-{way}/{model}.onnx"]).code == 0
        answers[f"{source}-symbol.json"] = run_captured(["check", source]).code
    return answers


def _run_fleet(way: str, settings: dict[str, Any]) -> dict[str, int]:
    pattern = "s3://models/in/**/*-symbol.json"
    exported = list(gs.foreach(pattern, EXPORT, out=f"s3://models/out-{way}", **settings))
    assert all(exported), [result.error for result in exported if not result][:3]
    return {result.source: result.code or 0 for result in sorted(gs.foreach(pattern, ["check", "{}"], **settings), key=_source)}


def _source(result: Any) -> str:
    return str(result.source)


def _read_objects(prefix: str) -> dict[str, bytes]:
    import boto3  # slow to import

    client = boto3.client("s3")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="models", Prefix=prefix)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    return {key[len(prefix) :]: client.get_object(Bucket="models", Key=key)["Body"].read() for key in keys}


def main() -> None:
    """Run the campaign."""
    from distributed import LocalCluster  # slow to import

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=2000)
    arguments = parser.parse_args()
    with (
        serve_models(arguments.models) as server,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
    ):
        compare_ways(server, arguments.models, cluster.scheduler_address)
    print("the same bytes in all three ways")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
