"""A campaign: many models in a bucket, exported and checked one by one, by two processes, and by a
Dask cluster of two workers.

    python -m tests.remote.bucket --models 2000 --corpus DIRECTORY

The server is on this machine. The graphs of the corpus are there again and again under other names,
each with parameters and inputs; without a corpus two fixtures are. It prints the seconds and
requests of each way, and fails where one byte or answer differs. Then the run is killed three times
at random and resumed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import graphshare as gs
from graphshare.cli.fleet import run_captured
from tests.processes import COMMAND
from tests.remote.models import Model, corpus_models, fixture_models
from tests.remote.s3_server import S3Server, serve_s3
from tests.surroundings import corpus_directory

EXPORT = ("export", "{}", "--feed", "{stem}.npz")
PATTERN = "s3://models/in/**/*-symbol.json"
JOBS, KILLS = 2, 3
Answers = dict[str, tuple[int | None, int | None]]
"""The exit codes of ``export`` and ``check`` by model."""


class Outcome(NamedTuple):
    """What a way of running gives: answers, and the SHA-256 of each output by key."""

    answers: Answers
    outputs: dict[str, str]


@contextmanager
def serve_models(models: Mapping[str, Model], count: int) -> Iterator[tuple[S3Server, list[str]]]:
    """Serve a bucket ``models`` with ``count`` models, and their stems; this process and its
    children have its address.
    """
    import boto3  # slow to import

    with serve_s3() as server:
        settings = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        os.environ.update({**settings, "AWS_DEFAULT_REGION": "us-east-1"})
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        stems, kinds = [], list(models.items())
        for number in range(count):
            name, files = kinds[number % len(kinds)]
            stems.append(f"{number // 100:03}/{name}-{number:05}")
            for end, body in files.items():
                client.put_object(Bucket="models", Key=f"in/{stems[-1]}{end}", Body=body)
        yield server, stems


def compare_ways(
    server: S3Server, stems: list[str], address: str, say: Callable[[str], None] = print
) -> tuple[Outcome, float]:
    """Export and check all models in three ways; return what they give, and the seconds of two processes.

    Raises AssertionError where they differ.
    """
    found, seconds = [], []
    for way, settings in (
        ("alone", None),
        ("processes", {"jobs": JOBS}),
        ("cluster", {"scheduler": address}),
    ):
        server.reset()
        started = time.perf_counter()
        answers = _run_alone(way, stems) if settings is None else _run_fleet(way, settings)
        seconds.append(time.perf_counter() - started)
        say(
            f"{way}: {seconds[-1]:.1f} s, {len(server.requests):,} requests, {server.sent:,} bytes sent"
        )
        found.append(Outcome(answers, _take_objects(f"out-{way}/")))
    counts = Counter(found[0].answers.values())
    say(
        "answers (export, check): "
        + ", ".join(f"{codes} of {count}" for codes, count in sorted(counts.items()))
    )
    assert len(found[0].answers) == len(stems)
    assert len(found[0].outputs) == sum(code == 0 for code, _ in found[0].answers.values()) > 0
    assert found[0] == found[1], "two processes give something else than the command alone"
    assert found[0] == found[2], "the cluster gives something else than the command alone"
    return found[0], seconds[1]


def _run_alone(way: str, stems: list[str]) -> Answers:
    answers = {}
    for stem in stems:
        source = f"s3://models/in/{stem}"
        words = [word.replace("{}", source).replace("{stem}", source) for word in EXPORT]
        exported = run_captured([*words, "-o", f"s3://models/out-{way}/{stem}.onnx"])
        answers[f"{source}-symbol.json"] = exported.code, run_captured(["check", source]).code
    return answers


def _run_fleet(way: str, settings: dict[str, Any]) -> Answers:
    exported = {
        result.source: result.code
        for result in gs.foreach(PATTERN, EXPORT, out=f"s3://models/out-{way}", **settings)
    }
    checked = {
        result.source: result.code for result in gs.foreach(PATTERN, ["check", "{}"], **settings)
    }
    return {source: (code, checked[source]) for source, code in exported.items()}


def kill_and_resume(
    server: S3Server, wanted: Outcome, seconds: float, say: Callable[[str], None] = print
) -> None:
    """Kill a run of ``export`` three times at random and resume it.

    Raises AssertionError where it gives something else than ``wanted``, or where more was done
    twice than what was in flight.
    """
    server.reset()
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "run.jsonl"
        options = [
            "-o",
            "s3://models/out-killed",
            "--jobs",
            str(JOBS),
            "--manifest",
            manifest,
            "-q",
        ]
        command = [*COMMAND, "foreach", PATTERN, *options, "--", *EXPORT]
        for _ in range(KILLS):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1 + random.uniform(0.05, 0.25) * seconds)
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(1)  # until its workers have noticed
            done = manifest.read_bytes().count(b"\n")
            say(f"killed with {done:,} of {len(wanted.answers):,} models done")
        code = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        ).returncode
        lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    finished = [line["source"] for line in lines if line["result"] in ("done", "no")]
    puts = Counter(path.partition("?")[0] for method, path, _ in server.requests if method == "PUT")
    twice = sum(count > 1 for count in puts.values())
    say(
        f"resumed: exit code {code}, {len(lines):,} lines in the manifest, {twice} outputs written twice"
    )
    assert code == max(2 if line["result"] == "failed" else 0 for line in lines)
    assert len(finished) == len(set(finished)), "a finished model was run again"
    assert {line["source"]: line["code"] for line in lines} == {
        source: code for source, (code, _) in wanted.answers.items()
    }
    assert twice <= KILLS * JOBS, "more was written twice than what was in flight"
    assert _take_objects("out-killed/") == wanted.outputs, "the resumed run gives other outputs"


def _take_objects(prefix: str) -> dict[str, str]:
    """Return the SHA-256 of each object below ``prefix``, and delete it."""
    import boto3  # slow to import

    client = boto3.client("s3")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="models", Prefix=prefix)
    found = {}
    for key in [entry["Key"] for page in pages for entry in page.get("Contents", ())]:
        body = client.get_object(Bucket="models", Key=key)["Body"].read()
        found[key[len(prefix) :]] = hashlib.sha256(body).hexdigest()
        client.delete_object(Bucket="models", Key=key)
    return found


def main() -> None:
    """Run the campaign."""
    from distributed import LocalCluster  # slow to import

    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument(
        "--corpus", type=Path, default=corpus_directory(), help="[GRAPHSHARE_CORPUS]"
    )
    parser.add_argument("--largest", type=float, default=4, help="parameters of a graph, in MB [4]")
    arguments = parser.parse_args()
    models = (
        corpus_models(arguments.corpus, int(arguments.largest * 1e6))
        if arguments.corpus
        else fixture_models()
    )
    with (
        serve_models(models, arguments.models) as (server, stems),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
    ):
        print(
            f"{len(stems):,} models of {min(len(models), len(stems))} different graphs", flush=True
        )
        outcome, seconds = compare_ways(server, stems, cluster.scheduler_address)
        print("the same bytes and answers in all three ways", flush=True)
        kill_and_resume(server, outcome, seconds)
    print("the same after three kills; nothing twice but what was in flight")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
