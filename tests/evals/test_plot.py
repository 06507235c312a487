from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from threadkeep_evals.plot import Chart, Series, svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**changes):
    given = {"title": "A & B", "x": "tokens", "y": "share", "series": [Series("ours <1>", [(100, 0.5), (1000, 0.8)])]}
    return ET.fromstring(svg(Chart(**{**given, **changes})))


def texts(root):
    return [one.text for one in root.iter(f"{SVG}text")]


class TestSvg:
    def test_is_a_document_that_says_everything(self):
        """Title, axes and legend are in it, with characters that XML keeps for itself."""
        assert {"A & B", "tokens", "share", "ours <1>"} <= set(texts(drawn()))

    def test_even_axes_put_points_in_proportion(self):
        """Half of the way in figures is half of the way on paper, and more is higher up."""
        root = drawn(series=[Series("line", [(0, 0), (5, 0.25), (10, 1)])])

        (line,) = root.iter(f"{SVG}polyline")
        (left, _), (middle, low), (right, high) = [
            tuple(map(float, point.split(","))) for point in line.attrib["points"].split()
        ]
        assert middle == pytest.approx((left + right) / 2)
        assert high < low

    def test_a_ratio_is_a_step_on_a_logarithmic_axis(self):
        """From 10 to 100 is as far as from 100 to 1,000."""
        root = drawn(series=[Series("line", [(10, 1), (100, 2), (1000, 3)])], x_log=True)

        (line,) = root.iter(f"{SVG}polyline")
        left, middle, right = (float(point.split(",")[0]) for point in line.attrib["points"].split())
        assert middle - left == pytest.approx(right - middle, abs=0.2)
        assert {"10", "100", "1,000"} <= set(texts(root))

    def test_a_single_point_is_a_mark(self):
        """There is no line through it."""
        root = drawn(series=[Series("point", [(31_000, 1.0)])], percent=True)

        assert not list(root.iter(f"{SVG}polyline"))
        assert list(root.iter(f"{SVG}circle"))
        assert "100%" in texts(root)

    def test_notes_stand_at_their_points(self):
        """One at each."""
        root = drawn(series=[Series("line", [(1, 1), (2, 2)], ["a", "b"])])

        assert {"a", "b"} <= set(texts(root))

    def test_notes_of_two_lines_stand_on_either_side(self):
        """Lines that are close would have one note on another."""
        root = drawn(series=[Series("line", [(1, 1), (2, 2)], ["a"]), Series("other", [(1, 1), (2, 3)], ["b"])])

        at = {one.text: float(one.attrib["y"]) for one in root.iter(f"{SVG}text")}
        assert at["b"] - at["a"] > 20

    def test_the_same_line_is_drawn_once(self):
        """With the names of all that have it, since none is seen below another."""
        root = drawn(
            series=[Series("a", [(1, 1), (2, 2)]), Series("b", [(1, 1), (2, 3)]), Series("c", [(1, 1), (2, 2)])]
        )

        assert len(list(root.iter(f"{SVG}polyline"))) == 2
        assert {"a, c", "b"} <= set(texts(root))

    @pytest.mark.parametrize("points", [[(1.0, 0.0)], [(1.0, 0.0), (1.0, 0.0)], [(5.0, 3.0), (5.0, 3.0)]])
    @pytest.mark.parametrize("log", [False, True])
    def test_figures_that_are_all_the_same_are_drawn(self, points, log):
        """An axis of no length is none that divides by nothing."""
        assert texts(drawn(series=[Series("flat", points)], x_log=log))
