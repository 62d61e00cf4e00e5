"""Every kernel with random attributes, shapes, dtypes and values: it computes or refuses, forward and backward.

A case is a recorded one, changed as ``tests/oracle/probing.py`` does; now and then an attribute
gets a text that is far out of range or none at all. What is computed has the shape and dtype that
were inferred, and no warning escapes.
"""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.errors import RefusedError
from graphshare.ops.inference import infer
from graphshare.ops.registry import find_kernel, lookup
from tests.fuzz.collect import Collector
from tests.fuzz.sandbox import run_cases
from tests.fuzz.totals import Totals
from tests.oracle.probed import Refusal, backward, forward, graph_of
from tests.oracle.probing import Probe, probes, recorded_cases
from tests.symbols import document, mxnet_text, operator, variable

EXTREME = ("-2147483648", "-1000000", "-1", "0", "65537", "2147483647", "4294967296", "99999999999999999999", "None", "", "x",
           "nan", "inf", "-inf", "1e308", "(0,)", "(-1,)", "()", "(1000000, 1000000)", "(2147483647,)", "(-1, -1)",
           "(1, 2, 3, 4, 5, 6, 7)", "(None, None)", "(3, 2, 1, 0)", "True", "float16", "int8")  # fmt: skip
MAX_ELEMENTS = 1 << 22
"""A case whose results are larger is only inferred: what may be computed is bounded by ``--max-memory``."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    collector, cases = Collector(keep), Cases(seed)
    for outcome in run_cases(cases.run, minutes):
        if outcome.status == "failed":
            case, inputs = cases.make(outcome.number)
            files = {"case-symbol.json": graph_text(case), "feeds.npz": npz(inputs)}
            command = ["graphshare", "run", "case-symbol.json", "--feed", "feeds.npz"]
            collector.fail(
                f"{case['op']} {outcome.sort}",
                f"{case['op']} {case['attrs']}: {outcome.what}",
                command,
                files,
            )
        else:
            collector.count(1, outcome.status == "done")
    collector.totals.counts["operators"] = len(cases.operators)
    return collector.totals


class Cases:
    """The cases of a seed, by number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.known = recorded_cases()
        self.operators = sorted(self.known)

    def make(self, number: int) -> Probe:
        """Return case ``number``: what is run, and the inputs. Each operator has its turn."""
        op = self.operators[number % len(self.operators)]
        stream = np.random.default_rng([self.seed, number])
        for case, inputs in probes(op, self.known[op], 8, int(stream.integers(1 << 62))):
            if stream.integers(3) == 0:
                spoil(stream, case, inputs)
            return case, inputs
        case, inputs = self.known[op][0]
        return {**case, "np_shape": False, "count": len(inputs)}, inputs

    def run(self, number: int) -> tuple[str, str]:
        """Run case ``number``: forward, or backward as well."""
        case, inputs = self.make(number)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                if too_large(case, inputs):
                    return "refused", ""
                forward(case, inputs)
                if number // len(self.operators) % 2:
                    backward(case, inputs, number)
            except Refusal as error:
                return "refused", str(error)
            except AssertionError:  # computed is not what was inferred; outside of its limits a kernel may compute anything
                if not is_outside_limits(case, inputs):
                    raise
                return "refused", ""
        return "done", ""


def spoil(stream: np.random.Generator, case: dict[str, Any], inputs: list[Any]) -> None:
    """Give an attribute a text out of range, or take inputs away, or add one."""
    signature = lookup(case["op"])
    parameters = signature.parameters if signature is not None else None
    if parameters:
        name = parameters[stream.integers(len(parameters))].name
        case["attrs"] = {**case["attrs"], name: str(stream.choice(EXTREME))}
    if inputs and stream.integers(8) == 0:
        inputs.append(inputs[0]) if stream.integers(2) else inputs.pop()
        case["count"] = len(inputs)


def is_outside_limits(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Return whether the kernel's limits exclude the case."""
    signature, kernel = lookup(case["op"]), find_kernel(case["op"])
    if signature is None or kernel is None or kernel.limits is None:
        return False
    attrs, _ = signature.parse(case["attrs"])
    return (
        kernel.limits.violation(
            attrs, [x.shape for x in inputs], [str(x.dtype) for x in inputs], inputs
        )
        is not None
    )


def too_large(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whether results are larger than a campaign computes; inferring them must not take memory either."""
    signature = lookup(case["op"])
    outputs = signature.outputs(case["attrs"]) if signature is not None else None
    if outputs is None or not 0 < outputs.visible <= 1000:
        return True
    graph = graph_of(case, outputs.visible)
    variables = dict(zip(graph.nodes, inputs, strict=False))
    try:
        inference = infer(
            graph,
            {n: x.shape for n, x in variables.items()},
            {n: str(x.dtype) for n, x in variables.items()},
        )
    except RefusedError as error:
        raise Refusal(str(error)) from None
    return any(
        np.prod([size or 1 for size in shape or ()], dtype=float) > MAX_ELEMENTS
        for shape in inference.shapes[graph.nodes[-1]]
    )


def graph_text(case: dict[str, Any]) -> bytes:
    """Return the graph of a case as a file."""
    nodes = [
        *(variable(f"in{i}") for i in range(case["count"])),
        operator(case["op"], "node", range(case["count"]), attrs=case["attrs"]),
    ]
    found = document(nodes, [case["count"]], row_ptr=False)
    if case["np_shape"]:
        found["attrs"]["is_np_shape"] = ["int", 1]
    return mxnet_text(found).encode() if case["attrs"] else json.dumps(found).encode()


def npz(inputs: list[Any]) -> bytes:
    """Return the inputs as a file of feeds."""
    out = io.BytesIO()
    np.savez(out, **{f"in{i}": x for i, x in enumerate(inputs)})
    return out.getvalue()
