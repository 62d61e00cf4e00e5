"""TensorFlow's two scopes, and TensorNets' models on one set of weights.

    python -m examples.tensornets_scopes

Parameters take the variable scope alone; operators and inputs take both. What TensorFlow calls
``mul:0`` is ``mul_output``.
"""

from __future__ import annotations

import functools

from graphshare.builder import (
    AUTO_REUSE,
    TENSORFLOW,
    Model,
    Session,
    Var,
    constant,
    model,
    name_scope,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError

PICTURES = (None, 3, 224, 224)


def unit(
    x: Var, name: str, filters: int, kernel: int = 1, stride: int = 1, *, relu: bool = True
) -> Var:
    """A convolution with its BatchNorm, in a scope of its own."""
    with variable_scope(name):
        pad = (kernel // 2,) * 2
        x = op.Convolution(
            x, kernel=(kernel,) * 2, stride=(stride,) * 2, pad=pad, num_filter=filters, name="conv"
        )
        x = op.BatchNorm(x, fix_gamma=False, eps=1e-5, name="bn")
        return op.Activation(x, act_type="relu", name="relu") if relu else x


def block(x: Var, name: str, filters: int, stride: int, *, widens: bool) -> Var:
    """A bottleneck with its shortcut; its result is called ``out``."""
    with variable_scope(name):
        shortcut = unit(x, "0", 4 * filters, stride=stride, relu=False) if widens else x
        y = unit(x, "1", filters, stride=stride)
        y = unit(y, "2", filters, 3)
        y = unit(y, "3", 4 * filters, relu=False)
        return op.Activation(shortcut + y, act_type="relu", name="out")


@model("resnet50")
def resnet50(x: Var, classes: int = 1000) -> Var:
    """ResNet-50, version 1."""
    x = unit(x, "conv1", 64, 7, 2)
    x = op.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="pool1")
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=2):
        with variable_scope(f"conv{stage}"):
            for number in range(1, blocks + 1):
                stride = 2 if number == 1 and stage > 2 else 1
                x = block(x, f"block{number}", filters, stride, widens=number == 1)
    x = op.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", name="avgpool")
    x = op.FullyConnected(x, num_hidden=classes, name="logits")
    return op.softmax(x, name="probs")


def two_scopes() -> dict[str, str]:
    """What each scope is for, and what happens to a name that comes twice."""
    with Session(TENSORFLOW), name_scope("foo"), variable_scope("goo"), name_scope("hoo"):
        w = variable("w", (1,))
        s = constant(-1.0)
        y = s * w
        found = {"w": w.name, "s": s.name, "y": y.name}
        try:
            variable("w", (1,))
        except RefusedError as error:
            found["w again"] = error.faults[0].message
        return found


def model_in_scopes() -> tuple[Model, str]:
    """A model under both scopes, and the refusal of a second one without ``reuse``."""
    with Session(TENSORFLOW), name_scope("xoo"), variable_scope("yoo"), name_scope("zoo"):
        first = resnet50(placeholder("x1", PICTURES))
        try:
            resnet50(placeholder("x2", PICTURES))
        except RefusedError as error:
            return first, error.faults[0].message
    raise AssertionError("a second model without reuse was not refused")


def reused_variable() -> tuple[Var, Var, Var, Var]:
    """One parameter under two calls, and two operators on it."""
    with Session(TENSORFLOW), variable_scope("boo", reuse=AUTO_REUSE):
        w1, w2 = variable("w", (1,)), variable("w", (1,))
        s = constant(-1.0)
        return w1, w2, s * w1, s * w2


def models_in_a_scope() -> tuple[Model, Model]:
    """Two models on one set of weights: the first pattern, a variable scope around both."""
    with Session(TENSORFLOW), variable_scope("koo", reuse=AUTO_REUSE):
        x1, x2 = placeholder("x1", PICTURES), placeholder("x2", PICTURES)
        return resnet50(x1), resnet50(x2)


def models_with_reuse() -> tuple[Model, Model]:
    """The second pattern: ``reuse`` for each model."""
    with Session(TENSORFLOW):
        x1, x2 = placeholder("x1", PICTURES), placeholder("x2", PICTURES)
        return resnet50(x1, reuse=AUTO_REUSE), resnet50(x2, reuse=AUTO_REUSE)


def models_by_partial() -> tuple[Model, Model]:
    """The third, which is the second: ``reuse`` given once."""
    resnet = functools.partial(resnet50, reuse=AUTO_REUSE)
    with Session(TENSORFLOW):
        return resnet(placeholder("x1", PICTURES)), resnet(placeholder("x2", PICTURES))


def clones(size: int = 224, classes: int = 1000) -> tuple[Model, Model]:
    """The recommended pattern: a name scope for each clone, which leaves the weights where they are."""
    shape = (None, 3, size, size)
    with Session(TENSORFLOW):
        x1, x2 = placeholder("x1", shape), placeholder("x2", shape)
        with name_scope("clone0"):
            first = resnet50(x1, classes, reuse=AUTO_REUSE)
        with name_scope("clone1"):
            return first, resnet50(x2, classes, reuse=AUTO_REUSE)


@model("small")
def small(x: Var, label: Var) -> Var:
    """A small net with its cost."""
    x = op.Pooling(
        unit(x, "conv1", 4, 3), kernel=(1, 1), global_pool=True, pool_type="avg", name="avgpool"
    )
    return op.softmax_cross_entropy(
        op.FullyConnected(x, num_hidden=3, name="logits"), label, name="cost"
    )


def training_clones() -> tuple[Session, list[Var]]:
    """Clones with inputs and costs of their own, on one set of weights: the session and the costs."""
    with Session(TENSORFLOW) as session:
        costs = []
        for clone in ("clone0", "clone1"):
            with name_scope(clone):
                x, label = placeholder("x", (None, 3, 6, 6)), placeholder("label", (None,))
                costs.append(small(x, label, reuse=AUTO_REUSE).output)
        return session, costs


def main() -> None:
    """Shows all of it."""
    for what, name in two_scopes().items():
        print(f"{what}: {name}")
    first, refusal = model_in_scopes()
    print("output:", first.name)
    print("last of its weights:", first.get_weights()[-1].name)
    print("last of its middles:", first.get_middles()[-1].name)
    print("a second one:", refusal)
    print("reused:", *(x.name for x in reused_variable()))
    session, costs = training_clones()
    pictures = [[[[float(i * j + 1) for i in range(6)] for j in range(6)] for _ in range(3)]]
    feed = {"clone0/x": pictures, "clone1/x": pictures, "clone0/label": [0], "clone1/label": [1]}
    for _ in range(2):
        print("costs of two clones:", *session.step(costs, feed))
    print("trained, each once:", *(parameter.name for parameter in session.param_to_grad))
    for made in (models_in_a_scope, models_with_reuse, models_by_partial, clones):
        one, two = made()
        shared = all(a is b for a, b in zip(one.get_weights(), two.get_weights(), strict=True))
        print(f"{made.__name__}: {one.name} and {two.name}, weights shared: {shared}")


if __name__ == "__main__":
    main()
