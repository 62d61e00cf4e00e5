"""Cases for single-shot detection. Plain data."""

import random

from tests.kernels.rounding import EPS, sum_rounding, with_atol


def _boxes(count, seed):
    stream = random.Random(seed)
    found = []
    for _ in range(count):
        x, y = stream.uniform(0, 0.6), stream.uniform(0, 0.6)
        found += [x, y, x + stream.uniform(0.15, 0.4), y + stream.uniform(0.15, 0.4)]
    return [round(value, 5) for value in found]


def _scores(batch, classes, count, seed):
    stream = random.Random(seed)
    return [round(stream.uniform(0, 1), 5) for _ in range(batch * classes * count)]


def _detection(seed, count=10, **attrs):
    return {
        "op": "_contrib_MultiBoxDetection",
        "attrs": attrs,
        "inputs": [
            {"shape": [2, 4, count], "values": _scores(2, 4, count, seed)},
            {"shape": [2, 4 * count], "scale": 0.8},
            {"shape": [1, count, 4], "values": _boxes(count, seed)},
        ],
    }


def _target(seed, count=12, empty=False, **attrs):
    boxes, labels = _boxes(count, seed), []
    for sample in range(2):
        real = _boxes(3 - sample, seed + 100 + sample)
        for row in range(4):
            known = row < 3 - sample and not (empty and sample)
            labels += [float(row), *real[row * 4 : row * 4 + 4]] if known else [-1.0] * 5
    return {
        "op": "_contrib_MultiBoxTarget",
        "attrs": attrs,
        "inputs": [
            {"shape": [1, count, 4], "values": boxes},
            {"shape": [2, 4, 5], "values": labels},
            {"shape": [2, 4, count]},
        ],
        "outputs": 3,
    }


CASES = [
    _detection(1),
    _detection(2, clip="False", threshold="0.8"),
    _detection(3, nms_threshold="0.2", force_suppress="True"),
    _detection(4, nms_topk="4", nms_threshold="0.3"),
    _detection(5, variances="(0.2, 0.1, 0.3, 0.1)", nms_threshold="0.3"),
    _detection(6, threshold="2.0"),
    _detection(7, nms_threshold="-1"),
    _detection(8, count=30, nms_threshold="0.45", nms_topk="20", threshold="0.6"),
    _target(1),
    _target(2, overlap_threshold="0.2"),
    _target(3, overlap_threshold="0.3", negative_mining_ratio="1", negative_mining_thresh="0.5"),
    _target(4, overlap_threshold="0.3", negative_mining_ratio="2", ignore_label="-2"),
    _target(5, empty=True),
    _target(6, variances="(0.2, 0.1, 0.3, 0.1)"),
    _target(7, negative_mining_ratio="0.5", minimum_negative_samples="5"),
]


def rounding(case):
    """Coordinates are up to 1; the distance of two centres is divided by a width of at least 0.15
    and a variance of 0.1.
    """
    return EPS["float32"] / 2 / (0.15 * 0.1) if case["op"].endswith("Target") else sum_rounding(2)


CASES = with_atol(CASES, rounding)
