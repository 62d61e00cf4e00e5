"""The models of onnx's tests of operators: ``compare`` of each with itself, and with the outputs
that are recorded beside it.

    python -m benchmarks.backend FOLDER [--every N]

FOLDER is onnx/backend/test/data of the wheel of onnx 1.22, the last one with these models; those
that the onnx installed here makes beside them are judged too. With itself a model should be exact.
The judgement of its recorded outputs is set beside that of onnx.backend.test (rtol 1e-3, atol 1e-7)
on what a plain session of onnxruntime computes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

import graphshare as gs
from tests.onnx_files.running import Session, Unrunnable, as_value
from tests.onnx_files.sources import list_wheel

_RTOL, _ATOL = 1e-3, 1e-7
_GENERATE = """
import onnx.backend.test.cmd_tools as tools
from onnx.backend.test.case import node
models = tools.model_test.collect_testcases
tools.model_test.collect_testcases = lambda: [*models(), *node.collect_testcases("")]
tools.main()
"""
"""The tool of onnx, which by itself leaves out the models of single operators."""


def make_cases(folder: Path, known: set[str]) -> list[Path]:
    """Write the models that the installed onnx makes, with their data; return those that are not
    known by their names.
    """
    words = [sys.executable, "-W", "ignore", "-c", _GENERATE, "generate-data", "-o", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    return [path for path in sorted(folder.glob("*/*/model.onnx")) if path.parent.name not in known]


def judge_itself(path: Path) -> str:
    """Return what is known of a model beside itself, or why nothing is."""
    try:
        report = gs.compare(path, path)
    except gs.GraphshareError as error:
        return f"refused: {error.faults[0].message[:60]}"
    return report.rung if report else f"{report.outcome}: {report.verdict[:100]}"


def read_values(values: Any, folder: Path, word: str) -> Iterator[tuple[str, Any]]:
    """Yield the values that are recorded in a folder as ``input`` or ``output``, by the names that
    a graph has for them.
    """
    kinds = {
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }
    for number, value in enumerate(values):
        path = folder / f"{word}_{number}.pb"
        if path.exists() and value.type.WhichOneof("value") in kinds:
            make, read = kinds[value.type.WhichOneof("value")]
            message = make()
            message.ParseFromString(path.read_bytes())
            yield value.name, read(message)


def judge_plainly(path: Path, folder: Path) -> bool | None:
    """Return whether onnxruntime's outputs are the recorded ones by the rule of onnx.backend.test;
    None where it has none.
    """
    graph = onnx.load(path).graph
    held = {tensor.name for tensor in graph.initializer}
    try:
        feeds = dict(
            read_values([value for value in graph.input if value.name not in held], folder, "input")
        )
        wanted = dict(read_values(graph.output, folder, "output"))
        outputs = Session(path.read_bytes(), str(path.parent)).run(feeds)
        own = [as_value(outputs[name]) for name in wanted]
        Runner.assert_similar_outputs(list(wanted.values()), own, _RTOL, _ATOL)
    except Unrunnable:
        return None
    except (
        AssertionError,
        TypeError,
        AttributeError,
    ):  # these too, where a type is not what was recorded
        return False
    return True


def judge_record(path: Path, folder: Path) -> str:
    """Return the judgement of recorded outputs beside that of onnx.backend.test."""
    plain = judge_plainly(path, folder)
    try:
        report = gs.compare(path, folder)
    except gs.GraphshareError as error:
        return (
            f"refused: {error.faults[0].message[:60]}" if plain is not None else "neither computes"
        )
    own = {"equal": True, "not judged": None}.get(report.outcome, False)
    if plain is None:
        return f"onnxruntime's binding computes nothing, compare: {report.outcome}"
    return (
        "the same judgement"
        if own is plain
        else f"compare: {report.outcome}, onnx.backend.test: {'holds' if plain else 'fails'}"
    )


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth model alone")
    options = parser.parse_args()
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as name:
        models = [path for path in list_wheel(options.folder) if path.parent.name != "light"]
        more = make_cases(Path(name), {path.parent.name for path in models})
        for title, paths in (("of the wheel", models), ("of the onnx installed", more)):
            own, record, unlike = Counter[str](), Counter[str](), []
            for path in paths[:: options.every]:
                words = judge_itself(path)
                own[words] += 1
                sets = sorted(path.parent.glob("test_data_set_*"))
                judged = judge_record(path, sets[0]) if sets else "nothing is recorded"
                record[judged] += 1
                if words != "exact" or judged.startswith("compare"):
                    unlike.append(f"{path.parent.name}: {words}; {judged}")
            print(f"{sum(own.values())} models {title}; each with itself:")
            print(*(f"{count:6} {words}" for words, count in own.most_common()), sep="\n")
            print("with its recorded outputs:")
            print(
                *(f"{count:6} {words}" for words, count in record.most_common()),
                "",
                *unlike,
                sep="\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
