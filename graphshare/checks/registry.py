"""All rules by code, and which of them a selection means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from graphshare.checks.model import Rule
from graphshare.errors import Fault, UsageError
from graphshare.text.names import did_you_mean

_MODULES = """
    gs001_not_json gs002_not_a_graph gs003_byte_order_mark gs004_foreign_escape gs005_double_key gs006_unknown_key
    gs007_graph_attribute gs008_no_version gs009_control_character gs010_unknown_suppression gs101_id_out_of_range
    gs102_cycle gs103_forward_reference gs104_unreachable gs105_output_index gs106_variable_with_inputs
    gs107_operator_in_arg_nodes gs108_arg_nodes gs109_node_row_ptr gs110_no_heads gs111_hidden_output
    gs201_double_argument gs202_double_auxiliary gs203_argument_and_auxiliary gs204_double_output
    gs205_double_operator gs206_meant_as_one gs207_empty_name gs208_odd_parameter_name gs301_unknown_operator
    gs302_custom_operator gs303_unknown_attribute gs304_attribute_value gs305_missing_attribute gs306_input_count
    gs307_shape_contradiction gs308_mutated_operator gs309_no_such_variable gs310_annotation gs311_odd_one_out
    gs401_params_unreadable gs402_missing_parameter gs403_surplus_parameter gs404_wrong_side gs405_no_prefix
    gs406_record_shape gs407_record_type gs408_not_finite gs409_double_record gs410_unusable_record gs411_no_names
    gs412_stray_bytes gs413_shape_semantics gs414_negative_variance gs501_shared_in_part gs502_shared_statistics
    gs503_barrier_key gs504_suffix gs505_no_initialiser gs506_prefix gs507_misleading_name
""".split()

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.code: rule for rule in (import_module(f"graphshare.checks.rules.{module}").RULE for module in _MODULES)}
)


def selected(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> frozenset[str]:
    """The codes that ``select`` (all, if it is empty) names and ``ignore`` does not. ``GS2`` names all that begin so.

    Raises:
        UsageError: a text that begins no code and is no rule's name; all are listed.
    """
    faults: list[Fault] = []
    wanted = _codes(select, faults) or set(RULES)
    unwanted = _codes(ignore, faults)
    if faults:
        raise UsageError(faults)
    return frozenset(wanted - unwanted)


def _codes(texts: Iterable[str], faults: list[Fault]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        codes = {code for code, rule in RULES.items() if text == "ALL" or (text and code.startswith(text)) or rule.name == text}
        if not codes:
            known = [*RULES, *(rule.name for rule in RULES.values())]
            hint = did_you_mean(text, known) or "see `graphshare check --list`"
            faults.append(Fault(f"there is no rule {text!r}", hint=hint))
        found |= codes
    return found
