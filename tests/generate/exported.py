"""Generated graphs as ONNX models: every value of a graph in onnxruntime against the executor's.

    python -m tests.generate.exported --graphs 1000 --seed 0

A graph is exported with all of its values as outputs, as far as no node is refused. A value that
differs is looked at alone: its operator is exported by itself on the executor's inputs, so that
rounding from before does not count. Where that agrees, or cannot be, the executor computes the
operator on the inputs that it had in the model, and must find the same value. What ONNX leaves open
is counted apart, by the reasons in ``known_exports.py``. Graphs run in child processes: an abort of
onnxruntime is a disagreement of its seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphshare.errors import RefusedError
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.registry import canonical, find_translation, lookup
from graphshare.ops.signature import PARAMETER_FORMALS
from graphshare.ops.translation import Translator
from tests.elementwise import TOLERANCE, describe_mismatch, tolerance_of_sums
from tests.export.judge import export_graph, export_operator, run_onnx
from tests.fuzz.sandbox import Case, run_numbers
from tests.generate.grow import Grower, Model
from tests.generate.known_exports import NOT_ROUNDED, known_reason
from tests.kernels.recordings import tolerance_of
from tests.oracle.probed import Refusal, forward

SECONDS = 60.0
"""What a graph may take."""
BYTES = 8 << 30
"""What a child process may take."""


class Result(NamedTuple):
    """What became of one graph: values that agree, what does not, and what ONNX leaves open;
    ``judges`` computed the models.
    """

    agreeing: int = 0
    refused: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class Known(str):
    """A difference that ONNX leaves open."""


def check_export(model: Model) -> Result:
    """Export a graph, run it and compare every value that the model has."""
    graph = model.graph
    numbers = {record["name"]: number for number, record in enumerate(model.document["nodes"])}
    nodes = {numbers[node.name]: node for node in graph.nodes}
    arrays = {node: np.asarray(model.feeds[node.name]) for node in graph.variables()}
    stored = {variable for node in graph.nodes if node.op for variable in _parameters(node)}
    entries = [(number, index) for number, index in model.values if number in model.cases]
    refused: set[str] = set()
    # The executor takes sizes of 0 that leave a shape open before it runs
    unknown: set[str] = set()
    data: bytes | RefusedError = RefusedError("nothing")
    while isinstance(data, RefusedError):
        entries = [(n, i) for n, i in entries if not _needs(nodes[n], refused, {})]
        if not entries:
            return Result(0, tuple(sorted(refused)))
        heads = tuple(Entry(nodes[n], i) for n, i in entries)
        data = export_graph(Graph(graph.nodes, heads, graph.attrs, graph.source), arrays, stored)
        if isinstance(data, RefusedError):
            found = {fault.node or "" for fault in data.faults}
            if found <= refused:
                return Result(0, tuple(sorted(refused)), (f"refused again: {data}",))
            refused |= found
            unknown |= {
                fault.node or ""
                for fault in data.faults
                if "its shapes do not follow" in fault.message
            }
    faults = [
        f"refused without a stated condition: {op}"
        for op in _unstated(nodes, numbers, refused - unknown)
    ]
    try:
        outputs, judge = run_onnx(data, {name: np.asarray(x) for name, x in model.feeds.items()})
    except Exception as error:
        return Result(
            0, tuple(sorted(refused)), (*faults, *_find_failure(model, nodes, entries, error))
        )
    judges, known = [judge], []
    for place, got in zip(entries, outputs, strict=True):
        want = model.values[place]
        if _is_near(np.asarray(got), want):
            continue
        how, judge = _compare_alone(model, nodes[place[0]], place, numbers)
        judges.append(judge)
        if how is None:
            how = _compare_inside(
                model, nodes[place[0]], place, numbers, dict(zip(entries, outputs, strict=True))
            )
        if isinstance(how, Known):
            known.append(how)
        elif how is not None:
            faults.append(f"{place[0]} {how}")
    agreeing = len(entries) - len(faults) - len(known)
    return Result(agreeing, tuple(sorted(refused)), tuple(faults), tuple(judges), tuple(known))


def _parameters(node: Node) -> list[Node]:
    """Return the variables that a node takes as parameters."""
    signature = lookup(node.op)
    formals = (
        signature.formal_inputs(node.attrs, subgraphs=node.subgraphs)
        if signature is not None
        else ()
    )
    pairs = zip(node.inputs, formals, strict=False)
    return [
        entry.node
        for entry, formal in pairs
        if formal in PARAMETER_FORMALS and entry.node.is_variable
    ]


def _needs(node: Node, refused: set[str], known: dict[Node, bool]) -> bool:
    """Return whether a node is refused or needs one that is."""
    if node not in known:
        known[node] = node.name in refused or any(
            _needs(entry.node, refused, known) for entry in node.inputs
        )
    return known[node]


def _unstated(
    nodes: Mapping[int, Node], numbers: Mapping[str, int], refused: set[str]
) -> list[str]:
    ops = [nodes[numbers[name]].op for name in refused if name in numbers]
    translators = {op: find_translation(op) for op in ops}
    return [
        op
        for op, found in translators.items()
        if isinstance(found, Translator) and not found.condition
    ]


def _is_near(got: Any, want: Any) -> bool:
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return False
    if want.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    return describe_mismatch(got, want, TOLERANCE[str(want.dtype)]) is None


def _compare_alone(
    model: Model, node: Node, place: tuple[int, int], numbers: Mapping[str, int]
) -> tuple[str | None, str]:
    """Return how an operator by itself differs, on the executor's inputs, and who computed it."""
    case = model.cases[place[0]]
    inputs = [model.values[numbers[entry.node.name], entry.index] for entry in node.inputs]
    outputs = 1 + max(index for number, index in model.values if number == place[0])
    if node.subgraphs:
        return None, "not alone"
    data = export_operator(canonical(node.op), node.attrs, inputs, outputs)
    if isinstance(data, RefusedError):
        # It takes constants that the graph has and the operator alone does not
        return (None, "not alone")
    text = f"{node.op} {dict(node.attrs)} [{', '.join(f'{x.dtype}{x.shape}' for x in inputs)}]"
    try:
        found, judge = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    except Exception as error:
        return (None if _lacks_judge(error) else f"{text}: {_first_line(error)}"), ""
    want = model.values[place]
    tolerance = tolerance_of(case, want)
    if want.dtype.kind == "f":
        tolerance = tolerance_of_sums(
            want, str(want.dtype), rtol=tolerance.rtol, least=tolerance.atol
        )
    mismatch = describe_mismatch(np.asarray(found[place[1]]), want, tolerance)
    if mismatch is None:
        return None, judge

    def compute(arrays: Sequence[Any]) -> Any:
        return forward(case, list(arrays))[place[1]]

    reason = known_reason(
        canonical(node.op), node.attrs, inputs, np.asarray(found[place[1]]), want, compute
    )
    return Known(reason) if reason else f"{text}: {mismatch}", judge


def _compare_inside(
    model: Model,
    node: Node,
    place: tuple[int, int],
    numbers: Mapping[str, int],
    computed: Mapping[tuple[int, int], Any],
) -> str | None:
    """Return how a value of the whole model differs from the executor's on the inputs that its operator had there."""
    case = model.cases[place[0]]
    sources = [(numbers[entry.node.name], entry.index) for entry in node.inputs]
    inputs = [np.asarray(computed.get(source, model.values[source])) for source in sources]

    def compute(arrays: Sequence[Any]) -> Any:
        return forward(case, list(arrays))[place[1]]

    try:
        want = compute(inputs)
    except Refusal as error:  # a value that the executor has otherwise is one that it refuses
        return f"{node.op} {dict(node.attrs)} in the whole model: {error}"
    tolerance, found = tolerance_of(case, want), np.asarray(computed[place])
    if want.dtype.kind == "f":
        tolerance = tolerance_of_sums(
            want, str(want.dtype), rtol=tolerance.rtol, least=tolerance.atol
        )
    mismatch = describe_mismatch(found, want, tolerance)
    if mismatch is None:
        return None
    reason = known_reason(canonical(node.op), node.attrs, inputs, found, want, compute)
    reason = reason or (NOT_ROUNDED if any(x.dtype == np.float16 for x in inputs) else "")
    return (
        Known(reason) if reason else f"{node.op} {dict(node.attrs)} in the whole model: {mismatch}"
    )


def _find_failure(
    model: Model, nodes: Mapping[int, Node], entries: Sequence[tuple[int, int]], error: Exception
) -> list[str]:
    """Return the operators that fail by themselves where a whole model fails; the error itself if none does."""
    numbers = {record["name"]: number for number, record in enumerate(model.document["nodes"])}
    found = []
    for place in entries:
        how, judge = _compare_alone(model, nodes[place[0]], place, numbers)
        if how is not None and not judge:
            found.append(f"{place[0]} {how}")
    if not found and _lacks_judge(error):
        return []
    return found or [f"the model fails, none of its operators alone: {_first_line(error)}"]


def _lacks_judge(error: Exception) -> bool:
    """Return whether neither onnxruntime nor the reference evaluator has the operator in this version and dtype."""
    return any(
        text in str(error)
        for text in ("No implementation for operator", "GridSample interpolation only supports")
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:300]}".replace("\n", " ")


def exporting_grower() -> Grower:
    """Return a grower of graphs of operators that can be exported."""
    return Grower(
        {
            op: cases
            for op, cases in Grower().pool.items()
            if isinstance(find_translation(op), Translator)
        }
    )


def judge_seed(grower: Grower) -> Case:
    """Return what grows and judges the graph of a seed, in a child process; its text is a :class:`Result` in JSON."""

    def judge(seed: int) -> tuple[str, str]:
        model = grower.grow(seed)
        operators = sorted({canonical(node.op) for node in model.graph.nodes if node.op})
        return "done", json.dumps({**check_export(model)._asdict(), "operators": operators})

    return judge


class Campaign:
    """Counts and disagreements of a run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.counts: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.operators: set[str] = set()
        self.faults: list[str] = []

    def run(self, seeds: range) -> None:
        """Judge the graphs of these seeds; a graph that ends its process is a disagreement."""
        for outcome in run_numbers(self.case, seeds, seconds=SECONDS, memory=BYTES):
            record: dict[str, Any] = json.loads(outcome.what) if outcome.status == "done" else {}
            values: list[Any] = [
                record.get(field, default) for field, default in Result._field_defaults.items()
            ]
            result = Result(*values)
            self.operators.update(record.get("operators", ()))
            self.known.update(result.known)
            self.counts["graphs"] += 1
            self.counts["values that agree"] += result.agreeing
            self.counts["nodes refused"] += len(result.refused)
            self.counts["known differences"] += len(result.known)
            self.counts.update(f"models computed by {judge}" for judge in result.judges[:1])
            faults = result.faults if record else (outcome.what,)
            self.counts["graphs that agree"] += not faults
            self.counts["disagreements"] += len(faults)
            for fault in faults:
                self.faults.append(f"seed {outcome.number}: {fault}")
                print(self.faults[-1], flush=True)

    def describe(self) -> list[str]:
        """Return the counts as lines."""
        lines = [
            f"operators: {len(self.operators)}",
            *(f"{what}: {count}" for what, count in sorted(self.counts.items())),
        ]
        return lines + [
            f"known, {count} times: {reason}" for reason, count in sorted(self.known.items())
        ]


def main() -> int:
    """Run a campaign from the command line; 1 where anything disagrees."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.generate.exported", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--graphs", type=int, default=1000, help="how many graphs to grow")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first graph")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    campaign, started = Campaign(judge_seed(exporting_grower())), time.perf_counter()
    try:
        campaign.run(range(arguments.seed, arguments.seed + arguments.graphs))
    except KeyboardInterrupt:
        print("interrupted")
    print(f"{time.perf_counter() - started:.0f} s", *campaign.describe(), sep="\n")
    return bool(campaign.faults)


if __name__ == "__main__":
    sys.exit(main())
