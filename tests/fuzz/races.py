"""Commands that something disturbs on their way: signals, changed files, links among outputs, full
disks, and one another.

Each case is the command line in a process of its own. It is run undisturbed first, so that a case
knows what it writes and how long it takes; then a moment is drawn, and what happens there. ``python
-m tests.fuzz.races SEED NUMBER`` runs a case again.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.collect import Collector
from tests.fuzz.disturbances import (
    CHANGES,
    MODELS,
    OUT,
    OUTSIDE,
    TEMPORARY,
    Files,
    end_processes,
    find_other,
    make_folder,
    put_link,
    read_files,
)
from tests.fuzz.totals import Totals, Unavailable
from tests.processes import COMMAND, environment, module_path

POOL = (
    f"pool {MODELS}/one.onnx {MODELS}/two.onnx {MODELS}/three.onnx {MODELS}/sub/four.onnx -o {OUT}"
)
WRITING = (
    f"foreach {MODELS} -o {OUT} --jobs 2 -- duplicate {{}} --prefix b- --mode tie",
    f"foreach {MODELS} -o {OUT} --jobs 2 --manifest run.jsonl -- rename {{}} --prefix b-",
    POOL,
    f"{POOL} --no-verify",
)
"""Commands with outputs whose names come from a list or from models."""
READING = (
    f"duplicate {MODELS}/net --prefix b- -o {OUT}/new",
    f"duplicate {MODELS}/one.onnx --prefix b- --mode tie -o {OUT}/new.onnx --verify",
    f"rename {MODELS}/three.onnx --prefix b- -o {OUT}/new.onnx",
    f"extract {MODELS}/net --target fc1_output -o {OUT}/new",
    f"params convert {MODELS}/net-0000.params {OUT}/new.npz",
    f"run {MODELS}/net --seed 0 --shape data=2,3 -o {OUT}/new.npz",
    f"run {MODELS}/three.onnx -o {OUT}/new.npz",
    f"compare {MODELS}/one.onnx {MODELS}/two.onnx",
    f"diff {MODELS}/net {MODELS}/sub/net",
    f"diff {MODELS}/one.onnx {MODELS}/two.onnx --format html",
    f"check {MODELS} --jobs 2",
)
ODD = (
    "check odd/crashing.onnx --format json",
    "inspect odd/crashing.onnx --shape x=2,3",
    "inspect odd/doubling.onnx --shape x=2,3 --time-limit 2",
    "inspect odd/swelling.onnx --shape x=2,3 --max-memory 200M",
    "run odd/doubling.onnx --seed 0 --time-limit 2",
)
"""Commands on models that end ONNX's inference, keep it or onnxruntime busy, or take gigabytes."""
SECONDS = 90.0
"""How long a command may take, beside others too."""
_MARK = "GRAPHSHARE_RACE"
# A file system of a few kilobytes, which this command and what it starts see alone; what is in it at the end is kept.
_FULL = """mount -t tmpfs -o size=$0k tmpfs "$1" || exit 99; place=$1; shift; "$@"; code=$?; cp -RP "$place" kept; exit $code"""


class Ended(NamedTuple):
    """How a command ended: its exit code, what it said on stderr, and what is in its folder of outputs."""

    code: int
    said: str
    made: Files
    seconds: float = 0.0


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    if sys.platform != "linux":
        raise Unavailable("needs Linux, where /proc lists the processes that a command has started")
    end, collector = time.monotonic() + 60 * minutes, Collector(keep.absolute())
    with tempfile.TemporaryDirectory() as scratch:
        cases, number = Cases(seed, Path(scratch).resolve()), 0
        while not number or time.monotonic() < end:
            part, command, wrong = cases.run(number)
            collector.totals.counts[part] = collector.totals.counts.get(part, 0) + 1
            collector.totals.faults += 1
            if wrong:
                again = ["python", "-m", "tests.fuzz.races", str(seed), str(number)]
                collector.fail(
                    f"{part} {wrong[0][:30]}",
                    "\n".join((f"{part}: {wrong[0]}", command, *wrong)),
                    again,
                    {},
                )
            else:
                collector.count(1, True)
            number += 1
    return collector.totals


class Cases:
    """The cases of a seed, by number, in the folder ``scratch``."""

    def __init__(self, seed: int, scratch: Path) -> None:
        self.seed, self.work, self.temporary = seed, scratch / "work", scratch / "tmp"
        self._fresh = scratch / "fresh"
        make_folder(self._fresh)
        self._known: dict[str, Ended] = {}
        self.has_mounts = shutil.which("unshare") is not None and self._can_mount()
        self.parts: dict[str, Callable[[random.Random], tuple[str, list[str]]]] = {
            "killed": self.kill, "changed": self.change, "linked": self.link, "full": self.fill, "together": self.crowd,
        }  # fmt: skip

    def run(self, number: int) -> tuple[str, str, list[str]]:
        """Run case ``number``; return its part, its command and what is wrong."""
        chance = random.Random(f"{self.seed} {number}")
        # A crowd takes as long as ten others.
        part = list(self.parts)[number % 4] if number % 24 < 23 else "together"
        return part, *self.parts[part](chance)

    def kill(self, chance: random.Random) -> tuple[str, list[str]]:
        """End a command, or all its processes, by a signal; then it is run again."""
        command = chance.choice(WRITING)
        known = self.know(command)
        number, is_whole = (
            chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)),
            chance.random() < 0.5,
        )

        def act(process: subprocess.Popen[bytes]) -> None:
            # Ctrl-C reaches all
            (os.killpg if is_whole or number == signal.SIGINT else os.kill)(process.pid, number)

        self.reset()
        moment = self.draw_moment(chance, known)
        ended, wrong = self.disturb(command, moment, act)
        expected = {
            known.code,
            -number,
            *({signal.SIGINT: (130,), signal.SIGTERM: (2,)}.get(number, ())),
        }
        wrong += self.judge(ended, expected)
        made = {
            name: data
            for name, data in ended.made.items()
            if not os.path.basename(name).startswith(TEMPORARY)
        }
        if number != signal.SIGKILL:
            wrong += [f"left {name}" for name in ended.made.keys() - made.keys()]
            if command.startswith("pool") and made and made != known.made:
                wrong.append(f"only {sorted(made)} are there")
        wrong += find_other(made, [known.made])
        again = self.finish(self.start(command), known.seconds)
        if (again.code, again.made) != (known.code, known.made):
            wrong.append(
                f"run again it ends with {again.code} and {sorted(again.made)}: {again.said}"
            )
        return f"{command} [{signal.Signals(number).name} after {moment:.2f} s]", wrong

    def change(self, chance: random.Random) -> tuple[str, list[str]]:
        """Change one file while a command reads it: the answer is that of the file before or after, or a refusal."""
        command = chance.choice((*READING, *READING, *WRITING))
        known = self.know(command)
        self.reset()
        read = [
            path
            for path in self.list_inputs()
            if any(path.startswith(word) for word in command.split())
        ]
        path, way = self.work / chance.choice(read), chance.choice(list(CHANGES))
        moment = self.draw_moment(chance, known)
        share = chance.random()
        ended, wrong = self.disturb(
            command, moment, lambda process: CHANGES[way](path, share), is_changing=True
        )
        shutil.rmtree(self.work / OUT)
        (self.work / OUT).mkdir()
        (self.work / "run.jsonl").unlink(missing_ok=True)
        after = self.finish(self.start(command), known.seconds)
        wrong += self.judge(ended, {known.code, after.code, 2})
        wrong += find_other(ended.made, [known.made, after.made])
        if ended.code != 2 and ended.made not in (known.made, after.made):
            wrong.append(f"exit code {ended.code}, and only {sorted(ended.made)} are there")
        if ended.code == 2 and ended.made and not command.startswith("foreach"):
            wrong.append(f"refused, and {sorted(ended.made)} were written")
        return f"{command} [{path.name}: {way} after {moment:.2f} s]", wrong

    def link(self, chance: random.Random) -> tuple[str, list[str]]:
        """Put links in place of outputs while a command computes them: nothing is written where they lead."""
        command = chance.choice(WRITING)
        known = self.know(command)
        self.reset()
        names = chance.sample(sorted(known.made), chance.randint(1, len(known.made)))
        if chance.random() < 0.3:
            names.append("sub")
        before = read_files(self.work / OUTSIDE)

        def act(process: subprocess.Popen[bytes]) -> None:
            while process.poll() is None:
                for name in names:
                    put_link(self.work / OUT / name, self.work / OUTSIDE / os.path.basename(name))
                time.sleep(0.002)

        ended, wrong = self.disturb(command, self.draw_moment(chance, known), act)
        if read_files(self.work / OUTSIDE) != before:
            wrong.append("wrote through a link")
        wrong += self.judge(ended, {known.code, 2})
        wrong += [
            f"left {name}" for name in ended.made if os.path.basename(name).startswith(TEMPORARY)
        ]
        return f"{command} [links in place of {names}]", wrong

    def fill(self, chance: random.Random) -> tuple[str, list[str]]:
        """Let a command write a few kilobytes alone, where its outputs go, in the folder for
        temporary files or in memory.
        """
        command = chance.choice((*READING, *WRITING))
        known = self.know(command)
        self.reset()
        size = int(2 ** chance.uniform(9, 16))
        place = (
            chance.choice((str(self.work / OUT), str(self.temporary), "/dev/shm", ""))
            if self.has_mounts
            else ""
        )
        if place:
            prefix = [
                "unshare",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                _FULL,
                str(-(-size // 1024)),
                place,
            ]
            process = self.start(command, prefix)
        else:
            process = self.start(command, limit=size)
        ended = self.finish(process, known.seconds)
        if (self.work / "kept").exists() and place == str(self.work / OUT):
            ended = ended._replace(made=read_files(self.work / "kept"))
        wrong = self.judge(ended, {known.code, 2})
        wrong += find_other(ended.made, [known.made])
        if ended.code == known.code and ended.made != known.made:
            wrong.append(f"exit code {ended.code}, and only {sorted(ended.made)} are there")
        if ended.code != known.code and ended.made and not command.startswith("foreach"):
            wrong.append(f"refused, and {sorted(ended.made)} were written")
        return f"{command} [{size} bytes in {place or 'a file'}]", wrong

    def crowd(self, chance: random.Random) -> tuple[str, list[str]]:
        """Run many commands side by side, and sessions in the threads and forks of one process."""
        commands = [chance.choice((*READING[-8:], *ODD)) for _ in range(chance.randint(10, 20))]
        known = [self.know(command) for command in commands]
        self.reset()
        folders = [self.work / str(number) for number in range(len(commands))]
        for folder in folders:
            shutil.copytree(self._fresh, folder)
        sessions = f"import tests.fuzz.sessions as s; s.work({chance.random()}, 6)"
        running = [
            self.start(command, folder=folder)
            for command, folder in zip(commands, folders, strict=True)
        ]
        running.append(self.start("", [sys.executable, "-c", sessions]))
        wrong = []
        for command, folder, process, one in zip(commands, folders, running, known, strict=False):
            ended = self.finish(process, SECONDS, folder)
            if (ended.code, ended.made) != (one.code, one.made):
                wrong.append(f"beside others {command!r} ends with {ended.code}: {ended.said}")
            wrong += self.judge(ended, {one.code}, folder)
        ended = self.finish(running[-1], SECONDS)
        if ended.code or ended.said:
            wrong.append(f"sessions in threads: exit code {ended.code}, {ended.said}")
        return "; ".join(commands), wrong

    def know(self, command: str) -> Ended:
        """Return how a command ends that nothing disturbs."""
        if command not in self._known:
            self.reset()
            begun = time.monotonic()
            ended = self.finish(self.start(command), SECONDS)
            if ended.code not in (0, 1) and command not in ODD:
                raise RuntimeError(f"{command}: {ended.code}: {ended.said}")
            self._known[command] = ended._replace(seconds=time.monotonic() - begun)
        return self._known[command]

    def reset(self) -> None:
        """Make the folder as it was before any command."""
        for folder in (self.work, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._fresh, self.work)
        self.temporary.mkdir()

    def draw_moment(self, chance: random.Random, known: Ended) -> float:
        """Return a time at which a command most often works: it takes a while to start."""
        return known.seconds * (
            chance.uniform(0.3, 1.0) if chance.random() < 0.8 else chance.uniform(0, 1.2)
        )

    def start(
        self,
        command: str,
        prefix: Sequence[str] = (),
        *,
        folder: Path | None = None,
        limit: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command, whose processes are known by a variable; it can write files of ``limit`` bytes."""
        variables = environment(
            PYTHONPATH=module_path(),
            PYTHONDONTWRITEBYTECODE="1",
            TMPDIR=str(self.temporary),
            **{_MARK: str(os.getpid())},
        )
        return subprocess.Popen(
            [*prefix, *([*COMMAND, *command.split()] if command else [])],
            cwd=folder or self.work,
            env=variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=None if limit is None else partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)),
        )  # fmt: skip

    def finish(
        self, process: subprocess.Popen[bytes], seconds: float, folder: Path | None = None
    ) -> Ended:
        """Wait for a command, which is ended after a time that it never takes."""
        try:
            _, said = process.communicate(timeout=SECONDS + 10 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = b"Traceback of nothing: it hangs\n" + process.communicate()[1]
        return Ended(
            process.returncode,
            said.decode("utf-8", "replace"),
            read_files((folder or self.work) / OUT),
        )

    def disturb(
        self,
        command: str,
        moment: float,
        act: Callable[[subprocess.Popen[bytes]], None],
        *,
        is_changing: bool = False,
    ) -> tuple[Ended, list[str]]:
        """Run a command and let something happen after ``moment`` seconds; return its end, and
        whether it changed inputs.
        """
        before = read_files(self.work / MODELS)
        process = self.start(command)
        timer = threading.Timer(moment, lambda: act(process) if process.poll() is None else None)
        timer.start()
        ended = self.finish(process, 0)
        timer.cancel()
        timer.join()
        is_same = is_changing or read_files(self.work / MODELS) == before
        return ended, [] if is_same else ["an input is not what it was"]

    def judge(self, ended: Ended, expected: set[int], folder: Path | None = None) -> list[str]:
        """Return what is wrong about how a command ended."""
        words = ("Traceback", "bug in graphshare", "Exception ignored", "Warning:")
        is_early = ended.code == -signal.SIGINT  # before the command has begun, Python ends so
        wrong = [
            f"{word!r} on stderr: {ended.said}"
            for word in words
            if word in ended.said and not is_early
        ]
        if ended.code not in expected:
            wrong.append(f"exit code {ended.code}: {ended.said}")
        if folder is None:  # else there are others
            wrong += [f"goes on: {process}" for process in end_processes(f"{_MARK}={os.getpid()}")]
            wrong += [
                f"left {path.name}"
                for path in self.temporary.iterdir()
                if -signal.SIGKILL not in expected
            ]
        return wrong

    def list_inputs(self) -> list[str]:
        """Return the files of the models, from the folder of the commands."""
        return [f"{MODELS}/{name}" for name in sorted(read_files(self.work / MODELS))]

    def _can_mount(self) -> bool:
        self.reset()
        size = [
            "unshare",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            _FULL,
            "64",
            str(self.temporary),
            "true",
        ]
        return subprocess.run(size, cwd=self.work, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as again:
        print(
            "\n".join(
                map(str, Cases(int(sys.argv[1]), Path(again).resolve()).run(int(sys.argv[2])))
            )
        )
