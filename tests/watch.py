"""What command lines write and start, watched; ``python -m tests.watch [COMMAND ...]`` measures them anew.

The Python that does so needs onnx, onnxruntime and paddlepaddle. An audit hook sees what Python
opens, in the process of the command and in those that it starts (:mod:`tests.audit`). What native
code writes is seen by the files that have changed in the folder of the run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Collection
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import graphshare as gs
from graphshare import confined_process
from graphshare.formats.onnx import inference
from tests.audit import log_events
from tests.meta.test_docs import GENERATE
from tests.paddle_programs import Program, attribute, floats, record
from tests.processes import ROOT, in_process

TABLE = GENERATE.security_table
MODELS: dict[str, dict[str, str]] = {
    "mxnet": {
        "model": "models/lenet", "file": "models/lenet-symbol.json", "params": "models/lenet-0000.params",
        "other": "models/copy", "changed": "models/changed", "faulty": "models/faulty-symbol.json", "folded": "models/lenet",
        "tables": "models/lenet", "outside": "models/lenet", "untyped": "models/lenet", "many": "models/many-symbols",
        "inputs": "models/lenet-inputs", "shape": "data=1,1,28,28", "input": "data", "inner": "pool1_output", "last": "fc2",
        "head": "softmax_output", "tie": "--alias=bn1_gamma=bn1_beta", "params_out": "--params-out=made/new.params",
        "siam": "models/siam", "copies": "models/siam", "folded_inputs": "models/lenet-inputs", "older": "models/lenet",
    },
    "onnx": {
        "model": "models/small.onnx", "file": "models/small.onnx", "params": "models/small.onnx",
        "other": "models/folded.onnx", "changed": "models/changed.onnx", "faulty": "models/small.onnx",
        "folded": "models/folded.onnx", "siam": "models/siam.onnx", "copies": "models/copies.onnx",
        "folded_inputs": "models/folded-inputs", "older": "models/older.onnx",
        "tables": "models/tables.onnx", "outside": "models/outside.onnx",
        "untyped": "models/untyped.onnx", "many": "models/many-onnx", "inputs": "models/small-inputs", "shape": "x=2",
        "input": "x", "inner": "h", "last": "y", "head": "y", "tie": "--untie=*", "params_out": "",
    },
    "paddle": {
        "model": "models/sum", "file": "models/sum.json", "params": "models/sum",
        "other": "models/less", "changed": "models/less", "faulty": "models/sum.json", "folded": "models/sum",
        "tables": "models/sum", "outside": "models/sum", "untyped": "models/sum", "many": "models/many-programs",
        "inputs": "models/sum-inputs", "shape": "x=2,2", "input": "x", "inner": "%5", "last": "out",
        "head": "out", "tie": "--alias=c=b", "params_out": "--params-out=made/new.pdiparams",
        "siam": "models/pair", "copies": "models/pair", "folded_inputs": "models/sum-inputs", "older": "models/sum",
    },
}  # fmt: skip
"""By format the words that stand in lines: files of :func:`make_models`, names and shapes; what a
format lacks is empty.
"""

_TRANSPOSES = [attribute(f"transpose_{which}", "0.a_bool", False) for which in "xy"]


class NotInstalledError(Exception):
    """A line needs a package that this Python does not have."""


class Doings(NamedTuple):
    """What a command did: files in its folder that are new or changed, and all that it wrote to,
    started and connected to.
    """

    code: int
    messages: str
    new: list[str]
    changed: list[str]
    writes: set[str]
    starts: set[str]
    connects: set[Any]


def watch(words: list[str], folder: Path) -> Doings:
    """Run a command in this process, in ``folder/run``, and note what it and its processes do.

    They have a folder for temporary files and a home of their own, in which they may leave nothing.
    """
    place, temporary, home, log = (folder / name for name in ("run", "temporary", "home", "log"))
    temporary.mkdir()
    home.mkdir()
    before = _list_files(place)
    with (
        patch.object(confined_process, "_kept", {}) as kept,
        patch.object(inference._Memory, "last", (None, {})),
        patch.object(tempfile, "tempdir", str(temporary)),
        patch.dict(os.environ, TMPDIR=str(temporary), HOME=str(home)),
        log_events(str(log)),
    ):
        os.environ.pop("ORT_DISABLE_TELEMETRY", None)  # another run may have set it in this process
        run = in_process(*words, cwd=place)
        for process in kept.values():
            process._end()
    temporary.rmdir()
    home.rmdir()
    after = _list_files(place)
    events: dict[str, set[Any]] = {"writes": set(), "starts": set(), "connects": set()}
    for line in log.read_text(encoding="utf-8").splitlines():
        what, where = json.loads(line)
        events[what].add(tuple(where) if isinstance(where, list) else where)
    changed = [path for path in before if after.get(path) != before[path]]
    new = [path for path in after if path not in before]
    # The report of a foreach has the messages of its commands.
    messages = run.stderr.decode() or (run.stdout.decode() if run.returncode == 2 else "")
    return Doings(run.returncode, messages, new, changed, *events.values())


def _list_files(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the files below a folder by their paths in it, with what changes when one is written."""
    files = {
        str(path.relative_to(folder)): path.stat()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in files.items()}


def list_stray_writes(doings: Doings, folder: Path) -> list[str]:
    """Return what was written neither beside a new or changed file, as parts of that, nor in the
    folder for temporary files.
    """
    places = {str((folder / "run" / path).parent) for path in (*doings.new, *doings.changed)}
    stray = {
        path for path in doings.writes if path not in places and os.path.dirname(path) not in places
    }
    own = (str(folder / "temporary") + os.sep, str(folder / "temporary"))
    # Python compiles the modules that it imports.
    return sorted(
        path
        for path in stray - {os.devnull}
        if not path.startswith(own) and f"{os.sep}__pycache__" not in path
    )


def list_writing_options(doings: Doings, words: list[str], options: str) -> list[str]:
    """Return the options, or the argument, of a line that say where its new files are.

    ``options``, for which the line is there, stand for files that it changes, and new ones in no
    place that the line names.
    """
    writing = {options} if doings.changed else set()
    for path in doings.new:
        places: dict[str, str] = {}
        for before, word in pairwise(words):
            flag, _, value = word.partition("=") if word.startswith("--") else (before, "", word)
            if value and path.startswith(value):
                places[value] = flag if flag.startswith("-") else "TARGET"
        writing.add(places[max(places, key=len)] if places else options)
    return sorted(writing)


def measure(
    name: str, line: str, model: str, models: Path, folder: Path
) -> tuple[dict[str, list[str]] | None, Doings]:
    """Return what a line does with a model in an empty folder, as the table has it; None where it refuses the format.

    Raises:
        NotInstalledError: this Python lacks what the line needs.
    """
    shutil.copytree(models, folder / "run" / "models")
    (folder / "run" / "made").mkdir()
    words = line.format(**MODELS[model]).split()
    doings = watch(words, folder)
    writes = list_writing_options(doings, words, TABLE.split_name(name)[1])
    if "is not installed" in doings.messages:
        raise NotInstalledError(doings.messages)
    if (
        doings.code == 2
        and ("ONNX" in doings.messages or "Paddle" in doings.messages)
        and not writes
    ):
        return None, doings
    assert doings.code in (0, 1), doings.messages
    return {"writes": writes, "starts": sorted(doings.starts)}, doings


def judge(
    name: str, model: str, models: Path, folder: Path
) -> tuple[dict[str, list[str]] | None, list[str]]:
    """Return what :func:`measure` does, and what no line may do: stray and temporary files, and connections."""
    did, doings = measure(name, TABLE.read_measured()[name]["line"], model, models, folder)
    faults = [
        *list_stray_writes(doings, folder),
        *(path for path in doings.new if ".graphshare-" in path),
    ]
    return did, [*faults, *map(str, doings.connects)]


def make_models(folder: Path) -> None:
    """Make the models of :data:`MODELS`."""
    for name in ("lenet-symbol.json", "lenet-0000.params", "small.onnx"):
        shutil.copy(ROOT / "fixtures" / name, folder / name)
    for name in GENERATE.CHECKPOINT_FOLDERS:
        shutil.copytree(ROOT / "fixtures" / name, folder / name)
    symbol = (folder / "lenet-symbol.json").read_text(encoding="utf-8")
    for name, text in (
        ("copy", symbol),
        ("changed", symbol.replace('"tanh"', '"relu"')),
        ("faulty", "\ufeff" + symbol),
    ):
        (folder / f"{name}-symbol.json").write_text(text, encoding="utf-8")
        shutil.copy(folder / "lenet-0000.params", folder / f"{name}-0000.params")
    gs.save(gs.duplicate(gs.load(folder / "lenet"), "b-"), folder / "siam")
    _make_programs(folder)
    gs.save(gs.duplicate(gs.load(folder / "small.onnx"), "b_", mode="tie"), folder / "siam.onnx")
    gs.save(gs.duplicate(gs.load(folder / "small.onnx"), "b_"), folder / "copies.onnx")
    (folder / "rules.json").write_text('{"version": 1, "rules": []}', encoding="utf-8")
    for name, *files in (
        ("many-symbols", "lenet-symbol.json"),
        ("many-onnx", "small.onnx"),
        ("many-programs", "sum.json", "sum.pdiparams"),
    ):
        (folder / name).mkdir()
        # More than a process of `check --jobs` gets at once
        for number, file in product(range(17), files):
            shutil.copy(folder / file, folder / name / f"{number}-{file}")
    for name, sample in (
        ("lenet", {"data": np.ones((1, 1, 28, 28), "float32")}),
        ("small", {"x": np.ones(2, "float32"), "flag": np.array(True)}),
        ("folded", {"x": np.ones((1, 1, 2, 2), "float32")}),
        ("sum", {"x": np.ones((2, 2), "float32")}),
    ):
        (folder / f"{name}-inputs").mkdir()
        np.savez(folder / f"{name}-inputs" / "first.npz", **sample)
    _make_onnx_models(folder)


def _make_programs(folder: Path) -> None:
    """Make a matrix product with two sums, and one with the last of them alone."""
    for name, biases in (("sum", "bc"), ("less", "c")):
        program = Program()
        first, *others = [
            program.parameter(key, 2, 2) if key == "w" else program.parameter(key, 2)
            for key in ("w", *biases)
        ]
        value = program.op("1.matmul", program.data("x", -1, 2), first, attributes=_TRANSPOSES)
        for bias in others:
            value = program.op("1.add", value, bias)
        program.fetch(value, "out")
        program.save(
            folder,
            {
                "w": record((2, 2), data=floats(*range(4))),
                **{b: record((2,), data=floats(1, 2)) for b in biases},
            },
            name,
        )
    gs.save(gs.duplicate(gs.load(folder / "sum"), "b-"), folder / "pair")


def _make_onnx_models(folder: Path) -> None:
    """Make two convolutions, an output without a type, and a table with its transpose, in one file
    and with external data.
    """
    import onnx  # optional, as for the next one

    from tests.onnx_files.mutable import BOOL, INT64, body, build, declare, node, weight

    nodes = [node("Conv", "x w", "conv"), node("BatchNormalization", "conv c c c c", "y")]
    for name, start, opset in (("folded", 2, 18), ("changed", 3, 18), ("older", 2, 11)):
        weights = [weight("w", 1, 1, 1, 1, start=start), weight("c", 1)]
        model = build(nodes, [declare("x", (1, 1, 2, 2))], [declare("y", (1, 1, 2, 2))], weights)
        model.opset_import[0].version = opset
        onnx.save(model, folder / f"{name}.onnx")
    table = np.arange(8, dtype="float32").reshape(4, 2)
    weights = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(a), name)
        for a, name in ((table, "table"), (table.T, "head"))
    ]
    nodes = [node("Gather", "table x", "h"), node("MatMul", "h head", "y")]
    bare = onnx.ValueInfoProto(name="y")
    branches = {
        f"{each}_branch": body(each, [node("Relu", "x", "y")], [], [bare])
        for each in ("then", "else")
    }
    untyped = build(
        [node("If", "flag", "y", **branches)], [declare("flag", (), BOOL), declare("x")], [bare]
    )
    onnx.save(untyped, folder / "untyped.onnx")
    model = build(nodes, [declare("x", (3,), INT64)], [declare("y", (3, 4))], weights)
    onnx.save(model, folder / "tables.onnx")
    onnx.save(
        model,
        folder / "outside.onnx",
        save_as_external_data=True,
        location="outside.data",
        size_threshold=0,
    )


def main(commands: Collection[str]) -> None:
    """Measure the lines of some commands, or all lines, anew, and write what they do into the data of the table."""
    measured = TABLE.read_measured()
    with tempfile.TemporaryDirectory() as top:
        models = Path(top, "models")
        models.mkdir()
        make_models(models)
        for number, (name, entry) in enumerate(measured.items()):
            if not commands or TABLE.split_name(name)[0] in commands:
                line = entry["line"]
                found = {
                    model: measure(name, line, model, models, Path(top, f"{number}-{model}"))[0]
                    for model in MODELS
                }
                measured[name] = {
                    "line": line,
                    **{model: did for model, did in found.items() if did is not None},
                }
    entries = []
    for name, entry in measured.items():
        rows = ",\n".join(
            f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items()
        )
        entries.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    text = ",\n".join(entries)
    TABLE.MEASURED.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--judge"]:  # in a Python that has what a line needs
        print(json.dumps(judge(*sys.argv[2:4], *map(Path, sys.argv[4:]))))
    else:
        main(sys.argv[1:])
