"""MXNet on float16 parameters and float tokens, and onnxruntime on the exported model with float32
ends and int64 tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphshare as gs
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.mxnet.symbol import read_symbol
from tests.surroundings import run_oracle
from tests.symbols import document, mxnet_text, operator, variable

pytestmark = pytest.mark.oracle

# Binds a graph to a parameter file and inputs, and saves its outputs.
FORWARD = """
import sys
import mxnet as mx
import numpy as np

args, aux = {}, {}
for key, array in mx.nd.load(sys.argv[2]).items():
    (args if key.startswith("arg:") else aux)[key[4:]] = array
for name, array in np.load(sys.argv[3]).items():
    args[name] = mx.nd.array(array, dtype=array.dtype)
outputs = mx.sym.load(sys.argv[1]).bind(mx.cpu(), args, aux_states=aux).forward()
np.savez(sys.argv[4], *[output.asnumpy() for output in outputs])
"""
TOKENS = np.array([[0, 299, 7], [257, 3, 1]])
HIDDEN = {"input_dim": "300", "output_dim": "4"}


def network() -> Checkpoint:
    """A normalized embedding, gathered rows, one-hot rows and a product of tokens; MXNet has no
    float16 gemm on the CPU.
    """
    nodes = [
        variable("data0"),
        variable("table"),
        operator("Embedding", "embedded", [0, 1], attrs=HIDDEN),
        variable("bn_gamma"),
        variable("bn_beta"),
        variable("bn_moving_mean"),
        variable("bn_moving_var"),
        operator(
            "BatchNorm",
            "bn",
            [2, 3, 4, 5, 6],
            attrs={"axis": "2", "fix_gamma": "False", "eps": "0.001"},
        ),
        operator("take", "taken", [1, 0]),
        operator("one_hot", "hot", [0], attrs={"depth": "8"}),
        operator("_mul_scalar", "halved", [0], attrs={"scalar": "0.5"}),
    ]
    random = np.random.default_rng(1)
    arrays = {"table": random.normal(size=(300, 4)), "bn_moving_var": random.uniform(0.5, 2, 4)}
    arrays |= {name: random.normal(size=4) for name in ("bn_gamma", "bn_beta", "bn_moving_mean")}
    graph = read_symbol(mxnet_text(document(nodes, [7, 8, 9, 10])).encode())
    return Checkpoint(graph).with_params(
        {name: array.astype("f4") for name, array in arrays.items()}
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_mxnet_computes_what_the_exported_model_computes(
    tmp_path: Path, oracle_python: str, dtype: str
) -> None:
    gs.save(network(), tmp_path / "net")
    gs.convert(tmp_path / "net-0000.params", tmp_path / "cast.params", dtype=dtype)
    np.savez(tmp_path / "feeds.npz", data0=TOKENS.astype("f4"))
    files = (
        tmp_path / "net-symbol.json",
        tmp_path / "cast.params",
        tmp_path / "feeds.npz",
        tmp_path / "out.npz",
    )
    run_oracle(oracle_python, "-c", FORWARD, *files)
    wanted = [*np.load(tmp_path / "out.npz").values()]
    gs.export(
        tmp_path / "net",
        tmp_path / "net.onnx",
        shapes={"data0": TOKENS.shape},
        dtype=dtype,
        keep_io=dtype == "float16",
        input_dtypes={"data0": "int64"},
    )
    got = onnxruntime.InferenceSession(
        tmp_path / "net.onnx", providers=["CPUExecutionProvider"]
    ).run(None, {"data0": TOKENS})
    assert [str(array.dtype) for array in wanted] == [dtype, dtype, "float32", "float32"]
    assert {str(array.dtype) for array in got} == {"float32"}
    assert np.allclose(
        got[0], wanted[0].astype("f4"), rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-6
    )
    for have, want in zip(got[1:], wanted[1:], strict=True):
        assert np.array_equal(have, want.astype("f4"))
