"""Checkpoint folders with changed indexes, configurations and headers: an answer or a refusal, and
no byte from elsewhere.

Each case is a folder beside files that it may name and must not get: their content never leaves
them, and never changes. Where ``params tie`` or ``untie`` writes a folder, plain code reads each
tensor of the result, and compares it with the source.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.fuzz.collect import Collector
from tests.fuzz.sandbox import run_cases
from tests.fuzz.totals import Totals
from tests.processes import in_process
from tests.shard_folders import INDEX, encode_shard, make_values

SECRET = b"a secret of another folder"
_FILES = ("model-1.safetensors", "model-2.safetensors")
_NAMES = (
    "lm_head.weight",
    "model.embed_tokens.weight",
    "a.weight",
    "b.weight",
    "__metadata__",
    "",
    "\0",
    "x" * 300,
    "\ud800",
)
_PLACES = (
    *_FILES, "../outside.safetensors", "/etc/passwd", "..", ".", "", "link.safetensors", "folder", "pipe", "config.json",
    "model-3.safetensors", INDEX, "C:model-1.safetensors", "a\0b", "https://example.org/x", "-", "~", "model-1.safetensors/",
)  # fmt: skip
_NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64, 1e300, 0.5, 320, 319, 80)
_VALUES = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    "F32",
    "BF16",
    "F8_E4M3",
    "",
    "U8",
    *_NUMBERS,
    *_NAMES[:3],
)
_COMMANDS = (
    "check in --isolated",
    "inspect in",
    "inspect in --format json",
    "inspect . --format json",
    "params list in",
    "params show in",
    "params stats in",
    "params diff in in",
    "params convert in out.npz",
    "params tie in -o out",
    "params untie in -o out",
    "params tie in --in-place",
    "params untie in --in-place",
    "params tie in --dry-run --format json",
    "params rename in --prefix n_ -o out.safetensors",
)


class Cases:
    """The cases of a seed, by number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def make(self, number: int) -> tuple[dict[str, bytes], list[str]]:
        """Return the files of the folder and the command of a case."""
        rng = random.Random(f"{self._seed} {number}")
        twice = rng.random() < 0.6
        shards = [
            ["model.embed_tokens.weight", "a.weight"],
            ["b.weight", *(["lm_head.weight"] if twice else [])],
        ]
        files = {name: encode_shard(tensors) for name, tensors in zip(_FILES, shards, strict=True)}
        index: Any = {"metadata": {"total_size": 1280}}
        index["weight_map"] = {
            name: file for file, names in zip(_FILES, shards, strict=True) for name in names
        }
        config: Any = {
            "architectures": ["LlamaForCausalLM"],
            "tie_word_embeddings": rng.random() < 0.5,
            "text_config": {},
        }
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            which = rng.random()
            if which < 0.4:
                _change(rng, index)
            elif which < 0.6:
                _change(rng, config)
            else:
                name = rng.choice(_FILES)
                files[name] = _change_header(rng, files[name])
        files[INDEX], files["config.json"] = _encode(rng, index), _encode(rng, config)
        if rng.random() < 0.15:
            name = rng.choice(list(files))
            files[name] = _change_bytes(rng, files[name])
        if rng.random() < 0.1:
            del files[rng.choice(list(files))]
        return files, rng.choice(_COMMANDS).split()

    def run(self, number: int) -> tuple[str, str]:
        """Run a case; raises AssertionError for a fault."""
        files, command = self.make(number)
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch).resolve()
            folder = root / "in"
            (folder / "folder").mkdir(parents=True)
            outside = encode_shard({"b.weight": (SECRET * 13)[:320]})
            (root / "outside.safetensors").write_bytes(outside)
            (folder / "link.safetensors").symlink_to("../outside.safetensors")
            os.mkfifo(folder / "pipe")
            for name, data in files.items():
                (folder / name).write_bytes(data)
            before = read_tensors(folder)
            run = in_process(*command, cwd=root)
            text = (run.stdout + run.stderr).decode("utf-8", "replace")
            assert "bug in graphshare" not in text, f"bug {text}"
            assert "Traceback" not in text, f"traceback {text}"
            assert run.returncode in (0, 1, 2), f"exit {run.returncode}"
            assert (root / "outside.safetensors").read_bytes() == outside, "outside changed"
            for path in root.rglob("*"):
                if path.is_file() and not path.is_symlink() and path.name != "outside.safetensors":
                    assert SECRET not in path.read_bytes(), f"secret in {path.name}"
            assert not list(root.rglob(".graphshare-*")), "left temporary files"
            if (
                run.returncode == 0
                and command[1] in ("tie", "untie")
                and "--dry-run" not in command
            ):
                after = read_tensors(folder if "--in-place" in command else root / "out")
                lost = {name for name, content in before.items() if name not in after}
                assert len(lost) <= 1, f"lost {lost}"
                assert all(before[name] in after.values() for name in lost), (
                    f"lost the bytes of {lost}"
                )
                assert all(after[name] == before[name] for name in before if name in after), (
                    "changed bytes"
                )
            elif run.returncode and command[1] != "convert":
                left = {
                    path.name: path.read_bytes() for path in folder.iterdir() if path.name in files
                }
                assert left == files, "changed after a refusal"
        return ("done" if run.returncode < 2 else "refused"), ""


def read_tensors(folder: Path) -> dict[str, bytes]:
    """Read the tensors that the index of a folder names, with plain code; those that cannot be read are left out."""
    try:
        weight_map = json.loads((folder / INDEX).read_bytes())["weight_map"]
        pairs = [(str(name), str(file)) for name, file in weight_map.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pairs = [
            (name, file)
            for file in _FILES
            for name in ("lm_head.weight", "model.embed_tokens.weight", "a.weight", "b.weight")
        ]
    tensors: dict[str, bytes] = {}
    for name, file in pairs:
        try:
            data = (folder / file).read_bytes() if file in _FILES else b""
            end = 8 + int.from_bytes(data[:8], "little")
            begin, stop = json.loads(data[8:end])[name]["data_offsets"]
            tensors[name] = data[end + begin : end + stop]
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            RecursionError,
        ):
            continue
    return tensors


def _draw(rng: random.Random) -> Any:
    """Draw a value; a copy, which a later change cannot put into other cases, or into itself."""
    return deepcopy(rng.choice(_VALUES))


def _change(rng: random.Random, value: Any) -> None:
    """Change one place of a JSON object."""
    while True:
        key = rng.choice(list(value)) if value else ""
        if isinstance(value.get(key), dict) and rng.random() < 0.8:
            value = value[key]
            continue
        break
    way = rng.random()
    if way < 0.2:
        value.pop(key, None)
    elif way < 0.5:
        value[rng.choice((key, *_NAMES))] = rng.choice(_PLACES)
    elif way < 0.7:
        value[
            rng.choice((key, "text_config", "tie_word_embeddings", "weight_map", "architectures"))
        ] = _draw(rng)
    else:
        value[key] = _draw(rng)


def _change_header(rng: random.Random, data: bytes) -> bytes:
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:end])
    except ValueError:  # an earlier change left no header
        return data
    name = rng.choice(list(header))
    entry = header[name]
    way = rng.random()
    if way < 0.2:
        header[rng.choice(_NAMES)] = header.pop(name)
    elif way < 0.5 and isinstance(entry, dict) and entry:
        key = rng.choice(list(entry))
        entry[key] = (
            _draw(rng)
            if rng.random() < 0.5
            else [rng.choice(_NUMBERS) for _ in range(rng.choice((1, 2, 2, 300)))]
        )
    elif way < 0.7:
        header[rng.choice(_NAMES)] = {
            "dtype": rng.choice(("F32", "")),
            "shape": [20, 4],
            "data_offsets": [0, 320],
        }
    elif way < 0.8:
        header["__metadata__"] = rng.choice(
            ({"lm_head.weight": "model.embed_tokens.weight"}, {"a": "a"}, {"a": 5}, 7)
        )
    else:
        header[name] = _draw(rng)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = rng.choice((len(text), len(text), len(text), 0, len(text) - 1, 2**40, 2**63))
    return (
        length.to_bytes(8, "little")
        + text
        + data[end:]
        + rng.choice((b"", b"", b"", b"more", make_values("x", 1)))
    )


def _change_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 9))):
        at = rng.randrange(len(changed) + 1)
        way = rng.random()
        if way < 0.4 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif way < 0.7:
            del changed[at:]
        else:
            changed[at:at] = rng.choice(
                (b"[" * 5000, b'{"a":' * 2000, b"\0", b"\xff", b'"', b"NaN", b"9" * 5000)
            )
    return bytes(changed)


def _encode(rng: random.Random, value: Any) -> bytes:
    return json.dumps(value, indent=rng.choice((None, 2)), ensure_ascii=rng.random() < 0.9).encode(
        "utf-8", "surrogatepass"
    )


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the cases of a seed until the time is over."""
    cases, collector = Cases(seed), Collector(keep)
    for outcome in run_cases(cases.run, minutes):
        if outcome.status == "failed":
            files, command = cases.make(outcome.number)
            collector.fail(
                outcome.sort,
                f"case {outcome.number}: {outcome.what}",
                ["graphshare", *command],
                files,
            )
        else:
            collector.count(1, outcome.status == "done")
    return collector.totals
