"""Grow graphs and judge them; print what they cover and every disagreement.

    python -m tests.generate --graphs 1000 --seed 0 --keep DIR

With ``GRAPHSHARE_ORACLE`` MXNet judges too. A graph is named by its seed: ``--seed N --graphs 1``
grows it again. Graphs that disagree are written to ``--keep``, shrunk, as a symbol file and an npz
of its variables.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from tests.generate.blame import blame
from tests.generate.grow import Coverage, Grower, Model
from tests.generate.invariants import INVARIANTS
from tests.generate.isolate import find_difference, isolate, needed_operators
from tests.generate.judge import ask_mxnet, judge
from tests.generate.shrink import cut_all, shrink, single_node
from tests.generate.verdict import Disagreement, Verdict
from tests.surroundings import oracle_path

BATCH = 200
ROUNDS = 6
"""How often nodes are cut away from a graph that MXNet refuses; each time all that are found."""
AGREES = {
    False: "graphs that agree",
    True: "graphs that agree without the nodes of known refusals and gradients",
}


class Campaign:
    """Counts and disagreements of a run."""

    def __init__(self, oracle_python: str, keep: Path | None = None, every: int = 1) -> None:
        self.oracle_python, self.keep, self.every = oracle_python, keep, every
        self.grower = Grower()
        self.counts: Counter[str] = Counter()
        self.disagreements: list[Disagreement] = []

    @property
    def coverage(self) -> Coverage:
        """What the graphs hold."""
        return self.grower.coverage

    def run(self, seeds: range) -> None:
        """Grow and judge the graphs of these seeds."""
        models = [self.grower.grow(seed) for seed in seeds]
        self.counts["graphs"] += len(models)
        for model in models:
            for bug in model.bugs:
                self._report(Disagreement(model.seed, "graph", "internal error", bug))
            if model.seed % self.every == 0:
                self._check_invariants(model)
        if self.oracle_python:
            with tempfile.TemporaryDirectory() as folder:
                self._ask(models, Path(folder))

    def _check_invariants(self, model: Model) -> None:
        if model.refused is not None:
            return
        for name, check in INVARIANTS.items():
            how = check(model)
            self.counts["invariants"] += 1
            if how is not None:
                self._report(Disagreement(model.seed, "graph", f"invariant {name}", how))
                self._keep(
                    shrink(model, lambda smaller, check=check: check(smaller) is not None), name
                )  # type: ignore[misc]

    def _ask(self, models: list[Model], folder: Path) -> None:
        """Judge graphs; those that MXNet refuses once more without the nodes at fault."""
        cut: set[int] = set()
        for _ in range(ROUNDS):
            unexplained: list[tuple[Model, Verdict]] = []
            for model, answer in zip(
                models, ask_mxnet(self.oracle_python, models, folder) if models else (), strict=True
            ):
                verdict = judge(model, answer)
                if verdict.is_of_the_graph:
                    unexplained.append((model, verdict))
                else:
                    self._count(model, verdict, cut=model.seed in cut)
            models = self._explain(unexplained, folder)
            cut.update(model.seed for model in models)
        for model in models:
            self._report(
                Disagreement(model.seed, "graph", "undecided", f"refused after {ROUNDS} cuts")
            )

    def _count(self, model: Model, verdict: Verdict, *, cut: bool) -> None:
        self.counts.update(verdict.counts)
        for found in verdict.disagreements:
            self._report(found)
            self._keep_node(model, found.node, "mxnet")
        if model.seed not in {found.seed for found in self.disagreements}:
            self.counts["graphs refused by both" if verdict.refused else AGREES[cut]] += 1

    def _explain(self, unexplained: list[tuple[Model, Verdict]], folder: Path) -> list[Model]:
        """Report the nodes for which graphs are refused or have other gradients; return the graphs without them."""
        faults: dict[int, list[Disagreement]] = {}
        asked = [
            (model, any(found.what == "gradient" for found in verdict.disagreements))
            for model, verdict in unexplained
        ]
        for fault in blame(self.oracle_python, asked, folder) if asked else ():
            faults.setdefault(fault.seed, []).append(fault)
        smaller = []
        for model, verdict in unexplained:
            found = faults.get(model.seed, [])
            for fault in found:
                self.counts["nodes with known differences"] += fault.known
                if not fault.known:
                    self._report(fault)
                    self._keep_node(model, fault.node, "alone")
            names = {fault.node for fault in found} or self._isolate(
                model, verdict.disagreements[0], folder
            )
            records = enumerate(model.document["nodes"])
            smaller.append(
                cut_all(model, [number for number, record in records if record["name"] in names])
            )
        for model in smaller:
            self.counts["graphs cut away"] += not model.cases
        return [model for model in smaller if model.cases]

    def _isolate(self, model: Model, found: Disagreement, folder: Path) -> set[str]:
        """Return the nodes that a difference of the whole graph needs; report it unless it is listed."""
        listed = needed_operators(self.oracle_python, model, found, folder)
        smallest = model if listed else isolate(self.oracle_python, model, found.what, folder)
        if not listed:  # a graph may have two causes: what is listed of the smallest is its own
            shown = find_difference(self.oracle_python, smallest, found.what, folder) or found
            listed = needed_operators(self.oracle_python, smallest, shown, folder)
        if listed:
            self.counts["differences known in graphs"] += 1
            return listed
        nodes = [smallest.document["nodes"][number] for number in smallest.cases]
        self._report(found._replace(node=" ".join(record["op"] for record in nodes)))
        self._keep(smallest, found.what)
        return {record["name"] for record in nodes}

    def _report(self, found: Disagreement) -> None:
        self.disagreements.append(found)
        print(f"seed {found.seed} {found.node}: {found.what}: {found.how}", flush=True)

    def _keep_node(self, model: Model, name: str, kind: str) -> None:
        number = next((n for n in model.cases if model.document["nodes"][n]["name"] == name), None)
        if number is not None:
            self._keep(single_node(model, number), kind)

    def _keep(self, model: Model, kind: str) -> None:
        if self.keep is None:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        stem = self.keep / f"{model.seed}-{kind}"
        stem.with_name(stem.name + "-symbol.json").write_text(json.dumps(model.document, indent=2))
        np.savez(stem.with_name(stem.name + ".npz"), **model.feeds)

    def summarize(self, seconds: float) -> str:
        """Return the figures in one line each."""
        lines = [
            f"{self.counts['graphs']} graphs in {seconds:.0f} s, {len(self.disagreements)} disagreements"
        ]
        lines += [
            f"{name}: {count}" for name, count in sorted(self.counts.items()) if name != "graphs"
        ]
        lines.append(
            f"operators: {len(self.coverage.operators)} of {len(self.grower.pool)} in the pool"
        )
        lines.append(f"neighbouring pairs: {len(self.coverage.pairs)}")
        lines.append(f"attribute values: {len(self.coverage.attributes)}")
        return "\n".join(lines)


def main() -> int:
    """Run a campaign from the command line; 1 where anything disagrees."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.generate", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--graphs", type=int, default=1000, help="how many graphs to grow")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first graph")
    parser.add_argument("--keep", type=Path, help="directory for the graphs that disagree, shrunk")
    parser.add_argument(
        "--invariants",
        type=int,
        default=1,
        metavar="N",
        help="check the invariants of every N-th graph",
    )
    parser.add_argument("--without-mxnet", action="store_true", help="check only the invariants")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    campaign = Campaign(
        "" if arguments.without_mxnet else oracle_path(), arguments.keep, arguments.invariants
    )
    started = time.perf_counter()
    for first in range(arguments.seed, arguments.seed + arguments.graphs, BATCH):
        campaign.run(range(first, min(first + BATCH, arguments.seed + arguments.graphs)))
        print(
            f"so far: {dict(sorted(campaign.counts.items()))}, {len(campaign.coverage.pairs)} pairs",
            flush=True,
        )
    print(campaign.summarize(time.perf_counter() - started))
    return bool(campaign.disagreements)


if __name__ == "__main__":
    sys.exit(main())
