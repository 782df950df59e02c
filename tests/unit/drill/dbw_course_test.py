# SPDX-License-Identifier: BSD-3-Clause
"""What a run under a virtual clock came to, read from its steps and looks."""
import math
import unittest

from drill.dbw import course, late

SETTING = course.Setting("grid", 4, 1.0, 128, 0.5, 1)
PROBLEM = course.Problem(first=2.0, least=1.0)


def steps(*ks: float) -> list[course.Step]:
    return [(10.0 * (i + 1), k, 0.0) for i, k in enumerate(ks)]


class CourseTest(unittest.TestCase):
    def test_medians_are_nearest_rank(self) -> None:
        self.assertEqual(course.k_median(steps(40, 15, 50, 20, 35)), 35)
        self.assertEqual(course.k_median(steps(4, 1, 3, 2)), 2)
        self.assertTrue(math.isnan(course.k_median([])))

    def test_a_cell_has_the_time_to_each_depth(self) -> None:
        runs = [{"k_mean": 2.5, "steps": steps(1, 1, 2, 2, 3, 3, 4, 4),
                 "looks": [[5.0, 1.5], [7.0, 1.1], [9.0, 1.02]]},
                {"k_mean": 1.0, "steps": steps(1, 1), "looks": [[5.0, None], [400.0, 1.1]]}]
        cell = course.cell_make(SETTING, PROBLEM, course.DBW, runs)
        self.assertEqual(SETTING.time_max, 300.0)
        self.assertEqual(cell["time"], [[7.0, 300.0], [9.0, 300.0]])
        self.assertEqual(cell["missed"], [1, 1])
        self.assertEqual(cell["k_early"], [1, None])
        self.assertEqual(cell["k_late"], [4, None])
        self.assertEqual(cell["all_share"], [0.25, 0.0])
        self.assertEqual((cell["method"], cell["k"]), ("dbw", 0))

    def test_static_methods_wait_for_sixteenths(self) -> None:
        many = course.Setting("many", 64, 1.0, 128, 0.8, 2)
        self.assertEqual([SETTING.k(method) for method in range(course.DBW)], [1, 1, 1, 1, 2, 3, 3, 4])
        self.assertEqual(many.consistency(0), "sync:k=4")
        self.assertEqual(many.consistency(course.DBW), "sync:dbw")
        self.assertEqual(many.consistency(course.DBW + 1), "sync:dbw-blind")
        self.assertEqual([many.consistency(course.DBW + 2 + i) for i in range(5)],
                         [f"sync:adasync,k={k}" for k in (4, 8, 16, 32, 64)])

    def test_a_rate_is_in_proportion_where_it_should(self) -> None:
        scaled = course.Setting("scaled", 16, 1.0, 128, 0.8, 2)
        self.assertEqual([scaled.rate(0), scaled.rate(course.DBW - 1), scaled.rate(course.DBW)], [0.05, 0.8, 0.8])
        self.assertEqual(course.Setting("grid", 16, 1.0, 128, 0.8, 2).rate(0), 0.8)

    def test_a_span_is_of_the_steps_within(self) -> None:
        self.assertEqual(course.span(steps(1, 2, 3, 4, 5), 20.0, 50.0), (3, 10.0))
        self.assertTrue(all(map(math.isnan, course.span(steps(1, 2), 50.0, 60.0))))
        self.assertTrue(math.isnan(course.span(steps(1, 2), 10.0, 20.0)[1]))

    def test_steps_until_half_are_counted_from_the_change(self) -> None:
        change = int(course.SLOW_AT / 10.0)
        own = steps(*[16] * change, 15, 12, 9, 4)
        slow = course.slow_make(0.2, [(own, own), (own[:-2], own)])
        self.assertEqual(slow["steps_to_half"], [3.0, 2.0])
        self.assertEqual(slow["k_before"], [16, 16])
        self.assertEqual(slow["k_after"][1], None)

    def test_a_late_cell_has_the_time_to_the_target_and_what_is_wasted(self) -> None:
        runs = [{"k_mean": 3.0, "late_mean": 1.0, "looks": [[5.0, None], [7.0, 1.1], [9.0, 0.9]]},
                {"k_mean": 1.0, "late_mean": 0.0, "looks": [[5.0, 1.2], [400.0, 1.0]]}]
        self.assertEqual(late.cell_make("dbw", 300.0, 1.0, runs), {
            "method": "dbw", "time": [9.0, 300.0], "missed": 1, "k_mean": [3.0, 1.0], "wasted": [0.25, 0.0]})

    def test_the_settings_of_late_gradients_are_the_uneven_ones_of_the_grid_and_a_large_rate(self) -> None:
        self.assertEqual([len(late.settings_of(preset)) for preset in range(3)], [1, 16, 16])
        grid = [(one.alpha, one.batch, one.lr) for one in course.settings_of(1) if one.group == "grid" and one.alpha > 0]
        self.assertEqual(sorted(grid), sorted((one.alpha, one.batch, one.lr) for one in late.settings_of(1)
                                              if one.group == "grid"))

    def test_every_other_problem_is_for_three_alphas(self) -> None:
        others = [setting for setting in course.settings_of(1) if setting.group == "other"]
        self.assertEqual(sorted((one.model, one.alpha) for one in others),
                         [(model, alpha) for model in ("cnn", "mlp:16", "softmax") for alpha in (0.2, 0.5, 1.0)])
        self.assertEqual({one.model: one.time_max for one in others},
                         {"softmax": 375.0, "mlp:16": 1250.0, "cnn": 200.0})

    def test_the_least_loss_of_a_cnn_is_not_looked_for(self) -> None:
        class Told:
            def trial(self, experiment, name, **of):
                return iter([{"first": 2.3, "least": 0.7 if of["least"] else 0.0}])

        problems = course.problems_of(Told(), course.settings_of(1))
        self.assertEqual(len(problems), 4)
        self.assertEqual({model: problem.least for (model, _), problem in problems.items()},
                         {"softmax": 0.7, "mlp:16": 0.7, "cnn": 0.0})
        self.assertEqual(problems["cnn", course.OTHER[2][-1]].depth(0.1), 0.1 * 2.3)

    def test_the_longer_a_preset_the_more_settings(self) -> None:
        self.assertEqual([len(course.settings_of(preset)) for preset in range(3)], [2, 30, 31])
        names = [setting.name for setting in course.settings_of(2)]
        self.assertEqual(names[0], "n=16 alpha=1 B=512 lr=0.8")
        self.assertEqual(course.settings_of(2)[-1].workers, 256)
