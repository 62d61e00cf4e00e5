"""The table of models by commands: each model in a process of its own, each cell with a time limit,
and what it amounts to.

    python -m tests.onnx_files --table FILE --cache DIR

Results are kept in DIR/results; a model is run again where something was wrong or was not tried, and with --again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np

from tests.onnx_files.bench import PLAIN, Bench, Missing, Refusal, Wrong, count_bytes
from tests.onnx_files.cells import CELLS
from tests.onnx_files.sources import Source

LIMIT = 120
"""Seconds that a cell may take."""
LARGEST = 100_000_000
"""Bytes of the largest model that is run."""
KINDS = ("right", "refused", "no case", "wrong")


class Result(NamedTuple):
    """What became of a cell: one of ``KINDS``, why, and seconds."""

    kind: str
    reason: str
    seconds: float


class _TooSlow(BaseException):
    """A cell took longer than its limit; no command catches it."""


Reason = tuple[re.Pattern[str], Callable[[Bench], bool]]
"""What a refusal says, and whether that is true of a model."""


def _says_truth(pattern: str, holds: Callable[[Bench], bool] = lambda bench: True) -> Reason:
    return re.compile(pattern, re.DOTALL), holds


def _is_unrunnable(bench: Bench) -> bool:
    return bool(bench.reason)


def _has_texts(bench: Bench) -> bool:
    return any(
        not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf"
        for value in bench.outputs.values()
    )


def _has_other_inputs(bench: Bench) -> bool:
    return any(value.type.tensor_type.elem_type not in PLAIN for value in bench.proto.graph.input)


def _has_no_weights(bench: Bench) -> bool:
    return not any(True for _ in count_bytes(bench.proto, smallest=1))


def _has_odd_weights(bench: Bench) -> bool:
    return bool(bench.proto.graph.sparse_initializer) or any(
        tensor.data_type not in PLAIN for tensor in bench.weights.values()
    )


REASONS: dict[str, list[Reason]] = {
    "": [_says_truth("is for MXNet graphs, and this is an ONNX model")],
    "verify": [
        _says_truth("NOT JUDGED: .*random", _is_unrunnable),
        _says_truth("onnxruntime [0-9.]+ (refuses the model|fails)", _is_unrunnable),
        _says_truth("outputs cannot be recorded", _has_texts),
        _says_truth("which cannot be drawn", _has_other_inputs),
    ],
    "run": [
        _says_truth("no output is an array of numbers", _has_texts),
        _says_truth("which cannot be drawn", _has_other_inputs),
        _says_truth("onnxruntime [0-9.]+ (refuses the model|fails)", _is_unrunnable),
    ],
    "duplicate, mixed": [_says_truth("which cannot be drawn", _has_other_inputs)],
    "bind": [
        _says_truth("is not an array of numbers", _has_texts),
        _says_truth("is not an array:|expected to be of type", _has_other_inputs),
    ],
    "share --alias": [
        _says_truth("no parameter would change|matches no parameter", _has_no_weights),
        _says_truth(
            "two outputs would be the value",
            lambda bench: bool(bench.weights.keys() & set(bench.heads)),
        ),
        _says_truth(
            "it is an output of the graph",
            lambda bench: bool(bench.weights.keys() & set(bench.heads)),
        ),
    ],
    "share --untie": [
        _says_truth("matches no parameter that several operators use", _has_no_weights)
    ],
    "params convert": [_says_truth("a dtype that parameter files do not have", _has_odd_weights)],
}
"""Which refusals are right, by the beginning of a cell's name."""


def judge(name: str, message: str, bench: Bench) -> str:
    """Return whether a refusal is right: its reason is listed, and true of the model."""
    rules = [rule for start, rules in REASONS.items() if name.startswith(start) for rule in rules]
    return (
        "refused"
        if any(pattern.search(message) and holds(bench) for pattern, holds in rules)
        else "wrong"
    )


def try_cell(name: str, bench: Bench) -> Result:
    """Return what becomes of a cell."""
    start = time.monotonic()

    def stop(signum: int, frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        kind, reason = "right", CELLS[name](bench) or ""
    except Refusal as error:
        reason = " ".join(str(error).split())[:400]
        kind = judge(name, reason, bench)
    except Missing as error:
        kind, reason = "no case", str(error)
    except Wrong as error:
        kind, reason = "wrong", str(error)
    except _TooSlow:
        kind, reason = "wrong", f"takes more than {LIMIT} s"
    except (
        Exception
    ) as error:  # the cell itself, ONNX or onnxruntime: a file that they refuse is wrong
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind, reason = (
            "wrong",
            f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({where.name})",
        )
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Result(kind, reason, round(time.monotonic() - start, 2))


def run_model(source: Source, cells: Sequence[str]) -> dict[str, Result]:
    """Return the results of a model, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(source, Path(folder))
        results = {"onnxruntime": Result("no case" if bench.reason else "right", bench.reason, 0)}
        results["checker"] = Result("no case" if bench.fault else "right", bench.fault, 0)
        return {**results, **{name: try_cell(name, bench) for name in cells}}


def _work() -> None:
    """Read a model from standard input, and write its results to where standard output was."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    source, cells = pickle.load(sys.stdin.buffer)
    with out:
        json.dump(run_model(source, cells), out)


def run_apart(source: Source, cells: Sequence[str]) -> dict[str, Result]:
    """Return the results of a model, from a process of its own that ends with all that it started."""
    process = subprocess.Popen([sys.executable, "-m", "tests.onnx_files.table"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    feeds = dict(source.feeds()) if source.feeds is not None else None
    task = pickle.dumps(
        (source._replace(feeds=None if feeds is None else _Fixed(feeds)), list(cells))
    )
    try:
        out, messages = process.communicate(task, timeout=LIMIT * 5)
        return {name: Result(*result) for name, result in json.loads(out).items()}
    except (subprocess.TimeoutExpired, ValueError) as error:
        text = messages.decode()[-300:] if isinstance(error, ValueError) else "the process hangs"
        return {name: Result("wrong", f"no answer: {text}", 0) for name in cells}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Fixed(NamedTuple):
    """Inputs that go to another process."""

    feeds: dict[str, object]

    def __call__(self) -> dict[str, object]:
        return self.feeds


def run_table(
    sources: Iterable[Source], kept: Path, again: bool = False, cells: Sequence[str] = ()
) -> dict[str, dict[str, Result]]:
    """Return the results by model; where ``kept`` has them all, with nothing wrong, only ``cells`` are made again."""
    kept.mkdir(parents=True, exist_ok=True)
    table: dict[str, dict[str, Result]] = {}
    names: dict[bytes, str] = {}
    for source in sources:
        first = names.setdefault(hashlib.sha256(source.data).digest(), source.name)
        if first != source.name:
            print(f"{source.name}: left out, it is {first}", file=sys.stderr)
            continue
        size = len(source.data) + sum(map(len, source.files.values()))
        if size > LARGEST:
            print(f"{source.name}: left out, {size:,} bytes", file=sys.stderr)
            continue
        digest = hashlib.sha256(
            source.data + b"".join(source.files.values()) + source.name.encode()
        ).hexdigest()[:16]
        path = kept / f"{digest}.json"
        before = json.loads(path.read_text()) if path.exists() and not again else {}
        incomplete = any(cell not in before or before[cell][0] == "wrong" for cell in CELLS)
        if incomplete or cells:
            start = time.monotonic()
            results = {**before, **run_apart(source, list(CELLS) if incomplete else cells)}
            path.write_text(json.dumps(results))
            wrong = [name for name, result in results.items() if result[0] == "wrong"]
            print(
                f"{source.name}: {len(wrong)} wrong, {time.monotonic() - start:.0f} s {wrong}",
                file=sys.stderr,
                flush=True,
            )
        label = source.name if source.name not in table else f"{source.name} {digest[:4]}"
        table[label] = {
            name: Result(*result) for name, result in json.loads(path.read_text()).items()
        }
    return table


def format_table(table: dict[str, dict[str, Result]]) -> str:
    """Return counts by command, reasons of what was refused or wrong, and a line for each model, in Markdown."""
    lines = [f"# {len(table)} ONNX models by {len(CELLS)} cells", "", *_head("cell", *KINDS)]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for cell in ("checker", "onnxruntime", *CELLS):
        counts = Counter(results[cell].kind for results in table.values() if cell in results)
        lines.append(f"| {cell} | " + " | ".join(f"{counts[kind]:,}" for kind in KINDS) + " |")
        for model, results in table.items():
            if cell in results and results[cell].kind != "right":
                reasons.setdefault(
                    (results[cell].kind, cell, _shorten(results[cell].reason)), []
                ).append(model)
    for kind in reversed(KINDS[1:]):
        lines += ["", f"## {kind.capitalize()}", "", *_head("cell", "count", "models", "reason")]
        for (each, cell, short), models in reasons.items():
            if each == kind:
                lines.append(
                    f"| {cell} | {len(models)} | {', '.join(models[:3])}{' ...' if len(models) > 3 else ''} | {short} |"
                )
    lines += ["", "## Models", "", *_head("model", *KINDS, "s")]
    for model, results in table.items():
        counts = Counter(results[cell].kind for cell in CELLS if cell in results)
        seconds = sum(result.seconds for result in results.values())
        lines.append(
            f"| {model} | "
            + " | ".join(f"{counts[kind]}" for kind in KINDS)
            + f" | {seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _head(*names: str) -> tuple[str, str]:
    return f"| {' | '.join(names)} |", "| --- |" + " --- |" * (len(names) - 1)


def _shorten(reason: str) -> str:
    """Return a reason without what differs from model to model."""
    return re.sub(r"'[^']*'|\S*/\S*|\d[\d,.]*", "*", " ".join(reason.split()))[:160].replace(
        "|", "\\|"
    )


if __name__ == "__main__":
    _work()
