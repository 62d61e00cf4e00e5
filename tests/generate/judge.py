"""Compare what this package and MXNet say of a generated graph: inner values, outputs, shapes, dtypes, gradients, refusals.

Rounding grows along a graph, so an inner value that differs is computed once more by our kernel from MXNet's own inputs of that
node. If that agrees, the difference came from before (:attr:`Verdict.amplified` counts it); if not, the node is at fault.
"""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
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
from tests.oracle.known_differences import (
    NOT_ADDED,
    REFUSED_GRAPHS,
    REFUSED_IN_GRAPHS,
    REWRITTEN,
    WRONG_GRADIENTS,
    is_known,
    is_wider,
    lacks_elements,
    may_crash,
)
from tests.oracle.probed import (
    Refusal,
    array_of,
    asked,
    compared_backward,
    compared_forward,
    difference,
    forward,
    narrowest_dtype,
    read_answers,
)
from tests.oracle.wider_dtypes import has_wider_dtype
from tests.surroundings import run_oracle

PROCESS = Path(__file__).with_name("mxnet_process.py")
GRADIENT_RTOL = {"float16": 5e-2, "float32": 1e-3, "float64": 1e-6}
LEAST_GRADIENT = 1e-3
"""Gradients that vanish, as behind a normalization, are differences of numbers of about 1."""
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
    return read_answers(out, len(models))


def judge(model: Model, answer: dict[str, Any]) -> Verdict:
    """Return the verdict on one graph."""
    return _Judge(model).judge(answer)


def blame(oracle_python: str, models: list[Model], folder: Path, *, gradients: bool = False) -> list[Disagreement]:
    """Return which nodes of graphs are at fault: each node alone, with our values of its inputs.

    ``what`` is ``known`` for a listed difference. With ``gradients`` the backward pass is compared too.
    """
    places = [(model, number) for model in models for number in model.cases]
    probes = []
    for model, n in places:
        arrays = [model.values[i, k] for i, k, _ in model.document["nodes"][n]["inputs"]]
        probes.append(({**model.cases[n], "backward": gradients}, arrays))
    found = []
    answers = asked(oracle_python, probes, folder)
    for place, ((model, number), (case, arrays), answer) in enumerate(zip(places, probes, answers, strict=True)):
        with np.errstate(all="ignore"):
            how = compared_alone(case, arrays, answer["forward"])
            if how is None and gradients:
                how = compared_backward(case, arrays, answer["backward"], place)
                how = None if how is not None and how.startswith("MXNet refuses") else how
        if how is not None:
            known = is_listed(case, arrays, how)
            found.append(Disagreement(model.seed, f"n{number}", "known" if known else describe_case(case, arrays), how))
    return found


def compared_alone(case: dict[str, Any], arrays: list[Any], answer: Any) -> str | None:
    """Return how the outputs of one operator differ, or that MXNet ended; None where they agree."""
    if isinstance(answer, dict) and "crash" in answer:
        try:
            forward(case, [x.copy() for x in arrays])
        except Refusal:
            return None
        return f"MXNet ends with status {answer['crash']}"
    return compared_forward(case, arrays, answer)


def is_listed(case: dict[str, Any], arrays: list[Any], how: str) -> bool:
    """Whether a difference of an operator alone is in one of the tables of known differences."""
    if lacks_elements(case, arrays, how):
        return True
    if how.startswith("MXNet ends"):
        return may_crash(case)
    return is_wider(case, how) or has_wider_dtype(case, arrays, how) or is_known(case, arrays, how)


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
        nodes = model.document["nodes"]
        self.shapes = {(nodes[i]["name"], k): x.shape for (i, k), x in model.values.items()}
        self.dtypes = {(nodes[i]["name"], k): str(x.dtype) for (i, k), x in model.values.items()}
        self.compared = self.amplified = self.known = self.silent = 0

    def judge(self, answer: dict[str, Any]) -> Verdict:
        status = "agrees"
        given = [answer[name] for name in ("load", "infer", "all", "forward") if name in answer]
        if any("crash" in a for a in given):
            self._add("graph", "crash", f"MXNet ends: {next(a for a in given if 'crash' in a)}")
            return Verdict(self.model.seed, "crash", 0, 0, 0, self.found)
        error = next((a for a in given if "error" in a and a is not answer.get("infer")), None)
        if error is not None:
            if self.model.refused is not None:
                return Verdict(self.model.seed, "refused", 1, 0, 0, [])
            if self._is_refused_among_others(error["error"]):
                return Verdict(self.model.seed, "known refusals", 0, 0, 1, [])
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

    def _is_refused_among_others(self, text: str) -> bool:
        """Whether MXNet names a node of an operator that it refuses in graphs only."""
        if any(re.search(message, text) for message, _ in REFUSED_GRAPHS):
            return True
        named = re.search(r"Error in operator n(\d+):", text)
        if named is None:
            return False
        number = int(named[1])
        nodes = self.model.document["nodes"]
        around = [nodes[number]["op"], *(nodes[entry[0]]["op"] for entry in nodes[number]["inputs"])]
        return any(re.fullmatch(op, o) and re.search(message, text) for op, message, _ in REFUSED_IN_GRAPHS for o in around)

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
            elif is_listed(case, arrays, local):
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
        rewritten = self._list_rewritten()
        for (node, index), shape, dtype in zip(places, answer["shapes"], answer["types"], strict=True):
            if node.name in rewritten:
                continue
            self.compared += 1
            self._compare_one(ours, node, index, shape, dtype)

    def _list_rewritten(self) -> set[str]:
        """The variables whose shapes MXNet's inference rewrites."""
        nodes = self.model.document["nodes"]
        numbers = [n for n, case in self.model.cases.items() if REWRITTEN.get(case["op"], ()) is None]
        return {nodes[entry[0]]["name"] for n in numbers for entry in nodes[n]["inputs"]}

    def _list_wrong(self) -> set[str]:
        """The variables to which a gradient flows that is wrong in MXNet."""
        uses: Counter[tuple[Node, int]] = Counter((e.node, e.index) for node in self.graph.nodes for e in node.inputs)
        roots = []
        for user in self.graph.nodes:
            slots = WRONG_GRADIENTS.get(user.op, ())
            for i, entry in enumerate(user.inputs):
                if i in slots or (i in NOT_ADDED.get(user.op, ()) and uses[entry.node, entry.index] > 1):
                    roots.append(entry.node)
        return {node.name for node in post_order(roots)}

    def _compare_one(self, ours: Inference, node: Node, index: int, shape: Any, dtype: str | None) -> None:
        """Our shape must be that of the value. MXNet guesses where inputs are unknown; where they are known ours follows."""
        got, actual = ours.shapes[node][index], self.shapes[node.name, index]
        unknown = -1 if self.model.np_shape else 0
        if not _fits(got, actual) and got != shape:
            self._add(node.name, "shape", f"inferred {got}, computed {actual}")
        elif shape is not None and (self.model.np_shape or shape != ()) and got != actual:
            wanted = tuple(None if d == unknown else d for d in shape)
            known = all(_is_known(ours.shapes[entry.node][entry.index]) for entry in node.inputs)
            less = got is None or any(g is None and w is not None for g, w in zip(got, wanted, strict=False))
            if _fits(wanted, actual) and less and known:
                self._add(node.name, "shape", f"{got}, MXNet {wanted}")
        kind = ours.types[node][index]
        if dtype is not None and kind != dtype and kind != self.dtypes[node.name, index]:
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
            self.known += "error" not in answer and "crash" not in answer
            return
        if "error" in answer or "crash" in answer:
            return
        wrong = self._list_wrong()
        largest = max((float(np.linalg.norm(array_of(r).astype(np.float64))) for r in answer.values()), default=0.0)
        least = LEAST_GRADIENT + (1e-4 * largest if np.isfinite(largest) else 0.0)
        for name, record in answer.items():
            if name in wrong:
                continue
            want, got = array_of(record), gradients.get(self.by_name[name])
            got = np.zeros_like(want) if got is None else np.asarray(got)
            self.compared += 1
            how = _gradient_difference(got, want, least)
            if how is not None:
                self._add(name, "gradient", how)


def _fits(shape: Any, actual: Any) -> bool:
    """Whether a shape, perhaps with unknown dimensions, is one of ``actual``."""
    if shape is None or actual is None:
        return True
    return len(shape) == len(actual) and all(None in (d, e) or d == e for d, e in zip(shape, actual, strict=True))


def _is_known(shape: Any) -> bool:
    return shape is not None and None not in shape


def _gradient_difference(got: Any, want: Any, least: float) -> str | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, MXNet {want.dtype} {want.shape}"
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return None
    rtol = GRADIENT_RTOL[str(want.dtype)]
    a, b = got.astype(np.float64), want.astype(np.float64)
    size = max(np.linalg.norm(b), least)
    error = float(np.linalg.norm(a - b) / size)
    return None if error <= rtol else f"relative difference {error:.2e} of {size:.3g}"


def _tail(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and "[bt]" not in line]
    return " | ".join(lines)[-400:]
