"""What older versions of MXNet have, asked of their own libraries: no old Python is needed.

    python -m benchmarks.old_versions record WHEELS
    python -m benchmarks.old_versions load WHEELS GRAPHS
    python -m benchmarks.old_versions numbers WHEELS [CORPUS]

WHEELS is a folder with the unpacked wheels of ``VERSIONS`` and of 1.9.1, a folder each by its
version (``pip download``, ``python -m zipfile -e``). ``record`` writes
``graphshare/rewrite/old_versions.json``. ``load`` brings the graphs of a folder down to each
version, and asks the library of that version whether it loads them; it prints what is refused, and
why. ``numbers`` compares what each library computes of graphs that go down, by its interface for
predictions, with what graphshare computes of the originals: graphs of the corpus or, without it,
the recorded cases of single operators.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

VERSIONS = ("0.9.5", "0.10.0", "0.12.1", "1.2.1", "1.4.1", "1.6.0")
TABLES = Path(__file__).parents[1] / "graphshare" / "rewrite" / "old_versions.json"
_LATEST = "1.9.1"
_SLOW, _LARGE, _LONGEST = 0.3, 3_000_000, 60
"""Seconds, and numbers in parameters, that graphs whose numbers are compared have at most; seconds for one of them."""
_TOLERANCE = 1e-4
_SAME = ("Reshape.target_shape",)  # (0,0) there and () here mean that it is not given
_UNLIKE = {"False": "0", "True": "1", "None": "()"}


def ask(wheels: Path, version: str, *words: str, text: str = "") -> str:
    """Return what this script prints in a process with the library of a version."""
    folder = next(
        path for path in wheels.iterdir() if path.name.startswith(version) and path.is_dir()
    )
    # Wheels of 0.12 lack libgfortran; that of 1.2 is the same one.
    libraries = ":".join(str(path / "mxnet") for path in (folder, *wheels.iterdir()))
    command = [sys.executable, __file__, *words, str(folder / "mxnet" / "libmxnet.so")]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    return subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, check=False
    ).stdout


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
        library.MXSymbolGetAtomicSymbolInfo(
            ctypes.c_void_p(creators[i]), *map(ctypes.byref, fields)
        )
        arguments[name.value.decode()] = [
            (names[k].decode(), types[k].decode()) for k in range(number.value)
        ]
    names = texts()
    library.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names))
    print(
        json.dumps(
            {"names": [names[i].decode() for i in range(count.value)], "arguments": arguments}
        )
    )


def load_graphs(path: str) -> None:
    """Print whether each symbol of standard input, a line each, loads: an empty line, or the fault;
    each in its own process.
    """
    library = ctypes.CDLL(path)
    library.MXGetLastError.restype = ctypes.c_char_p
    # The oldest operators are registered when all are listed first.
    library.MXSymbolListAtomicSymbolCreators(
        ctypes.byref(ctypes.c_uint()), ctypes.byref(ctypes.POINTER(ctypes.c_void_p)())
    )
    for line in sys.stdin:
        sys.stdout.flush()
        if os.fork() == 0:
            handle = ctypes.c_void_p()
            failed = library.MXSymbolCreateFromJSON(json.loads(line).encode(), ctypes.byref(handle))
            print(library.MXGetLastError().decode().splitlines()[0] if failed else "", flush=True)
            os._exit(0)
        if os.wait()[1]:
            print("the process ended", flush=True)


def predict(path: str) -> None:
    """Compute the graph in each folder of standard input, a line each, in a process of its own;
    print its fault, or nothing.
    """
    library = ctypes.CDLL(path)
    library.MXGetLastError.restype = ctypes.c_char_p
    library.MXSymbolListAtomicSymbolCreators(
        ctypes.byref(ctypes.c_uint()), ctypes.byref(ctypes.POINTER(ctypes.c_void_p)())
    )
    for line in sys.stdin:
        sys.stdout.flush()
        if os.fork() == 0:
            signal.alarm(_LONGEST)
            print(f"answer: {_predict(library, Path(line.strip()))}", flush=True)
            os._exit(0)
        if os.wait()[1]:
            print("answer: the process ended", flush=True)


def _predict(library: Any, folder: Path) -> str:
    """Write the outputs of the graph in a folder there; return a fault, or an empty text."""
    import numpy as np

    def call(function: str, *arguments: Any) -> None:
        if getattr(library, function)(*arguments):
            raise ValueError(library.MXGetLastError().decode().splitlines()[0])

    inputs = {
        name: np.ascontiguousarray(array, "float32")
        for name, array in np.load(folder / "inputs.npz").items()
    }
    ends = np.cumsum([0, *(array.ndim for array in inputs.values())]).tolist()
    sizes = [size for array in inputs.values() for size in array.shape]
    keys = (ctypes.c_char_p * len(inputs))(*(name.encode() for name in inputs))
    shapes = (ctypes.c_uint * len(ends))(*ends), (ctypes.c_uint * len(sizes))(*sizes)
    symbol, file = (folder / "old-symbol.json").read_bytes(), folder / "old-0000.params"
    params = file.read_bytes() if file.exists() else struct.pack("<4Q", 0x112, 0, 0, 0)
    handle, outputs = ctypes.c_void_p(), list[Any]()
    try:
        call(
            "MXPredCreate",
            symbol,
            params,
            len(params),
            1,
            0,
            len(inputs),
            keys,
            *shapes,
            ctypes.byref(handle),
        )
        for name, array in inputs.items():
            call(
                "MXPredSetInput",
                handle,
                name.encode(),
                array.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_uint(array.size),
            )
        call("MXPredForward", handle)
        for i in range(int((folder / "outputs").read_text())):
            shape, rank = ctypes.POINTER(ctypes.c_uint)(), ctypes.c_uint()
            call("MXPredGetOutputShape", handle, i, ctypes.byref(shape), ctypes.byref(rank))
            outputs.append(np.zeros(shape[: rank.value], "float32"))
            data = outputs[-1].ctypes.data_as(ctypes.c_void_p)
            call("MXPredGetOutput", handle, i, data, ctypes.c_uint(outputs[-1].size))
    except ValueError as fault:
        return str(fault)
    np.savez(folder / "outputs.npz", *outputs)
    return ""


class Records:
    """The operators of all versions, by the names that 1.9.1 gives them."""

    def __init__(self, wheels: Path) -> None:
        from graphshare.ops.index import ALIASES, FAMILY_OF
        from graphshare.ops.registry import lookup

        self.answers = [
            json.loads(ask(wheels, version, "list")) for version in (*VERSIONS, _LATEST)
        ]
        self.signatures = {name: lookup(name) for name in FAMILY_OF if lookup(name).registered}
        self.aliases = {
            name: [alias for alias, real in ALIASES.items() if real == name]
            for name in self.signatures
        }

    def name(self, operator: str, index: int) -> str | None:
        """Return what a version calls an operator; None where it has none that takes the same
        inputs in the same order.
        """
        names = set(self.answers[index]["names"])
        name = next((each for each in (operator, *self.aliases[operator]) if each in names), None)
        old, new = (self._inputs(operator, i) for i in (index, len(VERSIONS)))
        moved = (
            (not old and new)
            or (sorted(old) == sorted(new) and old != new)
            or operator.startswith("_scatter_set")
        )
        return (
            None
            if moved and operator.startswith(("_sample", "_contrib_count", "_scatter_set"))
            else name
        )

    def arguments(self, operator: str, index: int) -> dict[str, str]:
        """Return the types of all arguments."""
        known = self.answers[index]["arguments"]
        return dict(
            map(
                tuple,
                next((known[n] for n in (operator, *self.aliases[operator]) if n in known), []),
            )
        )

    def _inputs(self, operator: str, index: int) -> list[str]:
        return [name for name, kind in self.arguments(operator, index).items() if "Symbol" in kind]


def record(wheels: Path) -> dict[str, Any]:
    """Return the tables. What a version has, later ones have too; this is checked."""
    records, count = Records(wheels), len(VERSIONS)
    operators: list[list[str]] = [[] for _ in VERSIONS]
    attributes: list[list[str]] = [[] for _ in range(count + 1)]
    choices: list[list[str]] = [[] for _ in range(count + 1)]
    tables: dict[str, dict[str, Any]] = {
        "aliases": {},
        "explicit": {},
        "nonnegative": {},
        "not_none": {},
    }
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
                came = next(
                    (i for i, kind in kinds.items() if choice in _list_choices(kind)), count
                )
                if came > since:
                    choices[came].append(f"{key}={choice}")
            for i, kind in kinds.items():
                if (
                    parameter.default is not None
                    and key not in _SAME
                    and _find_default(kind) != _find_default(latest)
                ):
                    tables["explicit"][key] = i + 1
                if "non-negative" in kind and "non-negative" not in latest:
                    tables["nonnegative"][key] = i + 1
                if " or None" not in kind and "or None" in latest:
                    tables["not_none"][key] = i + 1
    lists = {"operators": operators, "attributes": attributes, "choices": choices}
    return {
        "versions": VERSIONS,
        **{name: [" ".join(each) for each in rows] for name, rows in lists.items()},
        **tables,
    }


def _list_choices(kind: str) -> list[str]:
    match = re.search(r"\{(.*?)\}", kind)
    return [each.strip().strip("'") for each in match[1].split(",")] if match else []


def _find_default(kind: str) -> object:
    """Return a default as it is read: its numbers, or its text."""
    match = re.search(r"default='?(.*?)'?$", kind)
    text = (
        match[1].replace("[", "(").replace("]", ")").replace(" ", "").replace(",)", ")")
        if match
        else None
    )
    try:
        return (
            [f"{float(each):.5g}" for each in _UNLIKE.get(text, text).strip("()").split(",")]
            if text
            else text
        )
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
                reasons.update(
                    {re.sub(r"'[^']*'", "...", fault.message): 1 for fault in error.faults}
                )
                print(f"{version} refused {path.name}: {error.faults[0].message}")
                continue
            texts[path.name] = b"".join(find_format(graph).encode(graph)).decode()
        answers = ask(
            wheels,
            version,
            "graphs",
            text="".join(json.dumps(text) + "\n" for text in texts.values()),
        ).splitlines()
        assert len(answers) == len(texts)
        for name, answer in zip(texts, answers, strict=True):
            if answer:
                print(f"{version} DOES NOT LOAD {name}: {answer}")
        print(
            f"{version}: {len(texts)} go down, {sum(not answer for answer in answers)} of them load"
        )


def list_graphs(corpus: Path) -> Iterator[tuple[str, Any, dict[str, Any], list[Any]]]:
    """Yield the graphs of float32 of the corpus that are computed fast, with drawn parameters,
    recorded inputs, and outputs.
    """
    import numpy as np

    import graphshare as gs

    for path in sorted((corpus / "oracle").glob("*.meta.json")):
        meta = json.loads(path.read_text())
        if not meta.get("forward") or not meta["deterministic"] or meta["forward_seconds"] > _SLOW:
            continue
        shapes = {**meta["arg_shapes"], **meta["aux_shapes"]}
        types = {*meta["out_dtypes"], *meta["arg_types"].values()}
        if types != {"float32"} or sum(map(math.prod, shapes.values())) > _LARGE:
            continue
        stream, arrays = np.random.default_rng(0), {}
        for name, shape in shapes.items():
            if name not in meta["input_names"]:
                array = stream.standard_normal(shape) / math.sqrt(max(math.prod(shape[1:]), 1))
                arrays[name] = (
                    np.abs(array) + 0.5 if name.endswith(("var", "gamma")) else array
                ).astype("float32")
        with np.load(corpus / "oracle" / f"{meta['stem']}.io.npz") as recorded:
            inputs = {
                name.removeprefix("in__"): recorded[name]
                for name in recorded
                if name.startswith("in__")
            }
        model = gs.load(str(corpus / meta["file"])).with_params(arrays)
        yield meta["stem"], model, inputs, list(gs.run(model, feeds=inputs).outputs.values())


def list_cases() -> Iterator[tuple[str, Any, dict[str, Any], list[Any]]]:
    """Yield graphs of one operator of float32, with their inputs and what MXNet 1.9.1 computed of them."""
    import graphshare as gs
    from tests.kernels.recordings import FAMILIES, cases_of, recorded_inputs, recorded_outputs
    from tests.symbols import document, operator, variable

    with tempfile.TemporaryDirectory() as folder:
        for family, number in ((name, i) for name in FAMILIES for i in range(len(cases_of(name)))):
            arrays, wanted = recorded_inputs(family, number), recorded_outputs(family, number)
            if not (arrays and wanted) or any(
                str(a.dtype) != "float32" or not a.ndim or not a.size for a in arrays + wanted
            ):
                continue
            case, names = cases_of(family)[number], [f"i{i}" for i in range(len(arrays))]
            attrs = {key: str(value) for key, value in case.get("attrs", {}).items()}
            nodes = [
                *map(variable, names),
                operator(case["op"], "y", list(range(len(names))), attrs=attrs),
            ]
            heads = [[len(names), i, 0] for i in range(len(wanted))]
            path = Path(folder) / f"{family}-{number}-symbol.json"
            path.write_text(json.dumps(document(nodes, heads)))
            yield (
                f"{case['op']} {attrs}",
                gs.load(str(path)),
                dict(zip(names, arrays, strict=True)),
                wanted,
            )


def compare_numbers(
    wheels: Path, computations: Sequence[tuple[str, Any, dict[str, Any], list[Any]]]
) -> None:
    """Print, for each version, of how many graphs its library computes the outputs that are wanted, and the others."""
    import numpy as np

    import graphshare as gs
    from graphshare.errors import GraphshareError

    for version in VERSIONS:
        results: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as root:
            asked: dict[Path, tuple[str, list[Any]]] = {}
            for name, model, inputs, wanted in computations:
                folder = Path(root) / str(len(asked))
                try:
                    old = gs.downgrade(model, version)
                except GraphshareError:
                    results["refused"] += 1
                    continue
                folder.mkdir()
                gs.save(old, folder / "old")
                np.savez(folder / "inputs.npz", **inputs)
                (folder / "outputs").write_text(str(len(wanted)))
                asked[folder] = f"{name}, notes {old.notes}", wanted
            lines = ask(
                wheels, version, "predict", text="".join(f"{folder}\n" for folder in asked)
            ).splitlines()
            answers = [
                line.removeprefix("answer: ") for line in lines if line.startswith("answer: ")
            ]
            for (folder, (name, wanted)), fault in zip(asked.items(), answers, strict=True):
                got = [] if fault else [*np.load(folder / "outputs.npz").values()]
                result = (
                    "failed"
                    if fault
                    else "equal"
                    if all(map(_is_near, got, wanted))
                    else "different"
                )
                results[result] += 1
                if result != "equal":
                    print(f"{version} {result}: {name} {fault}")
        print(f"{version}: {dict(results)}", flush=True)


def _is_near(got: Any, wanted: Any) -> bool:
    """Whether numbers are within 1e-4 of the largest finite one; NaN is any number, as older versions lose it."""
    import numpy as np

    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=1)
    return got.shape == wanted.shape and bool(
        np.all(np.isclose(got, wanted, 0, _TOLERANCE * largest) | np.isnan(wanted))
    )


def main(words: list[str]) -> None:
    """Do what the first word says."""
    if words[0] == "list":
        list_operators(words[1])
    elif words[0] == "predict":
        predict(words[1])
    elif words[0] == "numbers":
        compare_numbers(
            Path(words[1]), list(list_graphs(Path(words[2])) if words[2:] else list_cases())
        )
    elif words[0] == "graphs":
        load_graphs(words[1])
    elif words[0] == "record":
        TABLES.write_text(json.dumps(record(Path(words[1]))) + "\n")
    else:
        load(Path(words[1]), Path(words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
