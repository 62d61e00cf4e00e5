"""Paddle's parameter sharing: by a layer's name, and by name scopes that carry defaults.

python -m examples.paddle_shared_fc
"""

from __future__ import annotations

from graphshare.builder import (
    AUTO_REUSE,
    PADDLE,
    PADDLE_NUMBERED,
    PADDLE_PER_KIND,
    Naming,
    Session,
    Var,
    fully_connected,
    initializers,
    placeholder,
    unique_names,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.builder.parameter_values import groups, operators
from graphshare.errors import RefusedError

SIZE = 20


def share_weight(naming: Naming = PADDLE) -> tuple[Session, Var, Var]:
    """Two layers of one name: one weight and one bias, two outputs."""
    with Session(naming) as session:
        data = placeholder("data", (None, SIZE))
        hidden1 = fully_connected(data, SIZE, name="FC", activation="sigmoid")
        hidden2 = fully_connected(hidden1, SIZE, name="FC", activation="sigmoid")
        return session, hidden1, hidden2


def not_share_weight(naming: Naming = PADDLE) -> tuple[Session, Var, Var]:
    """Two layers without a name: everything is their own."""
    with Session(naming) as session:
        data = placeholder("data", (None, SIZE))
        hidden1 = fully_connected(data, SIZE, activation="sigmoid")
        hidden2 = fully_connected(hidden1, SIZE, activation="sigmoid")
        return session, hidden1, hidden2


def share_by_guards() -> tuple[Session, list[Var]]:
    """Names that count from 0 twice: equal names, so shared parameters; with a prefix they are others."""
    with Session(PADDLE_PER_KIND) as session:
        data = placeholder("data", (None, SIZE))
        found = []
        for prefix in ("", "", "A"):
            with unique_names(prefix=prefix):
                found.append(fully_connected(data, SIZE))
        return session, found


def fc(x: Var, size: int, scope: str | None = None, *, reuse: bool = False) -> Var:
    """A layer that shares the parameters of ``scope``, or has its own without one.

    Raises:
        RefusedError: ``reuse`` without a scope to find the parameters in.
    """
    if scope is None:
        if reuse:
            raise RefusedError("reuse needs the scope of the parameters")
        w, b = variable(shape=(size, SIZE)), variable(shape=(1, size))
        return op.broadcast_add(op.FullyConnected(x, weight=w, num_hidden=size, no_bias=True), b)
    with variable_scope(scope, reuse=True if reuse else AUTO_REUSE):
        w, b = variable("W", (size, SIZE)), variable("b", (1, size))
        return op.broadcast_add(op.FullyConnected(x, weight=w, num_hidden=size, no_bias=True), b)


def two_level_fc(x: Var, prefix: str | None = None) -> Var:
    """A block of two layers; blocks of one prefix share both layers' parameters."""
    out1 = fc(x, SIZE, prefix and f"{prefix}-level0")
    return fc(out1, SIZE, prefix and f"{prefix}-level1")


def two_level_blocks() -> tuple[Session, list[Var]]:
    """Four blocks on four inputs: the first three share, the fourth has parameters of its own."""
    with Session(PADDLE_NUMBERED) as session:
        inputs = [placeholder(f"a{i}", (None, SIZE)) for i in range(1, 5)]
        return session, [
            two_level_fc(x, prefix)
            for x, prefix in zip(inputs, ("fc0", "fc0", "fc0", None), strict=True)
        ]


def scopes_with_defaults() -> dict[str, Var]:
    """What variables inherit from the scopes around them, and an absolute name."""
    outer = initializers.normal(0.02)
    with Session(PADDLE_NUMBERED):
        with variable_scope(initializer=outer):
            found = {name: variable(shape=(20, 20)) for name in ("a1", "a2", "a3", "b")}
        with (
            variable_scope("net", initializer=outer, regularizer=0.5, dtype="float64"),
            variable_scope("frozen", trainable=False),
        ):
            found["inner"] = variable("w", (2, 2))
            found["own"] = variable("v", (2, 2), initializer=initializers.zeros(), dtype="float32")
            found["absolute"] = variable("shared/w", (2, 2), absolute=True)
            with variable_scope("elsewhere", absolute=True):
                found["in an absolute scope"] = variable("w", (2, 2))
        return found


def main() -> None:
    """Shows all of it."""
    for made in (share_weight, not_share_weight):
        for naming in (PADDLE, PADDLE_PER_KIND):
            session, *hidden = made(naming)
            print(
                f"{made.__name__}: {[x.name for x in session.params]}, outputs {[x.name for x in hidden]}"
            )
    session, blocks = two_level_blocks()
    print("two-level blocks:", *(x.name for x in session.params))
    for scope, nodes in groups(operators(blocks)).items():
        print(f"  {scope or '(no scope)'}: {', '.join(node.name for node in nodes)}")
    for what, var in scopes_with_defaults().items():
        print(f"{what}: {var.name} {dict(var.node.attrs)}")


if __name__ == "__main__":
    main()
