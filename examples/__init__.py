"""The field's sharing systems, each authored with :mod:`graphshare.builder`. Every file runs by itself."""
