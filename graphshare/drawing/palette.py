"""The colours of drawings, light and dark. Text on its fill has a contrast of at least 7, lines of
at least 3.
"""

from __future__ import annotations

import msgspec


class Paint(msgspec.Struct, frozen=True):
    """Colours of a kind of box."""

    fill: str
    stroke: str
    text: str


class Palette(msgspec.Struct, frozen=True):
    """One background and its colours; ``kinds`` paint boxes and operators, ``highlight`` renamed
    boxes.

    ``marks`` are for comparisons. No kind of operators has the orange of ``shared`` or the blue of
    ``scope``.
    """

    background: str
    text: str
    line: str
    cluster: str
    cluster_fill: str
    shared_line: str
    kinds: dict[str, Paint]
    marks: dict[str, Paint]


LIGHT = Palette(
    background="#ffffff",
    text="#3d4a59",
    line="#66788c",
    cluster="#b3bfcc",
    cluster_fill="#f8fafc",
    shared_line="#c05c00",
    kinds={
        "operator": Paint("#eef1f5", "#66788c", "#1b2733"),
        "scope": Paint("#dfe9fb", "#3b6fc4", "#10294f"),
        "input": Paint("#e2f3e4", "#3a8742", "#12381a"),
        "output": Paint("#44515f", "#2b3642", "#ffffff"),
        "layer": Paint("#cfe9f3", "#0e7490", "#06303c"),
        "normalization": Paint("#e8f1c4", "#647a12", "#2a3306"),
        "activation": Paint("#fbd5d1", "#c0392b", "#4d0f08"),
        "pooling": Paint("#f8efb0", "#857000", "#332b00"),
        "movement": Paint("#ebe2d8", "#7d6650", "#33271b"),
        "arithmetic": Paint("#f2def5", "#96449f", "#3a1140"),
        "flow": Paint("#c9d3de", "#4a5b6d", "#17212c"),
        "loss": Paint("#ffd0e0", "#b3124f", "#4d0621"),
        "parameter": Paint("#f0ecfb", "#7a68c4", "#2c2157"),
        "shared": Paint("#ffe3c2", "#c05c00", "#4d2600"),
        "highlight": Paint("#fcdcea", "#c2185b", "#560a2a"),
    },
    marks={
        "added": Paint("#cdf1d3", "#1a7f37", "#0a3616"),
        "removed": Paint("#ffd9d6", "#c62828", "#5c0b0b"),
        "changed": Paint("#fff0b8", "#9a6700", "#402c00"),
        "near": Paint("#d3f2f4", "#0b7d8a", "#053a40"),
        "apart": Paint("#ffc9c4", "#b71c1c", "#520606"),
        "unjudged": Paint("#eadcf7", "#7b45b5", "#34155a"),
    },
)
DARK = Palette(
    background="#0f141a",
    text="#c5d0dc",
    line="#8fa1b5",
    cluster="#44525f",
    cluster_fill="#151c24",
    shared_line="#ff9f43",
    kinds={
        "operator": Paint("#232d38", "#8294a8", "#e8eef4"),
        "scope": Paint("#1b3157", "#6c9cf0", "#e3edff"),
        "input": Paint("#18381e", "#6abf73", "#e2f7e4"),
        "output": Paint("#c5d0dc", "#eef3f8", "#111820"),
        "layer": Paint("#0b3a49", "#4cc3dd", "#dff6fc"),
        "normalization": Paint("#313a0c", "#b0c94a", "#f4fad8"),
        "activation": Paint("#561a15", "#f0837a", "#ffe4e1"),
        "pooling": Paint("#423803", "#d9bf33", "#fff6cf"),
        "movement": Paint("#3a2f25", "#b99c80", "#f6ece2"),
        "arithmetic": Paint("#42194a", "#d68ae0", "#fbe6fd"),
        "flow": Paint("#36424f", "#a9bace", "#eef4fa"),
        "loss": Paint("#5a0d31", "#ff6f9f", "#ffe3ec"),
        "parameter": Paint("#2c2450", "#a797ec", "#efeaff"),
        "shared": Paint("#50300b", "#ff9f43", "#fff0de"),
        "highlight": Paint("#521434", "#ff6fa6", "#ffe6f0"),
    },
    marks={
        "added": Paint("#0f3d1c", "#4ac26b", "#defbe5"),
        "removed": Paint("#57171a", "#ff7b72", "#ffe4e2"),
        "changed": Paint("#4a3607", "#e3b341", "#fff4d1"),
        "near": Paint("#0b3d44", "#4fc7d4", "#ddf9fc"),
        "apart": Paint("#63151a", "#ff6a63", "#ffe1df"),
        "unjudged": Paint("#382055", "#b98aef", "#f1e6fd"),
    },
)
THEMES = {"light": LIGHT, "dark": DARK}
