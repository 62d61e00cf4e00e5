"""The page of all operators, with the facts of the registry; a part of ``docs/generate.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphshare.ops.kernel import Kernel
    from graphshare.ops.signature import Signature

_HEAD = """# Operators

Every operator can be read, renamed, shared, cut and written, known or not. This page lists the
?<!-- fact: operators --> operators of MXNet 1.9.1 by family, with those of other versions that graphshare knows.
?<!-- fact: operators computed --> of them can be computed.

- **forward**: `run`, `verify` and `bind` compute it.
- **gradient**: yes; 0, as in MXNet, for the reason in the notes; loss, where MXNet ignores the gradient of the output; or no.
- **batch**: whether `duplicate --mode batch` keeps the samples of a batch apart. For some operators that depends on attributes
  and axes; "no" means that the operator mixes samples, or that nothing is known.
- **fused**: in inference a Convolution runs in one step with the operators marked here that follow it (Activation: only relu).

Another name that MXNet accepts for an operator stands behind "also"."""  # noqa: E501


def render_operators() -> str:
    """Return the page of all operators, with the facts of the registry."""
    from graphshare.ops import registry
    from graphshare.ops.index import ALIASES, FAMILY_OF

    signatures = {**registry.load_registered_signatures(), **registry.foreign_signatures()}
    kernels = registry.known_kernels()
    aliases: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        aliases.setdefault(name, []).append(alias)
    lines = [_HEAD]
    for family in sorted(set(FAMILY_OF.values())):
        names = sorted(
            (name for name in signatures if FAMILY_OF[name] == family),
            key=lambda name: name.lower().lstrip("_"),
        )
        lines += [
            f"\n## {family}\n",
            "| operator | forward | gradient | batch | fused | notes |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            _operator_row(signatures[name], kernels.get(name), aliases.get(name, []))
            for name in names
        ]
    return "\n".join(lines) + "\n"


def _operator_row(signature: Signature, kernel: Kernel | None, aliases: list[str]) -> str:
    from graphshare.ops.gradient import NoGradient
    from graphshare.ops.registry import find_gradient

    gradient = find_gradient(signature.name)
    notes = [] if not aliases else ["also " + ", ".join(f"`{alias}`" for alias in aliases)]
    notes += ["not in MXNet 1.9.1"] * (not signature.registered)
    notes += [f"not computed: {signature.no_kernel}"] * bool(signature.no_kernel)
    if isinstance(gradient, NoGradient):
        notes.append(f"{'gradient 0' if gradient.is_zero else 'no gradient'}: {gradient.reason}")
        slope = "0" if gradient.is_zero else "no"
    else:
        slope = "no" if gradient is None else "loss" if gradient.is_loss else "yes"
    fused = (
        "yes"
        if kernel is not None and (kernel.begin is not None or kernel.epilogue is not None)
        else ""
    )
    cells = (
        f"`{signature.name}`",
        "yes" if kernel else "no",
        slope,
        _batch_cell(signature),
        fused,
        "; ".join(notes),
    )
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def _batch_cell(signature: Signature) -> str:
    """Return what mode batch makes of an operator: its own rule decides before what its signature says."""
    from graphshare.ops.batch_axis import window_rule
    from graphshare.ops.registry import find_batch_rule

    if signature.couples_batch in ("always", "training"):
        return {"always": "no", "training": "not in training"}[signature.couples_batch]
    if find_batch_rule(signature.name) not in (None, window_rule):
        return "depends"
    return "yes" if signature.couples_batch in ("elementwise", "never") else "no"
