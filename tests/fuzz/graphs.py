"""Changed graphs for every command, in process: each answers or refuses, within bounds of time and memory.

The graphs are the fixtures and those of the golden tests, grown ones (``tests/generate``), and
recorded cases of operators with subgraphs; with ``GRAPHSHARE_CORPUS`` small real ones too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshare.cli import main
from tests.fuzz.collect import Collector
from tests.fuzz.mutate_graph import Json, mutate
from tests.fuzz.sandbox import BYTES, HANG, SECONDS, run_cases
from tests.fuzz.totals import Totals
from tests.generate.grow import Grower
from tests.oracle.probing import recorded_cases
from tests.surroundings import ROOT, corpus_directory
from tests.symbols import old_batch_norm, siamese, two_layers

GRAPH, OTHER = "graph.json", "other.json"
COMMANDS = tuple(
    line.split()
    for line in """
    inspect GRAPH --names
    inspect GRAPH --shape data=2,3,8,8 --format json
    inspect GRAPH --shape v0=2,3 --module
    check GRAPH --isolated --format json
    check GRAPH --isolated --shape data=2,3,8,8
    check GRAPH --isolated --strict --format sarif
    check GRAPH --isolated --fix
    duplicate GRAPH --prefix x- -o out.json --map-out map.json
    duplicate GRAPH --prefix x- --mode tie -o out.json
    duplicate GRAPH --prefix x- --mode batch -o out.json
    duplicate GRAPH --prefix x- --mode batch --force --upgrade -o out.json
    duplicate GRAPH --prefix x- --mode tie --copy * --upgrade -o out.json --verify
    share GRAPH --detect
    share GRAPH --doctor tie -o out.json
    share GRAPH --doctor separate -o out.json
    share GRAPH --untie * -o out.json
    extract GRAPH --target TARGET -o out.json
    extract GRAPH --target * --cut TARGET -o out.json
    rename GRAPH --prefix y- -o out.json --map-out map.json
    rename GRAPH --match * --to z* -o -
    group GRAPH OTHER --prefix a- --prefix b- -o out.json
    group GRAPH OTHER --on-collision tie-if-equal -o out.json
    fold GRAPH -o out.json
    upgrade GRAPH -o out.json
    format GRAPH --layout mxnet -o out.json
    format GRAPH --layout indent:2 --check
    run GRAPH --seed 1 --random-params 1 --shape data=1,3,8,8 --time-limit 5
    run GRAPH --seed 1 --random-params 1 --all -o out.npz --time-limit 5
    run GRAPH --seed 1 --random-params 1 --sgd-steps 1 --sgd-lr 0.1 --time-limit 5
    compare GRAPH GRAPH --random-params 1 --layers --time-limit 5
    compare GRAPH OTHER --random-params 1 --time-limit 5
    diff GRAPH OTHER --format json
    diff OTHER GRAPH
    draw GRAPH --to svg -o out.svg
    draw GRAPH --to dot
    draw GRAPH --to mermaid --parameters --shape data=2,3,8,8
    draw GRAPH --to html -o out.html
    export GRAPH --no-verify -o out.onnx
    export GRAPH --shape data=1,3,8,8 --dynamic-batch --no-verify -o out.onnx
    rules explain TARGET --graph GRAPH --override a=b
    """.strip().splitlines()
)
ADDED = {
    "out.json",
    "out.npz",
    "out.svg",
    "out.html",
    "out.onnx",
    "out.onnx.data",
    "out.safetensors",
    "map.json",
}


OLD = b"an output of before\n"
"""What lies where a command writes: it is there as it was, or there is what the command writes."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    return send(Cases(seed), minutes, keep)


def send(
    cases: Cases, minutes: float, keep: Path, seconds: float = SECONDS, memory: int = BYTES
) -> Totals:
    """Run the commands of ``cases`` in a temporary folder until the time is up, each within bounds."""
    collector, before = Collector(keep.absolute()), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, before)
        os.chdir(folder)
        for outcome in run_cases(cases.run, minutes, seconds=seconds, memory=memory):
            if outcome.status == "failed":
                words, files = cases.make(outcome.number)
                sort = f"{words[0]} {outcome.sort}" if outcome.sort == HANG else outcome.sort
                collector.fail(sort, outcome.what, ["graphshare", *words], files)
            else:
                collector.count(1, outcome.status == "done")
    collector.totals.counts["commands"] = len(cases.commands)
    return collector.totals


class Cases:
    """The cases of a seed, by number: every graph goes through every command, one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.commands: Sequence[Sequence[str]] = COMMANDS
        self.sources: list[Any] = self.list_sources()

    def list_sources(self) -> list[Any]:
        """Return what is changed."""
        return list(sources())

    def draw(self, chance: random.Random) -> tuple[dict[str, bytes], str]:
        """Return a changed graph and the one that it was, as files, and the name of a node."""
        source = chance.choice(self.sources)
        data, _ = mutate(source, chance)
        names = [node["name"] for node in source["nodes"]] or ["x"]
        return {GRAPH: data, OTHER: json.dumps(source).encode()}, chance.choice(names)

    def make(self, number: int) -> tuple[list[str], dict[str, bytes]]:
        """Return the words of case ``number`` and its files."""
        files, name = self.draw(random.Random(f"{self.seed} {number // len(self.commands)}"))
        graph, other = list(files)[:2]
        words = {"GRAPH": graph, "OTHER": other, "TARGET": f"={name}"}
        return [words.get(word, word) for word in self.commands[number % len(self.commands)]], files

    def run(self, number: int) -> tuple[str, str]:
        """Run case ``number``."""
        words, files = self.make(number)
        for name, data in files.items():
            Path(name).write_bytes(data)
        outputs = [name for name in words if name in ADDED]
        for name in outputs:
            Path(name).write_bytes(OLD)
        before = set(os.listdir())
        code, errors = self.call(words)
        status, what = judge(words, code, errors)
        if status != "failed":
            what = find_damage(words, files, outputs, status) or self.find_fault(words, files, code)
        if left := set(os.listdir()) - ADDED - before:
            what = what or f"left files behind: {sorted(left)}"
        self.clear({*files, *left, *ADDED})
        return ("failed" if what else status), what

    def call(self, words: list[str]) -> tuple[object, str]:
        """Run a command; return its exit code and what it printed on stderr."""
        return call(words)

    def find_fault(self, words: list[str], files: Mapping[str, bytes], code: object) -> str:
        """Return what is wrong after a command that ended as it should; an empty text for nothing."""
        return ""

    def clear(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            Path(name).unlink(missing_ok=True)


def find_damage(
    words: Sequence[str], files: Mapping[str, bytes], outputs: Iterable[str], status: str
) -> str:
    """Return what is wrong with files after a command: one that it reads is another, or it was
    refused and has written.
    """
    if "--fix" not in words:
        for name, data in files.items():
            if not os.path.exists(name) or Path(name).read_bytes() != data:
                return f"{name} is not what it was"
    for name in outputs:
        if status == "refused" and (not os.path.exists(name) or Path(name).read_bytes() != OLD):
            return f"refused, and {name} was written"
    return ""


def judge(words: list[str], code: object, errors: str) -> tuple[str, str]:
    """Return how a command ended that gave ``code`` and printed ``errors``."""
    for bad in ("this is a bug", "Traceback", "Warning:", "MemoryError", "RecursionError"):
        if bad in errors:
            places = re.findall(r'/(graphshare/.*?)", line (\d+)', errors)
            line = next(line for line in reversed(errors.splitlines()) if bad in line)
            return (
                "failed",
                f"{':'.join(places[-1]) if places else ''} {line[:400]}\n{' '.join(words)}\n{errors}",
            )
    if code not in (0, 1, 2):
        return "failed", f"exit code {code}\n{' '.join(words)}\n{errors}"
    if (
        code == 2
        and words[0]
        not in ("foreach", "verify", "compare")  # whose report may be that nothing can be judged
        and not errors.startswith(("error: ", "warning: ", "note: "))
        and "\nerror: " not in errors
    ):
        return "failed", f"exit code 2 without a message\n{' '.join(words)}\n{errors}"
    return ("refused" if code == 2 else "done"), ""


def call(words: list[str], stdout: io.BytesIO | None = None) -> tuple[object, str]:
    """Run a command in this process; return its exit code and what it printed on stderr."""
    errors, output = io.StringIO(), io.TextIOWrapper(stdout or io.BytesIO(), encoding="utf-8")
    with (
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(output),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        code = main.run(["--debug", *words])
        output.detach()  # flushed, and not closed with this wrapper
    return code, errors.getvalue()


def sources() -> Iterator[Json]:
    """Yield the graphs that are changed."""
    yield from (siamese(), two_layers(), old_batch_norm())
    for path in sorted(ROOT.glob("fixtures/**/*.json")):
        yield from _small_graph(path)
    corpus = corpus_directory()
    for path in sorted(corpus.glob("graphs/*.json")) if corpus is not None else ():
        yield from _small_graph(path)
    grower = Grower(recorded_cases())
    for seed in range(100):
        yield grower.grow(seed).document


def _small_graph(path: Path) -> Iterator[Json]:
    if path.stat().st_size > 40_000:
        return
    with contextlib.suppress(ValueError):
        found: Any = json.loads(path.read_bytes())
        if isinstance(found, dict) and {"nodes", "heads", "arg_nodes"} <= found.keys():
            yield found
