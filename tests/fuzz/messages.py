"""One message of an ONNX model changed at a time, then every rewrite: what the file says is in the
result, or missed aloud.

A change removes a field, repeats it, gives it another type, states a default, adds a field that
nobody knows, orders fields anew, or gives an entry or a value another name: none, that of nothing,
or one that clashes in some scope. What a rewrite has to keep is computed from the bytes of the file
alone (``accounts``); it may refuse the file, and say in a note what it leaves out. What ONNX's
checker accepts, it accepts after a rewrite.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from graphshare.errors import GraphshareError, SelfCheckError
from tests.fuzz.collect import Collector
from tests.fuzz.message_changes import change_message
from tests.fuzz.message_models import FILES, MODELS
from tests.fuzz.message_rewrites import REWRITES, Lost
from tests.fuzz.sandbox import run_cases
from tests.fuzz.totals import Totals
from tests.onnx_files.invariants import find_fault
from tests.onnx_files.wire import Message, encode, parse

MODEL = "model.onnx"
_UNTYPED = "Field 'type' of 'value_info' is required but missing"
"""What the checker says of an output whose type neither the file states nor ONNX infers, as a note says."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    collector, cases = Collector(keep.absolute()), Cases(seed)
    for outcome in run_cases(cases.run, minutes):
        if outcome.status == "failed":
            rewrite, what, data = cases.make(outcome.number)
            command = ["python", "-m", "tests.fuzz", "messages", "--seed", str(seed)]
            lost = outcome.what.partition("'")[0]
            sort = outcome.sort if "Error" in outcome.sort else f"{rewrite} {lost}"
            collector.fail(
                sort, f"{what}: {rewrite}: {outcome.what}", command, {MODEL: data, **FILES}
            )
        else:
            collector.count(1, outcome.status == "done")
    collector.totals.counts["rewrites"] = len(REWRITES)
    return collector.totals


class Cases:
    """The cases of a seed, by number: every model as it is, then changed ones, each through every rewrite."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rewrites = list(REWRITES)
        self.sources: dict[str, Message] = {
            name: parse(make().SerializeToString()) for name, make in MODELS.items()
        }

    def make(self, number: int) -> tuple[str, str, bytes]:
        """Return the rewrite of a case, what is changed in which model, and the bytes of that."""
        round_, at = divmod(number, len(self.rewrites))
        names = list(self.sources)
        if round_ < len(names):
            return self.rewrites[at], names[round_], encode(self.sources[names[round_]])
        chance, what = random.Random(f"{self.seed} {round_}"), ""
        while not what:
            name = chance.choice(names)
            model = self.sources[name].copy()
            what = change_message(model, chance)
        return self.rewrites[at], f"{name}, {what}", encode(model)

    def run(self, number: int) -> tuple[str, str]:
        """Run a case in a folder of its own."""
        rewrite, _, data = self.make(number)
        with tempfile.TemporaryDirectory() as folder:
            return try_rewrite(rewrite, data, Path(folder))


def try_rewrite(rewrite: str, data: bytes, folder: Path) -> tuple[str, str]:
    """Return how a rewrite of a model ends: ``done``, ``refused``, or ``failed`` and what is lost."""
    for name, content in {MODEL: data, **FILES}.items():
        (folder / name).write_bytes(content)
    try:
        REWRITES[rewrite](folder / MODEL, parse(data))
    except SelfCheckError as error:
        return "failed", f"self-check: {error}"
    except GraphshareError as error:
        return "refused", str(error)
    except Lost as lost:
        return "failed", str(lost)
    out = folder / "out.onnx"
    sources = (path for path in (folder / MODEL, folder / "other.onnx") if path.exists())
    fault = out.exists() and not any(map(find_fault, sources)) and find_fault(out)
    if not fault or _UNTYPED in fault:
        return "done", ""
    return "failed", f"ONNX's checker refuses the result: {fault}"
