"""Errors, short writes and signals at every call of every command that writes: all outputs are old, or all are new.

The calls of a run on its files are counted first; then each is attacked in each way, and after that
pairs of attacks are drawn until the time is over. ``python -m tests.fuzz.faults CASE.json`` runs a
kept case again.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from graphshare.formats.onnx.messages import describe_type, describe_value
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.tensor_messages import add_external
from tests import params_bytes
from tests.fuzz.fault_server import HANGING
from tests.fuzz.totals import Failure, Totals, Unavailable, make_reproduction
from tests.processes import ROOT, write_json
from tests.shard_folders import write_shards
from tests.symbols import two_layers

ERROR, SHORT, SIGNAL, NO_SPACE = 1, 2, 3, 4
_EVER = 1 << 40


def is_temporary(name: str) -> bool:
    """Whether this is the path of a temporary file."""
    return Path(name).name.startswith(".graphshare-")


_CODES = {signal.SIGINT: 130, signal.SIGTERM: 2, signal.SIGHUP: 2, signal.SIGKILL: -signal.SIGKILL}

Fault = tuple[int, int, int, int, int]
"""Kind, errno or signal, first call, last call, and for a signal whether it comes after the call."""
WAYS: list[tuple[int, int, bool, int]] = [
    *(
        (ERROR, number, False, 0)
        for number in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EACCES)
    ),
    *((NO_SPACE, number, True, 0) for number in (errno.ENOSPC, errno.EDQUOT)),
    (SHORT, 0, False, 0),
    (SHORT, 0, True, 0),
    *((SIGNAL, number, False, after) for number in _CODES for after in (0, 1)),
]
"""Kind, value, whether it lasts, and whether it comes after the call."""

MODEL = ("net-symbol.json", "net-0000.params")
COMMANDS = [
    "duplicate net --prefix b- -o out --map-out map.json",
    "duplicate net --prefix b- --mode tie --in-place",
    "duplicate net-symbol.json --prefix b-",
    "share net --alias fc1_bias=bn_beta -o out",
    "extract net --target fc1_output -o out",
    "rename net --prefix b- -o net --in-place --map-out map.json",
    "group net net --prefix a- --prefix b- -o out",
    "fold net -o out",
    "upgrade net -o out",
    "format net-symbol.json --layout indent:2 -o out-symbol.json",
    "run net --seed 0 --shape data=2,3 -o out.npz",
    "run net --seed 0 --shape data=2,3 --sgd-steps 1 --params-out out-0000.params -o out.npz",
    "run net --seed 0 --shape data=2,3 --sgd-steps 1 --in-place",
    "check one-symbol.json two-symbol.json --fix -o report.txt",
    "check one-symbol.json two-symbol.json --write-baseline baseline.json",
    "check one-symbol.json --fix",
    "export net --shape data=2,3 -o out.onnx",
    "export net --shape data=2,3 --weights external --no-verify -o out.onnx",
    "pool one.onnx two.onnx -o . --data out.data --no-verify --in-place",
    "pool one.onnx two.onnx -o . --data out.safetensors --no-verify --in-place",
    "pool one.onnx three.onnx four.onnx -o . --data old.data --no-verify --in-place",
    "pool three.onnx four.onnx -o . --embed --no-verify --in-place",
    "group one.onnx two.onnx --switch which -o both.onnx --map-out map.json",
    "group three.onnx four.onnx --switch which -o both.onnx",
    "group three.onnx four.onnx --switch which -o four.onnx --in-place",
    "draw net -o out.svg",
    "inspect net --format json",
    "params convert net-0000.params out.npz",
    "params convert net-0000.params out.safetensors",
    "params convert net-0000.params net-0000.params --dtype float16 --in-place",
    "params rename net-0000.params --prefix b- -o out.npz",
    "params tie twice -o new",
    "params tie twice --in-place",
    "params untie once -o new",
    "params untie once --in-place",
]


class Reference(msgspec.Struct):
    """A run without faults: its exit code, stdout, files before and after, and the calls that can be attacked."""

    command: str
    code: int
    stdout: bytes
    before: dict[str, bytes]
    after: dict[str, bytes]
    calls: int


class Injector:
    """The library, a server that runs commands under it, and the folder that they work in."""

    def __init__(self, scratch: Path) -> None:
        self.folder, self.scratch = scratch / "work", scratch
        self._make = scratch / "fresh"
        make_files(self._make)
        library = build_library(scratch)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": path,
        }
        environment.pop("GITHUB_ACTIONS", None)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.fault_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip

    def close(self) -> None:
        """End the server."""
        self._server.communicate()

    def reset(self) -> None:
        """Make the folder as it was before any command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._make, self.folder)

    def run(self, command: str, faults: Sequence[Fault] = ()) -> tuple[int, int, int]:
        """Run a command in the folder as it is; return exit code, calls and faults injected."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"arguments": command.split(), "folder": str(self.folder), "faults": list(faults)}
        streams = {name: str(self.scratch / name) for name in ("stdout", "stderr")}
        self._server.stdin.write(json.dumps({**request, **streams}) + "\n")
        self._server.stdin.flush()
        code, calls, injected = json.loads(self._server.stdout.readline())
        return code, calls, injected

    def stream(self, name: str) -> bytes:
        """Return what the last run printed."""
        return (self.scratch / name).read_bytes()

    def files(self) -> dict[str, bytes]:
        """Return the files of the folder."""
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def reference(self, command: str) -> Reference:
        """Run a command without faults. Raises RuntimeError for one that does not end well."""
        self.reset()
        before = self.files()
        code, calls, _ = self.run(command)
        if code not in (0, 1) or calls < 1:
            raise RuntimeError(
                f"{command}: {code}, {calls} calls: {self.stream('stderr').decode()}"
            )
        return Reference(command, code, self.stream("stdout"), before, self.files(), calls)


def make_files(folder: Path) -> None:
    """Write the inputs, and old content at the places of the outputs."""
    folder.mkdir()
    found = two_layers()
    write_json(folder / MODEL[0], found)
    names = {"fc1_weight": (4, 3), "fc2_weight": (2, 4)}
    keys = [
        n["name"]
        for n in found["nodes"]
        if n["op"] == "null" and n["name"] not in ("data", "softmax_label")
    ]
    write_model_params(folder / MODEL[1], keys, names)
    unsorted = dict(found, arg_nodes=list(reversed(found["arg_nodes"])))
    for name in ("one", "two"):
        write_json(folder / f"{name}-symbol.json", unsorted)
    write_models(folder)
    first, second = "model-1.safetensors", "model-2.safetensors"
    write_shards(folder / "once", {first: ["embed_tokens.weight", "a"], second: ["b"]}, tied=True)
    write_shards(
        folder / "twice",
        {first: ["embed_tokens.weight"], second: ["lm_head.weight", "b"]},
        tied=False,
    )
    for name in ("out-symbol.json", "out-0000.params", "map.json", "report.txt"):
        (folder / name).write_bytes(b"old")


def write_models(folder: Path) -> None:
    """Write four ONNX models with a weight in common: two with their data, and two with a file of weights."""
    data = b""
    for name, number, is_external in (
        ("one", 1.0, False),
        ("two", 2.0, False),
        ("three", 3.0, True),
        ("four", 4.0, True),
    ):
        graph, node = Message(), Message()
        for field, text in ((1, "w"), (2, "y"), (4, "Identity")):
            node.add_text(field, text)
        graph.add_message(1, node)
        for weight, value in (("w", 0.5), ("v", number)):
            tensor = Message()
            for _ in range(2):
                tensor.add_integer(1, 16)
            tensor.add_integer(2, 1)
            tensor.add_text(8, weight)
            content = struct.pack("<f", value) * 256
            if is_external:
                add_external(tensor, ("old.data", len(data), len(data) + len(content)))
                data += content
            else:
                tensor.add_bytes(9, content)
            graph.add_message(5, tensor)
        graph.add_message(12, describe_value("y", describe_type("float32", (16, 16))))
        model, opset = Message(), Message()
        model.add_integer(1, 8)
        model.add_message(7, graph)
        opset.add_integer(2, 17)
        model.add_message(8, opset)
        (folder / f"{name}.onnx").write_bytes(b"".join(model.pieces()))
    (folder / "old.data").write_bytes(data)


def write_model_params(path: Path, keys: Sequence[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """Write parameters of the right shapes: 4 values for a vector."""
    records = []
    for key in keys:
        shape = shapes.get(key, (4,))
        size = params_bytes.count_bytes(shape, "float32")
        records.append(
            params_bytes.dense(
                shape, "float32", bytes(size) if "mean" in key else b"\0\0\x80?" * (size // 4)
            )
        )
    names = [f"{'aux' if 'moving' in key else 'arg'}:{key}" for key in keys]
    path.write_bytes(params_bytes.container(records, names))


def build_library(folder: Path) -> Path:
    """Compile the library. Raises Unavailable without a compiler, and where there is no preloading."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        raise Unavailable("needs Linux and a C compiler (cc)")
    library = folder / "faults.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(library),
        str(Path(__file__).with_name("faults.c")),
        "-ldl",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"the compiler fails: {done.stderr}")
    return library


def single_faults(calls: int) -> Iterator[list[Fault]]:
    """Yield every way at every call."""
    for at in range(1, calls + 1):
        for kind, value, lasts, after in WAYS:
            yield [(kind, value, at, _EVER if lasts else at, after)]


def draw_pair(rng: random.Random, calls: int) -> list[Fault]:
    """Return two faults, the second often right after the first: in the clean-up."""
    first, second = rng.choice(WAYS), rng.choice(WAYS)
    at = rng.randint(1, calls)
    then = at + rng.choice((1, 1, 1, 2, 2, 3, rng.randint(1, calls)))
    found: list[Fault] = []
    for (kind, value, lasts, after), place in ((first, at), (second, then)):
        found.append((kind, value, place, _EVER if lasts else place, after))
    return found


def judge(
    injector: Injector, reference: Reference, faults: Sequence[Fault], code: int
) -> list[str]:
    """Return what is wrong after a run under faults."""
    stderr = injector.stream("stderr").decode("utf-8", "replace")
    wrong = [
        f"{word!r} on stderr"
        for word in ("Traceback", "bug in graphshare", "Exception ignored")
        if word in stderr
    ]
    files = injector.files()
    left = [name for name in files if is_temporary(name)]
    signals = {value for kind, value, *_ in faults if kind == SIGNAL}
    killed = signal.SIGKILL in signals and code == -signal.SIGKILL
    if code == HANGING:
        wrong.append("hangs")
    elif code not in {reference.code, 2, *(_CODES[signal.Signals(number)] for number in signals)}:
        wrong.append(f"exit code {code}")
    if killed:
        return wrong + _judge_killed(injector, reference, files)
    if left:
        wrong.append(f"left {', '.join(left)}")
    is_old, is_new = files == reference.before, files == reference.after
    if not is_old and not is_new and not left:
        changed = [
            name
            for name in {*files, *reference.after}
            if files.get(name) != reference.after.get(name)
        ]
        wrong.append(f"neither old nor new: {', '.join(sorted(changed))} are not new")
    if code == reference.code:
        if not is_new:
            wrong.append(f"exit code {code}, and the files are not new")
        if injector.stream("stdout") != reference.stdout:
            wrong.append(f"exit code {code}, and stdout is not complete")
    elif is_new and not is_old and "written" not in stderr:
        wrong.append(f"exit code {code}, the files are new, and stderr does not say so")
    if "nothing was changed" in stderr and not is_old:
        wrong.append("claims that nothing was changed")
    return wrong


def _judge_killed(injector: Injector, reference: Reference, files: dict[str, bytes]) -> list[str]:
    """Check that a killed run has left whole files, and that the next run removes what lies beside them."""
    wrong = []
    for name in {*reference.before, *reference.after}:
        if files.get(name) not in (reference.before.get(name), reference.after.get(name)):
            wrong.append(f"killed: {name} is neither old nor new")
    names = [
        name for name in reference.after if reference.after[name] != reference.before.get(name)
    ]
    # A pool is as it was
    is_in_place = "--in-place" in reference.command and not reference.command.startswith("pool")
    if any(name in reference.before and (is_in_place or name in MODEL) for name in names):
        return wrong  # in place: the next run does not start from the same files
    code, _, _ = injector.run(reference.command)
    again = injector.files()
    if (
        code != reference.code
        or {n: d for n, d in again.items() if not is_temporary(n)} != reference.after
    ):
        # It fixes what is not fixed yet, and reports the rest
        if not reference.command.startswith("check"):
            wrong.append(f"killed: the next run ends with {code} and other files")
    elif any(map(is_temporary, again)) and not reference.command.startswith("check"):
        wrong.append(
            "killed: the next run leaves " + ", ".join(name for name in again if is_temporary(name))
        )
    return wrong


def attack(
    injector: Injector, reference: Reference, faults: Sequence[Fault], totals: Totals, keep: Path
) -> None:
    """Run a command under faults and add to the totals."""
    injector.reset()
    code, _, injected = injector.run(reference.command, faults)
    totals.executions += 1
    if not injected:
        return
    totals.faults += injected
    for kind, *_ in faults:
        name = {SHORT: "short writes", SIGNAL: "signals", NO_SPACE: "full disks"}.get(
            kind, "errors"
        )
        totals.counts[name] = totals.counts.get(name, 0) + 1
    wrong = judge(injector, reference, faults, code)
    if not wrong:
        totals.survivors += 1
        return
    case = {"command": reference.command, "faults": list(faults), "wrong": wrong}
    files = {"case.json": json.dumps(case, indent=2).encode(), "stderr": injector.stream("stderr")}
    files["run.txt"] = b"python -m tests.fuzz.faults case.json\n"
    path = make_reproduction(keep, f"{len(totals.failures):04d}", files)
    totals.failures.append(Failure(f"{reference.command}: {'; '.join(wrong)}", path))


def run(minutes: float, seed: int, keep: Path, commands: Sequence[str] = COMMANDS) -> Totals:
    """Attack every call of every command, in a drawn order, then pairs, until the time is over."""
    end, totals, rng = time.monotonic() + 60 * minutes, Totals(), random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        injector = Injector(Path(scratch).resolve())
        try:
            references = [injector.reference(command) for command in commands]
            singles = [
                (reference, faults)
                for reference in references
                for faults in single_faults(reference.calls)
            ]
            totals.counts |= {
                "commands": len(references),
                "calls": sum(of.calls for of in references),
                "ways": len(singles),
            }
            rng.shuffle(singles)
            while singles or time.monotonic() < end:
                reference, faults = singles.pop() if singles else (rng.choice(references), [])
                attack(injector, reference, faults or draw_pair(rng, reference.calls), totals, keep)
                if time.monotonic() >= end:
                    break
            totals.counts["ways left"] = len(singles)
        finally:
            injector.close()
    return totals


def replay(path: Path) -> list[str]:
    """Run a kept case again and return what is wrong."""
    case: dict[str, Any] = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        injector = Injector(Path(scratch).resolve())
        try:
            reference = injector.reference(case["command"])
            injector.reset()
            faults = [
                (kind, value, at, last, after) for kind, value, at, last, after in case["faults"]
            ]
            code, _, injected = injector.run(case["command"], faults)
            print(
                f"exit code {code}, {injected} injected\n{injector.stream('stderr').decode('utf-8', 'replace')}",
                end="",
            )
            print("\n".join(injector.files()))
            return judge(injector, reference, faults, code)
        finally:
            injector.close()


if __name__ == "__main__":
    print("\n".join(replay(Path(sys.argv[1]))) or "nothing is wrong")
