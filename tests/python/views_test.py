# SPDX-License-Identifier: BSD-3-Clause
"""Arrays are views of the library's memory: no copy, no write into the mirror, no stray view."""
import gc
import subprocess
import tempfile
import threading
import unittest
import warnings

import numpy

import outlast
from outlast import _header
from outlast._library import ffi, header, lib

PARAMS = 3000


def address_of(pointer: object) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def where(array: numpy.ndarray) -> int:
    return array.__array_interface__["data"][0]


def push(job: outlast.Job, value: object) -> int:
    grad = job.grad()
    grad[:] = value
    return job.push(grad)


class Header(unittest.TestCase):
    def test_structs_are_those_of_the_compiler(self):
        """Size of each struct, offset of each field."""
        names = [name for name in ffi.list_types()[1] if ffi.typeof(f"struct {name}").fields]
        self.assertIn("ol_worker_opts", names)
        lines, want = [], []
        for name in names:
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            want.append(f"{name} {ffi.sizeof(f'struct {name}')}")
            for field, place in ffi.typeof(f"struct {name}").fields:
                lines.append(f'printf("{field} %zu\\n", offsetof(struct {name}, {field}));')
                want.append(f"{field} {place.offset}")
        source = ("#include <stdio.h>\n" + header + "int main(void)\n{\n" + "\n".join(lines)
                  + "\nreturn 0;\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cc", "-I", _header.folder(), "-x", "c", "-", "-o", f"{folder}/sizes"],
                           input=source, text=True, check=True)
            said = subprocess.run([f"{folder}/sizes"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.splitlines(), want)

    def test_codes_and_version_are_those_of_the_library(self):
        for name, code in _header.codes(header).items():
            self.assertEqual(getattr(lib, f"OL_E_{name}"), code)
            self.assertNotEqual(str(outlast.Error("", code).status), str(code))
        self.assertEqual(outlast.library_version(), _header.version(header))


class Views(unittest.TestCase):
    def setUp(self):
        self.servers = outlast.launch(init=numpy.arange(PARAMS), servers=2, workers=1, lr=0.5)
        self.addCleanup(self.servers.close)
        self.job = outlast.connect(self.servers, timeout=20)
        self.addCleanup(self.job.close)

    def test_weights_are_the_mirror(self):
        with self.assertRaisesRegex(outlast.Error, "call pull"):
            self.job.weights()
        found = self.job.pull()
        pointer, version = self.job._weights()
        self.assertEqual((where(found.array), found.version), (address_of(pointer), version))
        self.assertEqual(where(self.job.weights().array), where(found.array))
        self.assertEqual(len(found), PARAMS)
        numpy.testing.assert_array_equal(found, numpy.arange(PARAMS, dtype=numpy.float32))

    def test_a_gradient_is_computed_where_the_servers_read_it(self):
        self.assertTrue(self.job.zero_copy)
        grad = self.job.grad()
        self.assertEqual(where(grad), address_of(self.job._lent[id(grad)]))
        self.assertEqual((grad.dtype, grad.shape), (numpy.float32, (PARAMS,)))
        self.job.release(grad)

    def test_a_buffer_stays_lent_after_a_push_of_what_cannot_be(self):
        self.job.pull()
        grad = self.job.grad()
        grad[:] = 0.0
        for words in ({"samples": -1}, {"samples": 1.5}, {"weight": 0.0}):
            with self.assertRaises((outlast.Error, OverflowError, TypeError)):
                self.job.push(grad, **words)
        self.job.push(grad)

    def test_own_buffers_are_no_servers_memory(self):
        with outlast.connect(self.servers, worker=1, own_buffers=True) as other:
            self.assertFalse(other.zero_copy)
            before = self.job.pull().copy()
            other.pull()
            grad = other.grad()
            grad[:] = 1.0
            other.push(grad)
            self.assertTrue((self.job.pull(newest=True).array != before).all())
        with self.assertRaisesRegex(outlast.Error, "own_buffers is 0 or 1"):
            outlast.connect(self.servers, worker=1, own_buffers=2)

    def test_neither_the_mirror_nor_a_pushed_gradient_can_be_written(self):
        found = self.job.pull().array
        with self.assertRaises(ValueError):
            found[0] = 1
        with self.assertRaises(ValueError):
            found.flags.writeable = True
        grad = self.job.grad()
        grad[:] = 0
        self.job.push(grad)
        with self.assertRaises(ValueError):
            grad[0] = 1

    def test_a_view_keeps_its_memory(self):
        part = self.job.pull().array[7:9]
        with self.assertWarns(ResourceWarning):
            self.job.close()
        self.assertEqual(part.tolist(), [7.0, 8.0])
        with self.assertRaises(outlast.Refused):  # it is still connected
            outlast.connect(self.servers)
        del part
        gc.collect()
        outlast.connect(self.servers).close()

    def test_the_last_view_may_go_in_another_thread(self):
        parts = [self.job.pull().array[:2]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.job.close()
        thread = threading.Thread(target=parts.clear)
        thread.start()
        thread.join()
        gc.collect()
        outlast.connect(self.servers).close()

    def test_a_forgotten_handle_is_closed(self):
        self.job.close()
        job = outlast.connect(self.servers)
        job.pull()
        del job
        gc.collect()
        outlast.connect(self.servers).close()


class Jobs(unittest.TestCase):
    def test_numpy_sgd_has_the_expected_bits(self):
        """The servers compute w -= lr * g, in float32."""
        random = numpy.random.default_rng(3)
        aim = random.standard_normal(PARAMS).astype(numpy.float32)
        rate = numpy.float32(0.3)
        want = numpy.zeros(PARAMS, numpy.float32)
        with outlast.launch(params=PARAMS, servers=2, lr=0.3) as servers, \
                outlast.connect(servers, timeout=20) as job:
            for number in range(20):
                found = job.pull()
                numpy.testing.assert_array_equal(found.array, want)
                grad = job.grad()
                numpy.subtract(found.array, aim, out=grad)
                self.assertEqual(job.push(grad), number + 1)
                want -= rate * (want - aim)
                del found, grad

    def test_stat_counts_and_says_what_became_of_gradients(self):
        with outlast.launch(params=PARAMS, servers=2) as servers, \
                outlast.connect(servers, timeout=20) as job:
            job.pull()
            for _ in range(3):
                push(job, 1.0)
            for shard in job.stat():
                self.assertEqual((shard.version, shard.applied, shard.workers), (3, 3, 1))
                self.assertEqual((shard.link.pushed, shard.link.applied), (3, 3))
                self.assertIn(sum(shard.link.push.buckets), (1, 2, 3))  # fast ones are timed in part
                self.assertGreater(shard.link.push.sum_ns, 0)
                self.assertIn(sum(shard.link.pull.buckets), (1, 2))  # connect() pulls, too
            self.assertEqual(job.newest(), 3)

    def test_a_reader_sees_whole_versions_that_never_go_back(self):
        with outlast.launch(params=PARAMS, lr=1.0) as servers, \
                outlast.connect(servers, timeout=20) as job, job.reader() as reader:
            last = 0
            for _ in range(20):
                push(job, -1.0)
                found = reader.pull()
                self.assertGreaterEqual(found.version, last)
                self.assertEqual((found.array.min(), found.array.max()), (found.version,) * 2)
                last = found.version
                job.pull()
            job.finish()
            del found
            job.close()  # with its mirror, so the next server begins anew
            servers.servers[0].kill()
            servers.servers[0].restart(restore="none")
            with self.assertRaisesRegex(outlast.Timeout, "not reached again"):
                reader.pull(timeout=1.0)
            with outlast.connect(servers, timeout=20) as again:
                again.pull()
                for _ in range(last + 1):
                    push(again, -1.0)
                    again.pull()
            self.assertEqual(reader.pull().version, last + 1)

    def test_a_reader_waits_for_versions(self):
        with outlast.launch(params=PARAMS, lr=1.0, observers_max=2) as servers, \
                outlast.reader(servers, timeout=20) as reader, \
                outlast.connect(servers, timeout=20) as job:
            self.assertEqual(reader.wait_for(0), 0)
            with self.assertRaisesRegex(outlast.Error, r"wait_for\(7.*versions are from 0 to"):
                reader.wait_for(2**56)
            with self.assertRaises(outlast.Timeout):
                reader.wait_for(1, timeout=0.2)
            for _ in range(3):
                push(job, -1.0)
                job.pull()
            self.assertEqual(reader.wait_for(2), 3)
            self.assertEqual(reader.pull().array[0], 3.0)
            job.finish()
            job.close()
            servers.servers[0].kill()
            servers.servers[0].restart(restore="none")
            with self.assertRaises(outlast.HistoryChanged):
                reader.wait_for(1, timeout=0.5)

    def test_readers_beyond_the_limit_are_told_which(self):
        with outlast.launch(params=PARAMS, observers_max=1) as servers, \
                outlast.reader(servers, timeout=20):
            with self.assertRaisesRegex(outlast.Refused, "observers_max of 1 .*--observers-max"):
                outlast.reader(servers, connect_timeout=0.5)

    def test_a_coordinator_leads_to_the_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            place = f"dir:{folder}"
            with outlast.launch(params=PARAMS, lr=1.0, coordinator=place, durability="chain",
                                replicas=1):
                for words in ({"coordinator": place}, {"address": place}):
                    with outlast.connect(**words, timeout=20) as job, job.reader() as reader:
                        job.pull()
                        self.assertEqual(push(job, 1.0), reader.pull().version)

    def test_what_was_launched_knows_its_jobs_name(self):
        with outlast.launch(params=PARAMS, lr=1.0, replicas=2, job="mine") as servers, \
                outlast.connect(servers, timeout=20) as job, outlast.reader(servers) as reader:
            job.pull()
            self.assertEqual(push(job, 1.0), reader.pull().version)

    def test_continue_goes_on_without_a_server(self):
        with outlast.launch(params=PARAMS, lr=1.0, outage="continue") as servers, \
                outlast.connect(servers, timeout=20) as job:
            push(job, -1.0)
            job.pull()
            servers.servers[0].kill()
            push(job, -1.0)
            found = job.pull()
            self.assertTrue(found.local)
            self.assertEqual(found.array[0], 1.0)
            servers.servers[0].restart()
            self.assertTrue(job.finish())
            self.assertEqual(job.weights().array[0], 2.0)
            del found


if __name__ == "__main__":
    unittest.main()
