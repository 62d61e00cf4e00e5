"""Every operator of MXNet 1.9.1 with a kernel is exported to ONNX, maybe under a condition, or
refused with its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import post_order
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import (
    canonical,
    find_translation,
    known_kernels,
    known_translations,
    lookup,
)
from graphshare.ops.translation import NoTranslation, Translator
from tests.corpus.test_forward import STEMS
from tests.surroundings import NONE

# The names that MXNet 1.9.1's own exporter registers; "null" is a variable.
MX2ONNX = """Activation BatchNorm BlockGrad Cast Concat Convolution Crop Deconvolution Dropout
Embedding Flatten FullyConnected InstanceNorm L2Normalization LRN LayerNorm LeakyReLU
LogisticRegressionOutput MakeLoss Pad Pooling RNN ROIPooling Reshape SequenceMask SequenceReverse
SliceChannel SoftmaxOutput SwapAxis UpSampling _arange _contrib_AdaptiveAvgPooling2D
_contrib_BilinearResize2D _contrib_ROIAlign _contrib_arange_like _contrib_box_decode
_contrib_box_nms _contrib_div_sqrt_dim _contrib_interleaved_matmul_selfatt_qk
_contrib_interleaved_matmul_selfatt_valatt _copy _div_scalar _equal_scalar _greater_scalar
_lesser_scalar _linalg_gemm2 _maximum _maximum_scalar _minimum _minimum_scalar _minus_scalar
_mul_scalar _ones _plus_scalar _power _power_scalar _random_normal _random_uniform
_random_uniform_like _rdiv_scalar _rminus_scalar _rnn_param_concat _sample_multinomial _split_v2
_zeros abs add_n arccos arcsin arctan argmax argmin argsort batch_dot broadcast_add broadcast_axis
broadcast_div broadcast_equal broadcast_greater broadcast_greater_equal broadcast_lesser
broadcast_lesser_equal broadcast_like broadcast_logical_and broadcast_logical_or
broadcast_logical_xor broadcast_minimum broadcast_mod broadcast_mul broadcast_not_equal
broadcast_power broadcast_sub broadcast_to ceil clip cos depth_to_space dot elemwise_add
elemwise_div elemwise_mul elemwise_sub exp expand_dims floor gather_nd hard_sigmoid identity log
log2 log_softmax logical_not max mean min negative norm null one_hot ones_like prod reciprocal relu
repeat reshape_like reverse shape_array sigmoid sin size_array slice slice_axis slice_like softmax
space_to_depth sqrt square squeeze stack sum sum_axis take tan tanh tile topk transpose where
zeros_like""".split()


def test_every_operator_with_a_kernel_has_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    translations = known_translations()
    of_mxnet = {
        name for name in known_kernels() if (found := lookup(name)) is not None and found.registered
    }
    assert sorted(of_mxnet - translations.keys()) == []
    counts = Counter(
        "refused"
        if isinstance(found, NoTranslation)
        else "exported under a condition"
        if found.condition
        else "exported"
        for found in translations.values()
    )
    with capsys.disabled():
        print(
            "\n" + ", ".join(f"{count} operators {what}" for what, count in sorted(counts.items()))
        )
    assert counts["exported"] >= 400
    assert counts["refused"] <= 26


def test_reasons_are_clauses() -> None:
    for found in known_translations().values():
        text = found.reason if isinstance(found, NoTranslation) else found.condition
        assert not text.endswith("."), text
        assert isinstance(found, Translator) or text


@pytest.mark.parametrize("name", [name for name in MX2ONNX if name != "null"])
def test_what_mxnet_exported_is_exported(name: str) -> None:
    assert isinstance(find_translation(name), Translator)


def test_the_list_of_mxnet_is_whole() -> None:
    assert len(set(MX2ONNX)) == 149


@pytest.mark.corpus
def test_every_operator_of_the_corpus_is_exported(corpus: Path) -> None:
    operators: set[str] = set()
    for stem in STEMS:
        assert stem != NONE
        graph = read_symbol((corpus / "graphs" / f"{stem}.json").read_bytes())
        nodes = post_order(entry.node for entry in graph.heads)
        operators |= {canonical(node.op) for node in nodes if node.op}
        operators |= {
            canonical(inner.op)
            for node in nodes
            for part in node.subgraphs
            for inner in part.nodes
            if inner.op
        }
    wrong = {name: find_translation(name) for name in operators}
    assert [name for name, found in wrong.items() if not isinstance(found, Translator)] == []


def test_operators_are_named_in_the_file_of_their_family() -> None:
    root = Path(__file__).parents[3] / "graphshare" / "ops"
    for family in sorted(set(FAMILY_OF.values())):
        path = root / family / "to_onnx.py"
        if any(FAMILY_OF.get(name) == family for name in known_kernels()):
            assert path.exists(), family
            assert re.search(r"^TRANSLATIONS\b", path.read_text(encoding="utf-8"), re.M), family
