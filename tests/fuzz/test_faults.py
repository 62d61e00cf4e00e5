"""The fault injector: a short campaign has no failure, and it finds what is wrong."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fuzz import faults
from tests.fuzz.shards import read_tensors
from tests.fuzz.totals import Unavailable
from tests.surroundings import size_of_day


@pytest.fixture(scope="module")
def injector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[faults.Injector]:
    try:
        found = faults.Injector(tmp_path_factory.mktemp("faults").resolve())
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.mark.large
def test_a_short_campaign(injector: faults.Injector, tmp_path: Path) -> None:
    totals = faults.run(0.1, 0, tmp_path, ["duplicate net --prefix b- -o out --map-out map.json"])
    assert totals.failures == []
    assert totals.faults > 0
    assert totals.survivors > 0
    assert totals.counts["commands"] == 1


def test_each_kind_of_fault_arrives(injector: faults.Injector) -> None:
    reference = injector.reference("duplicate net --prefix b- -o out")
    for fault, code, words in (
        ((faults.NO_SPACE, errno.ENOSPC, 1, 1 << 40, 0), 2, "the disk is full"),
        ((faults.NO_SPACE, errno.EDQUOT, 1, 1 << 40, 0), 2, "the disk quota is used up"),
        ((faults.SIGNAL, signal.SIGINT, 5, 5, 0), 130, "interrupted; nothing was changed"),
        ((faults.SIGNAL, signal.SIGHUP, 5, 5, 1), 2, "interrupted; nothing was changed"),
        (
            (faults.SIGNAL, signal.SIGKILL, reference.calls - 5, reference.calls - 5, 0),
            -signal.SIGKILL,
            "",
        ),
        ((faults.ERROR, errno.EINTR, 1, 1, 0), 0, ""),
        ((faults.SHORT, 0, 1, 1 << 40, 0), 0, ""),
    ):
        injector.reset()
        found, _, injected = injector.run(reference.command, [fault])
        assert injected > 0, fault
        assert (found, words in injector.stream("stderr").decode()) == (code, True), fault


@pytest.mark.parametrize(
    "command",
    [
        "run net --seed 0 --shape data=2,3 --sgd-steps 1 --params-out out-0000.params -o out.npz",
        "check one-symbol.json two-symbol.json --fix -o report.txt",
    ],
)
def test_outputs_are_all_old_or_all_new_wherever_the_disk_fills_up(
    injector: faults.Injector, command: str
) -> None:
    """Trained parameters are not replaced where the outputs are not, and one fixed file not without the other."""
    reference = injector.reference(command)
    failed = 0
    for at in range(1, reference.calls + 1, size_of_day(3, 1)):
        injector.reset()
        code, _, injected = injector.run(command, [(faults.NO_SPACE, errno.ENOSPC, at, 1 << 40, 0)])
        assert faults.judge(injector, reference, [], code) == [], at
        failed += injected > 0 and code == 2 and injector.files() == reference.before
    assert failed > 3


@pytest.mark.parametrize(
    "command",
    [command for command in faults.COMMANDS if command.startswith(("params tie", "params untie"))],
)
def test_a_kill_loses_no_tensor(injector: faults.Injector, command: str) -> None:
    """Wherever the run is killed, each tensor of the folder can be read from it, or the one that it is tied to."""
    reference = injector.reference(command)
    folder = injector.folder / command.split()[2]
    injector.reset()
    before = read_tensors(folder)
    kills = 0
    for at in range(1, reference.calls + 1, size_of_day(9, 1)):
        for after in (0, 1):
            injector.reset()
            fault = (faults.SIGNAL, signal.SIGKILL, at, at, after)
            code, _, _ = injector.run(command, [fault])
            kills += code == -signal.SIGKILL
            assert faults.judge(injector, reference, [fault], code) == [], (at, after)
            left = read_tensors(folder)
            assert set(left.values()) >= set(before.values()), (at, after)
    assert kills > size_of_day(5, 60)


def test_what_is_wrong_is_found(injector: faults.Injector) -> None:
    reference = injector.reference("duplicate net --prefix b- -o out")
    injector.reset()
    assert injector.run(reference.command)[0] == 0
    assert faults.judge(injector, reference, [], 0) == []
    files = injector.files()
    (injector.folder / "out-0000.params").write_bytes(b"old")
    assert "neither old nor new: out-0000.params are not new" in faults.judge(
        injector, reference, [], 2
    )
    assert "exit code 0, and the files are not new" in faults.judge(injector, reference, [], 0)
    (injector.folder / "out-0000.params").write_bytes(files["out-0000.params"])
    assert "exit code 130" in faults.judge(injector, reference, [], 130)
    (injector.folder / ".graphshare-x.tmp").write_bytes(b"")
    assert "left .graphshare-x.tmp" in faults.judge(injector, reference, [], 0)
    injector.reset()
    other = msgspec.structs.replace(reference, stdout=b"more")
    assert injector.run(reference.command)[0] == 0
    assert "exit code 0, and stdout is not complete" in faults.judge(injector, other, [], 0)
