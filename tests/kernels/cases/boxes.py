"""Cases for boxes. Plain data, drawn here where plain normals would give no boxes."""

import random


def _rows(count, seed, classes=3):
    """Rows id, score, left, top, right, bottom."""
    stream = random.Random(seed)
    rows = []
    for i in range(count):
        x, y = stream.uniform(0, 0.6), stream.uniform(0, 0.6)
        row = [stream.randrange(-1, classes), round(stream.uniform(-0.1, 1), 4) + i * 1e-4]
        rows += [*row, x, y, x + stream.uniform(0.1, 0.4), y + stream.uniform(0.1, 0.4)]
    return [round(value, 5) for value in rows]


def _nms(seed, batch=2, count=12, **attrs):
    return {
        "op": "_contrib_box_nms",
        "attrs": attrs,
        "inputs": [{"shape": [batch, count, 6], "values": _rows(batch * count, seed)}],
        "outputs": 1,
    }


CASES = [
    _nms(1),
    _nms(2, id_index="0"),
    _nms(3, id_index="0", force_suppress="True", overlap_thresh="0.2"),
    _nms(4, overlap_thresh="0.1", valid_thresh="0.3"),
    _nms(5, topk="4", overlap_thresh="0.3"),
    _nms(6, topk="0"),
    _nms(7, id_index="0", background_id="1", overlap_thresh="0.3"),
    _nms(8, out_format="center"),
    _nms(9, in_format="center", overlap_thresh="0.2"),
    _nms(10, in_format="center", out_format="center"),
    _nms(11, valid_thresh="2"),
    _nms(
        12, batch=1, count=40, id_index="0", overlap_thresh="0.45", topk="20", valid_thresh="0.01"
    ),
]
CASES += [
    {
        "op": "_contrib_box_iou",
        "attrs": attrs,
        "inputs": [
            {"shape": a, "values": _boxes[: a[0] * a[-1] * (a[1] if len(a) > 2 else 1)]},
            {"shape": b, "values": other},
        ],
    }
    for _boxes in ([v for row in range(6) for v in _rows(6, 20)[row * 6 + 2 : row * 6 + 6]],)
    for other in ([v for row in range(5) for v in _rows(5, 21)[row * 6 + 2 : row * 6 + 6]],)
    for a, b, attrs in (
        ([6, 4], [5, 4], {}),
        ([2, 3, 4], [5, 4], {"format": "center"}),
        ([2, 3, 4], [5, 4], {"format": "corner"}),
    )
]
CASES += [
    {
        "op": "_contrib_box_decode",
        "attrs": attrs,
        "inputs": [{"shape": [2, 6, 4]}, {"shape": [1, 6, 4], "values": _boxes}],
    }
    for _boxes in ([v for row in range(6) for v in _rows(6, 22)[row * 6 + 2 : row * 6 + 6]],)
    for attrs in (
        {},
        {"format": "corner", "std0": "0.1", "std1": "0.1", "std2": "0.2", "std3": "0.2"},
        {"format": "corner", "clip": "0.3"},
        {"std2": "0.5", "clip": "-1"},
    )
]
CASES += [
    {"op": "_contrib_MultiBoxPrior", "attrs": attrs, "inputs": [{"shape": [1, 2, 3, 5]}]}
    for attrs in (
        {},
        {
            "sizes": "(0.5, 0.25)",
            "ratios": "(1, 2, 0.5)",
            "steps": "(-1, -1)",
            "offsets": "(0.5, 0.5)",
        },
        {"sizes": "(0.5, 0.25)", "ratios": "(2, 0.5)", "clip": "True"},
        {"sizes": "(0.3)", "steps": "(0.2, 0.1)", "offsets": "(0.25, 0.75)"},
    )
]
