import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from medgrpo.statistics import benjamini_hochberg, holm

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=15)


def test_holm_of_the_published_specialist_exam():
    assert holm([0.0013, 0.0036, 0.119]) == pytest.approx([0.0039, 0.0072, 0.119])
    assert holm([0.119, 0.0013, 0.0036]) == pytest.approx([0.119, 0.0039, 0.0072])
    nine = holm([0.349, 0.396, 0.282, 0.0013, 0.0036, 0.119, 0.775, 0.076, 0.128])
    assert nine[[3, 4]] == pytest.approx([0.0117, 0.0288])
    assert np.delete(nine, [3, 4]).min() > 0.5


@settings(max_examples=15)
@given(p_values)
def test_both_equal_statsmodels(p):
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)


@given(p_values)
def test_corrected_p_is_never_smaller_and_keeps_the_order(p):
    for corrected in (holm(p), benjamini_hochberg(p)):
        assert np.all(corrected >= np.array(p) - 1e-15)
        assert np.all(corrected <= 1)
        assert np.all(np.diff(corrected[np.argsort(p)]) >= -1e-15)
    assert np.all(benjamini_hochberg(p) <= holm(p) + 1e-12)


def test_one_test_needs_no_correction_and_none_give_none():
    assert holm([0.03]).tolist() == benjamini_hochberg([0.03]).tolist() == [0.03]
    assert len(holm([])) == len(benjamini_hochberg([])) == 0


@pytest.mark.parametrize("p", [[1.2], [-0.1], [float("nan")], [[0.1]]])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(ValueError, match="p-values"):
        holm(p)
    with pytest.raises(ValueError, match="p-values"):
        benjamini_hochberg(p)
