"""Changed ONNX models for every command that takes a model, with onnxruntime behind those that compute.

Each command answers or refuses within its limits of time and memory; what takes memory is the
process of the command together with those that it starts. Where the answer is that models are
equal, or one was written, onnxruntime computes both.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.errors import GraphshareError, RefusedError
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.backends.session import SessionSettings
from graphshare.resources import parse_size, resource_limits
from tests.fuzz import graphs
from tests.fuzz.heavy_models import make_heavy
from tests.fuzz.odd_models import make_odd
from tests.fuzz.readers import READERS, read_onnx
from tests.fuzz.reads import change
from tests.fuzz.totals import Totals
from tests.onnx_files.mutable import SOURCES, Source, draw_inputs
from tests.onnx_files.mutants import list_mutants, read_source
from tests.onnx_files.running import are_same

MODEL, OTHER, FEEDS = "model.onnx", "other.onnx", "feeds.npz"
MEMORY, SECONDS = "200M", 5
LIMITS = f"--max-memory {MEMORY} --time-limit {SECONDS}"
COMMANDS = tuple(
    line.split()
    for line in f"""
    inspect GRAPH --names {LIMITS}
    inspect GRAPH --format json
    check GRAPH --isolated --format json {LIMITS}
    check GRAPH --isolated --strict --format sarif
    diff GRAPH OTHER --format json {LIMITS}
    diff OTHER GRAPH
    draw GRAPH --to svg -o out.svg {LIMITS}
    draw GRAPH --to html -o out.html {LIMITS}
    draw GRAPH --to mermaid --parameters
    duplicate GRAPH --prefix x_ --mode tie -o out.onnx --map-out map.json
    duplicate GRAPH --prefix x_ -o out.onnx --external-data copy
    duplicate GRAPH --prefix x_ --mode tie -o out.onnx --verify {LIMITS}
    duplicate GRAPH --prefix x_ --mode batch -o out.onnx
    rename GRAPH --prefix y_ -o out.onnx --map-out map.json
    rename GRAPH --match * --to z* -o -
    share GRAPH --detect
    share GRAPH --untie * -o out.onnx
    share GRAPH --doctor tie -o out.onnx
    group GRAPH OTHER --prefix a_ --prefix b_ -o out.onnx
    extract GRAPH --target TARGET -o out.onnx {LIMITS}
    group GRAPH OTHER --switch exact -o out.onnx {LIMITS}
    fold GRAPH -o out.onnx {LIMITS}
    fold GRAPH --no-verify -o out.onnx
    upgrade GRAPH -o out.json
    format GRAPH --check
    export GRAPH -o out.onnx {LIMITS}
    run GRAPH --seed 1 {LIMITS}
    run GRAPH --feed {FEEDS} --all -o out.npz {LIMITS}
    run GRAPH --seed 1 --profile --engine onnxruntime {LIMITS}
    compare GRAPH GRAPH {LIMITS}
    compare GRAPH OTHER --feed {FEEDS} {LIMITS}
    compare OTHER GRAPH --feed {FEEDS} --exact {LIMITS}
    compare GRAPH OTHER --feed {FEEDS} --layers {LIMITS}
    verify GRAPH --prefix x_ {LIMITS}
    params list GRAPH
    params stats GRAPH
    params diff GRAPH OTHER
    params convert GRAPH out.npz
    params convert GRAPH out.safetensors --dtype float16
    rules explain TARGET --graph GRAPH
    """.strip().splitlines()
)
KEEPING = {
    ("rename", "--prefix"),
    ("share", "--untie"),
    ("duplicate", "--prefix"),
    ("fold", "-o"),
    ("fold", "--no-verify"),
}
"""Rewrites after which the first outputs are those of the model, by the first words of their commands."""
_BESIDE = 256 << 20
"""Bytes that a command and its process of sessions may take beside the limit: modules, stacks,
copies of what is compared.
"""


_ODD = 0.08  # of the models
_UNSTABLE = (b"Random", b"Bernoulli", b"Multinomial", b"Dropout")
"""Operators that compute other numbers each time."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    return graphs.send(Cases(seed), minutes, keep, seconds=60, memory=4 << 30)


class Cases(graphs.Cases):
    """Every model goes through every command: one with a change that means something, changed bytes, or huge values."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.commands = COMMANDS
        self.mutants = list_mutants()

    def list_sources(self) -> list[Any]:
        return [make() for make in SOURCES.values()]

    def draw(self, chance: random.Random) -> tuple[dict[str, bytes], str]:
        """Return a changed model and the one that it was, inputs and external data as files, and the name of a node."""
        way = chance.random()
        if way < _ODD:
            changed = source = Source(make_odd(chance))
        elif way < 0.25:
            source = Source(make_heavy(chance))
            changed = source if way < 0.2 else Source(make_heavy(chance))
        elif way < 0.7:
            mutant = chance.choice(self.mutants)
            changed, source = mutant.build(), read_source(mutant.source)
        else:
            changed = source = chance.choice(self.sources)
        data = changed.model.SerializeToString()
        if 0.15 < way < 0.25 or way > 0.6:
            data = change_readable(chance, data)
        names = [
            node.name or node.output[0]
            for node in source.model.graph.node
            if node.name or node.output
        ]
        # Inputs of any size are not drawn
        feeds = chance.choice(draw_inputs(source.model)) if way >= _ODD else {}
        known = {OTHER: source.model.SerializeToString(), FEEDS: pack(feeds)}
        return {MODEL: data, **known, **source.files, **changed.files}, chance.choice(
            names or ["x"]
        )

    def call(self, words: list[str]) -> tuple[object, str]:
        """Run a command; with more memory than its limit it has failed."""
        with Peak() as peak:
            code, errors = graphs.call(words)
        if "--max-memory" in words and peak.bytes > parse_size(MEMORY) + _BESIDE:
            errors += f"this is a bug: {peak.bytes >> 20} MB were taken under a limit of {MEMORY}\n"
        return code, errors

    def find_fault(self, words: list[str], files: Mapping[str, bytes], code: object) -> str:
        """Return how an answer differs from what onnxruntime computes; an empty text where it does not."""
        if any(word in files[MODEL] + files[OTHER] for word in _UNSTABLE):
            return ""
        others = [word for word in words[1:] if word in (MODEL, OTHER)]
        if words[0] in ("diff", "compare") and len(others) == 2:
            if others[0] == others[1]:
                return "a model is not equal to itself" if code == 1 else ""
            return compare(*others, by_name=words[0] == "compare") if code == 0 else ""
        return (
            compare(MODEL, "out.onnx", written=True)
            if code == 0 and tuple(words[:1] + words[2:3]) in KEEPING
            else ""
        )


class Peak:
    """The memory that this process and those that it started take inside a block, in bytes, beside
    what it has before.
    """

    bytes = 0

    def __enter__(self) -> Peak:
        self._ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self._before = {}
        for pid in _list_family():
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
                self._before[pid] = _read_peak(pid)
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = sum(
            max(0, _read_peak(pid) - self._before.get(pid, 0)) for pid in _list_family()
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.bytes += ended << 10 if ended > self._ended else 0


def _list_family() -> list[int]:
    """Return the ids of this process and of those that it started."""
    family = [own := os.getpid()]
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if (
                int(Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[1])
                == own
            ):
                family.append(int(name))
    return family


def _read_peak(pid: int) -> int:
    """Return the largest resident size of a process since it began or was reset; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def compare(first: str, second: str, *, written: bool = False, by_name: bool = False) -> str:
    """Return how two models differ in onnxruntime, in the order of their outputs or ``by_name``
    where the names are the same.

    One that was ``written`` has the outputs of the first.
    """
    try:
        a = compute(first)
    except GraphshareError:
        return ""
    try:
        b = compute(second)
    except RefusedError:
        return ""
    except GraphshareError as error:
        return f"onnxruntime does not compute what was written: {error}" if written else ""
    by_name = by_name and a.keys() == b.keys()
    same = len(a) <= len(b) if written else len(a) == len(b)
    pairs = (
        [(a[name], b[name]) for name in a] if by_name else zip(a.values(), b.values(), strict=False)
    )
    if same and all(_are_near(x, y) for x, y in pairs):
        return ""
    return f"onnxruntime computes {a} of {first} and {b} of {second}"


def compute(path: str) -> dict[str, Any]:
    """Return the outputs of a model by name for the inputs of a case, under the names that a
    rewritten model has, too.
    """
    with np.load(FEEDS) as file:
        feeds = {prefix + name: file[name] for name in file for prefix in ("", "x_", "y_")}
    with resource_limits(MEMORY, SECONDS):
        session = ConfinedSession(
            Path(path).read_bytes(),
            os.curdir,
            settings=SessionSettings(merge_equal=False, awake=False),
        )
        return dict(zip(session.outputs, session.run(feeds), strict=True))


def _are_near(a: Any, b: Any) -> bool:
    """Return whether two values differ by no more than the order of a sum explains."""
    if (
        not isinstance(a, np.ndarray)
        or not isinstance(b, np.ndarray)
        or a.dtype.kind != "f"
        or b.dtype.kind != "f"
    ):
        return are_same(a, b)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    x, y = (np.where(np.isfinite(value), value, 0).astype(np.float64) for value in (a, b))
    return bool(np.all(np.abs(x - y) <= 1e-2 * np.max(np.abs(y), initial=1e-30)))


def change_readable(chance: random.Random, data: bytes) -> bytes:
    """Return a model with changed bytes, which most often can be read: else nothing gets to what computes."""
    for _ in range(8):
        changed = change(chance, [data], READERS["onnx"].words)
        with contextlib.suppress(GraphshareError):
            read_onnx(changed)
            break
    return changed


def pack(feeds: Mapping[str, Any]) -> bytes:
    """Return inputs as a file, those of texts left out: they would be pickles."""
    out = io.BytesIO()
    np.savez(
        out, **{name: value for name, value in feeds.items() if np.asarray(value).dtype.kind != "O"}
    )
    return out.getvalue()
