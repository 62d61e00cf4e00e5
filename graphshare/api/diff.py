"""``diff``: what differs between two models, and between their parameters."""

from graphshare.differences.diff import diff as diff
