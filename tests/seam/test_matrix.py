"""The matrix: every command gives one answer, however its model is spelled, for an MXNet pair and for its ONNX export.

The answer by path is what the others are compared with: exit code, stdout, stderr and every file
written, modulo the names.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

import graphshare as gs
from tests.processes import ROOT, files_in, graphshare, in_process
from tests.remote.web_server import serve

pytest.importorskip("onnxruntime")

SHAPES = {"data": (1, 1, 28, 28), "right_data": (1, 1, 28, 28)}
SHAPE_WORDS = ("--shape", "data=1,1,28,28", "--shape", "right_data=1,1,28,28")


class Spelled(msgspec.Struct, frozen=True):
    """A model as it is spelled: ``word`` for GRAPH, its parameter file where that does not follow, what stdin is."""

    word: str
    params: str = ""
    stdin: bytes | Path = b""

    def named(self, option: str = "--params") -> list[str]:
        """Return the words that name the model."""
        return [self.word, *([option, self.params] if self.params else [])]

    def against(self) -> list[str]:
        """Return the words that name it as the other side."""
        return [*self.named("--against-params")]


class Answer(msgspec.Struct, frozen=True):
    """What a command answers, without the names of the model's files."""

    code: int
    out: str
    messages: str
    files: dict[str, bytes | str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A siamese LeNet and its export, each under all of its names, in folders and on a web server."""
    folder = tmp_path_factory.mktemp("matrix")
    for name in ("mxnet", "onnx", "out"):
        (folder / name).mkdir()
    gs.save(
        gs.duplicate(gs.load(ROOT / "fixtures" / "lenet"), "right_", mode="tie"),
        folder / "mxnet" / "siam",
    )
    gs.export(gs.load(folder / "mxnet" / "siam"), folder / "onnx" / "siam.onnx", shapes=SHAPES)
    for path in (folder / "mxnet" / "siam-symbol.json", folder / "onnx" / "siam.onnx"):
        shutil.copy(path, path.with_name("siam.bin"))
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    with serve(folder) as site:
        yield Place(folder, site.url)


class Place:
    """Where the spelled models are; it keeps the answers by path, which others are compared with."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.by_path = cache(self._answer_by_path)

    def spell(self, model: str, how: str) -> Spelled:
        folder = self.folder / model
        name = "siam-symbol.json" if model == "mxnet" else "siam.onnx"
        params = str(folder / "siam-0000.params") if model == "mxnet" else ""
        url = f"{self.url}/{model}"
        return {
            "path": Spelled(str(folder / name), params),
            "stem": Spelled(str(folder / "siam")),
            "other suffix": Spelled(str(folder / "siam.bin"), params),
            "gzip": Spelled(str(folder / f"{name}.gz"), params),
            "file URL": Spelled((folder / name).as_uri(), params),
            "URL": Spelled(f"{url}/{name}", params),
            "stem at a URL": Spelled(f"{url}/siam"),
            "stdin, a file": Spelled("-", params, folder / name),
            "stdin, a pipe": Spelled("-", params, (folder / name).read_bytes()),
        }[how]

    def answer(self, command: str, spelled: Spelled, model: str) -> Answer:
        """Run a command and return its answer; what it writes goes into an empty directory."""
        out = self.folder / "out" / f"{os.getpid()}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        others = {kind: self.spell(kind, "path") for kind in ("mxnet", "onnx")}
        words = COMMANDS[command](
            spelled, others[model], others["onnx" if model == "mxnet" else "mxnet"]
        )
        # The one that starts processes needs one of its own
        start = graphshare if command == "foreach" else in_process
        run = start(*words, data=spelled.stdin, cwd=out)
        files = {name: _read(out / name) for name in files_in(out)}
        return Answer(
            run.returncode, self.scrub(run.stdout, spelled), self.scrub(run.stderr, spelled), files
        )

    def scrub(self, text: bytes, spelled: Spelled) -> str:
        """Return a text with one word for every name of the model, its file and its parameter file."""
        folders = "|".join(
            re.escape(where) for where in (self.folder.as_uri(), str(self.folder), self.url)
        )
        cleaned = text.decode().replace("<stdin>", "FILE").replace(f'"{spelled.word}"', '"FILE"')
        cleaned = re.sub(
            rf"((?:{folders})/(?:mxnet|onnx)/)?\bsiam(-symbol\.json|\.onnx|\.bin)(\.gz)?\b",
            "FILE",
            cleaned,
        )
        cleaned = re.sub(rf"(?:{folders})/(?:mxnet|onnx)/siam-0000\.params", "PARAMS", cleaned)
        cleaned = re.sub(
            rf"(?:{folders})/(?:mxnet|onnx)/siam\b|(?<=digraph \")siam(?=\")", "FILE", cleaned
        )
        cleaned = re.sub(
            r'"size":\d+,("sha256":"\w+","modified":\d+|"etag":"\\"[^"]+"")', "IDENTITY", cleaned
        )
        return re.sub(r'"[a-z_]*seconds": ?(\{[^}]*\}|[-\d.e]+)|\bin [\d.]+ s\b', "TIME", cleaned)

    def _answer_by_path(self, command: str, model: str) -> Answer:
        return self.answer(command, self.spell(model, "path"), model)


def _read(path: Path) -> bytes | str:
    """Return the content of a written file; of an exported model without the names that it has from its source."""
    if path.suffix != ".onnx":
        return path.read_bytes()
    model = onnx.load(path)
    model.graph.name = ""
    for entry in model.metadata_props:
        entry.value = "" if entry.key == "graphshare.source" else entry.value
    return model.SerializeToString(deterministic=True)


Words = Callable[[Spelled, Spelled, Spelled], list[str]]
"""The words of a command, of the model in question, the same model by path, and the one of the other format by path."""

COMMANDS: dict[str, Words] = {
    "check": lambda g, same, other: ["check", *g.named(), "--format", "json"],
    "inspect": lambda g, same, other: ["inspect", *g.named(), "--format", "json"],
    "draw": lambda g, same, other: ["draw", *g.named(), "--to", "dot"],
    "diff": lambda g, same, other: ["diff", *g.named(), *same.named("--against-params")],
    "diff, sides swapped": lambda g, same, other: ["diff", *same.named(), *g.named("--against-params")],
    "diff across": lambda g, same, other: ["diff", *g.named(), *other.named("--against-params")],
    "diff across, sides swapped": lambda g, same, other: ["diff", *other.named(), *g.named("--against-params")],
    "run": lambda g, same, other: ["run", *g.named(), *SHAPE_WORDS, "--seed", "0", "--format", "json"],
    "verify": lambda g, same, other: ["verify", *g.named(), *SHAPE_WORDS, "--format", "json"],
    "verify against": lambda g, same, other: ["compare", *g.named(), *same.against(), *SHAPE_WORDS],
    "verify against, sides swapped": lambda g, same, other: ["compare", *same.named(), *g.against(), *SHAPE_WORDS],
    "verify across": lambda g, same, other: ["compare", *g.named(), *other.against()],
    "verify across, sides swapped": lambda g, same, other: ["compare", *other.named(), *g.against()],
    "duplicate": lambda g, same, other: ["duplicate", *g.named(), "--prefix", "third_", "-o", "made"],
    "rename": lambda g, same, other: ["rename", *g.named(), "--prefix", "new_", "-o", "made"],
    "extract": lambda g, same, other: ["extract", *g.named(), "--target", "softmax_output", "-o", "made"],
    "share": lambda g, same, other: ["share", *g.named(), "--untie", "*_weight", "-o", "made"],
    "fold": lambda g, same, other: ["fold", *g.named(), "-o", "made"],
    "upgrade": lambda g, same, other: ["upgrade", *g.named(), "-o", "made"],
    "format": lambda g, same, other: ["format", g.word, "--layout", "indent:2", "-o", "made-symbol.json"],
    "export": lambda g, same, other: ["export", *g.named(), *SHAPE_WORDS, "-o", "made.onnx"],
    "params list": lambda g, same, other: ["params", "list", g.word, "--format", "json"],
    "foreach": lambda g, same, other: ["foreach", g.word, "--report", "json", "--", "check", "{}"],
}  # fmt: skip

CODES = {
    "mxnet": {"diff across": 1, "diff across, sides swapped": 1},
    "onnx": {
        **dict.fromkeys(("diff across", "diff across, sides swapped"), 1),
        **dict.fromkeys(("upgrade", "format", "export"), 2),
    },
}
"""Exit codes by model and command; 0 where there is none."""

SPELLINGS = {
    "mxnet": (
        "path",
        "stem",
        "other suffix",
        "gzip",
        "file URL",
        "URL",
        "stem at a URL",
        "stdin, a file",
        "stdin, a pipe",
    ),
    "onnx": ("path", "stem", "other suffix", "file URL", "URL", "stem at a URL", "stdin, a file"),
}
"""The spellings that give the answer by path. Two more of ONNX models may be refused: see below."""


def _is_open(model: str, command: str, how: str) -> bool:
    """Whether a command takes a spelling at all."""
    if command == "params list":  # an MXNet model has its parameters in another file
        return model == "onnx"
    # It names the models of its pattern, and finds their parameters by MXNet's names
    if command == "foreach":
        return not how.startswith("stdin") and (model, how) != ("mxnet", "other suffix")
    return True


def _cells() -> list[Any]:
    return [
        pytest.param(model, command, how)
        for model, spellings in SPELLINGS.items()
        for command in COMMANDS
        for how in spellings
        if _is_open(model, command, how)
    ]


@pytest.mark.parametrize(("model", "command", "how"), _cells())
def test_one_answer(model: str, command: str, how: str, place: Place) -> None:
    expected = place.by_path(command, model)
    answer = expected if how == "path" else place.answer(command, place.spell(model, how), model)
    assert answer.code == CODES[model].get(command, 0), answer.messages or answer.out
    assert answer == expected


# What an ONNX model may be refused as: the same by every command, and saying what to do instead.

REFUSABLE = ("gzip", "stdin, a pipe")


def _answer_all(place: Place, how: str) -> dict[str, Answer]:
    return {
        command: place.answer(command, place.spell("onnx", how), "onnx")
        for command in COMMANDS
        if _is_open("onnx", command, how)
    }


def _find_refusal(command: str, answer: Answer) -> str:
    """Return what a command says of a model that it refuses; ``check`` and ``foreach`` say it in their reports."""
    if command == "check":
        assert answer.code == 2 or (answer.code == 1 and "GS001" in answer.out)
        return answer.out + answer.messages
    assert answer.code == 2, answer
    return answer.messages


@pytest.mark.parametrize("how", REFUSABLE)
def test_one_answer_or_one_refusal(how: str, place: Place) -> None:
    answers = _answer_all(place, how)
    if answers["inspect"].code == 0:
        for command, answer in answers.items():
            assert answer == place.by_path(command, "onnx"), command
        return
    refusal, hint = answers["inspect"].messages.strip().splitlines()
    message = refusal.removeprefix("error: FILE: ")
    for command, answer in answers.items():
        assert message in _find_refusal(command, answer), command
    for words in ("give it as GRAPH", "not a symbol file"):
        assert words not in refusal + hint
    assert re.search("unpack|decompress|gunzip" if how == "gzip" else "file", hint)


# Either side of either format gives the same comparison.


def _compare(folder: Path, left: Path, right: Path) -> tuple[str, list[Any]]:
    """Return the first word of the verdict of ``verify`` of one model against another, and the
    comparisons of outputs.
    """
    run = in_process("compare", left, right, "--format", "json", cwd=folder)
    report = json.loads(run.stdout)
    (branch,) = report["branches"]
    comparisons = [
        [output["comparison"][key] for key in ("equal", "identical", "max_abs")]
        for values in branch["rounds"]
        for output in values["outputs"]
    ]
    return report["verdict"].partition(":")[0], comparisons


def test_the_sides_of_a_proof_can_be_swapped(place: Place) -> None:
    lenet, exported = ROOT / "fixtures" / "lenet", place.folder / "onnx" / "lenet.onnx"
    gs.export(gs.load(lenet), exported, shapes={"data": (1, 1, 28, 28)})
    verdict, comparisons = _compare(place.folder, exported, lenet)
    assert verdict == "EQUAL"
    assert len(comparisons) == 1
    assert _compare(place.folder, lenet, exported) == (verdict, comparisons)


@pytest.mark.parametrize(
    ("is_swapped", "where"),
    [
        pytest.param(is_swapped, where, id=f"{'mxnet' if is_swapped else 'onnx'} first-{where}")
        for is_swapped in (False, True)
        for where in ("path", "other suffix", "stem")
    ],
)
def test_a_wrong_weight_is_found_whatever_the_side(
    is_swapped: bool, where: str, place: Place, tmp_path: Path
) -> None:
    model = onnx.load(place.folder / "onnx" / "siam.onnx")
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "fc2_bias")
    weight.CopyFrom(
        onnx.numpy_helper.from_array(
            onnx.numpy_helper.to_array(weight) + np.eye(1, 10, dtype="f")[0], "fc2_bias"
        )
    )
    wrong = tmp_path / ("wrong.bin" if where == "other suffix" else "wrong.onnx")
    wrong.write_bytes(model.SerializeToString())
    sides = [
        str(tmp_path / "wrong") if where == "stem" else str(wrong),
        str(place.folder / "mxnet" / "siam"),
    ]
    left, right = reversed(sides) if is_swapped else sides
    run = in_process("compare", left, right)
    assert run.returncode == 1, run.stderr
    verdict = run.stdout.splitlines()[-1]
    assert verdict.startswith(b"NOT EQUAL: regions of "), run.stdout
    assert b"values of " in verdict, run.stdout


# The library takes a text, a Path, or a model that is loaded.

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "check": lambda model, same, other: gs.check(model).findings,
    "inspect": lambda model, same, other: gs.inspect(model),
    "infer_shapes": lambda model, same, other: gs.infer_shapes(model, SHAPES),
    "draw": lambda model, same, other: gs.draw(model, to="mermaid").text,
    "diff": lambda model, same, other: gs.diff(model, same),
    "diff, sides swapped": lambda model, same, other: gs.diff(same, model),
    "diff across": lambda model, same, other: gs.diff(model, other),
    "diff across, sides swapped": lambda model, same, other: gs.diff(other, model),
    "run": lambda model, same, other: [
        array.tobytes() for array in gs.run(model, shapes=SHAPES, seed=0).outputs.values()
    ],
    "verify": lambda model, same, other: gs.verify(model, shapes=SHAPES).verdict,
    "verify against": lambda model, same, other: gs.compare(model, same, shapes=SHAPES).verdict,
    "verify against, sides swapped": lambda model, same, other: (
        gs.compare(same, model, shapes=SHAPES).verdict
    ),
    "verify across": lambda model, same, other: _is_equal(gs.compare(model, other)),
    "verify across, sides swapped": lambda model, same, other: _is_equal(gs.compare(other, model)),
    "duplicate": lambda model, same, other: gs.duplicate(model, "third_"),
    "rename": lambda model, same, other: gs.rename(model, prefix="new_"),
    "extract": lambda model, same, other: gs.extract(model, "softmax_output"),
    "share": lambda model, same, other: gs.share(model, untie="*_weight"),
    "fold": lambda model, same, other: gs.fold(model),
    "upgrade": lambda model, same, other: gs.upgrade(model),
    "format": lambda model, same, other: gs.format(model, "compact"),
    "list_params": lambda model, same, other: gs.list_params(model),
}


def _is_equal(report: Any) -> bool:
    assert report, report.verdict
    return bool(report)


def _call(
    name: str, model: Any, same: str, other: str, folder: Path
) -> str | dict[str, bytes | str]:
    """Return a function's result as text, the files of a rewritten model, or the refusal."""
    try:
        result = FUNCTIONS[name](model, same, other)
        if isinstance(result, gs.Checkpoint):
            gs.save(result, folder / "made")
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    except gs.GraphshareError as error:
        result = ["refused", *(fault.message for fault in error.faults)]
    return re.sub(
        r"(file://)?[^\s'\"]*/(mxnet|onnx)/siam(-symbol\.json|\.onnx|\.bin)?\b",
        "FILE",
        repr(msgspec.to_builtins(result, enc_hook=repr)),
    )


LOADED: dict[str, Callable[[Place, str], Any]] = {
    "a stem as a Path": lambda place, model: place.folder / model / "siam",
    "loaded from a stem": lambda place, model: gs.load(place.folder / model / "siam"),
    "loaded from another suffix": lambda place, model: gs.load(
        place.folder / model / "siam.bin", params=place.spell(model, "path").params or None
    ),
    "a stem": lambda place, model: str(place.folder / model / "siam"),
    "a file as a Path": lambda place, model: place.folder / model / "siam.onnx",
    "another suffix": lambda place, model: str(place.folder / model / "siam.bin"),
    "another suffix as a Path": lambda place, model: place.folder / model / "siam.bin",
    "a file URL": lambda place, model: (place.folder / model / "siam.onnx").as_uri(),
}
"""Spellings in the library: the first three are of MXNet models too, whose parameters are beside a stem."""


def _library_cells() -> list[Any]:
    cells = []
    for model in ("mxnet", "onnx"):
        for how in list(LOADED) if model == "onnx" else list(LOADED)[:3]:
            for name in FUNCTIONS:
                if name == "list_params" and how.startswith("loaded"):
                    continue  # it takes files alone
                cells.append(pytest.param(model, name, how))
    return cells


@pytest.mark.parametrize(("model", "name", "how"), _library_cells())
def test_one_result_of_the_library(
    model: str, name: str, how: str, place: Place, tmp_path: Path
) -> None:
    plain = {
        "mxnet": str(place.folder / "mxnet" / "siam"),
        "onnx": str(place.folder / "onnx" / "siam.onnx"),
    }
    same, other = plain[model], plain["onnx" if model == "mxnet" else "mxnet"]
    for folder in ("expected", "made"):
        (tmp_path / folder).mkdir()
    expected = _call(name, same, same, other, tmp_path / "expected")
    assert _call(name, LOADED[how](place, model), same, other, tmp_path / "made") == expected
