"""How many examples a law is tried on whose examples are slow to make or to check."""

from hypothesis import settings

FEW = settings(max_examples=settings().max_examples // 5)
"""A fifth of what the profile says, so that the long one is long here too."""
