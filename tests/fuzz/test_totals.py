"""The command of the campaigns: what it prints, and that a failure is its exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.totals import Failure, Totals, Unavailable, make_reproduction


def add_campaign(
    patch: pytest.MonkeyPatch, name: str, result: Totals | Unavailable
) -> list[tuple[float, int, Path]]:
    """Add a campaign with this result; return the list of its calls."""
    calls: list[tuple[float, int, Path]] = []

    def run(minutes: float, seed: int, keep: Path) -> Totals:
        calls.append((minutes, seed, keep))
        if isinstance(result, Unavailable):
            raise result
        return result

    module = ModuleType(f"tests.fuzz.{name}")
    module.run = run  # type: ignore[attr-defined]
    patch.setitem(sys.modules, module.__name__, module)
    patch.setitem(command.CAMPAIGNS, name, "an example")
    return calls


@pytest.fixture(autouse=True)
def _no_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CAMPAIGNS", {})


def test_campaigns_share_the_time_and_add_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = add_campaign(monkeypatch, "first", Totals(1000, 20, 20, counts={"reads": 7}))
    second = add_campaign(monkeypatch, "second", Totals(500, 5, 5, counts={"reads": 3}))
    assert command.main(["--minutes", "4", "--seed", "9", "--keep", str(tmp_path)]) == 0
    assert first == [(2.0, 9, tmp_path / "first")]
    assert second == [(2.0, 9, tmp_path / "second")]
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[-1]
        == "in all: 1,500 executions, 25 faults injected, 25 survivors, 0 failures; reads 10"
    )
    assert command.main(["second", "--minutes", "4", "--keep", str(tmp_path)]) == 0
    assert len(first) == 1
    assert second[-1][0] == 4.0


def test_a_failure_is_printed_with_its_reproduction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = make_reproduction(tmp_path, "1", {"run.txt": b"how"})
    add_campaign(monkeypatch, "first", Totals(1, 1, 0, [Failure("a file was lost", kept)]))
    assert command.main([]) == 1
    assert f"  failed: a file was lost ({kept})" in capsys.readouterr().out.splitlines()
    assert (Path(kept) / "run.txt").read_bytes() == b"how"


def test_a_campaign_that_cannot_run_is_a_failure_unless_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_campaign(monkeypatch, "first", Unavailable("no compiler"))
    assert command.main([]) == 1
    assert command.main(["--skip"]) == 0
