"""Author a graph in Python, without MXNet, under the scopes and sharing rules of several
frameworks.

    from graphshare.builder import Session, operators as op, placeholder, variable_scope, AUTO_REUSE

    with Session() as session:
        data = placeholder("data", (None, 1, 28, 28))
        with variable_scope("net", reuse=AUTO_REUSE):
            scores = op.FullyConnected(data, num_hidden=10)
        session.run(scores, {"data": images})
"""

from __future__ import annotations

from graphshare.builder import initializers, operators
from graphshare.builder.layers import Layer, Model, constant, fully_connected, model
from graphshare.builder.naming import (
    BREW,
    CAFFE2,
    MXNET,
    PADDLE,
    PADDLE_NUMBERED,
    PADDLE_PER_KIND,
    TENSORFLOW,
    Naming,
)
from graphshare.builder.scopes import (
    Scope,
    current_scope,
    name_scope,
    parameter_sharing,
    unique_names,
    variable_scope,
)
from graphshare.builder.session import (
    Session,
    current_session,
    default_session,
    reset_default_session,
    save,
)
from graphshare.builder.var import AUTO_REUSE, Reuse, Var
from graphshare.builder.variables import placeholder, variable
from graphshare.execute.train.sgd import Sgd

__all__ = [
    "AUTO_REUSE",
    "BREW",
    "CAFFE2",
    "MXNET",
    "PADDLE",
    "PADDLE_NUMBERED",
    "PADDLE_PER_KIND",
    "TENSORFLOW",
    "Layer",
    "Model",
    "Naming",
    "Reuse",
    "Scope",
    "Session",
    "Sgd",
    "Var",
    "constant",
    "current_scope",
    "current_session",
    "default_session",
    "fully_connected",
    "initializers",
    "model",
    "name_scope",
    "operators",
    "parameter_sharing",
    "placeholder",
    "reset_default_session",
    "save",
    "unique_names",
    "variable",
    "variable_scope",
]
