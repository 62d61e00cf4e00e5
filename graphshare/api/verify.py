"""``verify``: prove that branches, or the graphs of two models, compute the same."""

from graphshare.verification.verify import verify as verify
