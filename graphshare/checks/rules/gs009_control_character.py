"""GS009: characters that MXNet cannot read in strings."""

import re

from graphshare.checks.rule import CheckContext, Violation, Violations, check_rule, dense

_STRING = re.compile(r'"(?:[^"\\\n\r\0]|\\.)*(["\n\r\0])?', re.DOTALL)
_ESCAPE = re.compile(r"\\(u0000|.)", re.DOTALL)
_REST = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_NAMES = {"\n": "a raw line feed", "\r": "a raw carriage return", "\0": "a NUL"}


@check_rule(
    level="error",
    summary="A string contains a raw line break or a NUL",
    why="MXNet refuses a raw line feed or carriage return inside a string, and ends the string at a NUL. "
    "It reads and writes other control characters unchanged.",
    fails=dense().replace("fc_bias", "fc\nbias"),
    passes=dense().replace("fc_bias", "fc\\nbias"),
    fix="writes line breaks as \\n and \\r; a NUL stays",
)
def find(context: CheckContext) -> Violations:
    """Yield the first of each string, and escaped NULs."""
    reading = context.reading
    if reading.text is None or reading.json_faults:
        return
    text, at = reading.text, 0
    place = _find_escaped_nul(text)
    if place is not None:
        yield Violation(
            "a string contains a NUL, where MXNet ends it",
            hint="remove it",
            at=context.line_index.locate(place),
        )
    if not reading.has_raw_controls:
        return
    while (start := text.find('"', at)) >= 0:
        match = _STRING.match(text, start)
        assert match is not None
        at = match.end()
        if match[1] in _NAMES:
            hint = "write \\n or \\r instead" if match[1] != "\0" else "remove it"
            yield Violation(
                f"a string contains {_NAMES[match[1]]}",
                hint=hint,
                at=context.line_index.locate(match.end() - 1),
            )
            # One finding per string is enough, and its quotes must not begin another string.
            rest = _REST.match(text, match.end())
            at = rest.end() if rest else len(text)


def _find_escaped_nul(text: str) -> int | None:
    if "\\u0000" not in text:
        return None
    for match in _ESCAPE.finditer(text):  # the backslash may be escaped itself
        if match[1] == "u0000":
            return match.start()
    return None
