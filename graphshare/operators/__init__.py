"""What an operator is: names, inputs, outputs, typed attributes, auxiliary slots. What it computes is told elsewhere.

Source of all tables: the registry of MXNet 1.9.1 (CPU build with oneDNN), as its own parser and loader show it.
"""

from graphshare.operators.notation import Parameter
from graphshare.operators.registry import ALIASES, FOREIGN, REGISTERED, canonical, known_names, lookup
from graphshare.operators.signature import Outputs, Signature

__all__ = [
    "ALIASES",
    "FOREIGN",
    "REGISTERED",
    "Outputs",
    "Parameter",
    "Signature",
    "canonical",
    "known_names",
    "lookup",
]
