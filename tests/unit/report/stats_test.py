# SPDX-License-Identifier: BSD-3-Clause
"""Means leave out what is not known, too few values have no spread, quantiles are values; tables
stand in columns, and JSON has no number that is none."""
import math
import unittest

from report import out, stats

NAN = math.nan


class Stats(unittest.TestCase):
    def test_moments_leave_out_what_is_unknown(self):
        m = stats.moments([1.0, NAN, 3.0])
        self.assertEqual((m.count, m.mean, m.low, m.high), (2, 2.0, 1.0, 3.0))
        self.assertAlmostEqual(m.sd, math.sqrt(2.0))
        self.assertAlmostEqual(m.se, 1.0)

    def test_too_few_values_have_no_spread(self):
        self.assertTrue(math.isnan(stats.moments([1.0]).sd))
        self.assertTrue(math.isnan(stats.moments([NAN]).mean))
        self.assertTrue(math.isnan(stats.student([1.0]).high))

    def test_quantiles_are_nearest_rank(self):
        self.assertEqual([stats.quantile([3.0, 1.0, 2.0, 4.0], q) for q in (0.0, 0.5, 0.51, 1.0)],
                         [1.0, 2.0, 3.0, 4.0])

    def test_an_interval_is_as_wide_as_students_t(self):
        interval = stats.student([1.0, 2.0, 3.0])
        self.assertAlmostEqual(interval.half, 4.302653 / math.sqrt(3.0), 5)

    def test_a_ratio_is_of_pairs(self):
        self.assertAlmostEqual(stats.ratio([2.0, 8.0], [1.0, 1.0]).mean, 4.0)


class Out(unittest.TestCase):
    def test_columns_are_as_wide_as_what_is_shown(self):
        table = out.Table(["name", "mode", "±"], [["a", "bb", "1 ±2"]])
        self.assertEqual(table.text(), "name  mode     ±\na     bb    1 ±2\n")
        self.assertEqual(table.markdown(),
                         "| name | mode | ± |\n| --- | --- | ---: |\n| a | bb | 1 ±2 |\n")

    def test_what_is_not_known_is_null(self):
        self.assertEqual(out.known({"a": [NAN, 1.0], "b": (math.inf, "x")}),
                         {"a": [None, 1.0], "b": [None, "x"]})
