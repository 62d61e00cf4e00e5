"""This package's answers to probes, and how they differ from MXNet's."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.inference import infer
from graphshare.ops.registry import lookup
from tests.elementwise import TOLERANCE, describe_mismatch, tolerance_of_sums
from tests.oracle import int8_sums
from tests.oracle.equivalent import are_equivalent
from tests.oracle.probing import Probe, written
from tests.surroundings import run_oracle
from tests.symbols import document, operator, variable

PROCESS = Path(__file__).with_name("probing_process.py")
RTOL = {"float16": 1e-2, "float32": 5e-5, "float64": 5e-7}
LEAST = {"float16": 5e-4, "float32": 1e-6, "float64": 5e-8}
"""The absolute part for gradients, which are sums of products with numbers of about 1."""
IN_FLOAT32 = ("LeakyReLU", "gamma", "gammaln")
"""Operators that MXNet computes in float32 for float64 too, wholly or in part: gelu, slopes below
0, the digamma function.
"""


class Refusal(Exception):
    """This package does not run it."""


def graph_of(case: dict[str, Any], heads: int) -> Any:
    nodes = [variable(f"in{i}") for i in range(case["count"])]
    bodies = {"subgraphs": case["subgraphs"]} if "subgraphs" in case else {}
    nodes.append(operator(case["op"], "node", range(case["count"]), attrs=case["attrs"], **bodies))
    made = document(nodes, [(case["count"], i, 0) for i in range(heads)], row_ptr=False)
    if case["np_shape"]:
        made["attrs"]["is_np_shape"] = ["int", 1]
    return read_symbol(json.dumps(made).encode())


def prepared(case: dict[str, Any], inputs: list[Any]) -> tuple[Any, dict[Any, Any], Any]:
    """The graph, the values of its variables, and what shapes and types follow."""
    signature = lookup(case["op"])
    assert signature is not None
    _, faults = signature.parse(case["attrs"])
    if faults:
        raise Refusal("; ".join(fault.message for fault in faults))
    outputs = signature.outputs(case["attrs"])
    if outputs is None or not outputs.visible:
        raise Refusal("no outputs")
    names = signature.formal_inputs(case["attrs"])
    # add_n adds whatever it is given
    counted = signature.inputs_known and "subgraphs" not in case and case["op"] != "add_n"
    if counted and len(names) != len(inputs):
        raise Refusal(f"{len(names)} inputs")
    graph = graph_of(case, outputs.visible)
    variables = list(graph.nodes[: case["count"]])
    values = dict(zip(variables, inputs, strict=True))
    try:
        found = infer(
            graph,
            {n: x.shape for n, x in values.items()},
            {n: str(x.dtype) for n, x in values.items()},
        )
    except RefusedError as error:
        raise Refusal(str(error)) from None
    return graph, values, found


def forward(case: dict[str, Any], inputs: list[Any]) -> list[Any]:
    graph, values, found = prepared(case, inputs)
    try:
        made = run_plan(
            make_plan(graph.heads), values, shapes=found.shapes, rng=np.random.default_rng(0)
        ).outputs
    except RefusedError as error:
        raise Refusal(str(error)) from None
    node = graph.nodes[-1]
    for i, x in enumerate(made):
        shape, dtype = found.shapes[node][i], found.types[node][i]
        if shape is not None and (
            len(shape) != x.ndim
            or any(d is not None and d != e for d, e in zip(shape, x.shape, strict=True))
        ):
            raise AssertionError(f"inferred shape {shape}, computed {x.shape}")
        if dtype is not None and dtype != str(x.dtype):
            raise AssertionError(f"inferred type {dtype}, computed {x.dtype}")
    return made


def backward(case: dict[str, Any], inputs: list[Any], number: int) -> dict[int, Any]:
    graph, values, found = prepared(case, inputs)
    wanted = [n for n, x in values.items() if x.dtype.kind == "f"]
    try:
        tape = Tape(
            make_plan(graph.heads),
            values,
            wanted,
            streams=lambda node: np.random.default_rng(0),
            shapes=found.shapes,
        )
        stream = np.random.RandomState(1000 + number)
        heads = [
            np.asarray(stream.standard_normal(out.shape)).astype(out.dtype) for out in tape.outputs
        ]
        result = tape.backward(heads).gradients
    except RefusedError as error:
        raise Refusal(str(error)) from None
    return {i: result.get(v) for i, v in enumerate(values) if v in wanted}


def asked(oracle_python: str, made: list[Probe], folder: Path) -> list[dict[str, Any]]:
    """MXNet's answers: for each probe ``forward`` and ``backward``."""
    source, out = folder / "probes.npz", folder / "answers"
    written(made, source)
    run_oracle(oracle_python, PROCESS, source, out)
    return read_answers(out, len(made))


def read_answers(path: Path, count: int) -> list[dict[str, Any]]:
    """Return what a process has pickled as ``(number, question, answer)``, by number and question."""
    answers: list[dict[str, Any]] = [{} for _ in range(count)]
    with open(path, "rb") as file:
        while True:
            try:
                number, question, answer = pickle.load(file)
            except EOFError:
                return answers
            answers[number][question] = answer


def array_of(told: tuple[str, tuple[int, ...], bytes]) -> Any:
    dtype, shape, data = told
    return np.frombuffer(data, dtype).reshape(shape)


def narrowest_dtype(case: dict[str, Any], inputs: list[Any], want: Any) -> str:
    """Return the narrowest dtype of floating point of a probe, in which MXNet computes; float64 if there is none."""
    named = {str(x.dtype) for x in (*inputs, want)} | set(case["attrs"].values())
    named |= {"float32"} if case["op"] in IN_FLOAT32 else set()
    return next((dtype for dtype in RTOL if dtype in named), "float64")


def difference(got: Any, want: Any, dtype: str, *, least: float) -> str | None:
    """Return in words how an array differs, None if it does not: its shape, its dtype, or values
    computed in ``dtype``.
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, MXNet {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, MXNet {want.dtype}"
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return "not finite elsewhere"
    mismatch = describe_mismatch(
        got, want, tolerance_of_sums(want, dtype, rtol=RTOL[dtype], least=least)
    )
    return None if mismatch is None else f"values: {mismatch}"


def compared_forward(case: dict[str, Any], inputs: list[Any], answer: Any) -> str | None:
    """How the outputs differ; None where they do not, or where MXNet ended."""
    if isinstance(answer, dict) and "crash" in answer:
        return None
    refused = isinstance(answer, dict)
    try:
        found = forward(case, [x.copy() for x in inputs])
    except Refusal as error:
        return None if refused else f"refused ({error})"
    except Exception as error:
        return f"bug {type(error).__name__}: {error}"
    if refused:
        return f"MXNet refuses ({answer['error'].strip().splitlines()[0]} ... {answer['error'][-200:]})"
    if are_equivalent(case, inputs, found, [array_of(told) for told in answer]):
        return None
    for i, (got, told) in enumerate(zip(found, answer, strict=False)):
        want = array_of(told)
        dtype = narrowest_dtype(case, inputs, want)
        what = difference(got, want, dtype, least=TOLERANCE[dtype].atol)
        if what and what.startswith("values") and i == 0 and case["op"] in int8_sums.OPERATORS:
            what = int8_sums.difference(case, inputs, got, want)
        if what:
            return f"output {i}: {what}"
    return None


def compared_backward(
    case: dict[str, Any], inputs: list[Any], answer: Any, number: int
) -> str | None:
    """How the gradients differ."""
    if isinstance(answer, dict) and "crash" in answer:
        return None
    refused = "error" in answer
    try:
        found = backward(case, [x.copy() for x in inputs], number)
    except Refusal as error:
        return None if refused else f"refused ({error})"
    except Exception as error:
        return f"bug {type(error).__name__}: {error}"
    if refused:
        return f"MXNet refuses ({answer['error'][-200:]})"
    for i, told in answer.items():
        want = array_of(told)
        got = np.zeros_like(want) if found.get(i) is None else np.asarray(found[i])
        dtype = narrowest_dtype(case, inputs, want)
        what = difference(got, want, dtype, least=LEAST[dtype])
        if what:
            return f"gradient {i}: {what}"
    return None
