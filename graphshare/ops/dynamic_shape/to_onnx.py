"""Operators whose output size depends on values are not exported; the others of the family are."""

from __future__ import annotations

from graphshare.ops.translation import NoTranslation, Translation, Translator, copy_input

_REASON = "the shape of its output depends on values"


def translate_shares_memory(t: Translation) -> str:
    """Return a constant: arrays of a graph do not share memory."""
    return t.number(False, "bool")


TRANSLATIONS = (
    Translator("_CrossDeviceCopy", copy_input),
    Translator("_npi_share_memory", translate_shares_memory),
    NoTranslation("_npi_unique", _REASON),
    NoTranslation("_npx_nonzero", _REASON),
    NoTranslation("_npi_bincount", _REASON),
    NoTranslation("_npx_constraint_check", "ONNX has no operator that stops where a value is false"),
)
