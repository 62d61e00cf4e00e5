"""Every ``_np*`` operator with empty inputs and inputs without axes, under NumPy shapes and
without, as MXNet 1.9.1 answers.

    GRAPHSHARE_ORACLE=ORACLE_PYTHON python -m tests.kernels.numpy_sizes

asks MXNet and keeps what it said, refusals included, in ``numpy_sizes.json.gz``. The probes are the
recorded cases of each operator, or of the operator that it is another name of, with other sizes.
Operators without a kernel are left out.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.ops.registry import canonical, find_kernel, list_known_names
from tests.oracle.probed import asked
from tests.oracle.probing import Probe, recorded_cases

HERE = Path(__file__).parent
RECORD = HERE / "numpy_sizes.json.gz"
CASES_EACH = 2
MOST_ELEMENTS = 200
"""Of all inputs of a case together, where an operator has such a case."""

WITHOUT_CASES: dict[str, Probe] = {
    "_npi_boolean_mask": (
        {"attrs": {}},
        [np.arange(12, dtype="float32").reshape(4, 3), np.array([1, 0, 1, 1], "float32")],
    ),
    "_npi_copyto": ({"attrs": {}}, [np.arange(6, dtype="float32").reshape(2, 3)]),
    "_npi_random_randint": ({"attrs": {"low": "0", "high": "5", "shape": "(2,)"}}, []),
    "_npi_shuffle": ({"attrs": {}}, [np.arange(6, dtype="float32").reshape(3, 2)]),
}
"""A case of each operator that is recorded nowhere else, because it draws or copies."""


NOTHING = {
    "_npi_arange": {"start": "0", "stop": "0"},
    "_npi_blackman": {"M": "0"},
    "_npi_eye": {"N": "0"},
    "_npi_hamming": {"M": "0"},
    "_npi_hanning": {"M": "0"},
    "_npi_indices": {"dimensions": "(0, 3)"},
    "_npi_linspace": {"num": "0"},
    "_npi_logspace": {"num": "0"},
}
"""Attributes that make an operator without inputs and ``shape`` create an array without elements."""


def operators() -> list[str]:
    """The names that begin with ``_np`` and have a kernel."""
    return sorted(
        name
        for name in list_known_names()
        if name.startswith("_np") and find_kernel(name) is not None
    )


def probes() -> Iterator[Probe]:
    """Each operator with other sizes of its inputs, or of its attribute ``shape``, in both modes."""
    known = recorded_cases()
    by_name: dict[str, list[Probe]] = {}
    for op, cases in known.items():
        by_name.setdefault(canonical(op), []).extend(cases)
    for op in operators():
        cases = known.get(op) or by_name.get(canonical(op)) or [WITHOUT_CASES[op]]
        cases = [case for case in cases if sum(x.size for x in case[1]) <= MOST_ELEMENTS] or cases
        cases = [case for case in cases if all(x.dtype != np.float16 for x in case[1])] or cases
        for case, inputs in cases[:CASES_EACH]:
            smaller = list(variants(case["attrs"], inputs))
            smaller += [("nothing", {**case["attrs"], **NOTHING[op]}, [])] if op in NOTHING else []
            for what, attrs, arrays in smaller:
                for np_shape in (True, False):
                    made = {
                        "op": op,
                        "attrs": attrs,
                        "what": what,
                        "np_shape": np_shape,
                        "count": len(arrays),
                    }
                    yield made | {"backward": False, "family": case.get("family", "")}, arrays


def variants(
    attrs: dict[str, str], inputs: list[Any]
) -> Iterator[tuple[str, dict[str, str], list[Any]]]:
    """A name, the attributes and the inputs of each way to make a case smaller."""
    if "shape" in attrs:
        for shape in ("(0, 3)", "(2, 0)", "()", "(0,)"):
            yield f"shape {shape}", {**attrs, "shape": shape}, inputs
    if not inputs:
        return
    first, last = inputs[0], inputs[-1]
    if all(x.ndim for x in inputs):
        yield "first axis 0", attrs, [emptied(x, 0) for x in inputs]
        if any(x.ndim > 1 for x in inputs):
            yield "last axis 0", attrs, [emptied(x, -1) for x in inputs]
    if len(inputs) > 1 and first.ndim:
        yield "first input empty", attrs, [emptied(first, 0), *inputs[1:]]
    yield "no axes", attrs, [without_axes(x) for x in inputs]
    if len(inputs) > 1:
        yield "first without axes", attrs, [without_axes(first), *inputs[1:]]
        yield "last without axes", attrs, [*inputs[:-1], without_axes(last)]


def emptied(x: Any, axis: int) -> Any:
    shape = list(x.shape)
    shape[axis] = 0
    return np.zeros(shape, x.dtype)


def without_axes(x: Any) -> Any:
    return x.ravel()[:1].reshape(()) if x.size else np.zeros((), x.dtype)


def recorded() -> dict[str, Any]:
    """What the file holds: ``provenance``, and ``probes``, each with its ``inputs`` and MXNet's ``answer``."""
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        kept: dict[str, Any] = json.load(file)
    for probe in kept["probes"]:
        probe["inputs"] = [unpacked(told) for told in probe["inputs"]]
        if isinstance(probe["answer"], list):
            probe["answer"] = [
                (told[0], tuple(told[1]), base64.b64decode(told[2])) for told in probe["answer"]
            ]
    return kept


def unpacked(told: list[Any]) -> Any:
    return np.frombuffer(base64.b64decode(told[2]), told[0]).reshape(told[1])


def packed(dtype: str, shape: tuple[int, ...], data: bytes) -> list[Any]:
    return [dtype, list(shape), base64.b64encode(data).decode()]


def record(oracle: str) -> None:
    """Ask MXNet for all probes and write the file."""
    made = list(probes())
    with tempfile.TemporaryDirectory() as folder:
        answers = [answer["forward"] for answer in asked(oracle, made, Path(folder))]
    command = "import json, mxnet; from tests.provenance import provenance; print(json.dumps(provenance()))"
    found = subprocess.run(
        [oracle, "-c", command], cwd=HERE.parents[1], check=True, capture_output=True, text=True
    )
    kept = [
        {
            **case,
            "inputs": [packed(str(x.dtype), x.shape, x.tobytes()) for x in inputs],
            "answer": [packed(*told) for told in answer]
            if isinstance(answer, list)
            else shortened(answer),
        }
        for (case, inputs), answer in zip(made, answers, strict=True)
    ]
    text = json.dumps({"provenance": json.loads(found.stdout), "probes": kept})
    RECORD.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(kept), "probes")


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """A refusal as MXNet's last line says it."""
    return (
        {"error": answer["error"].strip().splitlines()[-1][-200:]} if "error" in answer else answer
    )


if __name__ == "__main__":
    record(os.environ["GRAPHSHARE_ORACLE"])
