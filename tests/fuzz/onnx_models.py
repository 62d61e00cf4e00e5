"""Changed ONNX models for every rewrite and for what reads models: each returns, or refuses with a clear error.

A model that is written must read back: saving checks that itself, and a failure of that check is a failure here.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import graphshare as gs
from graphshare.errors import BugError, SelfCheckError
from tests.fuzz.collect import Collector
from tests.fuzz.readers import READERS
from tests.fuzz.reads import change
from tests.fuzz.sandbox import run_cases
from tests.fuzz.totals import Totals
from tests.onnx_files.made import write_made

_TOGETHER = 40
"""Models of one case."""
_WEIGHTS = bytes(64)

Action = Callable[[gs.Checkpoint, random.Random, Path], object]
ACTIONS: Mapping[str, Action] = {
    "tie": lambda model, chance, out: gs.save(gs.duplicate(model, "b_", mode="tie"), out),
    "copy": lambda model, chance, out: gs.save(gs.duplicate(model, ["b_", "c_"]), out),
    "rename": lambda model, chance, out: gs.save(gs.rename(model, prefix="x_"), out),
    "extract": lambda model, chance, out: gs.save(gs.extract(model, [f"={_choose(model, chance)}"]), out),
    "group": lambda model, chance, out: gs.save(gs.group([model, gs.rename(model, prefix="x_")]), out),
    "untie": lambda model, chance, out: gs.save(gs.share(model, untie=["*"]), out),
    "detect": lambda model, chance, out: gs.detect(model),
    "inspect": lambda model, chance, out: gs.inspect(model),
    "check": lambda model, chance, out: gs.check(model.where),
    "diff": lambda model, chance, out: gs.diff(model, gs.rename(model, prefix="x_")),
    "draw": lambda model, chance, out: gs.draw(model, to="svg"),
    "params": lambda model, chance, out: gs.list_params(model.where),
}
"""What is done with each model that can be read."""


def _choose(model: gs.Checkpoint, chance: random.Random) -> str:
    return chance.choice([node.name for node in model.graph.nodes] or ["x"])


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    collector, campaign = Collector(keep), Campaign(seed)
    for outcome in run_cases(campaign.run, minutes, seconds=60):
        if outcome.status == "failed":
            files = {"input.onnx": campaign.culprit(outcome.number), "w.bin": _WEIGHTS}
            collector.fail(outcome.sort, outcome.what, READERS["onnx"].command, files)
        else:
            collector.count(_TOGETHER, int(outcome.what))
    return collector.totals


class Campaign:
    """Changed models by number: each case is a few of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seeds = list(write_made().values())

    def make(self, number: int) -> list[bytes]:
        """Return the models of case ``number``."""
        chance = random.Random(f"{self.seed} {number}")
        return [change(chance, self.seeds, READERS["onnx"].words) for _ in range(_TOGETHER)]

    def run(self, number: int) -> tuple[str, str]:
        """Rewrite the models of case ``number``; return how many were read."""
        return "done", str(sum(attack(data, random.Random(number)) for data in self.make(number)))

    def culprit(self, number: int) -> bytes:
        """Return the first model of case ``number`` that fails, the first of all if none does again."""
        models = self.make(number)
        for data in models:
            try:
                attack(data, random.Random(number))
            except Exception:
                return data
        return models[0]


def attack(data: bytes, chance: random.Random) -> bool:
    """Read a model and do everything with it; return whether it was read. Only errors of the program are raised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "w.bin").write_bytes(_WEIGHTS)
        (folder / "input.onnx").write_bytes(data)
        try:
            model = gs.load(folder / "input.onnx")
        except gs.GraphshareError:
            return False
        for action, do in ACTIONS.items():
            try:
                do(model, chance, folder / f"{action}.onnx")
            except (BugError, SelfCheckError):
                raise
            except gs.GraphshareError as error:
                str(error)
    return True
