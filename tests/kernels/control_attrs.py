"""Attributes of loops, as files have them."""

from __future__ import annotations

FOREACH = {
    "num_args": "4",
    "num_outputs": "2",
    "num_out_data": "1",
    "in_data_locs": "[2]",
    "in_state_locs": "[0]",
    "remain_locs": "[1]",
}
WHILE = {
    "num_args": "5",
    "num_outputs": "3",
    "num_out_data": "1",
    "max_iterations": "5",
    "cond_input_locs": "[0, 1]",
    "func_input_locs": "[0, 2]",
    "func_var_locs": "[0, 1]",
}
