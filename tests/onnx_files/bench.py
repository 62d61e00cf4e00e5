"""A model on which commands are tried, with what ONNX's checker and onnxruntime make of it and of what is written."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.onnx_files.running import Session, Unrunnable, are_same, as_value, run_somehow
from tests.onnx_files.sources import Source
from tests.processes import in_process

PREFIX = "b_"
UPPER = "u_"
ARRAYS = ("value", "sparse_value")
"""Attributes of a Constant that may be weights; lists of numbers are not."""
SMALL = 128
"""Bytes from which on a tensor is counted as a weight."""
PLAIN = {
    onnx.helper.np_dtype_to_tensor_dtype(np.dtype(code))
    for code in "? b h i q B H I Q e f d".split()
}
"""The dtypes that every parameter file has a place for; others are listed as the bytes that they take."""


class Refusal(Exception):
    """A command said no: the message."""


class Missing(Exception):
    """A model has nothing to try a command with: what it lacks."""


class Wrong(Exception):
    """A command's answer, or what it wrote, is wrong: how."""


def demand(holds: bool, what: str) -> None:
    """Raise Wrong unless something holds."""
    if not holds:
        raise Wrong(what)


class Bench:
    """A model in a folder, with what ONNX's checker and onnxruntime make of it."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.path = folder / "model.onnx"
        for name, content in {"model.onnx": source.data, **source.files}.items():
            (folder / name).write_bytes(content)
        self.fault = find_fault(self.path)
        self.reason = ""
        self.feeds: Mapping[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        try:
            session = Session(source.data, str(folder), optimize=False)
            self.feeds = self._draw(session)
            self.outputs = session.run(self.feeds)
            for name, value in session.run(self.feeds).items():
                if not are_same(value, self.outputs[name]):
                    raise Unrunnable("other numbers at each run")
        except Unrunnable as error:
            self.reason = " ".join(str(error).split())[:300]

    def _draw(self, session: Session) -> Mapping[str, Any]:
        if self.source.feeds is not None:
            return {name: as_value(value) for name, value in self.source.feeds().items()}
        try:
            return run_somehow(session)
        except Unrunnable:
            drawn = self.folder / "drawn.npz"
            if in_process("run", self.path, "--seed", "0", "--all", "-o", drawn).returncode:
                raise
            with np.load(drawn) as arrays:
                return {value.name: arrays[value.name] for value in session.inputs}

    @cached_property
    def given(self) -> list[str]:
        """Options that feed the inputs which come with the model; none where they are drawn or not
        arrays of numbers.
        """
        if self.source.feeds is None:
            return []
        return self.feed()

    def feed(self) -> list[str]:
        """Return options that feed the inputs from files; none where one is not an array of numbers."""
        words = []
        for i, (name, value) in enumerate(self.feeds.items()):
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
                return []
            np.save(self.folder / f"feed{i}.npy", value)
            words += ["--feed", f"{name}={self.folder / f'feed{i}.npy'}"]
        return words

    @cached_property
    def is_quantized(self) -> bool:
        """Whether onnxruntime's optimizations may change a number by some steps."""
        return any("Quantize" in node.op_type for node in self.proto.graph.node)

    def are_near(self, a: Any, b: Any) -> bool:
        """Whether two outputs differ by what onnxruntime's optimizations may change."""
        if not isinstance(b, np.ndarray) or b.dtype.kind != "f":
            return are_same(a, b, exact=False)
        limit = (0.05 if self.is_quantized else 1e-4) * float(
            np.abs(b[np.isfinite(b)]).max(initial=0)
        ) + 1e-6
        return np.shape(a) == b.shape and np.allclose(a, b, rtol=1e-3, atol=limit, equal_nan=True)

    def run_as_commands_do(self, *names: str) -> dict[str, Any]:
        """Return some values; of a quantized model with optimizations, by which they differ more than by rounding."""
        if not self.is_quantized:
            return {**self.outputs, **self.values}
        whole = onnx.load(self.path, load_external_data=False)
        del whole.graph.output[:]
        for name in names:
            kind = next(
                (value.type for value in self.proto.graph.output if value.name == name), None
            )
            whole.graph.output.add(name=name).type.CopyFrom(kind or self.inner[name])
        return Session(whole.SerializeToString(), str(self.folder)).run(self.feeds)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The model, with its external data."""
        return onnx.load(self.path)

    @cached_property
    def weights(self) -> dict[str, onnx.TensorProto]:
        """The initializers of the main graph."""
        return {tensor.name: tensor for tensor in self.proto.graph.initializer}

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs that have no value in the file."""
        return [value.name for value in self.proto.graph.input if value.name not in self.weights]

    @cached_property
    def inner(self) -> dict[str, onnx.TypeProto]:
        """Types of inner values, as the file or ONNX's own inference has them."""
        inferred = onnx.shape_inference.infer_shapes(self.proto, data_prop=True)
        names = {
            name for node in self.proto.graph.node for name in node.output
        } & self.needed - set(self.heads)
        return {
            value.name: value.type for value in inferred.graph.value_info if value.name in names
        }

    @cached_property
    def needed(self) -> set[str]:
        """The names that the outputs need, with those that bodies read."""
        needed = set(self.heads)
        for node in reversed(self.proto.graph.node):
            if needed.intersection(node.output):
                needed.update(node.input)
                needed.update(
                    name
                    for graph in list_bodies(node)
                    for each in graph.node
                    for name in each.input
                )
                needed.update(value.name for graph in list_bodies(node) for value in graph.output)
        return needed

    @cached_property
    def heads(self) -> list[str]:
        """The names of the outputs."""
        return [value.name for value in self.proto.graph.output]

    @cached_property
    def complete(self) -> list[str]:
        """Inner values whose type has a dtype and a rank, but those of Constants."""
        constants = {node.output[0] for node in self.proto.graph.node if node.op_type == "Constant"}
        return sorted(
            n
            for n, kind in self.inner.items()
            if n not in constants and kind.tensor_type.HasField("shape")
        )

    def pick(self, purpose: str) -> str:
        """Return the name of an inner value of known type, one of some by chance."""
        if not self.complete:
            raise Missing("no inner value of known type")
        return random.Random(f"{purpose} {self.source.name}").choice(self.complete)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The inner values of known type of the model's own run."""
        if self.reason:
            return {}
        whole = onnx.load(self.path, load_external_data=False)
        for name in self.complete:
            whole.graph.output.add(name=name).type.CopyFrom(self.inner[name])
        try:
            values = Session(whole.SerializeToString(), str(self.folder), optimize=False).run(
                self.feeds
            )
            return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        except Unrunnable:  # of a type that is not what ONNX infers, say
            return {}

    def command(self, *words: str | Path, no: str = "") -> str:
        """Return what a command printed; it must end with 0, or with 1 and ``no`` in what it says."""
        run = in_process(*words, cwd=self.folder)
        text, messages = run.stdout.decode(), run.stderr.decode()
        demand(
            "Traceback" not in messages and "internal error" not in messages.lower(),
            f"a bug: {messages[-300:]}",
        )
        if run.returncode == 2 and "NOT JUDGED: " in text:
            raise Refusal(text[text.index("NOT JUDGED: ") :])
        if run.returncode == 2:
            demand("error: " in messages, f"ends with 2 and says {messages[-200:]!r}")
            raise Refusal(messages[messages.index("error: ") + 7 :])
        if run.returncode == 1 and no and no in text + messages:
            return text + messages
        demand(run.returncode == 0, f"ends with {run.returncode}: {(text + messages)[-300:]}")
        demand(not no, f"ends with 0, and {no!r} was expected")
        return text

    def write(self, *words: str | Path, to: str) -> Path:
        """Return the file that a command wrote, which the checker accepts if it accepts the source."""
        path = self.folder / to
        self.command(*words, "-o", path)
        if not self.fault:
            demand(not (fault := find_fault(path)), f"the checker refuses {to}: {fault}")
        return path

    def existing(self, name: str) -> Path:
        """Return a file that an earlier cell wrote."""
        if not (self.folder / name).exists():
            raise Missing(f"no {name}")
        return self.folder / name

    def run(self, path: Path, feeds: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run a file with optimizations off; an input under a prefix has the value of the model's own."""
        session = Session(path.read_bytes(), str(self.folder), optimize=False)
        known = {**self.feeds, **(feeds or {})}
        short = {value.name: _find_base(value.name, known) for value in session.inputs}
        return session.run({name: known[base] for name, base in short.items() if base in known})

    def compare(self, path: Path, *prefixes: str) -> None:
        """Demand that a file's outputs are the model's, under each prefix, bit for bit."""
        if self.reason:
            return
        outputs = self.run(path)
        for prefix in prefixes:
            for name in dict.fromkeys(self.heads):
                demand(prefix + name in outputs, f"{path.name} has no output {prefix + name}")
                demand(
                    are_same(outputs[prefix + name], self.outputs[name]),
                    f"{path.name} computes another {prefix + name}",
                )


def _find_base(name: str, known: Mapping[str, Any]) -> str:
    return next(
        (
            name[len(p) :]
            for p in ("", PREFIX, "a_", "c_", UPPER)
            if name.startswith(p) and name[len(p) :] in known
        ),
        name,
    )


def find_fault(path: Path) -> str:
    """Return what ONNX's full check says against a file."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # the checker's errors, protobuf's and those of reading
        return " ".join(str(error).split())[:300] or type(error).__name__
    return ""


def count_bytes(model: onnx.ModelProto, smallest: int = SMALL) -> Iterator[int]:
    """Yield the size of each tensor of the graph and its bodies that is not small; Constants below
    128 bytes always are.
    """
    for graph in list_graphs(model.graph):
        constants = (
            a
            for node in graph.node
            for a in node.attribute
            if node.op_type == "Constant" and a.name in ARRAYS
        )
        yield from (
            tensor.ByteSize() for tensor in graph.initializer if tensor.ByteSize() >= smallest
        )
        yield from (
            attribute.ByteSize() for attribute in constants if attribute.ByteSize() >= SMALL
        )


def list_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the bodies in it whose weights are the model's: other operators may see theirs otherwise."""
    yield graph
    for node in graph.node:
        if node.op_type in ("If", "Loop", "Scan"):
            yield from list_bodies(node)


def list_bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the bodies of a node, and those in them."""
    for attribute in node.attribute:
        for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            yield from list_graphs(body)
