"""Sorting in ONNX: like the kernel, ``TopK`` keeps equal values in order."""

from __future__ import annotations

from math import prod

from graphshare.ops.translation import NoTranslation, Translation, Translator, Value
from graphshare.ops.unification import normalize_axis


def _emit_top(t: Translation, count: int) -> tuple[str, str, int]:
    """Emit the first ``count`` values (0: all) and int64 indices; return these and the axis."""
    x = t.inputs[0]
    t.refuse_booleans()
    axis = 0 if t.attrs["axis"] is None else normalize_axis(t.attrs["axis"], x.rank)
    shape = (prod(x.shape),) if t.attrs["axis"] is None else x.shape
    data = t.reshape(x, shape)
    values, places = t.emit_several(
        "TopK",
        2,
        data,
        t.integers([count if count > 0 else shape[axis]]),
        axis=axis,
        largest=int(not t.attrs["is_ascend"]),
        sorted=1,
    )
    return values, places, axis


def translate_topk(t: Translation) -> str | list[str]:
    """Emit ``TopK``: values, indices, both, or a mask."""
    kind, x = t.attrs["ret_typ"], t.inputs[0]
    values, places, axis = _emit_top(t, t.attrs["k"])
    if kind == "mask":
        return _emit_mask(t, x, places, axis)
    indices = t.cast(places, t.attrs["dtype"], "int64")
    return indices if kind == "indices" else [values, indices]


def _emit_mask(t: Translation, x: Value, places: str, axis: int) -> str:
    shape = (prod(x.shape),) if t.attrs["axis"] is None else x.shape
    count = t.attrs["k"] if t.attrs["k"] > 0 else shape[axis]
    zeros = t.emit("Expand", t.number(0, x.dtype), t.integers(shape))
    ones = t.emit(
        "Expand", t.number(1, x.dtype), t.integers((*shape[:axis], count, *shape[axis + 1 :]))
    )
    mask = t.emit("ScatterElements", zeros, places, ones, axis=axis)
    return mask if shape == x.shape else t.reshape(mask, x.shape)


_NUMBERS = "its data is not bool"
TRANSLATIONS = (
    Translator("sort", lambda t: _emit_top(t, 0)[0], _NUMBERS),
    Translator(
        "argsort", lambda t: t.cast(_emit_top(t, 0)[1], t.attrs["dtype"], "int64"), _NUMBERS
    ),
    Translator("topk", translate_topk, _NUMBERS),
    *(
        NoTranslation(name, "the shape of its output depends on values")
        for name in ("_npi_unique", "_npx_nonzero")
    ),
)
