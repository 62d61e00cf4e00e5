"""A parameter file that another process cuts short while it is used is an error, not the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphshare.errors import InputError
from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.write import encode_graph_file, encode_model
from graphshare.ir.onnx import Tensor
from tests.onnx_files import composed

CUT = """
import os, sys
from graphshare.errors import GraphshareError
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index

path = sys.argv[1]
file = read_index(path)
try:
    with ArrayReader(file, together=sys.argv[2] == "together") as reader:
        array = reader.read(file.records[0])
        os.truncate(path, 100)
        print(float(array.sum()))
        reader.read(file.records[1])
except GraphshareError as error:
    print(error.faults[0])
"""


@pytest.mark.parametrize("name", ["x.params", "x.npz"])
@pytest.mark.parametrize("how", ["one by one", "together"])
def test_a_file_cut_short_while_its_arrays_are_used_is_an_error(
    tmp_path: Path, name: str, how: str
) -> None:
    source, target = tmp_path / "source.npz", tmp_path / name
    np.savez(source, a=np.ones(1 << 20, "float32"), b=np.ones(1 << 20, "float32"))
    convert = [sys.executable, "-m", "graphshare", "params", "convert", str(source), str(target)]
    subprocess.run(convert, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(target), how], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done  # a mapped page that is gone would have ended it by SIGBUS
    first, second = done.stdout.splitlines()
    assert first == str(float(1 << 20))
    assert "while it was being read" in second


def test_a_large_onnx_model_cut_short_while_its_messages_are_used_is_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "large.onnx"
    kind = ("uint8", (40 << 20,))
    weight = Tensor(*kind, bytes(40 << 20))
    graph = composed.model(
        "g", [composed.Operator("Add", ("x", "w"), ("y",))], {"x": kind}, {"y": kind}, {"w": weight}
    )
    path.write_bytes(b"".join(encode_model(graph).pieces()))
    model = read_model(str(path))
    os.truncate(path, 100)
    with pytest.raises(InputError, match="changed since it was indexed"):
        b"".join(encode_graph_file(model).pieces())
