"""Comparisons: of routes to the same moments, and of groups of rows."""

from ebm.comparison.differences import Difference
from ebm.comparison.group_comparison import EqualityTest, GroupComparison, GroupDifferences
from ebm.comparison.groups import compare_groups
from ebm.comparison.resampled_tests import GlobalTest, ResampledTests
from ebm.comparison.routes import Comparison, Route, compare

__all__ = [
    "Comparison",
    "Difference",
    "EqualityTest",
    "GlobalTest",
    "GroupComparison",
    "GroupDifferences",
    "ResampledTests",
    "Route",
    "compare",
    "compare_groups",
]
