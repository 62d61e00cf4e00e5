"""GS004: escapes of JSON that MXNet does not read."""

import re

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense

_ESCAPE = re.compile(r'\\(?:["\\nrt]|(.))', re.DOTALL)
_LIMIT = 20


@check_rule(
    level="error",
    summary="A string contains an escape that MXNet cannot read",
    why='MXNet reads \\" \\\\ \\n \\r \\t and refuses a file with any other escape, such as \\u00e9 or \\/; '
    "json.dumps writes them for every name that is not ASCII.",
    fails=dense().replace("fc_bias", "fc_bi\\u00e4s"),
    passes=dense().replace("fc_bias", "fc_bi\u00e4s"),
    fix="writes the characters themselves",
)
def find(context: CheckContext) -> Violations:
    """Yield the first few such escapes."""
    text = context.reading.text
    if text is None or context.reading.json_faults or "\\" not in text:
        return
    # The expression also consumes valid escapes: the second half of one must not begin another.
    matches = [match for match in _ESCAPE.finditer(text) if match[1] is not None]
    hint = "write the character itself, in UTF-8 (json.dumps: ensure_ascii=False)"
    for number, match in enumerate(matches[:_LIMIT], 1):
        start, length = match.start(), 6 if match[1] == "u" else 2
        message = f"MXNet does not read the escape {text[start : start + length]}"
        if number == _LIMIT < len(matches):
            message += f" (and {len(matches) - _LIMIT} more)"
        yield Violation(message, hint=hint, at=context.line_index.locate(start))
