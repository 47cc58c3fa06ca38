from medgrpo.report.numbers import bare_p, format_p, percent, points, points_interval, stars


def test_p_is_written_so_that_the_border_shows():
    ps = (1.0, 0.9996, 0.34918, 0.0496, 0.0504, 0.001, 0.00099, 5e-324)
    assert [format_p(p) for p in ps] == [
        *("p = 1.000", "p = 1.000", "p = .349", "p = .0496", "p = .0504", "p = .0010", "p < .001", "p < .001")
    ]
    assert [bare_p(p) for p in ps] == ["1.000", "1.000", ".349", ".0496", ".0504", ".0010", "<.001", "<.001"]


def test_stars_follow_the_usual_borders():
    assert [stars(p) for p in (0.00099, 0.001, 0.00999, 0.01, 0.0499, 0.05)] == ["***", "**", "**", "*", "*", "n.s."]


def test_a_rounded_zero_has_no_direction():
    assert [points(d) for d in (0.021, -0.003, 0.0004, -0.0004)] == ["+2.1", "-0.3", "±0.0", "±0.0"]
    assert points_interval((-0.0004, 0.034)) == "[0.0, +3.4]"
    assert [percent(share) for share in (0.7111, None)] == ["71.1", "–"]


def test_no_star_stands_where_alpha_is_not_reached():
    assert [stars(p, 0.01) for p in (0.0005, 0.009, 0.01, 0.03)] == ["***", "**", "n.s.", "n.s."]
    assert [stars(p, 0.1) for p in (0.03, 0.07, 0.1)] == ["*", "*", "n.s."]
