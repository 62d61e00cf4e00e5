"""Compare what this package and MXNet say of a generated graph: inner values, outputs, shapes, dtypes, gradients, refusals.

Rounding grows along a graph, so an inner value that differs is computed once more by our kernel from MXNet's own inputs of that
node. If that agrees, the difference came from before (:attr:`Verdict.amplified` counts it); if not, the node is at fault.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphshare.analysis.shapes import Inference, infer
from graphshare.errors import BugError, GraphshareError, RefusedError
from graphshare.execute.plan import make_plan
from graphshare.execute.tape import Tape
from graphshare.ir.graph import Node
from graphshare.ir.walk import post_order
from tests.elementwise import TOLERANCE
from tests.generate.grow import Model
from tests.oracle.known_differences import is_known
from tests.oracle.probed import array_of, asked, compared_forward, difference, narrowest_dtype
from tests.surroundings import run_oracle

PROCESS = Path(__file__).with_name("mxnet_process.py")
GRADIENT_RTOL = {"float16": 5e-2, "float32": 1e-3, "float64": 1e-6}
ASKED = ("infer", "all", "forward", "backward")


class Disagreement(NamedTuple):
    """One difference: the node at fault, what was compared, and how the answers differ."""

    seed: int
    node: str
    what: str
    how: str


class Verdict(NamedTuple):
    """All that was compared of one graph. ``status`` is ``agrees``, ``differs``, ``refused`` by both, or ``crash`` of MXNet."""

    seed: int
    status: str
    compared: int
    amplified: int
    known: int
    disagreements: list[Disagreement]


def ask_mxnet(oracle_python: str, models: list[Model], folder: Path) -> list[dict[str, Any]]:
    """Return MXNet's answers to all graphs, in their order."""
    source, out = folder / "graphs.pickle", folder / "answers.pickle"
    questions = []
    for model in models:
        given = _given(model)
        feeds = {name: (str(x.dtype), x.shape, x.tobytes()) for name, x in model.feeds.items()}
        question = {"seed": model.seed, "json": _text(model), "feeds": feeds, "np_shape": model.np_shape, "asked": ASKED}
        question["shapes"] = {name: model.feeds[name].shape for name in given}
        question["types"] = {name: str(x.dtype) for name, x in model.feeds.items()}
        questions.append(question)
    source.write_bytes(pickle.dumps(questions, 4))
    run_oracle(oracle_python, PROCESS, source, out)
    answers: dict[int, dict[str, Any]] = {}
    with open(out, "rb") as file:
        while True:
            try:
                number, answer = pickle.load(file)
            except EOFError:
                break
            answers[number] = answer
    return [answers[number] for number in range(len(models))]


def judge(model: Model, answer: dict[str, Any]) -> Verdict:
    """Return the verdict on one graph."""
    return _Judge(model).judge(answer)


def blame(oracle_python: str, models: list[Model], folder: Path) -> list[Disagreement]:
    """Return which nodes of graphs that MXNet refuses are at fault: each node alone, with our values of its inputs."""
    places = [(model, number) for model in models for number in model.cases]
    probes = [(model.cases[n], [model.values[i, k] for i, k, _ in model.document["nodes"][n]["inputs"]]) for model, n in places]
    found = []
    for (model, number), (case, arrays), answer in zip(places, probes, asked(oracle_python, probes, folder), strict=True):
        with np.errstate(all="ignore"):
            how = compared_forward(case, arrays, answer["forward"])
        if how is not None:
            known = is_known(case, arrays, how)
            found.append(Disagreement(model.seed, f"n{number}", "known" if known else describe_case(case, arrays), how))
    return found


def describe_case(case: dict[str, Any], arrays: list[Any]) -> str:
    """Return an operator with its attributes and inputs in one line."""
    inputs = ", ".join(f"{x.dtype}{x.shape}" for x in arrays)
    return f"{case['op']} {case['attrs']} [{inputs}]{' np_shape' if case['np_shape'] else ''}"


def list_entries(model: Model) -> list[tuple[int, int]]:
    """Return the inner values in the order of ``get_internals()``: all visible outputs of each node, inputs before users."""
    numbers = {record["name"]: number for number, record in enumerate(model.document["nodes"])}
    outputs: dict[int, int] = {}
    for node, index in model.values:
        outputs[node] = max(outputs.get(node, 0), index + 1)
    order = [numbers[node.name] for node in post_order(entry.node for entry in model.graph.heads)]
    return [(number, i) for number in order for i in range(outputs[number])]


def _text(model: Model) -> str:
    return json.dumps(model.document)


def _given(model: Model) -> list[str]:
    """The variables whose shapes inference is told: all but a random third, the same for both."""
    stream = np.random.default_rng([model.seed, 3])
    return [name for name in model.feeds if stream.integers(3)]


class _Judge:
    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.by_name: dict[str, Node] = {node.name: node for node in self.graph.nodes}
        self.found: list[Disagreement] = []
        self.compared = self.amplified = self.known = self.silent = 0

    def judge(self, answer: dict[str, Any]) -> Verdict:
        status = "agrees"
        if "crash" in answer:
            return Verdict(self.model.seed, "crash", 0, 0, 0, [])
        error = answer.get("load") or next((a for a in (answer["all"], answer["forward"]) if "error" in a), None)
        if error is not None:
            if self.model.refused is not None:
                return Verdict(self.model.seed, "refused", 1, 0, 0, [])
            self._add("graph", "refusal", f"MXNet refuses: {_tail(error['error'])}")
        elif self.model.refused is not None:
            self._add(f"n{len(self.model.document['nodes']) - 1}", "refusal", f"refused: {self.model.refused}")
        else:
            self._compare_inner(answer["all"])
            self._compare_heads(answer["forward"], answer["all"])
            self._compare_inference(answer["infer"])
            if not self.found:
                self._compare_gradients(answer["backward"])
        status = "differs" if self.found else status
        return Verdict(self.model.seed, status, self.compared, self.amplified, self.known, self.found)

    def _add(self, node: str, what: str, how: str) -> None:
        self.found.append(Disagreement(self.model.seed, node, what, how))

    def _compare_inner(self, records: list[Any]) -> None:
        entries = list_entries(self.model)
        if len(entries) != len(records):
            self._add("graph", "inner values", f"{len(entries)} inner values, MXNet has {len(records)}")
            return
        theirs = {entry: array_of(record) for entry, record in zip(entries, records, strict=True)}
        faulty: set[int] = set()
        for (number, index), want in theirs.items():
            case = self.model.cases.get(number)
            if case is None or number in faulty:
                continue
            self.compared += 1
            got = self.model.values[number, index]
            dtype = narrowest_dtype(case, self._arrays(number, theirs), want)
            how = difference(got, want, dtype, least=TOLERANCE[dtype].atol)
            if how is None:
                continue
            arrays = self._arrays(number, theirs)
            visible = [record for entry, record in zip(entries, records, strict=True) if entry[0] == number]
            with np.errstate(all="ignore"):
                local = compared_forward(case, arrays, visible)
            if local is None:
                self.amplified += 1
            elif is_known(case, arrays, local):
                self.known += 1
                faulty.add(number)
            else:
                faulty.add(number)
                self._add(f"n{number}", describe_case(case, arrays), local)

    def _arrays(self, number: int, theirs: dict[tuple[int, int], Any]) -> list[Any]:
        return [theirs[entry[0], entry[1]] for entry in self.model.document["nodes"][number]["inputs"]]

    def _compare_heads(self, records: list[Any], inner: list[Any]) -> None:
        """MXNet's own two runs, with and without inner heads, tell whether a difference is MXNet's."""
        entries = dict(zip(list_entries(self.model), inner, strict=False))
        for head, record in zip(self.model.document["heads"], records, strict=True):
            self.compared += 1
            if record[2] != entries.get((head[0], head[1]), record)[2]:
                self.amplified += 1

    def _compare_inference(self, answer: dict[str, Any]) -> None:
        variables = {name: node for name, node in self.by_name.items() if node.is_variable}
        given = _given(self.model)
        try:
            ours = infer(
                self.graph,
                {variables[name]: self.model.feeds[name].shape for name in given},
                {variables[name]: str(x.dtype) for name, x in self.model.feeds.items()},
            )
        except RefusedError as error:
            if "error" not in answer:
                self._add("graph", "inference", f"refused: {error}")
            return
        if "error" in answer:  # MXNet's rules refuse shapes that they need and that are not known yet
            self.silent += 1
            return
        heads = [(self.graph.nodes[h[0]], h[1]) for h in self.model.document["heads"]]
        count = len(answer["names"]) - len(heads)
        places = [(variables[name], 0) for name in answer["names"][:count]] + heads
        for (node, index), shape, dtype in zip(places, answer["shapes"], answer["types"], strict=True):
            self.compared += 1
            self._compare_one(ours, node, index, shape, dtype)

    def _compare_one(self, ours: Inference, node: Node, index: int, shape: Any, dtype: str | None) -> None:
        got = ours.shapes[node][index]
        unknown = -1 if self.model.np_shape else 0
        if shape is not None and (self.model.np_shape or shape != ()):
            wanted = tuple(None if d == unknown else d for d in shape)
            if got is None or len(got) != len(wanted) or any(w not in (None, g) for g, w in zip(got, wanted, strict=True)):
                self._add(node.name, "shape", f"{got}, MXNet {wanted}")
        kind = ours.types[node][index]
        if dtype is not None and kind != dtype:
            self._add(node.name, "dtype", f"{kind}, MXNet {dtype}")

    def _compare_gradients(self, answer: dict[str, Any]) -> None:
        """Gradients of one random inner product of the heads, by variable, each relative to its own size."""
        values = {self.by_name[name]: x.copy() for name, x in self.model.feeds.items()}
        requested = [node for node, x in values.items() if x.dtype.kind == "f"]
        try:
            with np.errstate(all="ignore"):
                tape = Tape(make_plan(self.graph.heads), values, requested, streams=lambda node: np.random.default_rng(0))
                stream = np.random.RandomState(self.model.seed % 2**32)
                heads = [np.asarray(stream.standard_normal(y.shape)).astype(y.dtype) for y in tape.outputs]
                gradients = tape.backward(heads).gradients
        except BugError as error:
            self._add("graph", "internal error", str(error).splitlines()[0])
            return
        except GraphshareError:
            self.known += "error" not in answer
            return
        if "error" in answer:
            return
        for name, record in answer.items():
            want, got = array_of(record), gradients.get(self.by_name[name])
            got = np.zeros_like(want) if got is None else np.asarray(got)
            self.compared += 1
            how = _gradient_difference(got, want)
            if how is not None:
                self._add(name, "gradient", how)


def _gradient_difference(got: Any, want: Any) -> str | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, MXNet {want.dtype} {want.shape}"
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return None
    rtol = GRADIENT_RTOL[str(want.dtype)]
    a, b = got.astype(np.float64), want.astype(np.float64)
    size = max(np.linalg.norm(b), 1e-6)
    error = float(np.linalg.norm(a - b) / size)
    return None if error <= rtol else f"relative difference {error:.2e} of {size:.3g}"


def _tail(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and "[bt]" not in line]
    return " | ".join(lines)[-400:]
