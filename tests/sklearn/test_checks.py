"""The checks of scikit-learn, all of them, for every estimator."""

import pytest

checks = pytest.importorskip("sklearn.utils.estimator_checks")

import ebm.sklearn  # noqa: E402

#: Each with the threshold that makes units of the numbers of the checks.
ESTIMATORS = [getattr(ebm.sklearn, name)(threshold=0.0) for name in ebm.sklearn.__all__]
ESTIMATORS.append(ebm.sklearn.BoltzmannMachine(threshold=0.0, missing_at_random=True))


# The data of the checks are few rows, of which some columns are all of one sign.
@pytest.mark.filterwarnings("ignore::ebm.EbmWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@checks.parametrize_with_checks(ESTIMATORS)
def test_estimators_keep_the_rules_of_scikit_learn(estimator, check):
    check(estimator)
