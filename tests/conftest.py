"""Settings for the whole suite: few hypothesis examples in everyday runs, many with ``HYPOTHESIS_PROFILE=ci``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW_DATA = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("everyday", max_examples=60, deadline=None, suppress_health_check=_SLOW_DATA)
settings.register_profile("ci", max_examples=1000, deadline=None, suppress_health_check=_SLOW_DATA)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))
