"""Models as PyTorch's two exporters and onnxruntime's quantization write them, with random weights.

    python tests/onnx_files/exports.py DIR

It needs torch, torchvision, transformers, onnx, onnxscript and onnxruntime, in an environment of
its own, and nothing of graphshare. A model that exists is not made again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn


class Network(NamedTuple):
    """A network with what it is called on."""

    module: nn.Module
    arguments: tuple[Tensor, ...]
    dynamic: bool = False


class Tied(nn.Module):
    """A language model whose embedding is also its output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 64)
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        self.head = nn.Linear(64, 2000, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return a score for each word at each place."""
        return self.head(self.layer(self.embedding(ids)))


class Siamese(nn.Module):
    """Two inputs through one network."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 32)
        )

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return how far two pictures are apart."""
        return torch.norm(self.trunk(left) - self.trunk(right), dim=1)


class Branching(nn.Module):
    """An If, with weights on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, data: Tensor, flag: Tensor) -> Tensor:
        """Return one of two layers."""
        if bool(flag):
            return self.left(data)
        return self.right(data) * 2


class Looping(nn.Module):
    """A Loop with a weight in its body."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(16, 16)

    def forward(self, data: Tensor, steps: Tensor) -> Tensor:
        """Return a state after some steps."""
        for _ in range(int(steps)):
            data = torch.tanh(self.step(data))
        return data


class Recurrent(nn.Module):
    """A recurrent layer between an embedding and scores."""

    def __init__(self, kind: type[nn.RNNBase], **more: Any) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(100, 24), kind(24, 32, batch_first=True, **more)
        self.head = nn.Linear(32 * (2 if more.get("bidirectional") else 1), 10)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of the last state."""
        return self.head(self.layer(self.embedding(ids))[0][:, -1])


class Plain(nn.Module):
    """One output of a model of transformers."""

    def __init__(self, model: nn.Module, keyword: str) -> None:
        super().__init__()
        self.model, self.keyword = model, keyword

    def forward(self, data: Tensor) -> Tensor:
        """Return the first output."""
        return self.model(**{self.keyword: data}, return_dict=False)[0]


def _pictures(size: int = 64, channels: int = 3) -> tuple[Tensor]:
    return (torch.randn(1, channels, size, size),)


def _ids(length: int = 12, words: int = 90) -> tuple[Tensor]:
    return (torch.randint(1, words, (1, length)),)


def _vision(name: str, size: int = 64, **more: Any) -> Callable[[], Network]:
    def build() -> Network:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, **more)
        return Network(model, _pictures(size))

    return build


def _language(
    name: str, keyword: str = "input_ids", inputs: tuple[Tensor] | None = None, **more: Any
) -> Callable[[], Network]:
    def build() -> Network:
        import transformers

        config = getattr(transformers, f"{name.partition(':')[0]}Config")(**more)
        config._attn_implementation = "eager"
        model = getattr(transformers, name.replace(":", ""))(config)
        return Network(Plain(model, keyword), inputs or _ids(), True)

    return build


_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
_SPEECH = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16,
           "num_conv_pos_embedding_groups": 4, "num_feat_extract_layers": 2}  # fmt: skip

NETWORKS: dict[str, Callable[[], Network]] = {
    "resnet18": _vision("resnet18"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "squeezenet": _vision("squeezenet1_1"),
    "shufflenet": _vision("shufflenet_v2_x0_5"),
    "densenet121": _vision("densenet121"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "mnasnet": _vision("mnasnet0_5"),
    "googlenet": _vision("googlenet", init_weights=False, aux_logits=False),
    "regnet": _vision("regnet_y_400mf"),
    "vit": lambda: Network(_vit(), _pictures(32)),
    "swin": lambda: Network(_swin(), _pictures(32)),
    "lraspp": lambda: Network(_segmentation(), _pictures(64)),
    "unet": lambda: Network(_unet(), _pictures(32)),
    "mlp": lambda: Network(_dense(), (torch.randn(2, 20),), True),
    "lstm": lambda: Network(Recurrent(nn.LSTM, num_layers=2), _ids()),
    "gru": lambda: Network(Recurrent(nn.GRU, bidirectional=True), _ids()),
    "rnn": lambda: Network(Recurrent(nn.RNN), _ids()),
    "tied": lambda: Network(Tied(), _ids(), True),
    "siamese": lambda: Network(Siamese(), (torch.randn(1, 3, 8, 8), torch.randn(1, 3, 8, 8))),
    "branching": lambda: Network(Branching(), (torch.randn(1, 16), torch.tensor(True))),
    "looping": lambda: Network(Looping(), (torch.randn(1, 16), torch.tensor(3))),
    "bert": _language("Bert:Model", **_SMALL),
    "distilbert": _language("DistilBert:Model", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=100),
    "gpt2": _language("GPT2:LMHeadModel", n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=32, use_cache=False),
    "t5": _language("T5:EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100),
    "electra": _language("Electra:Model", embedding_size=16, **_SMALL),
    "albert": _language("Albert:Model", embedding_size=16, **_SMALL),
    "roberta": _language("Roberta:Model", **_SMALL),
    "llama": _language("Llama:ForCausalLM", num_key_value_heads=2, use_cache=False, **_SMALL),
    "wav2vec2": _language("Wav2Vec2:Model", "input_values", (torch.randn(1, 1000),), **_SPEECH, **_SMALL),
    "clip_vision": _language("CLIPVision:Model", "pixel_values", (torch.randn(1, 3, 32, 32),),
                             hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
                             patch_size=8),
    "convnext": _language("ConvNext:Model", "pixel_values", (torch.randn(1, 3, 64, 64),), hidden_sizes=[16, 16, 32, 32],
                          depths=[1, 1, 1, 1]),
}  # fmt: skip
"""Networks by name."""


def _dense() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5))


def _vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 32, 64)


def _swin() -> nn.Module:
    from torchvision.models import SwinTransformer

    return SwinTransformer([4, 4], 16, [1, 1], [2, 2], [4, 4])


def _segmentation() -> nn.Module:
    import torchvision

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
                weights=None, weights_backbone=None
            )

        def forward(self, data: Tensor) -> Tensor:
            return self.model(data)["out"]

    return Scores()


def _unet() -> nn.Module:
    class Unet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.inner = nn.Sequential(
                nn.Conv2d(8, 16, 3, 2, 1), nn.PReLU(16), nn.ConvTranspose2d(16, 8, 2, 2)
            )
            self.up = nn.Sequential(
                nn.Conv2d(16, 4, 3, padding=1), nn.InstanceNorm2d(4), nn.Upsample(scale_factor=2)
            )

        def forward(self, data: Tensor) -> Tensor:
            top = self.down(data)
            return self.up(torch.cat([top, self.inner(top)], 1))

    return Unet()


def export(network: Network, path: Path, *, dynamo: bool) -> None:
    """Export a network, with open sizes where it has them."""
    names = ["left", "right", "third"][: len(network.arguments)]
    options: dict[str, Any] = {}
    if not dynamo:
        options = {"opset_version": 17, "do_constant_folding": True}
        if network.dynamic:
            options["dynamic_axes"] = {name: {0: "batch", **({1: "length"} if x.ndim == 2 and x.dtype == torch.int64 else {})}
                                       for name, x in zip(names, network.arguments, strict=True)}  # fmt: skip
    else:
        options = {"external_data": False}
    is_scripted = not dynamo and isinstance(network.module, (Branching, Looping))
    module = torch.jit.script(network.module) if is_scripted else network.module
    torch.onnx.export(
        module, network.arguments, str(path), input_names=names, dynamo=dynamo, **options
    )


def quantize(folder: Path) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield models of a folder as onnxruntime quantizes them: weights alone, with QDQ pairs, and as
    quantized operators.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        quantize_dynamic,
        quantize_static,
    )

    class Pictures(CalibrationDataReader):
        def __init__(self, path: Path) -> None:
            value = onnx.load(path).graph.input[0]
            sizes = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
            self.left = [
                {value.name: np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
            ]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop() if self.left else None

    for stem in (
        "bert.script",
        "lstm.script",
        "tied.script",
        "vit.script",
        "mlp.dynamo",
        "bert.dynamo",
        "llama.dynamo",
    ):
        path = folder / f"{stem}.onnx"
        if path.exists():
            yield f"{stem}.dynamic", lambda out, path=path: quantize_dynamic(path, out)
    for stem in ("resnet18.script", "mobilenet_v2.script", "squeezenet.dynamo", "unet.script"):
        path = folder / f"{stem}.onnx"
        if path.exists():
            yield (
                f"{stem}.qdq",
                lambda out, path=path: quantize_static(
                    path, out, Pictures(path), quant_format=QuantFormat.QDQ
                ),
            )
            yield (
                f"{stem}.qoperator",
                lambda out, path=path: quantize_static(
                    path, out, Pictures(path), quant_format=QuantFormat.QOperator
                ),
            )


def main() -> int:
    """Write what is not there yet, and print what could not be written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    tasks = [
        (f"{name}.{'dynamo' if dynamo else 'script'}", name, dynamo)
        for name in NETWORKS
        for dynamo in (False, True)
    ]
    for label, name, dynamo in tasks:
        _write(
            folder / f"{label}.onnx",
            lambda path, name=name, dynamo=dynamo: _export_named(name, path, dynamo),
        )
    for label, make in quantize(folder):
        _write(folder / f"{label}.onnx", make)
    return 0


def _export_named(name: str, path: Path, dynamo: bool) -> None:
    torch.manual_seed(0)
    network = NETWORKS[name]()
    network.module.eval()
    with torch.no_grad():
        export(network, path, dynamo=dynamo)


def _write(path: Path, make: Callable[[Path], None]) -> None:
    if path.exists():
        return
    beside = path.with_suffix(".part")
    try:
        make(beside)
        beside.replace(path)
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)
    except Exception as error:  # the exporters raise anything
        beside.unlink(missing_ok=True)
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:200]
        print(
            f"{path.name}: not exported: {type(error).__name__}: {text} ({Path(where.filename).name})",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
