"""Where MXNet cannot compute an LSTM of integers, or would not compute the same one twice."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphshare.execute.plan import missing_kernels
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.kernel import Context, KernelError
from graphshare.ops.quantization.rnn import rnn_int8
from graphshare.ops.registry import lookup
from graphshare.ops.rnn.kernel import parameter_size
from tests.symbols import document, operator, variable

ATTRS = {"mode": "lstm", "state_size": "4", "num_layers": "2"}


def typed(**more: str) -> dict[str, Any]:
    signature = lookup("_contrib_quantized_rnn")
    assert signature is not None
    attrs, faults = signature.parse({**ATTRS, **more})
    assert not faults
    return dict(attrs)


def run(attrs: dict[str, Any], inputs: int, value: int = 200) -> Any:
    rng = np.random.default_rng(0)
    state = np.zeros((attrs["num_layers"], 1, attrs["state_size"]), "float32")
    vector = rng.standard_normal(parameter_size(attrs, inputs)).astype("float32")
    x = np.full((1, 1, inputs), value, "uint8")
    return rnn_int8(
        Context(),
        attrs,
        x,
        vector,
        state,
        state,
        np.ones(1, "float32") * 255,
        np.zeros(1, "float32"),
    )


def test_parameters_beyond_which_mxnet_reads_are_refused() -> None:
    assert run(typed(), 8).shape == (1, 1, 4)
    with pytest.raises(KernelError, match="reads beyond the parameters"):
        run(typed(), 20)
    assert run(typed(num_layers="1"), 20).shape == (1, 1, 4)


@pytest.mark.parametrize(
    "more", [{"mode": "gru"}, {"projection_size": "2"}, {"use_sequence_length": "True"}]
)
def test_what_mxnet_does_not_compute_is_refused_beforehand(more: dict[str, str]) -> None:
    def faults(attrs: dict[str, str]) -> list[str]:
        nodes = [
            *(variable(f"in{i}") for i in range(6)),
            operator("_contrib_quantized_rnn", "node", range(6), attrs=attrs),
        ]
        graph = read_symbol(json.dumps(document(nodes, [(6, 0, 0)], row_ptr=False)).encode())
        return [fault.message for fault in missing_kernels(graph.nodes)]

    assert faults(ATTRS) == []
    (message,) = faults({**ATTRS, **more})
    assert "without projection and sequence lengths" in message


def test_many_pairs_are_cut_off_in_blocks_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshare.ops.quantization import rnn as module

    whole = run(typed(), 8, 255)
    monkeypatch.setattr(module, "_BLOCK", 3)
    assert np.array_equal(run(typed(), 8, 255), whole)
    monkeypatch.setattr(module, "PAIR_ENDS", (-(1 << 30), 1 << 30))
    assert not np.array_equal(run(typed(), 8, 255), whole)
