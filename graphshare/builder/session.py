"""``Session``: an authored graph, its parameters' values, and runs and training of any part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from graphshare.analysis.roles import Kind
from graphshare.arguments import check_arguments
from graphshare.builder.apply_operator import apply
from graphshare.builder.naming import MXNET, Counters, Naming
from graphshare.builder.parameter_values import (
    CACHE_SIZE,
    ParameterValues,
    TrainingState,
    extract_graph,
)
from graphshare.builder.scopes import Scope, current_scope, enter, leave, register_default_scope
from graphshare.builder.var import Registry, ReuseLike, Var, resolve_reuse
from graphshare.errors import Fault, RefusedError, SelfCheckError, UsageError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import ExecutionPlan, make_plan
from graphshare.execute.prepare.variable_values import as_array, random_stream
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.trainer import Backpropagation
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import extend, is_directory, join
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.staging import find_differences
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.format import find_format
from graphshare.ir.graph import Graph, Node
from graphshare.ops.kernel import Array
from graphshare.text.names import did_you_mean, join_key
from graphshare.text.urls import local_path

_Target = Var | str
Feed = Mapping[Var, object] | Mapping[str, object] | Mapping[_Target, object]


class Session:
    """A graph being authored, and its parameters' values.

    ``reuse`` applies outside every scope (None: by the policy ``naming``), and initial values are
    drawn from ``seed``.
    """

    def __init__(self, naming: Naming = MXNET, *, reuse: ReuseLike = None, seed: int = 0) -> None:
        self.registry = Registry()
        self.root = Scope(self, naming, Counters(), reuse=resolve_reuse(reuse, None))
        self.seed = seed
        self._values = ParameterValues(self.registry, seed)
        self._trainer = TrainingState(self.registry, self._values, seed)
        self._plans: dict[tuple[tuple[Node, int], ...], ExecutionPlan] = {}

    def __enter__(self) -> Session:
        enter(self.root)
        return self

    def __exit__(self, *_: object) -> None:
        leave()

    def apply(
        self, operator: str, *inputs: Var, name: str | None = None, **named: object
    ) -> tuple[Var, ...]:
        return apply(operator, *inputs, name=name, **named)  # type: ignore[arg-type]  # reuse= is checked there

    @property
    def params(self) -> list[Var]:
        """The parameters, trainable or not, in the order of creation."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.PARAMETER]

    @property
    def auxiliary_states(self) -> list[Var]:
        """The variables that operators write into, in the order of creation."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.AUXILIARY]

    @property
    def inputs(self) -> list[Var]:
        """The variables that are fed, in the order of creation."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.INPUT]

    @check_arguments
    def var(self, name: str) -> Var:
        """Return a variable or output by name; ``fc1`` is the operator's first output,
        ``fc1_output``.

        Raises:
            RefusedError: no variable or output has that name.
        """
        node = self.registry.names.get(name)
        if node is not None:
            return self.registry.outputs[node][0]
        named = {
            output.name: output for outputs in self.registry.outputs.values() for output in outputs
        }
        if name not in named:
            raise RefusedError(
                Fault(f"nothing is called {name!r}", hint=did_you_mean(name, list(named)))
            )
        return named[name]

    @check_arguments
    def graph(self, targets: _Target | Sequence[_Target]) -> Graph:
        """Return the minimal graph with ``targets`` as its heads, for rewrites and files."""
        return extract_graph(self._resolve(targets))

    @check_arguments
    def value(self, parameter: _Target) -> Array:
        """Return a parameter's value, read-only, by default the initial one.

        Raises:
            RefusedError: it is not a parameter, or its shape is still unknown.
        """
        return self._values.get(self._resolve_parameter(parameter))

    @check_arguments
    def set_value(self, parameter: _Target, value: object) -> None:
        """Set a parameter to a copy of an array, or of anything that numpy converts to one.

        Raises:
            RefusedError: it is not a parameter, or the value has a different shape or a dtype that
                does not convert.
        """
        var = self._resolve_parameter(parameter)
        # The stored array becomes read-only; the caller's must not.
        array = self._values.convert(var, as_array(value)).copy()
        self._values.set(var.node, array)
        self.registry.refine(var, array.shape, None)

    @overload
    def run(  # type: ignore[overload-overlap]  # a str is one target, though it is a sequence of str
        self, targets: _Target, feed: Feed | None = None
    ) -> Array: ...
    @overload
    def run(self, targets: Sequence[_Target], feed: Feed | None = None) -> list[Array]: ...

    @check_arguments
    def run(
        self, targets: _Target | Sequence[_Target], feed: Feed | None = None
    ) -> Array | list[Array]:
        """Compute ``targets`` in inference mode, with only the nodes that they need.

        ``feed`` has values of inputs, and of parameters for this run only. Parameters without a
        value get their initial one.

        Raises:
            RefusedError: a needed input is not fed, a fed name does not exist, shapes do not fit,
                or an operator cannot be run here; all faults of one kind are listed.
        """
        resolved = self._resolve(targets)
        plan = self._make_plan(resolved)
        values, inference = self._values.complete(
            plan, resolved, self._resolve_feed(plan, feed or {})
        )
        # With a new stream, equal runs draw equal numbers.
        outputs = run_plan(
            plan, values, shapes=inference.shapes, rng=random_stream(self.seed)
        ).outputs
        return outputs[0] if isinstance(targets, (Var, str)) else outputs

    @property
    def param_to_grad(self) -> dict[Var, Array]:
        """The gradients of the last backward pass that reached parameters, summed over all uses."""
        return dict(self._trainer.gradients)

    @check_arguments
    def gradients(
        self,
        targets: _Target | Sequence[_Target],
        feed: Feed | None = None,
        wrt: _Target | Sequence[_Target] | None = None,
        *,
        head_gradients: Feed | None = None,
    ) -> dict[Var, Array]:
        """Return the gradients of the sum of ``targets`` with respect to ``wrt``, read-only.

        By default ``wrt`` has all parameters that the targets need and that are not fed. Targets
        that are not losses start from ``head_gradients``, or from ones; losses define their own
        gradients. A variable that no gradient reaches gets zeros. The forward pass runs in training
        mode; parameters and auxiliary states do not change until :meth:`update`.

        Raises:
            RefusedError: an operator has no gradient, the targets do not need a variable in
                ``wrt``, or as for :meth:`run`.
        """
        result = self._backpropagate(targets, feed, wrt, head_gradients)
        return {
            self.registry.outputs[node][0]: gradient for node, gradient in result.gradients.items()
        }

    @check_arguments
    def update(
        self,
        gradients: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
    ) -> None:
        """Make one step of gradient descent like MXNet's Module, for parameters that have
        ``gradients``.

        Without ``gradients`` it applies ``param_to_grad``, and auxiliary states take their values
        after the last pass. ``rescale`` multiplies the gradients; by default the last pass's
        gradients are divided by the batch size of its first data input, and ``gradients`` are not
        rescaled. For any other update use :meth:`set_value`.

        Raises:
            RefusedError: there are no gradients, some do not belong to parameters, or have a
                different shape; nothing has changed.
        """
        arrays = None
        if gradients is not None:
            arrays = {self._resolve(key)[0]: as_array(value) for key, value in gradients.items()}
        self._trainer.update(arrays, settings or Sgd(), rescale)

    @overload
    def step(  # type: ignore[overload-overlap]
        self,
        targets: _Target,
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> Array: ...
    @overload
    def step(
        self,
        targets: Sequence[_Target],
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> list[Array]: ...

    @check_arguments
    def step(
        self,
        targets: _Target | Sequence[_Target],
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> Array | list[Array]:
        """Make one training step: :meth:`gradients`, then :meth:`update`, of the needed parameters.

        Returns the values of ``targets`` before the update.

        Raises:
            RefusedError: as for these two; then nothing has changed.
        """
        result = self._backpropagate(targets, feed, None, head_gradients)
        self._trainer.update(None, settings or Sgd(), rescale)
        return result.outputs[0] if isinstance(targets, (Var, str)) else result.outputs

    def _backpropagate(
        self,
        targets: _Target | Sequence[_Target],
        feed: Feed | None,
        wrt: _Target | Sequence[_Target] | None,
        head_gradients: Feed | None,
    ) -> Backpropagation:
        resolved = self._resolve(targets)
        plan = self._make_plan(resolved)
        fed = self._resolve_feed(plan, feed or {})
        variables = None if wrt is None else self._resolve(wrt)
        heads = {
            self._resolve(key)[0]: as_array(value).copy()
            for key, value in (head_gradients or {}).items()
        }
        return self._trainer.backpropagate(resolved, plan, fed, variables, heads)

    def _resolve(self, targets: _Target | Sequence[_Target]) -> list[Var]:
        targets = [targets] if isinstance(targets, (Var, str)) else targets
        resolved = [self.var(target) if isinstance(target, str) else target for target in targets]
        foreign = [
            Fault(f"{var.name!r} belongs to another session")
            for var in resolved
            if var.session is not self
        ]
        if foreign or not resolved:
            raise RefusedError(
                foreign or [Fault("there are no targets", hint="give at least one target")]
            )
        return resolved

    def _make_plan(self, targets: Sequence[Var]) -> ExecutionPlan:
        """Plans are cached, because nodes are frozen."""
        key = tuple((var.node, var.entry.index) for var in targets)
        if key not in self._plans:
            # A growing graph keeps getting new targets.
            if len(self._plans) >= CACHE_SIZE:
                self._plans.clear()
            self._plans[key] = make_plan([var.entry for var in targets])
        return self._plans[key]

    def _resolve_feed(self, plan: ExecutionPlan, feed: Feed) -> dict[Node, Array]:
        """``feed`` may have more values than ``plan`` needs."""
        variables = self.registry.variables
        arrays = {self._resolve(key)[0]: as_array(value) for key, value in feed.items()}
        faults = [
            Fault(f"{var.name!r} is not a variable, so it cannot be fed")
            for var in arrays
            if not var.node.is_variable
        ]
        fed = {var.node: array for var, array in arrays.items() if var.node in plan.variables}
        for node in plan.variables:
            if node not in fed and variables[node.name].kind is Kind.INPUT:
                faults.append(
                    Fault(
                        f"input {node.name!r} is not fed",
                        hint=f"run(..., feed={{{node.name!r}: array}})",
                    )
                )
        if faults:
            raise RefusedError(faults)
        return fed

    def _resolve_parameter(self, parameter: _Target) -> Var:
        var = self._resolve(parameter)[0]
        variable = self.registry.variables.get(var.name)
        if variable is None or variable.var is not var or variable.kind is Kind.INPUT:
            raise RefusedError(
                Fault(f"{var.name!r} is not a parameter", hint="inputs are fed, see Session.run")
            )
        return var


_default: list[Session] = []


def default_session() -> Session:
    """Return the session for everything authored outside ``with session:``."""
    if not _default:
        # No lock: a fork might find it locked. The first of two threads' sessions is taken
        _default.append(Session())
    return _default[0]


def current_session() -> Session:
    """Return the innermost session entered, else the default one."""
    session = current_scope().session
    assert isinstance(session, Session)
    return session


def reset_default_session(session: Session | None = None) -> Session:
    """Make ``session``, or a new one, the default session; the old one keeps its graph."""
    session = session or Session()
    _default[:] = [session]
    return session


register_default_scope(lambda: default_session().root)


def save(
    session: Session, targets: _Target | Sequence[_Target], stem: str, *, epoch: int = 0
) -> tuple[str, str]:
    """Write the minimal graph of ``targets`` to ``STEM-symbol.json``, parameters to
    ``STEM-0000.params``.

    Returns the two paths. MXNet 1.9.1 would write the same files. Parameters without a value get
    their initial one.

    Raises:
        UsageError: ``stem`` is a directory, and the graph has no name for a file in it.
        RefusedError: a parameter's shape is unknown, or the file format cannot store its dtype.
        OutputError: a file could not be written; the earlier files are unchanged.
        SelfCheckError: the written graph does not read back equal.
    """
    stem = local_path(stem)
    if is_directory(stem):
        raise UsageError(
            Fault("is a directory", where=stem, hint=f"name the model in it: {join(stem, 'NAME')}")
        )
    if epoch < 0:
        raise RefusedError(Fault(f"there is no epoch {epoch}", hint="epochs count from 0"))
    graph = session.graph(targets)
    text = b"".join(write_symbol(graph))
    faults = list(find_differences(text, graph))
    if faults:
        raise SelfCheckError(faults)
    arrays = {}
    kinds = {Kind.PARAMETER: "arg", Kind.AUXILIARY: "aux"}
    for node in graph.variables():
        variable = session.registry.variables[node.name]
        if variable.kind in kinds:
            arrays[join_key(kinds[variable.kind], node.name)] = session.value(variable.var)
    paths = extend(stem, "-symbol.json"), extend(stem, f"-{epoch:04d}.params")
    with OutputTransaction() as stage:
        # At a URL the graph appears last: its parameters exist when it is found.
        stage.open(paths[0], last=True).write(text)
        write_arrays(arrays, stage.open(paths[1]), find_format("params"))
        stage.commit()
    return paths
