"""Exports small networks at two sizes each, by both exporters of PyTorch. Runs under a Python with
torch, onnx and onnxscript.

python benchmarks/torch_nets.py OUT

Each file is ``OUT/NET.EXPORTER.SIZE.onnx`` (the weights inside, equal at both sizes); an export that fails is printed.
``OUT/nets.json`` has the free axes of each network, as ``reshape --shape`` takes them.
"""

import io
import json
import logging
import math
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

OLD, NEW = 6, 9
WIDTH, HEADS, MOST = 8, 2, 64
"""The width of a token, the number of heads, and the rows of tables."""


class Net(nn.Module):
    """One function of ``forward`` with weights that all networks can use."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        self.dense, self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("table", _draw_waves(MOST))
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def _draw_waves(count):
    places = torch.arange(count)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.cat([places.sin(), places.cos()], 1)


def attend(net, q, k, v, bias=None):
    """Attention of HEADS heads over (batch, tokens, WIDTH)."""
    q, k, v = (
        each.reshape(each.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2) for each in (q, k, v)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    scores = scores if bias is None else scores + bias
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def attend_itself(net, x, bias=None):
    return attend(net, net.query(x), net.key(x), net.value(x), bias)


def forbid_later(rows, columns):
    """Return a bias that hides tokens behind a row's own, the last row being the last column."""
    return torch.full((rows, columns), -1e4).triu(columns - rows + 1)


def turn(x, places):
    """Rotate halves of x (.., tokens, WIDTH) by angles of the places."""
    angles = places[..., None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def bucket(distance):
    near = distance.clamp(max=7)
    far = 8 + (distance.clamp(min=1).float() / 8).log().clamp(min=0).mul(4).long().clamp(max=7)
    return torch.where(distance < 8, near, far)


def _last(net, x):
    return net.dense(x)[:, -1]


def _last_by_length(net, x):
    return net.dense(x)[:, x.shape[1] - 1]


def _last_by_index(net, x):
    return net.dense(x).index_select(1, torch.tensor([x.shape[1] - 1]))


def _mean(net, x):
    return net.dense(x).mean(1)


def _mean_by_length(net, x):
    return net.dense(x).sum(1) / x.shape[1]


def _mean_by_mask(net, x, mask):
    return (net.dense(x) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def _variance(net, x):
    return net.dense(x).var(1)


def _normalized(net, x):
    y = net.dense(x)
    return (y - y.mean(1, keepdim=True)) / (y.std(1, keepdim=True) + 1e-5)


def _root_of_length(net, x):
    return net.dense(x) / math.sqrt(x.shape[1])


def _table_learned(net, x):
    return net.dense(x + net.places.weight[: x.shape[1]])


def _table_embedded(net, x):
    return net.dense(x + net.places(torch.arange(x.shape[1])))


def _table_of_waves(net, x):
    return net.dense(x * math.sqrt(WIDTH) + net.table[: x.shape[1]])


def _places_over_number(net, x):
    return net.dense(x + torch.linspace(0, 1, x.shape[1])[:, None])


def _mask_causal(net, x):
    return attend_itself(net, x, forbid_later(x.shape[1], x.shape[1]))


def _mask_causal_of_torch(net, x):
    heads = [
        part(x).reshape(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)
        for part in (net.query, net.key, net.value)
    ]
    return (
        functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
    )


def _mask_window(net, x):
    places = torch.arange(x.shape[1])
    far = (places[:, None] - places).abs() > 2
    return attend_itself(net, x, far.float() * -1e4)


def _mask_of_lengths(net, x, lengths):
    seen = torch.arange(x.shape[1]) < lengths[:, None]
    return attend_itself(net, x, (~seen).float()[:, None, None] * -1e4)


def _mask_as_input(net, x, mask):
    return attend_itself(net, x, (1 - mask)[:, None, None] * -1e4)


def _bias_by_distance(net, x):
    places = torch.arange(x.shape[1])
    slopes = torch.tensor([0.5, 0.25])[:, None, None]
    return attend_itself(net, x, -slopes * (places[:, None] - places).abs())


def _bias_by_bucket(net, x):
    places = torch.arange(x.shape[1])
    return attend_itself(
        net, x, net.buckets(bucket((places[:, None] - places).abs())).permute(2, 0, 1)
    )


def _encoder(net, x):
    return net.layer(x)


def _attention_of_torch(net, x):
    return net.layer(x, x, x, need_weights=False)[0]


def _rotated(net, x):
    places = torch.arange(x.shape[1])
    return attend(net, turn(net.query(x), places), turn(net.key(x), places), net.value(x))


def _cache(net, q, x):
    k = torch.cat([x, q], 1)
    return attend(net, net.query(q), k, k), k


def _cache_with_mask(net, q, x):
    k = torch.cat([x, q], 1)
    return attend(net, net.query(q), k, k, forbid_later(q.shape[1], k.shape[1])), k


def _cache_rotated(net, q, x):
    k = torch.cat([x, turn(net.key(q), x.shape[1] + torch.arange(q.shape[1]))], 1)
    return attend(net, turn(net.query(q), x.shape[1] + torch.arange(q.shape[1])), k, k), k


def _cache_rotated_by_input(net, q, x, places):
    k = torch.cat([x, turn(net.key(q), places)], 1)
    return attend(net, turn(net.query(q), places), k, k), k


def _cache_with_table(net, q, x):
    q = q + net.places(x.shape[1] + torch.arange(q.shape[1]))
    k = torch.cat([x, q], 1)
    return attend(net, net.query(q), k, k), k


def _cache_with_layer(net, q, x):
    q = net.layer(q) * 1.5
    k = torch.cat([x, net.key(q)], 1)
    return attend(net, net.query(q), k, k), k


def _cache_of_last_tokens(net, q, x):
    k = torch.cat([x, q], 1)[:, -x.shape[1] :]
    return attend(net, net.query(q), k, k), k


def _recurrent_last(net, x):
    return net.dense(net.layer(x)[0][:, -1])


def _recurrent_mean(net, x):
    return net.dense(net.layer(x)[0].mean(1))


def _convolution_mean(net, x):
    return net.dense(functional.adaptive_avg_pool1d(net.layer(x.transpose(1, 2)), 1)[..., 0])


def _convolution_flat(net, x):
    flat = net.layer(x.transpose(1, 2)).flatten(1)
    return flat @ torch.ones(flat.shape[1], 3)


def _upsampled(net, x):
    return functional.interpolate(net.layer(x.transpose(1, 2)), scale_factor=2.0)


def _upsampled_to_size(net, x):
    y = net.layer(x.transpose(1, 2))
    return functional.interpolate(functional.max_pool1d(y, 3), size=y.shape[2]) + y


def _halves(net, x):
    half = x.shape[1] // 2
    return net.dense(x[:, :half]).sum(1) - net.dense(x[:, half:]).sum(1)


def _flipped(net, x):
    return net.dense(x) + x.flip(1)


def _cumulative(net, x):
    return net.dense(x.cumsum(1))


def _best(net, x):
    return net.dense(x).topk(x.shape[1] // 2, 1)[0].sum(1)


def _padded(net, x):
    return net.dense(functional.pad(x, (0, 0, 0, (-x.shape[1]) % 4))).sum(1)


def _padded_for_a_window(net, x):
    return net.dense(functional.pad(x, (0, 0, 1, 1))).sum(1)


def _first(net, x):
    return net.dense(x[:, :4]).sum(1)


def _all_but_first(net, x):
    return net.dense(x[:, 1:]).sum(1)


def _differences(net, x):
    return (x[:, 1:] - x[:, :-1]).abs().sum(1)


def _weighted_sum(net, x):
    return (net.dense(x) * net.query(x)[..., :1].softmax(1)).sum(1)


def _outer(net, x):
    return (net.query(x)[:, :, None] + net.key(x)[:, None]).relu().mean((1, 2))


def _layer_norm_over_all(net, x):
    return functional.layer_norm(x, x.shape[1:])


def _places(count):
    return nn.Embedding(count, WIDTH)


TOKENS = {"x": (1, "t", WIDTH)}
STEP, PAST = {"q": (1, 1, WIDTH), **TOKENS}, {"q": (1, 2, WIDTH), **TOKENS}
MASKED, LENGTHS = {**TOKENS, "mask": (1, "t")}, {**TOKENS, "lengths": (1,)}
PLACED = {**PAST, "places": (1, 2)}
WHOLE = ("lengths", "places")
"""Inputs of whole numbers."""
NETS = {
    "last": (_last, TOKENS, {}),
    "last_by_length": (_last_by_length, TOKENS, {}),
    "last_by_index": (_last_by_index, TOKENS, {}),
    "mean": (_mean, TOKENS, {}),
    "mean_by_length": (_mean_by_length, TOKENS, {}),
    "mean_by_mask": (_mean_by_mask, MASKED, {}),
    "variance": (_variance, TOKENS, {}),
    "normalized": (_normalized, TOKENS, {}),
    "root_of_length": (_root_of_length, TOKENS, {}),
    "table_learned": (_table_learned, TOKENS, {"places": lambda: _places(MOST)}),
    "table_embedded": (_table_embedded, TOKENS, {"places": lambda: _places(MOST)}),
    "table_of_waves": (_table_of_waves, TOKENS, {}),
    "places_over_number": (_places_over_number, TOKENS, {}),
    "mask_causal": (_mask_causal, TOKENS, {}),
    "mask_causal_of_torch": (_mask_causal_of_torch, TOKENS, {}),
    "mask_window": (_mask_window, TOKENS, {}),
    "mask_of_lengths": (_mask_of_lengths, LENGTHS, {}),
    "mask_as_input": (_mask_as_input, MASKED, {}),
    "bias_by_distance": (_bias_by_distance, TOKENS, {}),
    "bias_by_bucket": (_bias_by_bucket, TOKENS, {"buckets": lambda: nn.Embedding(16, HEADS)}),
    "encoder": (
        _encoder,
        TOKENS,
        {"layer": lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True)},
    ),
    "attention_of_torch": (
        _attention_of_torch,
        TOKENS,
        {"layer": lambda: nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)},
    ),
    "rotated": (_rotated, TOKENS, {}),
    "cache": (_cache, PAST, {}),
    "cache_with_mask": (_cache_with_mask, PAST, {}),
    "cache_rotated": (_cache_rotated, PAST, {}),
    "cache_rotated_by_input": (_cache_rotated_by_input, PLACED, {}),
    "cache_with_table": (_cache_with_table, PAST, {"places": lambda: _places(MOST)}),
    "cache_step_with_table": (_cache_with_table, STEP, {"places": lambda: _places(MOST)}),
    "cache_step_rotated": (_cache_rotated, STEP, {}),
    "cache_with_layer": (_cache_with_layer, PAST, {"layer": lambda: nn.LayerNorm(WIDTH)}),
    "cache_of_last_tokens": (_cache_of_last_tokens, PAST, {}),
    "recurrent_last": (
        _recurrent_last,
        TOKENS,
        {"layer": lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True)},
    ),
    "recurrent_mean": (
        _recurrent_mean,
        TOKENS,
        {"layer": lambda: nn.GRU(WIDTH, WIDTH, batch_first=True)},
    ),
    "convolution_mean": (
        _convolution_mean,
        TOKENS,
        {"layer": lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding=1)},
    ),
    "convolution_flat": (
        _convolution_flat,
        TOKENS,
        {"layer": lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding=1)},
    ),
    "upsampled": (_upsampled, TOKENS, {"layer": lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding=1)}),
    "upsampled_to_size": (
        _upsampled_to_size,
        TOKENS,
        {"layer": lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding=1)},
    ),
    "halves": (_halves, TOKENS, {}),
    "flipped": (_flipped, TOKENS, {}),
    "cumulative": (_cumulative, TOKENS, {}),
    "best": (_best, TOKENS, {}),
    "padded": (_padded, TOKENS, {}),
    "padded_for_a_window": (_padded_for_a_window, TOKENS, {}),
    "first": (_first, TOKENS, {}),
    "all_but_first": (_all_but_first, TOKENS, {}),
    "differences": (_differences, TOKENS, {}),
    "weighted_sum": (_weighted_sum, TOKENS, {}),
    "outer": (_outer, TOKENS, {}),
    "layer_norm_over_all": (_layer_norm_over_all, TOKENS, {}),
}
"""Of each network the function, the shapes of its inputs, where a name is a free size, and its own layers."""


def export(net, shapes, size, path, *, dynamo):
    """Write a network at one size."""
    inputs = []
    for name, shape in shapes.items():
        shape = [size if axis == "t" else axis for axis in shape]
        inputs.append(
            torch.ones(shape, dtype=torch.int64) if name in WHOLE else torch.rand(shape) + 0.5
        )
    names = {"input_names": [*shapes]}
    with torch.no_grad():
        if dynamo:
            program = torch.onnx.export(net, tuple(inputs), dynamo=True, **names)
            program.save(path, external_data=False)
        else:
            torch.onnx.export(
                net, tuple(inputs), str(path), dynamo=False, opset_version=17, **names
            )


def main(folder):
    logging.disable(logging.WARNING)  # the exporter names each library that it does not have
    # A kernel of its own, which one exporter does not translate
    torch.backends.mha.set_fastpath_enabled(False)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, shapes, parts) in NETS.items():
        torch.manual_seed(0)
        net = Net(function, **{part: make() for part, make in parts.items()}).eval()
        for dynamo in (True, False):
            for size in (OLD, NEW):
                kind = "dynamo" if dynamo else "script"
                path = folder / f"{name}.{kind}.{size}.onnx"
                if path.exists():
                    continue
                try:
                    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                        export(net, shapes, size, path, dynamo=dynamo)
                except Exception as error:  # the exporters raise whatever they like
                    print(f"{name}.{kind}.{size}: not exported: {str(error).splitlines()[0]}")
    (folder / "nets.json").write_text(
        json.dumps({name: shapes for name, (_, shapes, _) in NETS.items()})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
