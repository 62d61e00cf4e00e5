"""What older versions of MXNet have, asked of their own libraries: no old Python is needed.

    python -m benchmarks.old_versions record WHEELS
    python -m benchmarks.old_versions load WHEELS CORPUS

WHEELS is a folder with the unpacked wheels of ``VERSIONS`` and of 1.9.1, a folder each by its version (``pip download``,
``python -m zipfile -e``). ``record`` writes ``graphshare/rewrite/old_versions.json``. ``load`` brings the graphs of a folder
down to each version, and asks the library of that version whether it loads them; it prints what is refused, and why.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

VERSIONS = ("0.9.5", "0.10.0", "0.12.1", "1.2.1", "1.4.1", "1.6.0")
TABLES = Path(__file__).parents[1] / "graphshare" / "rewrite" / "old_versions.json"
_LATEST = "1.9.1"
_SAME = ("Reshape.target_shape",)  # (0,0) there and () here mean that it is not given
_UNLIKE = {"False": "0", "True": "1", "None": "()"}


def ask(wheels: Path, version: str, *words: str, text: str = "") -> str:
    """Return what this script prints in a process with the library of a version."""
    folder = next(path for path in wheels.iterdir() if path.name.startswith(version) and path.is_dir())
    # Wheels of 0.12 lack libgfortran; that of 1.2 is the same one.
    libraries = ":".join(str(path / "mxnet") for path in (folder, *wheels.iterdir()))
    command = [sys.executable, __file__, *words, str(folder / "mxnet" / "libmxnet.so")]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False).stdout


def list_operators(path: str) -> None:
    """Print all names of operators, and the arguments of each with their types."""
    library, count = ctypes.CDLL(path), ctypes.c_uint()
    creators = ctypes.POINTER(ctypes.c_void_p)()
    library.MXSymbolListAtomicSymbolCreators(ctypes.byref(count), ctypes.byref(creators))
    texts = ctypes.POINTER(ctypes.c_char_p)
    arguments: dict[str, list[tuple[str, str]]] = {}
    for i in range(count.value):
        name, text, key, result, number = (*(ctypes.c_char_p() for _ in range(4)), ctypes.c_uint())
        names, types, described = texts(), texts(), texts()
        fields = (name, text, number, names, types, described, key, result)
        library.MXSymbolGetAtomicSymbolInfo(ctypes.c_void_p(creators[i]), *map(ctypes.byref, fields))
        arguments[name.value.decode()] = [(names[k].decode(), types[k].decode()) for k in range(number.value)]
    names = texts()
    library.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names))
    print(json.dumps({"names": [names[i].decode() for i in range(count.value)], "arguments": arguments}))


def load_graphs(path: str) -> None:
    """Print whether each symbol of standard input, a line each, loads: an empty line, or the fault; each in its own process."""
    library = ctypes.CDLL(path)
    library.MXGetLastError.restype = ctypes.c_char_p
    # The oldest operators are registered when all are listed first.
    library.MXSymbolListAtomicSymbolCreators(ctypes.byref(ctypes.c_uint()), ctypes.byref(ctypes.POINTER(ctypes.c_void_p)()))
    for line in sys.stdin:
        sys.stdout.flush()
        if os.fork() == 0:
            handle = ctypes.c_void_p()
            failed = library.MXSymbolCreateFromJSON(json.loads(line).encode(), ctypes.byref(handle))
            print(library.MXGetLastError().decode().splitlines()[0] if failed else "", flush=True)
            os._exit(0)
        if os.wait()[1]:
            print("the process ended", flush=True)


class Records:
    """The operators of all versions, by the names that 1.9.1 gives them."""

    def __init__(self, wheels: Path) -> None:
        from graphshare.ops.index import ALIASES, FAMILY_OF
        from graphshare.ops.registry import lookup

        self.answers = [json.loads(ask(wheels, version, "list")) for version in (*VERSIONS, _LATEST)]
        self.signatures = {name: lookup(name) for name in FAMILY_OF if lookup(name).registered}
        self.aliases = {name: [alias for alias, real in ALIASES.items() if real == name] for name in self.signatures}

    def name(self, operator: str, index: int) -> str | None:
        """Return what a version calls an operator; None where it has none that takes the same inputs in the same order."""
        names = set(self.answers[index]["names"])
        name = next((each for each in (operator, *self.aliases[operator]) if each in names), None)
        old, new = (self._inputs(operator, i) for i in (index, len(VERSIONS)))
        moved = (not old and new) or (sorted(old) == sorted(new) and old != new) or operator.startswith("_scatter_set")
        return None if moved and operator.startswith(("_sample", "_contrib_count", "_scatter_set")) else name

    def arguments(self, operator: str, index: int) -> dict[str, str]:
        """Return the types of all arguments."""
        known = self.answers[index]["arguments"]
        return dict(map(tuple, next((known[n] for n in (operator, *self.aliases[operator]) if n in known), [])))

    def _inputs(self, operator: str, index: int) -> list[str]:
        return [name for name, kind in self.arguments(operator, index).items() if "Symbol" in kind]


def record(wheels: Path) -> dict[str, Any]:
    """Return the tables. What a version has, later ones have too; this is checked."""
    records, count = Records(wheels), len(VERSIONS)
    operators: list[list[str]] = [[] for _ in VERSIONS]
    attributes: list[list[str]] = [[] for _ in range(count + 1)]
    choices: list[list[str]] = [[] for _ in range(count + 1)]
    tables: dict[str, dict[str, Any]] = {"aliases": {}, "explicit": {}, "nonnegative": {}, "not_none": {}}
    for operator, signature in records.signatures.items():
        names = [records.name(operator, i) for i in range(count)]
        first = next((i for i, name in enumerate(names) if name), None)
        if first is None:
            continue
        assert all(names[first:]), operator
        operators[first].append(operator)
        for i in range(first, count):
            if names[i] != operator:
                tables["aliases"][operator] = [i + 1, names[i]]
        new = records.arguments(operator, count)
        for parameter in signature.parameters or ():
            key, kinds = f"{operator}.{parameter.name}", {}
            for i in range(first, count):
                if parameter.name in (old := records.arguments(operator, i)):
                    kinds[i] = old[parameter.name]
            since = min(kinds, default=count)
            if since > first:
                attributes[since].append(key)
            latest = new.get(parameter.name, "")
            for choice in _list_choices(latest):
                came = next((i for i, kind in kinds.items() if choice in _list_choices(kind)), count)
                if came > since:
                    choices[came].append(f"{key}={choice}")
            for i, kind in kinds.items():
                if parameter.default is not None and key not in _SAME and _find_default(kind) != _find_default(latest):
                    tables["explicit"][key] = i + 1
                if "non-negative" in kind and "non-negative" not in latest:
                    tables["nonnegative"][key] = i + 1
                if " or None" not in kind and "or None" in latest:
                    tables["not_none"][key] = i + 1
    lists = {"operators": operators, "attributes": attributes, "choices": choices}
    return {"versions": VERSIONS, **{name: [" ".join(each) for each in rows] for name, rows in lists.items()}, **tables}


def _list_choices(kind: str) -> list[str]:
    match = re.search(r"\{(.*?)\}", kind)
    return [each.strip().strip("'") for each in match[1].split(",")] if match else []


def _find_default(kind: str) -> object:
    """Return a default as it is read: its numbers, or its text."""
    match = re.search(r"default='?(.*?)'?$", kind)
    text = match[1].replace("[", "(").replace("]", ")").replace(" ", "").replace(",)", ")") if match else None
    try:
        return [f"{float(each):.5g}" for each in _UNLIKE.get(text, text).strip("()").split(",")] if text else text
    except ValueError:
        return _UNLIKE.get(text or "", text)


def load(wheels: Path, corpus: Path) -> None:
    """Print, for each version, how many graphs of a folder go down and load, and why others are refused."""
    import graphshare as gs
    from graphshare.errors import GraphshareError
    from graphshare.formats.model_format import find_format

    for version in VERSIONS:
        texts, reasons = {}, Counter()
        for path in sorted(corpus.glob("*.json")):
            try:
                graph = gs.downgrade(str(path), version).graph
            except GraphshareError as error:
                reasons.update({re.sub(r"'[^']*'", "...", fault.message): 1 for fault in error.faults})
                print(f"{version} refused {path.name}: {error.faults[0].message}")
                continue
            texts[path.name] = b"".join(find_format(graph).encode(graph)).decode()
        answers = ask(wheels, version, "graphs", text="".join(json.dumps(text) + "\n" for text in texts.values())).splitlines()
        assert len(answers) == len(texts)
        for name, answer in zip(texts, answers, strict=True):
            if answer:
                print(f"{version} DOES NOT LOAD {name}: {answer}")
        print(f"{version}: {len(texts)} go down, {sum(not answer for answer in answers)} of them load")


def main(words: list[str]) -> None:
    """Do what the first word says."""
    if words[0] == "list":
        list_operators(words[1])
    elif words[0] == "graphs":
        load_graphs(words[1])
    elif words[0] == "record":
        TABLES.write_text(json.dumps(record(Path(words[1]))) + "\n")
    else:
        load(Path(words[1]), Path(words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
