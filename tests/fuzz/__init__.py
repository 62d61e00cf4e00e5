"""Campaigns that attack graphshare; ``python -m tests.fuzz`` runs them."""
