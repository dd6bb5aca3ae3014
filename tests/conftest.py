"""The same examples at every run; fresh ones with HYPOTHESIS_PROFILE=fresh."""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("fresh", derandomize=False, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
