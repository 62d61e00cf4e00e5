"""Every operator that is authored here is one that MXNet loads, and writes back as the same bytes."""

from __future__ import annotations

import pytest

from graphshare.formats.mxnet.layout import write_symbol
from graphshare.ops.registry import load_registered_signatures
from tests.oracle.conversation import Oracle
from tests.unit.builder.test_every_operator import authored

pytestmark = pytest.mark.oracle

# What MXNet cannot load from any file, or not with the attributes of the samples.
NOT_LOADED = {
    "_CustomFunction": "any container is empty",
    "Custom": "Cannot find custom operator x",
    "_contrib_quantized_rnn": "Check failed: param.mode == rnn_enum::kLstm",
}


@pytest.mark.parametrize("name", load_registered_signatures())
def test_mxnet_loads_it(oracle: Oracle, name: str) -> None:
    graph = authored(name)
    if graph is None:
        return  # held against a number in the unit test
    text = b"".join(write_symbol(graph)).decode()
    answer = oracle.ask("tojson", text=text)
    if name in NOT_LOADED:
        assert NOT_LOADED[name].split(":")[0] in answer["error"]
    else:
        assert answer == {"text": text}
