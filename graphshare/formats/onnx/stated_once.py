"""Refuse repeated singular fields in messages that are kept as bytes: types, and pairs of texts."""

from __future__ import annotations

from functools import lru_cache

from graphshare.formats.onnx.protobuf import BYTES, Data, Field, WireError, once, scan

_TYPES = {1: "tensor", 4: "element", 5: "map", 7: "pair", 8: "tensor", 9: "element"}
_KEY_TAG, _VALUE_TAG = 0x0A, 0x12  # tags of the texts of a pair
#: For each message: fields that occur once, fields of which one occurs, and inner messages.
_KINDS: dict[str, tuple[int, int, dict[int, str]]] = {
    "type": (once(6), once(*_TYPES), _TYPES),
    "tensor": (once(1, 2), 0, {2: "shape"}),
    "element": (once(1), 0, {1: "type"}),
    "map": (once(1, 2), 0, {2: "type"}),
    "shape": (0, 0, {1: "dimension"}),
    "dimension": (once(3), once(1, 2), {}),
    "pair": (once(1, 2), 0, {}),
    "value": (once(1, 2, 3), 0, {2: "type", 4: "pair"}),
    "training": (once(1, 2), 0, {3: "pair", 4: "pair"}),
}


def refuse_repeats(data: Data, field: Field, kind: str) -> None:
    """Raise WireError if a message of this kind, or one in it, repeats a singular field.

    Like protobuf, it does not read fields of another wire type as messages.
    """
    _, wire_type, _, start, end = field
    if wire_type == BYTES and not (kind == "pair" and _is_plain_pair(data[start:end])):
        try:
            _check(data[start:end], kind)
        except WireError as error:
            raise WireError(str(error), start + error.position) from None


def _is_plain_pair(pair: bytes) -> bool:
    """Whether a message is a pair of two short texts, the usual case: many nodes have pairs, and
    scans are slow.
    """
    if len(pair) < 4 or pair[0] != _KEY_TAG or pair[1] >= 128:
        return False
    value = pair[2 + pair[1] :]
    if len(value) < 2 or value[0] != _VALUE_TAG:
        return False
    if value[1] < 128:
        return len(value) == 2 + value[1]
    return len(value) > 2 and value[2] < 128 and len(value) == 3 + value[1] - 128 + (value[2] << 7)


@lru_cache(maxsize=1 << 12)  # most values of a model have one of a few types
def _check(message: bytes, kind: str) -> None:
    pending = [(0, len(message), kind)]
    for start, end, each in pending:
        single, choice, inner = _KINDS[each]
        chosen = 0
        for number, wire_type, begin, value, stop in scan(message, start, end, single | choice):
            if choice >> number & 1:
                if chosen:
                    raise WireError(
                        f"fields {chosen} and {number} occur in a message that has one of them",
                        begin,
                    )
                chosen = number
            if number in inner and wire_type == BYTES:
                pending.append((value, stop, inner[number]))
