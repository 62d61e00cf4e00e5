"""The operator tables against MXNet 1.9.1 itself: names, parameters, inputs, outputs, accepted spellings."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphshare.operators import ALIASES, FOREIGN, REGISTERED, Parameter, Signature, lookup

PYTHON = os.environ.get("GRAPHSHARE_ORACLE", "")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not PYTHON, reason="GRAPHSHARE_ORACLE does not name a Python with MXNet 1.9.1"),
]
PROCESS = Path(__file__).with_name("signature_process.py")

# Operators that no file can hold: their parameters are pointers of a running process.
ONLY_IN_A_PROCESS = {"_CachedOp", "_CachedOpThreadSafe", "_CustomFunction", "_NDArray", "_Native"}
# Custom needs a Python class registered under its op_type.
NEEDS_CODE = {"Custom"}
# Asking for the input names of these reads a structure of another type, an error in 1.9.1.
INPUT_NAMES_FAIL = {"multi_sgd_mom_update", "preloaded_multi_sgd_mom_update"}


def ask(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer for each question; ``{"crash": True}`` for one that ended the process."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(questions):
        rest = json.dumps(questions[len(answers) :])
        done = subprocess.run([PYTHON, str(PROCESS)], input=rest, capture_output=True, text=True, timeout=300, check=False)
        answers.extend(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
        if len(answers) < len(questions):
            assert done.returncode != 1, done.stderr[-2000:]
            answers.append({"crash": True})
    return answers


SAMPLES = {
    "bool": "True",
    "int": "1",
    "uint": "1",
    "int64": "1",
    "uint64": "1",
    "float": "0.5",
    "double": "0.5",
    "shape": "(2, 2)",
    "slice": "(0, 1)",
    "tuple64": "(0, 1)",
    "tuple_uint": "(0, 1)",
    "floats": "(0.5, 0.5)",
    "doubles": "(0.5, 0.5)",
    "shapes": "((0, 0), (1, 1))",
    "string": "x",
    "char": "U",
    "ptr": "x",
}
COUNTS = {"num_args": "4", "num_outputs": "2", "num_arrays": "2", "num_weights": "2", "num_tensors": "2"}


def sample(parameter: Parameter) -> str:
    """A text that the parameter takes."""
    if parameter.choices:
        return parameter.choices[0]
    return COUNTS.get(parameter.name) or SAMPLES[parameter.kind.removesuffix("?")]


def base(signature: Signature) -> dict[str, str]:
    """The attributes that the operator cannot do without."""
    attrs = {p.name: sample(p) for p in signature.parameters or () if p.required or p.name in ("num_weights", "num_tensors")}
    if signature.name.endswith(("Pooling", "Pooling_v1", "pooling")) and signature.parameter("global_pool"):
        attrs["kernel"] = "(2, 2)"
    if signature.name == "_contrib_quantized_rnn":
        attrs["mode"] = "lstm"
    return attrs


def variations(parameter: Parameter) -> Iterator[str]:
    """Other texts worth a try, accepted or not."""
    yield from parameter.choices
    kind = parameter.kind
    if kind.endswith("?"):
        yield "None"
    if kind.startswith("bool"):
        yield from ("True", "False")
    elif kind.removesuffix("?") in ("int", "int64", "uint", "uint64"):
        yield from ("0", "1", "3")
        if parameter.name not in (*COUNTS, "sections"):  # MXNet takes a negative count for a huge one
            yield from ("-1", "1000")
    elif kind.removesuffix("?") in ("float", "double"):
        yield from ("0", "-1", "1.5")
    elif kind.startswith(("shape", "slice", "tuple")) and kind != "shapes":
        yield from ("()", "(1,)", "(1, 1, 1)", "(1, 1, 1, 1)", "(0, 0)", "(-1, 2)")
        if parameter.name != "indices":  # nor can it split at None
            yield "None"


PRODUCTS = {
    "RNN": {"mode": ("lstm", "gru"), "state_outputs": ("True", "False"), "use_sequence_length": ("True", "False")},
    "_sg_mkldnn_selfatt_qk": {"quantized": ("True", "False"), "enable_float_output": ("True", "False")},
    "_npi_normal": {"loc": ("None", "1"), "scale": ("None", "1")},
    "Pooling": {
        "kernel": ("()", "(2,)", "(2, 2)", "(2, 2, 2)"),
        "layout": ("None", "NCW", "NHWC", "NCHW", "NCDHW"),
        "pool_type": ("max", "avg"),
        "global_pool": ("True", "False"),
    },
    "Convolution": {"kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)", "(1, 1, 1, 1)"), "stride": ("(1,)", "(1, 1)", "()")},
    "Convolution_v1": {"kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)"), "stride": ("(1,)", "(1, 1)", "()")},
    "Deconvolution": {"kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)"), "target_shape": ("(1,)", "(1, 1)", "()")},
    "_contrib_DeformableConvolution": {"kernel": ("(2,)", "(2, 2)", "()"), "stride": ("(1,)", "(1, 1)", "()")},
    "im2col": {"kernel": ("(2,)", "(2, 2)", "()"), "stride": ("(1,)", "(1, 1)", "()")},
    "_split_v2": {"sections": ("0", "1", "3"), "indices": ("()", "(0,)", "(0, 2)", "(0, 2, 3)")},
}


def cases() -> list[tuple[Signature, dict[str, str]]]:
    """Every operator as it is, with one attribute varied, and with several where they act together."""
    found = []
    for name, signature in REGISTERED.items():
        if name in ONLY_IN_A_PROCESS | NEEDS_CODE or name.startswith("_sg_mkldnn_") and "selfatt" not in name:
            continue
        start = base(signature)
        found.append((signature, start))
        for parameter in signature.parameters or ():
            found.extend((signature, {**start, parameter.name: text}) for text in dict.fromkeys(variations(parameter)))
        product = PRODUCTS.get(name, {})
        found.extend(
            (signature, {**start, **dict(zip(product, texts, strict=True))})
            for texts in itertools.product(*product.values())
            if product
        )
    return found


def test_names_and_aliases() -> None:
    """Forward operators are those whose name does not speak of ``backward``."""
    names = ask([{"registry": True}])[0]
    canonical = {real for real in names.values() if "backward" not in real}
    assert canonical == set(REGISTERED)
    assert {name: real for name, real in names.items() if name != real} == dict(ALIASES)
    assert not set(FOREIGN) & set(names)


def test_inputs_outputs_and_faults() -> None:
    """Load every case; compare acceptance, totals, visible outputs, labels and auxiliary slots."""
    tried = cases()
    counts = [len(signature.formal_inputs(attrs)) for signature, attrs in tried]
    answers = ask(
        [
            {"op": signature.name, "attrs": attrs, "inputs": count, "version": 10901}
            for (signature, attrs), count in zip(tried, counts, strict=True)
        ]
    )
    wrong = []
    for (signature, attrs), count, real in zip(tried, counts, answers, strict=True):
        ours = _ours(signature, attrs, count)
        theirs = _theirs(signature, real)
        if ours != theirs:
            wrong.append(f"{signature.name} {attrs}\n   ours   {ours}\n   MXNet  {theirs} {real.get('error', '')[:200]}")
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong[:400])


def _ours(signature: Signature, attrs: dict[str, str], count: int) -> Any:
    if signature.parse(attrs)[1]:
        return "refused"
    outputs = signature.outputs(attrs)
    slots = signature.auxiliary_slots(attrs, count)
    return outputs and (*outputs, tuple(f"v{slot}" for slot in slots))


def _theirs(signature: Signature, real: dict[str, Any]) -> Any:
    if "labels" not in real:
        return "refused" if "error" in real else real
    labels = tuple(label.removeprefix("n_") for label in real["labels"])
    return real["total"], real["visible"], labels, tuple(real["auxiliary"])


def test_input_names_as_the_upgrade_invents_them() -> None:
    """A file without a version and without inputs gets variables called after the formal inputs."""
    tried = [case for case in cases() if not case[0].parse(case[1])[1] and case[0].name not in INPUT_NAMES_FAIL]
    answers = ask([{"op": signature.name, "attrs": attrs, "inputs": 0, "version": None} for signature, attrs in tried])
    wrong = []
    for (signature, attrs), real in zip(tried, answers, strict=True):
        names = signature.input_names(attrs) or ()
        ours = [f"n_{name}" for name in names], {f"n_{names[i]}": t for i, t in signature.initializers.items() if i < len(names)}
        theirs = real.get("inputs"), real.get("initializers")
        if ours != theirs:
            wrong.append(f"{signature.name} {attrs}\n   ours   {ours}\n   MXNet  {theirs} {real.get('error', '')[:200]}")
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong[:400])
