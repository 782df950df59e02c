# SPDX-License-Identifier: BSD-3-Clause
"""Failures are exceptions with the library's line; a wait ends by Ctrl-C; a fork is harmless."""
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy

import outlast

PARAMS = 3000
KEY = "0123456789abcdef0123456789abcdef"


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


class Connecting(unittest.TestCase):
    def test_without_a_server(self):
        with self.assertRaises(outlast.NoServer) as caught:
            outlast.connect("@outlast-nobody", connect_timeout=0.2)
        self.assertEqual((caught.exception.code, caught.exception.status), (-1010, "NO_SERVER"))
        self.assertIn("@outlast-nobody", str(caught.exception))
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_ctrl_c_ends_it(self):
        timer, start = interrupt_after(0.2), time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            outlast.connect("@outlast-nobody", connect_timeout=60)
        timer.join()
        self.assertLess(time.monotonic() - start, 5)

    def test_wrong_words(self):
        for words in ({}, {"address": "@x", "outage": "never"}, {"address": "@x", "no_field": 1},
                      {"address": "@x", "worker": -1},
                      {"address": "@x", "job_key": KEY, "job_key_file": "/dev/null"}):
            with self.subTest(words=words), self.assertRaises(ValueError):
                outlast.connect(**words)

    def test_one_worker_twice(self):
        with outlast.launch(params=PARAMS) as servers, outlast.connect(servers):
            with self.assertRaises(outlast.Refused) as caught:
                outlast.connect(servers)
            self.assertEqual(caught.exception.status, "WORKER_ID")

    def test_the_variable_names_the_job(self):
        with outlast.launch(params=PARAMS) as servers:
            os.environ["OUTLAST_JOB"] = str(servers)
            try:
                with outlast.connect() as job:
                    self.assertEqual(job.param_count, PARAMS)
            finally:
                del os.environ["OUTLAST_JOB"]

    def test_a_server_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(outlast.Error, "no_such_rule"):
            outlast.launch(params=PARAMS, rule="no_such_rule")
        for words in ({}, {"params": 1, "init": [1.0]}, {"params": PARAMS, "listen": ["@a", "@b"]}):
            with self.subTest(words=words), self.assertRaises(ValueError):
                outlast.launch(**words)


class Keys(unittest.TestCase):
    def test_the_file_opens_the_job_and_others_may_not_read_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "job.key"
            file.write_text(KEY + "\n", encoding="ascii")
            file.chmod(0o600)
            with outlast.launch(params=PARAMS, job_key_file=file) as servers:
                outlast.connect(servers, job_key_file=file).close()
                outlast.connect(servers, job_key=KEY).close()
                with self.assertRaises(outlast.Refused):
                    outlast.connect(servers, job_key=KEY[::-1], connect_timeout=2)
            file.chmod(0o644)
            with self.assertRaisesRegex(PermissionError, "chmod 600"):
                outlast.connect("@x", job_key_file=file)
            file.write_text("", encoding="ascii")
            file.chmod(0o600)
            with self.assertRaises(ValueError):
                outlast.connect("@x", job_key_file=file)


class Waiting(unittest.TestCase):
    """Worker 0 of two: its gradient waits for worker 1's."""

    def setUp(self):
        self.servers = outlast.launch(params=PARAMS, workers=2, consistency="sync", lr=1.0)
        self.addCleanup(self.servers.close)
        self.job = outlast.connect(self.servers, worker=0, timeout=20)
        self.addCleanup(self.job.close)
        self.job.pull()

    def push(self, job, value, **words):
        grad = job.grad()
        grad[:] = value
        return job.push(grad, **words)

    def the_other_pushes(self, value):
        with outlast.connect(self.servers, worker=1, timeout=20) as other:
            other.pull()
            self.push(other, value)

    def test_ctrl_c_ends_it_and_the_gradient_takes_effect_once(self):
        timer, start = interrupt_after(0.3), time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.push(self.job, 1.0, timeout=20)
        timer.join()
        self.assertLess(time.monotonic() - start, 5)
        self.the_other_pushes(3.0)
        found = self.job.pull(newest=True)
        self.assertEqual((found.version, found.array[0]), (1, -2.0))

    def test_a_timeout_leaves_the_gradient_in_flight(self):
        with self.assertRaises(outlast.Timeout) as caught:
            self.push(self.job, 1.0, timeout=0.05)
        self.assertEqual(caught.exception.status, "ETIMEDOUT")
        self.assertIsInstance(caught.exception, TimeoutError)
        self.the_other_pushes(3.0)
        self.assertTrue(self.job.finish(1, timeout=10))
        self.assertEqual(self.job.weights().array[-1], -2.0)

    def test_other_threads_run_meanwhile(self):
        turns = 0

        def count():
            nonlocal turns
            for _ in range(100):
                time.sleep(0.001)
                turns += 1

        thread = threading.Thread(target=count)
        thread.start()
        with self.assertRaises(outlast.Timeout):
            self.push(self.job, 1.0, timeout=1.0)
        self.assertGreater(turns, 10)
        thread.join()

    def test_finish_withdraws_what_nobody_waits_for(self):
        with self.assertRaises(outlast.Timeout):
            self.push(self.job, 1.0, timeout=0.01)
        self.assertTrue(self.job.finish(0, timeout=10))
        self.assertEqual(self.job.stat_links()[0]["late"], 1)

    def test_a_gradient_with_a_nan_is_dropped(self):
        with outlast.launch(params=PARAMS) as servers, outlast.connect(servers, timeout=10) as job:
            with self.assertRaises(outlast.NonFinite) as caught:
                self.push(job, numpy.nan)
            self.assertIsInstance(caught.exception, outlast.Dropped)

    def test_buffers_are_lent_once(self):
        grad = self.job.grad()
        self.job.release(grad)
        for call in (self.job.release, self.job.push):
            with self.assertRaises(ValueError):
                call(grad)
        with self.assertRaises(ValueError):
            self.job.push(numpy.zeros(PARAMS, numpy.float32))
        held = [self.job.grad(), self.job.grad()]
        with self.assertRaises(outlast.Error) as caught:
            self.job.grad()
        self.assertEqual(caught.exception.status, "EBUSY")
        del held

    def test_another_thread_is_refused_and_a_closed_handle_too(self):
        said = []

        def use():
            for call in (self.job.pull, self.job.weights, self.job.grad, self.job.stat,
                         self.job.newest, self.job.poll, self.job.close):
                try:
                    call()
                except outlast.WrongThread as error:
                    said.append(error.status)
            self.job.adopt()
            said.append(self.job.pull().version)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertEqual(said, ["THREAD"] * 7 + [0])
        self.job.adopt()
        self.job.close()
        self.job.close()
        for call in (self.job.pull, self.job.weights, self.job.grad, self.job.stat, self.job.poll,
                     self.job.adopt):
            with self.assertRaises(outlast.Closed):
                call()


class Forking(unittest.TestCase):
    def in_a_child(self, call):
        """What call() returns in a child of a fork."""
        reads, writes = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
            pid = os.fork()
        if pid == 0:
            try:
                os.write(writes, str(call()).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as said:
            found = said.read()
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return found

    def test_a_child_cannot_use_the_handle_and_does_it_no_harm(self):
        with outlast.launch(params=PARAMS, workers=2, lr=1.0) as servers, \
                outlast.connect(servers) as job:
            job.pull()

            def child():
                said = []
                for call in (job.pull, job.weights, job.grad, job.stat, job.finish, job.newest,
                             job.poll):
                    try:
                        call()
                    except outlast.Error as error:
                        said.append(error.status)
                job.close()
                servers.close()
                with outlast.connect(str(servers), worker=1) as own:
                    said.append(own.pull().version)
                return said

            self.assertEqual(self.in_a_child(child), str(["THREAD"] * 7 + [0]))
            grad = job.grad()
            grad[:] = 1.0
            job.push(grad)
            self.assertEqual(job.pull().array[0], -1.0)
            del grad


class Ending(unittest.TestCase):
    def test_a_job_keeps_the_servers_that_it_was_connected_to(self):
        with outlast.connect(outlast.launch(params=PARAMS), timeout=10) as job:
            gc.collect()
            self.assertEqual(job.pull().version, 0)

    def test_servers_end_with_the_program_that_forgot_them(self):
        code = ("import outlast; s = outlast.launch(params=3000); j = outlast.connect(s); "
                "j.pull(); print(s.servers[0].pid)")
        env = dict(os.environ, PYTHONPATH=sys.path[1])
        said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                              check=True)
        self.assertEqual(said.stderr, "")
        with self.assertRaises(ProcessLookupError):
            os.kill(int(said.stdout), 0)


if __name__ == "__main__":
    unittest.main()
