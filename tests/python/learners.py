# SPDX-License-Identifier: BSD-3-Clause
"""A synchronous job of two learners, each a process, whose only server is killed on the way.

What a learner computes is a function of its number and of the step, so each run must end with the
same bits.
"""
import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import outlast

HOST = os.environ.get("OUTLAST_TEST_HOST")  # an RDMA device's address; without it over shm
LEARNERS = 2
DEADLINE_S = 60.0
fork = multiprocessing.get_context("fork")  # torch is loaded once


@dataclass(frozen=True)
class Plan:
    """One job. train(job, tell, number) computes, and calls tell() before each exchange."""

    init: object
    train: Callable[[outlast.Job, Callable[[], None], int], None]
    versions: int  # where the job ends
    rule: dict[str, object]
    # The server is killed so many seconds after learner 0 began its exchange of that number; None:
    # the learner waits for the kill.
    kills: tuple[tuple[int, float | None], ...] = ()


def sha256(weights: object) -> str:
    return hashlib.sha256(bytes(memoryview(weights).cast("B"))).hexdigest()


def learner(plan: Plan, address: str, number: int, pipe: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    exchanges = 0
    moments = dict(plan.kills)

    def tell() -> None:
        nonlocal exchanges
        exchanges += 1
        if number == 0 and exchanges in moments:
            pipe.send(exchanges)
            if moments[exchanges] is None:
                pipe.recv()

    with outlast.connect(address, worker=number, timeout=DEADLINE_S) as job:
        plan.train(job, tell, number)
        done = job.finish(plan.versions)
        found = job.weights()
        pipe.send((done, found.version, sha256(found.array), job.stat_links()[0]))
        del found
        pipe.recv()  # its mirror is needed until all have finished


def watch(plan: Plan, server: outlast.Server, pipe: object) -> None:
    """Kill the server at the planned moments, and start an empty one in its place."""
    for moment, delay in plan.kills:
        if not pipe.poll(DEADLINE_S) or pipe.recv() != moment:
            raise RuntimeError(f"learner 0 did not come to exchange {moment}")
        time.sleep(delay or 0.0)
        server.kill()
        if delay is None:
            pipe.send("killed")
        server.restart(restore="mirror")


def run(plan: Plan) -> list[tuple[bool, int, str, dict[str, float]]]:
    """What each learner said at its end: finished, version, SHA-256, counters of its gradients."""
    with outlast.launch(init=plan.init, workers=LEARNERS, consistency="sync",
                        listen=[f"{HOST}:0"] if HOST else None, **plan.rule) as servers:
        pipes, processes = [], []
        for number in range(LEARNERS):
            here, there = fork.Pipe()
            process = fork.Process(target=learner, daemon=True,
                                   args=(plan, str(servers), number, there))
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)
        try:
            watch(plan, servers.servers[0], pipes[0])
            said = [pipe.recv() if pipe.poll(DEADLINE_S) else None for pipe in pipes]
            for pipe in pipes:
                pipe.send("end")
            for process in processes:
                process.join(DEADLINE_S)
        finally:
            for process in processes:
                process.kill()
    return said


class SameBits:
    """For a test case: runs of a job, undisturbed and with a server that is killed."""

    def ends_the_same(self, make, train, versions, rule, kills):
        bits = set()
        for moments in ((), (), *kills):
            with self.subTest(kills=moments):
                plan = Plan(outlast.torch.vector(make()), train, versions, rule, moments)
                said = run(plan)
                needed = sum(delay is None for _, delay in moments)
                self.assertNotIn(None, said)
                for number, (done, version, sha256, link) in enumerate(said):
                    self.assertTrue(done)
                    self.assertEqual(version, versions)
                    self.assertGreaterEqual(link["outages"],
                                            needed if number == 0 else 0)
                    self.assertEqual((link["lost"], link["late"]), (0, 0))
                    bits.add(sha256)
        self.assertEqual(len(bits), 1)
