"""``Session``: what was authored, the values of its parameters, and runs and training of any part of it.

One session holds one growing graph. There is always a default session; ``with session:`` makes another one the current one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, overload

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Kind
from graphshare.builder.counters import Counters
from graphshare.builder.learning import Learning
from graphshare.builder.naming import MXNET, Naming
from graphshare.builder.registry import Registry
from graphshare.builder.scopes import Scope, current_scope, enter, leave
from graphshare.builder.settings import ReuseLike, reuse_of
from graphshare.builder.topology import graph_of
from graphshare.builder.values import KEPT, Values
from graphshare.builder.var import Var
from graphshare.errors import Fault, RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import Plan, make_plan
from graphshare.execute.sgd import Sgd
from graphshare.execute.training import Backpropagation
from graphshare.execute.values import as_array, random_stream
from graphshare.ir.graph import Graph, Node
from graphshare.kernels.kernel import Array
from graphshare.text.names import did_you_mean

Target = Var | str
Feed = Mapping[Var, Any] | Mapping[str, Any] | Mapping[Target, Any]


class Session:
    """A graph being authored, and its parameters' values.

    ``naming`` is the policy for names, ``reuse`` what holds outside of every scope (None: as the policy has it), ``seed`` what
    first values of parameters are drawn from.
    """

    def __init__(self, naming: Naming = MXNET, *, reuse: ReuseLike = None, seed: int = 0) -> None:
        self.registry = Registry()
        self.root = Scope(self, naming, Counters(), reuse=reuse_of(reuse, None))
        self.seed = seed
        self._values = Values(self.registry, seed)
        self._learning = Learning(self.registry, self._values, seed)
        self._plans: dict[tuple[tuple[Node, int], ...], Plan] = {}

    def __enter__(self) -> Session:
        enter(self.root)
        return self

    def __exit__(self, *_: object) -> None:
        leave()

    @property
    def params(self) -> list[Var]:
        """The parameters, trainable or not, in the order they were made; each once, however many share it."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.PARAMETER]

    @property
    def auxiliary_states(self) -> list[Var]:
        """The variables that operators write into, in the order they were made."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.AUXILIARY]

    @property
    def inputs(self) -> list[Var]:
        """The variables that are fed, in the order they were made."""
        return [v.var for v in self.registry.variables.values() if v.kind is Kind.INPUT]

    def var(self, name: str) -> Var:
        """The variable or output of that name (``fc1_output``; ``fc1`` means the operator's first output).

        Raises:
            RefusedError: nothing bears it.
        """
        node = self.registry.names.get(name)
        if node is not None:
            return self.registry.outputs[node][0]
        named = {output.name: output for outputs in self.registry.outputs.values() for output in outputs}
        if name not in named:
            raise RefusedError(Fault(f"nothing is called {name!r}", hint=did_you_mean(name, list(named))))
        return named[name]

    def graph(self, targets: Target | Sequence[Target]) -> Graph:
        """The minimal graph with ``targets`` as its heads: a graph like any other, for transforms and files."""
        return graph_of(self._wanted(targets))

    def value(self, parameter: Target) -> Array:
        """The value of a parameter, read-only; what was never run nor set gets its first value, if its shape is known.

        Raises:
            RefusedError: it is no parameter, or its shape is not known yet.
        """
        var = self._wanted(parameter)[0]
        self._held(var)
        return self._values.of(var)

    def set_value(self, parameter: Target, value: Any) -> None:
        """Gives a parameter a value: a copy of an array, or of anything numpy makes one of.

        Raises:
            RefusedError: it is no parameter, or the value has another shape or a type that does not convert.
        """
        var = self._wanted(parameter)[0]
        self._held(var)
        array = self._values.fitted(var, as_array(value)).copy()
        self._values.keep(var.node, array)
        self.registry.learned(var, array.shape, None)

    @overload
    def run(  # type: ignore[overload-overlap]  # a str is one target, though it is a sequence of str
        self, targets: Target, feed: Feed | None = None
    ) -> Array: ...
    @overload
    def run(self, targets: Sequence[Target], feed: Feed | None = None) -> list[Array]: ...

    def run(self, targets: Target | Sequence[Target], feed: Feed | None = None) -> Array | list[Array]:
        """The values of ``targets``, in inference mode; only what they need is computed, and only that must be fed.

        ``feed`` gives values of inputs, and of parameters for this run alone. Parameters without a value get their first one.

        Raises:
            RefusedError: an input is not fed, something is fed that does not exist, shapes do not fit, or an operator cannot be
                run here; all of a kind are listed.
        """
        wanted = self._wanted(targets)
        plan = self._plan(wanted)
        values, found = self._values.completed(plan, wanted, self._fed(plan, feed or {}))
        outputs = run_plan(plan, values, shapes=found.shapes, rng=random_stream(self.seed)).outputs
        return outputs[0] if isinstance(targets, (Var, str)) else outputs

    @property
    def param_to_grad(self) -> dict[Var, Array]:
        """The gradients of parameters from the last pass that went back to any, each summed over all its uses."""
        return dict(self._learning.gradients)

    def gradients(
        self,
        targets: Target | Sequence[Target],
        feed: Feed | None = None,
        wrt: Target | Sequence[Target] | None = None,
        *,
        head_gradients: Feed | None = None,
    ) -> dict[Var, Array]:
        """The gradients of ``targets``, added up, with respect to the parameters or inputs ``wrt``; read-only.

        Without ``wrt``: to all parameters that the targets need and that are not fed. Targets that are no losses start from
        ``head_gradients``, or from ones; losses start by themselves. Where no gradient comes by it is zeros. The pass forward
        is one of training; parameters and auxiliary states stay as they are until :meth:`update`.

        Raises:
            RefusedError: an operator has no gradient, ``wrt`` asks for what the targets do not need, or what ``run`` refuses.
        """
        found = self._passed(targets, feed, wrt, head_gradients)
        return {self.registry.outputs[node][0]: gradient for node, gradient in found.gradients.items()}

    def update(self, gradients: Feed | None = None, settings: Sgd | None = None, *, rescale: float | None = None) -> None:
        """A step of gradient descent as MXNet's Module makes it, for the parameters that have ``gradients`` and no others.

        Without them it goes by ``param_to_grad``, and auxiliary states take what the last pass made of them. ``rescale``
        multiplies gradients; without it those of the last pass are divided by the batch of its first data input, and given ones
        are taken as they are. Any other update is a :meth:`set_value`.

        Raises:
            RefusedError: there are no gradients, or some are not those of parameters, or of another shape; nothing has changed.
        """
        given = None
        if gradients is not None:
            given = {self._wanted(key)[0]: as_array(value) for key, value in gradients.items()}
        self._learning.update(given, settings or Sgd(), rescale)

    @overload
    def step(  # type: ignore[overload-overlap]
        self,
        targets: Target,
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> Array: ...
    @overload
    def step(
        self,
        targets: Sequence[Target],
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> list[Array]: ...

    def step(
        self,
        targets: Target | Sequence[Target],
        feed: Feed | None = None,
        settings: Sgd | None = None,
        *,
        rescale: float | None = None,
        head_gradients: Feed | None = None,
    ) -> Array | list[Array]:
        """One step of training: :meth:`gradients`, then :meth:`update`. Only parameters that the targets need change.

        Returns the values of ``targets`` in its pass forward, before the update.

        Raises:
            RefusedError: as those two; nothing has changed then.
        """
        found = self._passed(targets, feed, None, head_gradients)
        self._learning.update(None, settings or Sgd(), rescale)
        return found.outputs[0] if isinstance(targets, (Var, str)) else found.outputs

    def _passed(
        self,
        targets: Target | Sequence[Target],
        feed: Feed | None,
        wrt: Target | Sequence[Target] | None,
        head_gradients: Feed | None,
    ) -> Backpropagation:
        wanted = self._wanted(targets)
        plan = self._plan(wanted)
        fed = self._fed(plan, feed or {})
        asked = None if wrt is None else self._wanted(wrt)
        heads = {self._wanted(key)[0]: as_array(value).copy() for key, value in (head_gradients or {}).items()}
        return self._learning.passed(wanted, plan, fed, asked, heads)

    def _wanted(self, targets: Target | Sequence[Target]) -> list[Var]:
        listed = [targets] if isinstance(targets, (Var, str)) else list(targets)
        found = [self.var(target) if isinstance(target, str) else target for target in listed]
        foreign = [Fault(f"{var.name!r} belongs to another session") for var in found if var.session is not self]
        if foreign or not found:
            raise RefusedError(foreign or [Fault("nothing is asked for", hint="give at least one target")])
        return found

    def _plan(self, wanted: Sequence[Var]) -> Plan:
        """Made once for the same targets: nodes are frozen."""
        key = tuple((var.node, var.entry.index) for var in wanted)
        if key not in self._plans:
            if len(self._plans) >= KEPT:
                self._plans.clear()
            self._plans[key] = make_plan([var.entry for var in wanted])
        return self._plans[key]

    def _fed(self, plan: Plan, feed: Feed) -> dict[Node, Array]:
        """What was fed for the variables that are needed; more may be fed."""
        variables = self.registry.variables
        given = {self._wanted(key)[0]: as_array(value) for key, value in feed.items()}
        faults = [Fault(f"{var.name!r} is no variable, so it cannot be fed") for var in given if not var.node.is_variable]
        fed = {var.node: array for var, array in given.items() if var.node in plan.variables}
        for node in plan.variables:
            if node not in fed and variables[node.name].kind is Kind.INPUT:
                faults.append(Fault(f"input {node.name!r} is not fed", hint=f"run(..., feed={{{node.name!r}: array}})"))
        if faults:
            raise RefusedError(faults)
        return fed

    def _held(self, var: Var) -> None:
        """Refuses what is no parameter of this session."""
        known = self.registry.variables.get(var.name)
        if known is None or known.var is not var or known.kind is Kind.INPUT:
            raise RefusedError(Fault(f"{output_name(var.entry)!r} is no parameter", hint="inputs are fed, see Session.run"))


_lock = Lock()
_default: list[Session] = []


def default_session() -> Session:
    """The session of all that is authored outside of any ``with session:``; one for the process."""
    with _lock:
        if not _default:
            _default.append(Session())
    return _default[0]


def current_session() -> Session:
    """The session that holds here: the innermost one entered, else the default one."""
    return current_scope().session


def reset_default_session(session: Session | None = None) -> Session:
    """Makes ``session`` (a new one) the default session; the graph of the old one lives on in its own."""
    with _lock:
        _default[:] = [session or Session()]
    return _default[0]
