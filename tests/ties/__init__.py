"""Tied weights in checkpoint folders: what check finds, what tie and untie write, and what transformers makes of it."""
