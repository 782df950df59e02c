# SPDX-License-Identifier: BSD-3-Clause
"""Fragments of the vector: each is pushed and pulled at its own time, and counts by itself."""
import errno
import hashlib
import json
import os
import subprocess
import unittest

import numpy

import outlast

PARAMS = 10000
SERVERS = 3
STEPS = 6


def push(job: outlast.Job, span: tuple[int, int], value: object, **words: object) -> int:
    """Everything outside of the span is not to be looked at."""
    grad = job.grad()
    grad[:] = numpy.nan
    grad[span[0]:sum(span)] = value
    return job.push(grad, span=span, **words)


def rounds(job: outlast.Job, between: object = lambda step: None) -> str:
    """One fragment after the other, in turn; the SHA-256 of the last weights."""
    job.pull()
    for step in range(SERVERS * STEPS):
        first, count = span = job.shards[step % SERVERS]
        between(step)
        push(job, span, 0.25 * job.weights().array[first:first + count]
             + numpy.float32(step % 7 - 3))
        job.pull(span=span)
    assert job.finish(STEPS)
    return hashlib.sha256(job.weights().array).hexdigest()


class Spans(unittest.TestCase):
    def open(self, **words: object) -> tuple[outlast.Launch, outlast.Job]:
        run = outlast.launch(params=PARAMS, servers=SERVERS, lr=1.0, **words)
        self.addCleanup(run.close)
        job = outlast.connect(run, timeout=30)
        self.addCleanup(job.close)
        return run, job

    def test_one_is_pushed_and_pulled_alone(self):
        _, job = self.open()
        self.assertEqual(len(job.shards), SERVERS)
        self.assertEqual([first for first, _ in job.shards],
                         [sum(count for _, count in job.shards[:i]) for i in range(SERVERS)])
        self.assertEqual(sum(count for _, count in job.shards), PARAMS)
        job.pull()
        begin, middle, end = job.shards
        self.assertEqual(push(job, middle, 1.0), 1)
        self.assertEqual(push(job, (middle[0], middle[1] + end[1]), 1.0), 2)
        self.assertEqual([link["pushed"] for link in job.stat_links()], [0, 2, 1])
        found = job.pull(span=middle)
        self.assertEqual(job.versions, [0, 2, 0])
        self.assertEqual(found.version, 0)
        want = numpy.zeros(PARAMS)
        want[middle[0]:sum(middle)] = -2
        numpy.testing.assert_array_equal(found.array, want)
        found = job.pull(span=end)
        want[end[0]:] = -1
        numpy.testing.assert_array_equal(found.array, want)
        self.assertEqual(job.versions, [0, 2, 1])
        self.assertEqual([job.newest(span) for span in (begin, middle, end)], [0, 2, 1])
        self.assertEqual(job.newest(), 0)

    def test_the_program_counts_what_its_process_before_had_at_one_shard(self):
        run = outlast.launch(params=4810, servers=2, consistency="sync", workers=1)
        self.addCleanup(run.close)
        with outlast.connect(run, timeout=30) as job:
            job.pull()
            push(job, job.shards[0], 1.0)
        done = subprocess.run(
            [os.environ["OUTLAST_BIN"], "work", "--connect", run.address, "--model", "mlp:64",
             "--dataset", "synthetic:train=500,test=200", "--until", "5", "--json", "/dev/stderr"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        links = json.loads(done.stderr[done.stderr.index("\n{"):])["links"]
        self.assertEqual([(link["base"], link["applied"], link["dropped_late"]) for link in links],
                         [(1, 4, 1), (0, 5, 0)])

    def test_a_worker_that_died_between_two_shards_completes_the_step(self):
        run, job = self.open(consistency="sync", workers=1)
        job.pull()
        for shards in ((0,), (1, 2)):  # which have the step when it dies
            version = job.version
            for shard in shards:
                push(job, job.shards[shard], 1.0)
            job.close()
            job = outlast.connect(run, timeout=30)
            self.addCleanup(job.close)
            job.pull(newest=True)
            self.assertEqual(job.versions, [version] * SERVERS)
            self.assertEqual([job.newest(span) for span in job.shards],
                             [version + (shard in shards) for shard in range(SERVERS)])
            grad = job.grad()
            grad[:] = 1.0
            with self.assertRaises(outlast.Late):
                job.push(grad)
            numpy.testing.assert_array_equal(job.pull(newest=True).array, numpy.full(PARAMS, -version - 1.0))
            self.assertEqual(job.versions, [version + 1] * SERVERS)
            del grad  # or close() waits for it

    def test_what_is_none_is_refused(self):
        _, job = self.open()
        begin, middle, _ = job.shards
        with self.assertRaisesRegex(outlast.Error, "pull.. all of them") as caught:
            job.pull(span=begin)
        self.assertEqual(caught.exception.code, -errno.ENODATA)
        job.pull()
        grad = job.grad()
        grad[:] = 1
        for wrong in ((0, 0), (0, 1), (1, begin[1]), (0, begin[1] + 1), (0, PARAMS + 1),
                      (-1, begin[1] + 1), (PARAMS, 1)):
            with self.assertRaisesRegex(ValueError, "one of the job's shards"):
                job.push(grad, span=wrong)
            with self.assertRaisesRegex(ValueError, "one of the job's shards"):
                job.pull(span=wrong)
            with self.assertRaises(ValueError):
                job.newest(wrong)
        with self.assertRaisesRegex(ValueError, "2 base versions of 1 shards"):
            job.push(grad, span=middle, base=[0, 0])
        self.assertEqual(job.push(grad, span=middle), 1)  # it was lent all the while
        with self.assertRaisesRegex(ValueError, "once"):
            job.push(grad, span=middle)
        with self.assertRaises(outlast.NonFinite):
            push(job, middle, numpy.inf)
        self.assertEqual(job.pull().array[middle[0]], -1)

    def test_the_base_is_that_of_the_span(self):
        _, job = self.open(consistency="sync")
        job.pull()
        begin, middle, end = job.shards
        grad = job.grad()
        for words in ({"base": 5}, {"base": 2**60, "span": middle}):
            with self.subTest(words=words), self.assertRaisesRegex(
                    outlast.Error, r"does not take base=.*: a base is the version of one"):
                job.push(grad, **words)
        grad[:] = 0
        job.release(grad)
        for version in range(3):
            self.assertEqual(push(job, middle, 1.0), version + 1)
            with self.assertRaises(outlast.Late):  # computed at what that step was made of
                push(job, middle, 1.0)
            job.pull(span=middle)
        self.assertEqual(job.version, 0)
        both = begin[0], begin[1] + middle[1]
        with self.assertRaises(outlast.Late):  # one number is that of each
            push(job, both, 1.0, base=0)
        while job.newest(begin) < 1:  # its part of that push may be on the way yet
            job.poll()
        job.pull(newest=True)
        push(job, both, 1.0, base=job.versions[:2])
        self.assertEqual(push(job, end, 1.0, base=0), 1)
        found = job.pull(newest=True)
        self.assertEqual(found.array[middle[0]], -4)

    def test_a_server_that_is_killed_costs_no_bit(self):
        words = {"consistency": "sync", "rule": "momentum", "momentum": 0.5}
        _, job = self.open(**words)
        want = rounds(job)
        run, job = self.open(**words)

        kills = {4: 1, 5: 0, 9: 2}  # before a step of the shard itself; of another; likewise

        def between(step: int) -> None:
            if step in kills:
                run.servers[kills[step]].kill()
                run.servers[kills[step]].restart()

        self.assertEqual(rounds(job, between), want)
        self.assertEqual([link["lost"] for link in job.stat_links()], [0] * SERVERS)
        self.assertGreater(sum(link["outages"] for link in job.stat_links()), 2)


if __name__ == "__main__":
    unittest.main()
