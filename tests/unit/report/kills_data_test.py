# SPDX-License-Identifier: BSD-3-Clause
"""A run's two files become the figures that they hold; files that are not what they should be make
it a failed run, with their name."""
import json
import math
import pathlib
import tempfile
import unittest

import world

from report.kills.data import Run, run_read

SETTINGS = {"price_server": 3.6, "price_worker": 1.8}

REPORT = {
    "test_accuracy": 0.75, "test_loss": None, "gradients_per_s": 100, "gradients_computed": 1000,
    "gradients_applied": 940, "gradients_dropped": 10, "gradients_lost": 50, "gradients_queued": 80,
    "gradients_replayed": 80, "ended": "done", "wall_s": 10.0, "param_count": 262144, "servers": 1,
    "workers_rate_before": 100.0, "workers_rate_outage": 95.0, "queue_bytes_max": 2097152,
    "detect_ms": [1.0, 3.0], "recover_ms": [40, None],
    "outages": [
        {"target": "worker1", "killed_s": 1},
        {"target": "server0", "killed_s": 3.0, "detected_s": 3.01, "ready_s": 4.9,
         "first_applied_s": 5.0, "loss_before": 1.0, "accuracy_before": 0.6, "loss_after": 1.25,
         "accuracy_after": 0.55}],
    "evals": [{"step": i + 1, "t_s": i + 1, "accuracy": accuracy, "loss": 1}
              for i, accuracy in enumerate((0.65, 0.80, 0.65, 0.65, 0.70, 0.75))]}

LINE = """\
t_s,version,accuracy,loss,computed,queued,applied,lost,down,server_cpu,worker_cpu,server_rss_mb,\
worker_rss_mb,queue_mb,bytes_in,some_news
0.0,0,,,0,0,0,0,0,0.0,0.0,10,100,0,0,7
1.0,5,0.5,1.5,10,0,10,0,0,0.5,1.0,12,110,0,1048576,7
3.0,9,0.6,1.0,30,4,26,0,1,0.2,2.0,11,140,1.5,2097152,7
4.0,9,,,40,8,26,0,0,,1.0,11,120,3.5,3145728,
"""


class Data(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        (self.folder / "runs").mkdir()
        self.json, self.csv = (self.folder / "runs" / f"run.{end}" for end in ("json", "csv"))
        self.json.write_text(json.dumps(REPORT))
        self.csv.write_text(LINE)

    def read(self):
        run = Run(world.case("stateless", kills=1, workers=2), "run", 1, "done")
        run_read(self.folder, run, SETTINGS)
        return run

    def good(self, **other):
        self.json.write_text(json.dumps({**REPORT, **other}))
        run = self.read()
        self.assertEqual((run.status, run.error), ("done", ""))
        return run

    def refused(self, path):
        run = self.read()
        self.assertEqual(run.status, "failed")
        self.assertIn(str(path), run.error)

    def test_the_figures_are_those_of_the_report(self):
        run = self.good()
        self.assertEqual(len(run.outages), 1)  # the worker's is none of a server
        self.assertTrue(math.isnan(run.figure("test_loss")))
        for key, value in {
                "test_accuracy": 0.75, "gradients_computed": 1000, "gradients_lost": 50,
                "utilisation": 0.95, "detect_ms": 2.0, "recover_ms": 40.0, "downtime_s": 2.0,
                "loss_difference": 0.25, "accuracy_difference": -0.05,
                "time_to_070_s": 6.0,  # the mean of five evaluations, not the first one above
                "cost": 10.0 * (3.6 + 2 * 1.8) / 3600.0,
                "cost_to_070": 6.0 * (3.6 + 2 * 1.8) / 3600.0}.items():
            self.assertAlmostEqual(run.figure(key), value, 9, key)

    def test_every_replica_has_its_price(self):
        self.assertAlmostEqual(self.good(replicas=3).figure("cost"),
                               10.0 * (3 * 3.6 + 2 * 1.8) / 3600.0)

    def test_peaks_and_means_are_those_of_the_time_line(self):
        run = self.good()
        for key, value in {
                "server_peak_mb": 12.0, "worker_peak_mb": 140.0,
                "queue_peak_mb": 3.5,  # more than the report's own 2
                "moved_mb": 3.0,
                "server_cores": (0.5 * 1.0 + 0.2 * 2.0) / 3.0,  # unknown is no zero
                "worker_cores": (1.0 * 1.0 + 2.0 * 2.0 + 1.0 * 1.0) / 4.0}.items():
            self.assertAlmostEqual(run.figure(key), value, 9, key)
        self.assertEqual(self.good(queue_bytes_max=5 * 2**20).figure("queue_peak_mb"), 5.0)

    def test_a_rate_needs_ten_gradients_that_were_due(self):
        run = self.good(workers_rate_before=5.0)  # for 2 s
        self.assertAlmostEqual(run.figure("utilisation"), 19.0)
        self.assertEqual(run.figure("workers_rate_outage"), 95.0)
        run = self.good(workers_rate_before=4.0)
        self.assertTrue(math.isnan(run.figure("utilisation")))
        self.assertTrue(math.isnan(run.figure("workers_rate_outage")))

    def test_a_time_line_is_known_from_its_first_value_on(self):
        line = self.good().line
        self.assertTrue(math.isnan(line.at("accuracy", 0.5)))
        self.assertTrue(math.isnan(line.at("computed", -1.0)))
        self.assertTrue(math.isnan(line.at("no such column", 1.0)))
        for name, time, value in (("computed", 0.0, 0.0), ("computed", 2.9, 10.0),
                                  ("computed", 3.0, 30.0), ("accuracy", 99.0, 0.6),
                                  ("applied", math.inf, 26.0)):
            self.assertEqual(line.at(name, time), value, (name, time))
        self.assertEqual(list(line.at("computed", [0.0, 3.0])), [0.0, 30.0])

    def test_a_report_that_lacks_something_is_refused(self):
        for key in ("gradients_computed", "gradients_applied", "gradients_dropped",
                    "gradients_lost", "wall_s", "outages", "ended"):
            self.json.write_text(json.dumps({k: v for k, v in REPORT.items() if k != key}))
            self.refused(self.json)
        for text in ("{", "[]", ""):
            self.json.write_text(text)
            self.refused(self.json)
        self.json.unlink()
        self.refused(self.json)

    def test_a_time_line_that_is_none_is_refused(self):
        for text in ("", "\n", "version,t_s\n1,2\n", "t_s,computed\n1,2\nx,3\n",
                     "t_s,computed\n1,2\n2\n", "t_s,computed\n1,2\n2,3x\n",
                     "t_s,computed\n2,2\n1,3\n", "t_s,computed\n,2\n", "t_s,computed\n1,2,3\n"):
            self.csv.write_text(text)
            self.refused(self.csv)
        self.csv.write_bytes(b"t_s,computed\n\xff,2\n")
        self.refused(self.csv)
        self.csv.unlink()
        self.refused(self.csv)

    def test_no_prefix_of_either_file_is_trouble(self):
        text = json.dumps(REPORT)
        for end in range(0, len(text) - 1, 7):
            self.json.write_text(text[:end])
            self.refused(self.json)
        self.json.write_text(text)
        for end in range(0, len(LINE), 3):
            self.csv.write_text(LINE[:end])
            if self.read().status == "failed":
                self.refused(self.csv)
