"""A transformer encoder as model libraries export it: masked self-attention by batched products,
layer norms, two dense layers.

The corpus has BERT, whose attention is one operator; here it is spelled out.
"""

from __future__ import annotations

from typing import Any

from tests.symbols import Document, document, operator, variable

WIDTH, HEADS, HIDDEN, LENGTH, BATCH = 8, 2, 16, 5, 3
Entry = tuple[int, int, int]


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def variable(self, name: str, shape: tuple[int, ...]) -> int:
        self.nodes.append(variable(name))
        self.shapes[name] = shape
        return len(self.nodes) - 1

    def apply(self, op: str, name: str, inputs: list[int], **attrs: str) -> int:
        self.nodes.append(operator(op, name, inputs, attrs=attrs))
        return len(self.nodes) - 1

    def dense(self, name: str, x: int, width: int, units: int) -> int:
        weight, bias = (
            self.variable(f"{name}_weight", (units, width)),
            self.variable(f"{name}_bias", (units,)),
        )
        return self.apply(
            "FullyConnected", name, [x, weight, bias], num_hidden=str(units), flatten="False"
        )

    def norm(self, name: str, x: int) -> int:
        gamma, beta = (
            self.variable(f"{name}_gamma", (WIDTH,)),
            self.variable(f"{name}_beta", (WIDTH,)),
        )
        return self.apply("LayerNorm", name, [x, gamma, beta], axis="-1", eps="1e-12")

    def heads(self, name: str, x: int) -> int:
        """(batch, length, width) as (batch * heads, length, width of a head)."""
        x = self.apply("Reshape", f"{name}_split", [x], shape=f"(0, 0, {HEADS}, -1)")
        x = self.apply("transpose", f"{name}_transposed", [x], axes="(0, 2, 1, 3)")
        return self.apply("Reshape", f"{name}_heads", [x], shape="(-1, 0, 0)", reverse="True")

    def layer(self, name: str, x: int, mask: int) -> int:
        q, k, v = (
            self.heads(f"{name}_{part}", self.dense(f"{name}_{part}", x, WIDTH, WIDTH))
            for part in ("q", "k", "v")
        )
        q = self.apply("_contrib_div_sqrt_dim", f"{name}_scaled", [q])
        scores = self.apply("batch_dot", f"{name}_scores", [q, k], transpose_b="True")
        scores = self.apply("broadcast_add", f"{name}_masked", [scores, mask])
        weights = self.apply("softmax", f"{name}_attention", [scores], axis="-1")
        out = self.apply("batch_dot", f"{name}_context", [weights, v])
        out = self.apply("Reshape", f"{name}_apart", [out], shape=f"(-4, -1, {HEADS}, 0, 0)")
        out = self.apply("transpose", f"{name}_back", [out], axes="(0, 2, 1, 3)")
        out = self.dense(
            f"{name}_proj",
            self.apply("Reshape", f"{name}_joined", [out], shape="(0, 0, -1)"),
            WIDTH,
            WIDTH,
        )
        x = self.norm(f"{name}_norm1", self.apply("elemwise_add", f"{name}_plus1", [x, out]))
        out = self.dense(f"{name}_ffn1", x, WIDTH, HIDDEN)
        out = self.dense(
            f"{name}_ffn2",
            self.apply("LeakyReLU", f"{name}_gelu", [out], act_type="gelu"),
            HIDDEN,
            WIDTH,
        )
        return self.norm(f"{name}_norm2", self.apply("elemwise_add", f"{name}_plus2", [x, out]))


def encoder(
    layers: int = 2,
) -> tuple[Document, dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """The graph, the shapes of its inputs, and those of its parameters."""
    w = _Writer()
    x, length = w.variable("data", (BATCH, LENGTH, WIDTH)), w.variable("valid_length", (BATCH,))
    steps = w.apply("_contrib_arange_like", "steps", [x], axis="1")
    row = w.apply("expand_dims", "row", [steps], axis="0")
    beyond = w.apply(
        "broadcast_greater_equal",
        "beyond",
        [row, w.apply("expand_dims", "lengths", [length], axis="1")],
    )
    mask = w.apply("_mul_scalar", "penalty", [beyond], scalar="-1e18")
    mask = w.apply(
        "repeat",
        "mask",
        [w.apply("expand_dims", "of_rows", [mask], axis="1")],
        repeats=str(HEADS),
        axis="0",
    )
    for i in range(layers):
        x = w.layer(f"encoder_layer{i}", x, mask)
    inputs = {name: w.shapes.pop(name) for name in ("data", "valid_length")}
    return document(w.nodes, [x], row_ptr=False), inputs, w.shapes
