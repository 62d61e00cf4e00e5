"""What must hold of a model after every rewrite.

- Loaded and saved it has the same bytes; encoded anew too, unless its own bytes were not canonical.
- What is written is accepted by ONNX's checker if the model was, and gives the model's numbers, bit
  for bit in sessions that optimize nothing: each branch of a siamese, tied, copied or tied
  afterwards, extracted for itself; a pair of two of the model; the part that its outputs need, and
  that of inner values; the model renamed, and on a pool.
- Renamed back by the map or without the prefix, and with its weights embedded again, it has the same bytes.
- Folded it is accepted too, and gives nearly the model's numbers; where nothing is folded it has the same bytes.

A check returns what it found in a word or two: ``holds``, or why it does not apply.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cached_property
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
        self.is_accepted = not find_fault(self.path)
        self.feeds: Mapping[str, Any] = {}
        self.outputs: Mapping[str, Any] = {}
        self.reason = ""
        try:
            self._run()
        except Unrunnable as error:
            self.reason = f"not run: {_shorten(error)}"

    def _run(self) -> None:
        session = Session(self.source.data, str(self.folder), optimize=False)
        self.feeds = self.source.feeds() if self.source.feeds is not None else run_somehow(session)
        self.outputs = session.run(self.feeds)
        if not all(
            are_same(x, y)
            for x, y in zip(self.outputs.values(), session.run(self.feeds).values(), strict=True)
        ):
            raise Unrunnable("other numbers at each run")

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The model, without data in other files."""
        return onnx.load_from_string(self.source.data)

    @property
    def tieable(self) -> set[str]:
        """The names of weights that are no outputs: initializers, and arrays of Constants."""
        weights = {tensor.name for tensor in self.proto.graph.initializer}
        weights.update(tensor.values.name for tensor in self.proto.graph.sparse_initializer)
        weights.update(
            node.output[0]
            for node in self.proto.graph.node
            if node.op_type == "Constant" and node.output
        )
        return weights - {*self.heads}

    @property
    def heads(self) -> list[str]:
        """The names of the outputs."""
        return list(dict.fromkeys(value.name for value in self.proto.graph.output))

    def load(self) -> gs.Checkpoint:
        """Load the model."""
        return gs.load(self.path)

    def run(self, path: Path, *prefixes: str) -> dict[str, Any]:
        """Run a file on the model's inputs, under their names or with each of the prefixes."""
        session = Session(path.read_bytes(), str(path.parent), optimize=False)
        return session.run(
            {
                prefix + name: value
                for prefix in prefixes or ("",)
                for name, value in self.feeds.items()
            }
        )

    def expect_accepted(self, path: Path) -> None:
        """Check that ONNX's checker accepts a file if it accepts the model."""
        fault = self.is_accepted and find_fault(path)
        assert not fault, f"the checker refuses {path.name}: {fault}"

    def expect(self, path: Path, *prefixes: str) -> None:
        """Check that a file is accepted, and gives the model's outputs, under their names or with
        each of the prefixes.
        """
        self.expect_accepted(path)
        if not self.reason:
            outputs = self.run(path, *prefixes)
            for prefix in prefixes or ("",):
                for name, value in self.outputs.items():
                    assert are_same(outputs[prefix + name], value), (
                        f"{path.name} computes another {prefix}{name}"
                    )


def find_fault(path: Path) -> str:
    """Return what ONNX's checker has against a file; nothing for one that it accepts."""
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:  # the checker's errors, protobuf's and those of reading
        return str(error) or "refused"
    return ""


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
    """Put a prefix before every name, and take it away by the map, and as text."""
    out, back, names = (
        subject.folder / name for name in ("renamed.onnx", "back.onnx", "renamed.json")
    )
    gs.save(gs.rename(subject.load(), prefix=PREFIX), out, map=names)
    subject.expect(out, PREFIX)
    gs.save(gs.rename(gs.load(out), map=names, inverse=True), back)
    assert back.read_bytes() == subject.source.data, "renamed back by the map it has other bytes"
    gs.save(gs.rename(gs.load(out), strip_prefix=PREFIX), back)
    assert back.read_bytes() == subject.source.data, "without the prefix it has other bytes"
    return subject.reason or HOLDS


def check_siamese(subject: Subject, mode: str) -> str:
    """Add a branch, and run both in sessions of their own."""
    out = subject.folder / f"{mode}.onnx"
    try:
        siamese = gs.duplicate(subject.load(), PREFIX, mode=mode)  # type: ignore[arg-type]
    except gs.RefusedError as error:
        if mode == "tie" and "nothing would be tied" in str(error) and not subject.tieable:
            return "no weight but outputs"
        raise
    gs.save(siamese, out)
    return _check_branches(subject, out)


def _check_branches(subject: Subject, out: Path) -> str:
    subject.expect_accepted(out)
    siamese = gs.load(out)
    for prefix in ("", PREFIX):
        part = out.with_stem(f"{out.stem}-part{prefix}")
        gs.save(gs.extract(siamese, [f"={prefix}{name}" for name in subject.heads]), part)
        subject.expect(part, prefix)
    return subject.reason or HOLDS


def check_share(subject: Subject) -> str:
    """Tie the weights of a copy to their originals."""
    out = subject.folder / "shared.onnx"
    weights = {tensor.name for tensor in subject.proto.graph.initializer}
    weights -= {value.name for value in (*subject.proto.graph.input, *subject.proto.graph.output)}
    if not weights:
        return "no weight that is neither an input nor an output"
    aliases = {f"{PREFIX}{name}": name for name in weights}
    gs.save(gs.share(gs.duplicate(subject.load(), PREFIX), aliases=aliases), out)
    return _check_branches(subject, out)


def check_group(subject: Subject) -> str:
    """Put two of the model side by side."""
    out = subject.folder / "pair.onnx"
    gs.save(gs.group([subject.load(), subject.load()], prefixes=["a_", PREFIX]), out)
    subject.expect(out, "a_", PREFIX)
    return subject.reason or HOLDS


def check_pool(subject: Subject) -> str:
    """Put the weights into a pool, and embed them again."""
    pooled, embedded = (
        subject.folder / name / subject.path.name for name in ("pooled", "embedded")
    )
    gs.pool([subject.path], pooled.parent, verify=False)
    subject.expect(pooled)
    gs.pool([pooled], embedded.parent, embed=True, verify=False)
    if subject.source.files:  # its weights were in a file of their own
        subject.expect(embedded)
    else:
        assert embedded.read_bytes() == subject.source.data
    return subject.reason or HOLDS


def check_outputs(subject: Subject) -> str:
    """Cut out what the outputs need."""
    out = subject.folder / "needed.onnx"
    gs.save(gs.extract(subject.load(), [f"={name}" for name in subject.heads]), out)
    subject.expect(out)
    return subject.reason or HOLDS


def check_extract(subject: Subject, chance: random.Random, count: int = 2) -> str:
    """Cut at inner values, whose types the file states or ONNX infers, and compare their numbers."""
    values = _list_inner(subject)
    if not values:
        return "no inner value of known type"
    for name in chance.sample(sorted(values), min(count, len(values))):
        out = subject.folder / "part.onnx"
        gs.save(gs.extract(subject.load(), [f"={name}"]), out)
        subject.expect_accepted(out)
        if subject.reason:
            continue
        whole = onnx.load_from_string(subject.source.data)
        whole.graph.output.append(values[name])
        wanted = Session(whole.SerializeToString(), str(subject.folder), optimize=False).run(
            subject.feeds
        )[name]
        assert are_same(subject.run(out)[name], wanted), name
    return subject.reason or HOLDS


def check_fold(subject: Subject) -> str:
    """Fold what can be folded: the checker takes it, and the numbers are nearly the same."""
    out, model = subject.folder / "folded.onnx", subject.load()
    folded = gs.fold(model, verify=False)
    gs.save(folded, out)
    assert folded.report.count or out.read_bytes() == subject.source.data
    subject.expect_accepted(out)
    if subject.reason or not folded.report.count:
        return subject.reason or "nothing to fold"
    assert all(
        are_same(found, subject.outputs[name], exact=False)
        for name, found in subject.run(out).items()
    )
    return HOLDS


def _list_inner(subject: Subject) -> dict[str, onnx.ValueInfoProto]:
    try:
        model = onnx.shape_inference.infer_shapes(subject.proto)
    except onnx.shape_inference.InferenceError:  # what it states is contradictory
        return {}
    made = {name for node in model.graph.node for name in node.output} - {
        value.name for value in model.graph.output
    }
    return {
        value.name: value
        for value in model.graph.value_info
        if value.name in made and _has_shape(value.type)
    }


def _has_shape(kind: onnx.TypeProto) -> bool:
    """Whether a type is complete: the checker wants the rank of a tensor."""
    return (
        kind.tensor_type.HasField("shape")
        if kind.HasField("tensor_type")
        else bool(kind.ByteSize())
    )


CHECKS: dict[str, Callable[[Subject, random.Random], str]] = {
    "identity": lambda subject, chance: check_identity(subject),
    "rename": lambda subject, chance: check_rename(subject),
    "tie": lambda subject, chance: check_siamese(subject, "tie"),
    "copy": lambda subject, chance: check_siamese(subject, "copy"),
    "share": lambda subject, chance: check_share(subject),
    "group": lambda subject, chance: check_group(subject),
    "pool": lambda subject, chance: check_pool(subject),
    "outputs": lambda subject, chance: check_outputs(subject),
    "extract": check_extract,
    "fold": lambda subject, chance: check_fold(subject),
}
"""The checks by name."""
