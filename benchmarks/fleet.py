"""Benchmarks of ``foreach``: whole runs, printed with the goals.

    python -m benchmarks.fleet [--models 1000] [--small 100000] [--only NAME] [--rounds N]

``processes`` compares one worker with as many processes of the command in turn (a sample of them,
alternated), ``jobs`` two workers with one, ``overhead`` is the CPU time per small model beyond that
of the command itself, ``memory`` the peak of resident memory over ever more small models,
``resume`` kills a run three times at random and goes on. The machine should be quiet.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import sources

GRAPHSHARE = [sys.executable, "-m", "graphshare"]
WORDS = ("duplicate", "{}", "--prefix", "b-")
LIGHT = ("format", "{}", "--check")
RESNET = 440  # nodes of the graph of ResNet-50
SMALL = 4
PER_FOLDER = 1000


def make_models(folder: Path, count: int, nodes: int) -> str:
    """Return the pattern of ``count`` graphs with ``nodes`` nodes each, a thousand in a folder."""
    text = sources.chain(nodes, folder / "one.json").read_bytes()
    (folder / "one.json").unlink()
    for i in range(count):
        place = folder / f"{i // PER_FOLDER:04}"
        place.mkdir(exist_ok=True)
        (place / f"{i:06}-symbol.json").write_bytes(text)
    return f"{folder}/*/*"


def run_foreach(pattern: str, out: Path | None, *options: str) -> tuple[float, float, int]:
    """Return the seconds, the CPU seconds of all its processes, and the peak of the largest one in KiB, of one run.

    Without ``out`` the command is one that writes nothing and takes a millisecond.
    """
    if out is not None:
        shutil.rmtree(out, ignore_errors=True)
    command = [*GRAPHSHARE, "foreach", pattern, "-q", *options]
    command += ["--", *LIGHT] if out is None else ["-o", str(out), "--", *WORDS]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, after.ru_maxrss


def compare_with_processes(folder: Path, count: int, rounds: int) -> None:
    """One worker beside the command, process by process: 20 of them before each run."""
    pattern = make_models(folder / "models", count, RESNET)
    files = sorted((folder / "models").glob("*/*"))
    ratios = []
    for i in range(rounds):
        started = time.perf_counter()
        for path in files[:20]:
            out = folder / "alone-symbol.json"
            command = [
                *GRAPHSHARE,
                "duplicate",
                path,
                "--prefix",
                "b-",
                "-o",
                out,
                "--map-out",
                folder / "alone-map.json",
            ]
            subprocess.run(command, check=True, capture_output=True)
        alone = (time.perf_counter() - started) / 20 * count
        together, _, _ = run_foreach(pattern, folder / "out")
        ratios.append(alone / together)
        print(
            f"round {i + 1}: {count} processes in turn {alone:.1f} s, foreach {together:.1f} s: "
            f"{ratios[-1]:.1f} times as fast"
        )
    print(f"processes: {median(ratios):.1f} times as fast (goal: at least 10)")


def compare_jobs(folder: Path, count: int, rounds: int) -> None:
    """Two workers beside one, alternated."""
    pattern = make_models(folder / "models", count, RESNET)
    ratios = []
    for i in range(rounds):
        one, _, _ = run_foreach(pattern, folder / "out")
        two, _, _ = run_foreach(pattern, folder / "out", "--jobs", "2")
        ratios.append(one / two)
        print(
            f"round {i + 1}: one worker {one:.1f} s, two {two:.1f} s: {ratios[-1]:.2f} times as fast"
        )
    print(f"jobs: two workers {median(ratios):.2f} times as fast as one (goal: at least 1.7)")


def measure_overhead(folder: Path, count: int, rounds: int) -> None:
    """CPU time per small model: of the whole run, without its start, and of the command in a process that goes on."""
    from graphshare.cli.fleet import run_captured

    pattern = make_models(folder / "models", count, SMALL)
    files = sorted((folder / "models").glob("*/*"))[:500]
    start = folder / "start"
    start.mkdir()
    nothing = make_models(start, 1, SMALL)
    run_captured(["duplicate", str(files[0]), "--prefix", "b-", "-o", str(folder / "alone")])
    for _ in range(rounds):
        first = time.process_time()
        for path in files:
            run_captured(
                [
                    "duplicate",
                    str(path),
                    "--prefix",
                    "b-",
                    "-o",
                    str(folder / "o.json"),
                    "--map-out",
                    str(folder / "o.map"),
                ]
            )
        alone = (time.process_time() - first) / len(files)
        _, cpu_of_start, _ = run_foreach(nothing, folder / "out")
        _, cpu, _ = run_foreach(
            pattern, folder / "out", "--manifest", str(folder / f"{time.time()}.jsonl")
        )
        each = (cpu - cpu_of_start) / count
        print(
            f"overhead: {1e3 * (each - alone):.2f} ms of CPU per model (goal: below 5), of {1e3 * each:.2f} ms in all"
        )


def measure_memory(folder: Path, small: int) -> None:
    """The peak of the largest process over ever more small models."""
    for count in (small // 100, small // 10, small):
        models = folder / f"models{count}"
        models.mkdir()
        pattern = make_models(models, count, SMALL)
        # A process of its own: the peak of all children so far is what the system keeps.
        code = (
            "import sys; from benchmarks.fleet import run_foreach; "
            "print(*run_foreach(sys.argv[1], None, '--manifest', sys.argv[2]))"
        )
        command = [sys.executable, "-c", code, pattern, folder / f"{count}.jsonl"]
        seconds, cpu, peak = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
        print(
            f"memory: {count:,} models: {int(peak) >> 10} MiB, {float(seconds):.0f} s, {float(cpu):.0f} s of CPU"
        )
        shutil.rmtree(models)


def kill_and_resume(folder: Path, count: int) -> None:
    """Kill a run three times at random; what is there in the end is that of a run that was not killed."""
    pattern = make_models(folder / "models", count, RESNET)
    seconds, _, _ = run_foreach(pattern, folder / "whole", "--jobs", "2")
    manifest = folder / "run.jsonl"
    command = [
        *GRAPHSHARE,
        "foreach",
        pattern,
        "-o",
        folder / "out",
        "--jobs",
        "2",
        "--manifest",
        manifest,
        "-q",
        "--",
        *WORDS,
    ]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(0.2, 0.3) * seconds + 0.5)
        process.kill()  # it may be over already
        process.wait()
        time.sleep(0.2)  # until its workers have noticed
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = [_contents(folder / name) for name in ("whole", "out")]
    lines = manifest.read_text().count('"result":"done"')
    print(
        f"resume: the same files: {found[0] == found[1]}; {lines - count} of {count} models were done twice"
    )


def _contents(top: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()
    }


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--models", type=int, default=1000, help="graphs of ResNet-50's size")
    parser.add_argument("--small", type=int, default=100_000, help="small graphs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="the name of one benchmark")
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[Path], None]] = {
        "processes": lambda folder: compare_with_processes(
            folder, arguments.models, arguments.rounds
        ),
        "jobs": lambda folder: compare_jobs(folder, arguments.models, arguments.rounds),
        "overhead": lambda folder: measure_overhead(folder, arguments.models, arguments.rounds),
        "memory": lambda folder: measure_memory(folder, arguments.small),
        "resume": lambda folder: kill_and_resume(folder, arguments.models),
    }
    for name, benchmark in benchmarks.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "models").mkdir()
                benchmark(Path(folder))


if __name__ == "__main__":
    main()
