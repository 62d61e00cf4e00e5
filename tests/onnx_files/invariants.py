"""What must hold of a model after every rewrite.

- Loaded and saved it has the same bytes; encoded anew too, unless its own bytes were not canonical.
- A siamese, tied or copied, is accepted by ONNX's checker if the model was, and each of its branches, extracted and run in a
  session of its own, gives the model's numbers; tied branches are equal bit for bit.
- Renamed and renamed back by the map it has the same bytes.
- Extracted at inner values it gives what the model has there.
- Folded it is accepted too, and gives nearly the model's numbers; where nothing is folded it has the same bytes.

A check returns what it found in a word or two: ``holds``, or why it does not apply.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

import graphshare as gs
from graphshare.formats.onnx.write import encode_model
from tests.onnx_files.running import Session, Unrunnable, are_same, run_somehow
from tests.onnx_files.sources import Source

PREFIX = "b_"
HOLDS = "holds"


class Subject:
    """A model in a folder, with what the checker and onnxruntime make of it."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.path = folder / "model.onnx"
        for name, content in {"model.onnx": source.data, **source.files}.items():
            (folder / name).write_bytes(content)
        self.is_accepted = is_accepted(self.path)
        self.feeds: Mapping[str, Any] = {}
        self.outputs: Mapping[str, Any] = {}
        self.reason = ""
        try:
            self._run()
        except Unrunnable as error:
            self.reason = f"not run: {_shorten(error)}"

    def _run(self) -> None:
        session = Session(self.source.data, str(self.folder))
        self.feeds = self.source.feeds() if self.source.feeds is not None else run_somehow(session)
        self.outputs = session.run(self.feeds)
        if not all(are_same(x, y) for x, y in zip(self.outputs.values(), session.run(self.feeds).values(), strict=True)):
            raise Unrunnable("other numbers at each run")

    def load(self) -> gs.Checkpoint:
        """Load the model."""
        return gs.load(self.path)

    def run(self, path: Path, rename: Callable[[str], str] = lambda name: name) -> dict[str, Any]:
        """Run a file on the model's inputs under other names."""
        session = Session(path.read_bytes(), str(self.folder))
        return session.run({rename(name): value for name, value in self.feeds.items()})


def is_accepted(path: Path) -> bool:
    """Return whether ONNX's checker accepts a file."""
    try:
        onnx.checker.check_model(str(path))
    except Exception:  # the checker's errors, protobuf's and those of reading
        return False
    return True


def _shorten(error: Exception) -> str:
    return str(error).splitlines()[0][:100]


def check_identity(subject: Subject) -> str:
    """Load and save, and encode every part of the graph anew: what is untouched is saved as it is."""
    out = subject.folder / "same.onnx"
    model = subject.load()
    gs.save(model, out)
    assert out.read_bytes() == subject.source.data
    if b"".join(encode_model(model.graph).pieces()) == subject.source.data:
        return HOLDS
    return "not canonical"


def check_rename(subject: Subject) -> str:
    """Put a prefix before every name, and take it away by the map."""
    out, back, names = (subject.folder / name for name in ("renamed.onnx", "back.onnx", "renamed.json"))
    gs.save(gs.rename(subject.load(), prefix=PREFIX), out, map=names)
    assert is_accepted(out) or not subject.is_accepted
    if not subject.reason:
        found = subject.run(out, lambda name: PREFIX + name)
        assert all(are_same(found[PREFIX + name], value) for name, value in subject.outputs.items())
    gs.save(gs.rename(gs.load(out), map=names, inverse=True), back)
    assert back.read_bytes() == (subject.folder / "same.onnx").read_bytes()
    return HOLDS


def check_siamese(subject: Subject, mode: str) -> str:
    """Add a branch, and run both in sessions of their own."""
    out = subject.folder / f"{mode}.onnx"
    gs.save(gs.duplicate(subject.load(), PREFIX, mode=mode), out)  # type: ignore[arg-type]
    assert is_accepted(out) or not subject.is_accepted
    if subject.reason:
        return subject.reason
    siamese = gs.load(out)
    branches = []
    for prefix in ("", PREFIX):
        part = subject.folder / f"{mode}-part{prefix}.onnx"
        gs.save(gs.extract(siamese, [f"={prefix}{name}" for name in subject.outputs]), part)
        branches.append(list(subject.run(part, lambda name, prefix=prefix: prefix + name).values()))  # type: ignore[misc]
    for a, b, wanted in zip(*branches, subject.outputs.values(), strict=True):
        assert are_same(a, b, exact=mode == "tie")
        assert are_same(a, wanted, exact=False)
    return HOLDS


def check_extract(subject: Subject, chance: random.Random, count: int = 2) -> str:
    """Cut at inner values, whose types the file states or ONNX infers, and compare their numbers."""
    values = _list_inner(subject)
    if not values:
        return "no inner value of known type"
    for name in chance.sample(sorted(values), min(count, len(values))):
        out = subject.folder / "part.onnx"
        gs.save(gs.extract(subject.load(), [f"={name}"]), out)
        assert is_accepted(out) or not subject.is_accepted, f"the checker refuses {name}"
        if subject.reason:
            continue
        whole = onnx.load_from_string(subject.source.data)
        whole.graph.output.append(values[name])
        wanted = Session(whole.SerializeToString(), str(subject.folder)).run(subject.feeds)[name]
        assert are_same(subject.run(out)[name], wanted, exact=False), name
    return subject.reason or HOLDS


def check_fold(subject: Subject) -> str:
    """Fold what can be folded: the checker takes it, and the numbers are nearly the same."""
    out, model = subject.folder / "folded.onnx", subject.load()
    folded = gs.fold(model, verify=False)
    gs.save(folded, out)
    assert folded.report.count or out.read_bytes() == subject.source.data
    assert is_accepted(out) or not subject.is_accepted
    if subject.reason or not folded.report.count:
        return subject.reason or "nothing to fold"
    assert all(are_same(found, subject.outputs[name], exact=False) for name, found in subject.run(out).items())
    return HOLDS


def _list_inner(subject: Subject) -> dict[str, onnx.ValueInfoProto]:
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(subject.source.data))
    made = {name for node in model.graph.node for name in node.output} - {value.name for value in model.graph.output}
    return {value.name: value for value in model.graph.value_info if value.name in made and _has_shape(value.type)}


def _has_shape(kind: onnx.TypeProto) -> bool:
    """Whether a type is complete: the checker wants the rank of a tensor."""
    return kind.tensor_type.HasField("shape") if kind.HasField("tensor_type") else bool(kind.ByteSize())


CHECKS: dict[str, Callable[[Subject, random.Random], str]] = {
    "identity": lambda subject, chance: check_identity(subject),
    "rename": lambda subject, chance: check_rename(subject),
    "tie": lambda subject, chance: check_siamese(subject, "tie"),
    "copy": lambda subject, chance: check_siamese(subject, "copy"),
    "extract": check_extract,
    "fold": lambda subject, chance: check_fold(subject),
}
"""The checks by name, in order: that of renaming needs the file of the first."""
