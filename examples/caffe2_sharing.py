"""Caffe2's ParameterSharing: scope overrides while authoring.

    python -m examples.caffe2_sharing

Caffe2's NameScope is :func:`variable_scope` here: parameters and outputs both take it. An override
moves parameters alone.
"""

from __future__ import annotations

from contextlib import ExitStack

from graphshare.builder import (
    BREW,
    CAFFE2,
    Session,
    Var,
    parameter_sharing,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.builder import operators as op


def parameter_name(*scopes: str) -> str:
    """The name that a parameter ``w`` has inside of these scopes, one in the other."""
    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(variable_scope(scope))
        return variable("w", (1,)).name


def reference_table() -> dict[str, str]:
    """Overrides ``{scope_b: scope_a}`` and, inside of ``scope_b``, ``{shared_child: ''}``: where
    ``w`` is for each scope.
    """
    with Session(CAFFE2), parameter_sharing({"scope_b": "scope_a"}):
        found = {scope: parameter_name(scope) for scope in ("scope_a", "scope_b", "scope_c")}
        with variable_scope("scope_b"), parameter_sharing({"shared_child": ""}):
            found["scope_b/shared_child"] = parameter_name("shared_child")
            found["scope_b/unshared_child"] = parameter_name("unshared_child")
        return found


def without_sharing() -> list[str]:
    """Plain scopes."""
    with Session(CAFFE2):
        return [parameter_name(), parameter_name("scope"), parameter_name("scope", "scope_2")]


def nested_sharing() -> dict[str, str]:
    """Blocks inside of blocks: what holds for a model holds for its parts."""
    with Session(CAFFE2), variable_scope("global_scope"), parameter_sharing({"model_b": "model_a"}):
        found = {"global_scope": parameter_name()}
        for model in ("model_b", "model_c"):
            with variable_scope(model), parameter_sharing({"shared_scope": ""}):
                found[model] = parameter_name()
                found[f"{model}/shared_scope"] = parameter_name("shared_scope")
        return found


def sharing_of_subscopes() -> dict[str, str]:
    """Overrides that are given from outside, by paths."""
    with (
        Session(CAFFE2),
        parameter_sharing({"global_scope/b": "global_scope/a"}),
        variable_scope("global_scope"),
    ):
        return {"": parameter_name(), **{scope: parameter_name(scope) for scope in "abc"}}


def two_parameters_of_one_name() -> tuple[Var, Var]:
    """``w`` at the root and ``w`` in a scope are two."""
    with Session(CAFFE2):
        first = variable("w", (1,))
        with variable_scope("some_global_scope"):
            return first, variable("w", (1,))


def three_levels() -> str:
    """Each block inside of the scope that the one before it moved."""
    with (
        Session(CAFFE2),
        parameter_sharing({"a": "b"}),
        variable_scope("a"),
        parameter_sharing({"c": "d"}),
        variable_scope("c"),
        parameter_sharing({"e": "f"}),
        variable_scope("e"),
    ):
        return parameter_name()


def brew_fc(x: Var, name: str, size: int = 16) -> Var:
    """A fully connected layer as brew names it: ``fc1_w``, ``fc1_b``."""
    return op.FullyConnected(x, num_hidden=size, name=name)


def brew_model() -> tuple[list[str], list[str]]:
    """Parameters and outputs of a net whose second model shares all but a part's parameters with its first."""
    with Session(BREW) as session:
        fc1 = brew_fc(placeholder("data", (4, 16)), "fc1")
        outputs = []
        with variable_scope("some_global_scope"):
            with variable_scope("model_a"):
                outputs.append(brew_fc(fc1, "output"))
            with (
                parameter_sharing({"model_b": "model_a"}),
                variable_scope("model_b"),
                parameter_sharing({"shared_1": "", "shared_2": ""}),
            ):
                for scope in ("shared_1", "shared_2", "unshared"):
                    with variable_scope(scope):
                        outputs.append(brew_fc(fc1, "output"))
        return [x.name for x in session.params], [x.name for x in outputs]


def layer(x: Var, size: int = 2, name: str | None = None) -> tuple[str, str]:
    """A fully connected layer, named automatically unless ``name`` is given: the name of its
    weight, and of its output.
    """
    output = op.FullyConnected(x, num_hidden=size, name=name)
    return output.node.inputs[1].node.name, output.name


def automatic_layers() -> list[tuple[str, str]]:
    """A layer's automatic name is a scope: ``fc``, then ``fc_auto_0``."""
    with Session(CAFFE2):
        x = placeholder("float_features", (4, 2))
        with variable_scope("global_scope"):
            found = [layer(x)]
            with variable_scope("nested_scope"):
                return [*found, layer(x), layer(x)]


def layers_of_two_scopes() -> list[tuple[str, str]]:
    """Parameters are shared, outputs are not."""
    with Session(CAFFE2):
        x = placeholder("float_features", (4, 2))
        found = []
        with variable_scope("global_scope"), parameter_sharing({"scope_1": "scope_0"}):
            for scope in ("scope_0", "scope_1"):
                with variable_scope(scope):
                    found.append(layer(x))
        return found


def layers_of_one_scope() -> list[str]:
    """Overrides of layers: by automatic names, then by given ones."""
    with Session(CAFFE2):
        x = placeholder("float_features", (4, 2))
        with variable_scope("global_scope"):
            with parameter_sharing({"fc_auto_0": "fc"}):
                found = [layer(x)[0], layer(x)[0]]
            with parameter_sharing({"new_fc": "shared_fc"}):
                return [*found, layer(x, name="shared_fc")[0], layer(x, name="new_fc")[0]]


def two_uses(*, shared: bool = True) -> tuple[Session, Var]:
    """A cost of two layers on one input, whose parameters are shared or not: the session and the cost."""
    with Session(CAFFE2) as session:
        x = placeholder("float_features", (4, 2))
        outputs = []
        with (
            variable_scope("global_scope"),
            parameter_sharing({"scope_1": "scope_0"} if shared else {}),
        ):
            for scope in ("scope_0", "scope_1"):
                with variable_scope(scope):
                    outputs.append(op.FullyConnected(x, num_hidden=2, name="fc"))
        return session, op.sum(op.square(outputs[0] + outputs[1] * 2), name="cost")


def descend(session: Session, cost: Var, features: list[list[float]], rate: float) -> float:
    """A step as Caffe2 spells it: for each parameter a weighted sum of it and its gradient.

    Returns the cost after it.
    """
    session.gradients(cost, {"float_features": features})
    for param in session.params:
        param_grad = session.param_to_grad[param]
        session.set_value(param, session.value(param) - rate * param_grad)
    return session.run(cost, {"float_features": features}).item()


def main() -> None:
    """Shows all of it."""
    for scope, name in reference_table().items():
        print(f"{scope:24} -> {name}")
    print("without sharing:", *without_sharing())
    for scope, name in nested_sharing().items():
        print(f"{scope:24} -> {name}")
    print("sub-scopes:", sharing_of_subscopes())
    print("three levels:", three_levels())
    parameters, outputs = brew_model()
    print(len(parameters), "parameters:", *parameters)
    print(len(outputs), "outputs:", *outputs)
    print("layers:", *automatic_layers(), *layers_of_two_scopes())
    print("layers of one scope:", *layers_of_one_scope())
    session, cost = two_uses()
    session.set_value("global_scope/scope_0/fc/w", [[1.0, 2.0], [3.0, 4.0]])
    costs = [descend(session, cost, [[0.1, 0.2]] * 4, rate=0.002) for _ in range(3)]
    print("cost of shared layers, by steps:", *costs)
    print("gradients:", *(param.name for param in session.param_to_grad))


if __name__ == "__main__":
    main()
