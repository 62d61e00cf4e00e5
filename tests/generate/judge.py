"""Compare what this package and MXNet say of a generated graph: inner values, outputs, shapes,
dtypes, gradients, refusals.

Rounding grows along a graph, so an inner value that differs is computed once more by our kernel
from MXNet's own inputs of that node. If that agrees, the difference came from before ("rounding
from before" counts it); if not, the node is at fault.
"""

from __future__ import annotations

import atexit
import json
import pickle
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.errors import RefusedError
from graphshare.ir.graph import Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, infer
from tests.elementwise import TOLERANCE
from tests.generate.blame import describe_case, is_listed
from tests.generate.gradients import compare_gradients, differentiable
from tests.generate.grow import Model
from tests.generate.verdict import Disagreement, Verdict
from tests.oracle.known_in_graphs import GUESSED, REWRITTEN
from tests.oracle.probed import (
    array_of,
    compared_forward,
    difference,
    narrowest_dtype,
    read_answers,
)
from tests.surroundings import oracle_environment

PROCESS = Path(__file__).with_name("mxnet_process.py")
FORWARD, BACKWARD = ("infer", "all", "forward"), ("backward",)


def ask_mxnet(oracle_python: str, models: list[Model], folder: Path) -> list[dict[str, Any]]:
    """Return MXNet's answers to all graphs, in their order; the backward pass is that of :func:`differentiable`."""
    source, out = folder / "graphs.pickle", folder / "answers.pickle"
    questions = []
    for model in models:
        smooth = differentiable(model)
        questions += [
            _question(model, FORWARD),
            _question(smooth if smooth.cases else model, BACKWARD),
        ]
    source.write_bytes(pickle.dumps(questions, 4))
    process = _start(oracle_python)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{source}\t{out}\n")
    process.stdin.flush()
    for line in process.stdout:  # operators print too
        if line == "done\n":
            break
    else:
        raise RuntimeError(f"the process with MXNet ended with status {process.wait()}")
    answers = read_answers(out, len(questions))
    found = []
    for forward, backward in zip(answers[::2], answers[1::2], strict=True):
        found.append({**forward, "backward": backward.get("backward", backward.get("load", {}))})
    return found


@cache
def _start(oracle_python: str) -> subprocess.Popen[str]:
    """Return the process that answers: importing MXNet takes seconds. It ends with its standard input, at exit."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [oracle_python, str(PROCESS)], env=oracle_environment(), text=True, **pipes
    )  # type: ignore[call-overload]
    atexit.register(process.communicate)
    return process


def judge(model: Model, answer: dict[str, Any]) -> Verdict:
    """Return the verdict on one graph."""
    return _Judge(model).judge(answer)


def list_entries(model: Model) -> list[tuple[int, int]]:
    """Return the inner values in the order of ``get_internals()``: all visible outputs of each
    node, inputs before users.
    """
    numbers = {record["name"]: number for number, record in enumerate(model.document["nodes"])}
    outputs: dict[int, int] = {}
    for node, index in model.values:
        outputs[node] = max(outputs.get(node, 0), index + 1)
    order = [numbers[node.name] for node in post_order(entry.node for entry in model.graph.heads)]
    return [(number, i) for number in order for i in range(outputs[number])]


def _question(model: Model, asked: tuple[str, ...]) -> dict[str, Any]:
    return {
        "seed": model.seed,
        "json": json.dumps(model.document),
        "feeds": {name: (str(x.dtype), x.shape, x.tobytes()) for name, x in model.feeds.items()},
        "np_shape": model.np_shape,
        "asked": asked,
        "alone": any(case["op"].startswith("_sg_mkldnn") for case in model.cases.values()),
        "shapes": {name: model.feeds[name].shape for name in _given(model)},
        "types": {name: str(x.dtype) for name, x in model.feeds.items()},
    }


def _given(model: Model) -> list[str]:
    """The variables whose shapes inference is told: all but a random third, the same for both."""
    stream = np.random.default_rng([model.seed, 3])
    return [name for name in model.feeds if stream.integers(3)]


class _Judge:
    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.by_name: dict[str, Node] = {node.name: node for node in self.graph.nodes}
        self.found: list[Disagreement] = []
        self.counts: Counter[str] = Counter()
        self.nodes = model.document["nodes"]
        self.shapes = {(self.nodes[i]["name"], k): x.shape for (i, k), x in model.values.items()}
        self.dtypes = {
            (self.nodes[i]["name"], k): str(x.dtype) for (i, k), x in model.values.items()
        }

    def judge(self, answer: dict[str, Any]) -> Verdict:
        given = {name: answer[name] for name in ("load", *FORWARD) if name in answer}
        ended = next((a["crash"] for a in given.values() if "crash" in a), None)
        error = next(
            (a["error"] for name, a in given.items() if "error" in a and name != "infer"), None
        )
        refused = False
        if ended is not None:
            self._add("graph", "crash", f"MXNet ends with status {ended}")
        elif error is not None:
            refused = self._judge_refusal(error)
        elif self.model.refused is not None:
            self._judge_own_refusal(self.model.refused)
        else:
            self._compare_inner(answer["all"])
            self._compare_heads(answer["forward"], answer["all"])
            self._compare_inference(answer["infer"])
            if not self.found and answer["backward"]:
                smooth = differentiable(self.model)
                word, found = (
                    compare_gradients(smooth, answer["backward"])
                    if smooth.cases
                    else ("no gradients", [])
                )
                self.counts[word] += 1
                self.found += found
        return Verdict(self.model.seed, refused, dict(self.counts), self.found)

    def _judge_refusal(self, text: str) -> bool:
        """Whether MXNet refuses the node that this package refuses; its message may name another."""
        named = re.search(r"Error in operator (n\d+)", text)
        if self.model.refused is not None and (named is None or named[1] == self.nodes[-1]["name"]):
            return True
        self._add("graph", "refusal", f"MXNet refuses: {_tail(text)}")
        return False

    def _judge_own_refusal(self, reason: str) -> None:
        """Report that only this package refuses the last node, unless that is listed."""
        number = len(self.nodes) - 1
        case, arrays = (
            self.model.cases[number],
            [self.model.values[i, k] for i, k, _ in self.nodes[number]["inputs"]],
        )
        if is_listed(case, arrays, f"refused ({reason})"):
            self.counts["known differences"] += 1
        else:
            self._add(
                self.nodes[number]["name"], describe_case(case, arrays), f"refused ({reason})"
            )

    def _add(self, node: str, what: str, how: str) -> None:
        self.found.append(Disagreement(self.model.seed, node, what, how))

    def _compare_inner(self, records: list[Any]) -> None:
        entries = list_entries(self.model)
        if len(entries) != len(records):
            self._add(
                "graph", "inner values", f"{len(entries)} inner values, MXNet has {len(records)}"
            )
            return
        theirs = {entry: array_of(record) for entry, record in zip(entries, records, strict=True)}
        faulty: set[int] = set()
        for (number, index), want in theirs.items():
            case = self.model.cases.get(number)
            if case is None or number in faulty:
                continue
            self.counts["compared values"] += 1
            arrays = self._arrays(number, theirs)
            dtype = narrowest_dtype(case, arrays, want)
            if (
                difference(
                    self.model.values[number, index], want, dtype, least=TOLERANCE[dtype].atol
                )
                is None
            ):
                continue
            visible = [
                record for entry, record in zip(entries, records, strict=True) if entry[0] == number
            ]
            with np.errstate(all="ignore"):
                local = compared_forward(case, arrays, visible)
            if local is None:
                self.counts["rounding from before"] += 1
                continue
            faulty.add(number)
            if is_listed(case, arrays, local):
                self.counts["known differences"] += 1
            else:
                self._add(self.nodes[number]["name"], describe_case(case, arrays), local)

    def _arrays(self, number: int, theirs: dict[tuple[int, int], Any]) -> list[Any]:
        return [theirs[entry[0], entry[1]] for entry in self.nodes[number]["inputs"]]

    def _compare_heads(self, records: list[Any], inner: list[Any]) -> None:
        """MXNet's own two runs, with and without inner heads, tell whether a difference is MXNet's."""
        entries = dict(zip(list_entries(self.model), inner, strict=False))
        for head, record in zip(self.model.document["heads"], records, strict=True):
            self.counts["compared values"] += 1
            if record[2] != entries.get((head[0], head[1]), record)[2]:
                self.counts["heads that MXNet computes otherwise without inner heads"] += 1

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
        # MXNet's rules refuse shapes that they need and that are not known yet
        if "error" in answer:
            self.counts["inference that MXNet refuses"] += 1
            return
        heads = [(self.graph.nodes[h[0]], h[1]) for h in self.model.document["heads"]]
        count = len(answer["names"]) - len(heads)
        places = [(variables[name], 0) for name in answer["names"][:count]] + heads
        rewritten = self._list_rewritten()
        for (node, index), shape, dtype in zip(
            places, answer["shapes"], answer["types"], strict=True
        ):
            if node.name in rewritten:
                continue
            self.counts["compared shapes"] += 1
            self._compare_one(ours, node, index, shape, dtype)

    def _list_rewritten(self) -> set[str]:
        """The variables whose shapes MXNet's inference rewrites."""
        numbers = [
            n for n, case in self.model.cases.items() if REWRITTEN.get(case["op"], ()) is None
        ]
        return {self.nodes[entry[0]]["name"] for n in numbers for entry in self.nodes[n]["inputs"]}

    def _compare_one(
        self, ours: Inference, node: Node, index: int, shape: Any, dtype: str | None
    ) -> None:
        """Our shape must be that of the value.

        MXNet guesses where inputs are unknown; where they are known ours follows.
        """
        got, actual = ours.shapes[node][index], self.shapes[node.name, index]
        unknown = -1 if self.model.np_shape else 0
        if not _fits(got, actual) and got != shape:
            self._add(node.name, "shape", f"inferred {got}, computed {actual}")
        elif shape is not None and (self.model.np_shape or shape != ()) and got != actual:
            guesses = {
                unknown,
                *(
                    GUESSED[case["op"]]
                    for case in self.model.cases.values()
                    if case["op"] in GUESSED
                ),
            }
            wanted = tuple(None if d in guesses else d for d in shape)
            known = all(_is_known(ours.shapes[entry.node][entry.index]) for entry in node.inputs)
            less = got is None or any(
                g is None and w is not None for g, w in zip(got, wanted, strict=False)
            )
            if _fits(wanted, actual) and less and known:
                self._add(node.name, "shape", f"{got}, MXNet {wanted}")
        kind = ours.types[node][index]
        if dtype is not None and kind != dtype and kind != self.dtypes[node.name, index]:
            self._add(node.name, "dtype", f"{kind}, MXNet {dtype}")


def _fits(shape: Any, actual: Any) -> bool:
    """Whether a shape, perhaps with unknown dimensions, is one of ``actual``."""
    if shape is None or actual is None:
        return True
    return len(shape) == len(actual) and all(
        None in (d, e) or d == e for d, e in zip(shape, actual, strict=True)
    )


def _is_known(shape: Any) -> bool:
    return shape is not None and None not in shape


def _tail(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and "[bt]" not in line]
    return " | ".join(lines)[-400:]
