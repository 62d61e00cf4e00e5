"""Grow graphs and judge them; print what they cover and every disagreement.

    python -m tests.generate --graphs 1000 --seed 0 --keep DIR

With ``GRAPHSHARE_ORACLE`` MXNet judges too. A graph is named by its seed: ``--seed N --graphs 1`` grows it again. Graphs that
disagree are written to ``--keep``, shrunk, as a symbol file and an npz of its variables.
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

from tests.generate.grow import Coverage, Grower, Model
from tests.generate.invariants import INVARIANTS
from tests.generate.judge import Disagreement, Verdict, ask_mxnet, blame, judge
from tests.generate.shrink import shrink, single_node
from tests.surroundings import oracle_path

BATCH = 200


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
                self._keep(shrink(model, lambda smaller, check=check: check(smaller) is not None), name)  # type: ignore[misc]

    def _ask(self, models: list[Model], folder: Path) -> None:
        unexplained: list[tuple[Model, Verdict]] = []
        for model, answer in zip(models, ask_mxnet(self.oracle_python, models, folder), strict=True):
            verdict = judge(model, answer)
            self.counts["compared values"] += verdict.compared
            self.counts["rounding from before"] += verdict.amplified
            self.counts["known differences"] += verdict.known
            if any(found.what in ("refusal", "crash", "gradient") for found in verdict.disagreements):
                unexplained.append((model, verdict))
                continue
            self.counts[verdict.status] += 1
            for found in verdict.disagreements:
                self._report(found)
                if found.node.startswith("n") and found.node[1:].isdigit():
                    self._keep(single_node(model, int(found.node[1:])), "mxnet")
        self._explain(unexplained, folder)

    def _explain(self, unexplained: list[tuple[Model, Verdict]], folder: Path) -> None:
        by_seed: dict[int, list[Disagreement]] = {}
        for gradients in (False, True):
            models = [m for m, v in unexplained if any(f.what == "gradient" for f in v.disagreements) == gradients]
            for found in blame(self.oracle_python, models, folder, gradients=gradients) if models else ():
                by_seed.setdefault(found.seed, []).append(found)
        for model, verdict in unexplained:
            places = {f"n{number}" for number in model.cases}
            faults = by_seed.get(model.seed, verdict.disagreements)
            faults = [found for found in faults if found.what != "known"]
            self.counts["differs" if faults else "known refusals"] += 1
            for found in faults:
                self._report(found)
                if found.node in places:
                    self._keep(single_node(model, int(found.node[1:])), "refusal")

    def _report(self, found: Disagreement) -> None:
        self.disagreements.append(found)
        print(f"seed {found.seed} {found.node}: {found.what}: {found.how}", flush=True)

    def _keep(self, model: Model, kind: str) -> None:
        if self.keep is None:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        stem = self.keep / f"{model.seed}-{kind}"
        stem.with_name(stem.name + "-symbol.json").write_text(json.dumps(model.document, indent=2))
        np.savez(stem.with_name(stem.name + ".npz"), **model.feeds)

    def summarize(self, seconds: float) -> str:
        """Return the figures in one line each."""
        lines = [f"{self.counts['graphs']} graphs in {seconds:.0f} s, {len(self.disagreements)} disagreements"]
        lines += [f"{name}: {count}" for name, count in sorted(self.counts.items()) if name != "graphs"]
        lines.append(f"operators: {len(self.coverage.operators)} of {len(self.grower.pool)} in the pool")
        lines.append(f"neighbouring pairs: {len(self.coverage.pairs)}")
        lines.append(f"attribute values: {len(self.coverage.attributes)}")
        return "\n".join(lines)


def main() -> int:
    """Run a campaign from the command line; 1 where anything disagrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.generate", description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000, help="how many graphs to grow")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first graph")
    parser.add_argument("--keep", type=Path, help="directory for the graphs that disagree, shrunk")
    parser.add_argument("--invariants", type=int, default=1, metavar="N", help="check the invariants of every N-th graph")
    parser.add_argument("--without-mxnet", action="store_true", help="check only the invariants")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    campaign = Campaign("" if arguments.without_mxnet else oracle_path(), arguments.keep, arguments.invariants)
    started = time.perf_counter()
    for first in range(arguments.seed, arguments.seed + arguments.graphs, BATCH):
        campaign.run(range(first, min(first + BATCH, arguments.seed + arguments.graphs)))
    print(campaign.summarize(time.perf_counter() - started))
    return bool(campaign.disagreements)


if __name__ == "__main__":
    sys.exit(main())
