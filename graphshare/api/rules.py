"""Sharing and naming rules: load them, explain what they do to a name, check a file of them."""

from graphshare.rewrite.rules.explain import check_rules as check_rules
from graphshare.rewrite.rules.explain import explain as explain
from graphshare.rewrite.rules.load import load_rules as load_rules
