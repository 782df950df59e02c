#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""DiLoCo: two learners with optimizers of their own, which meet every 50 steps.

With OUTLAST_JOB set this is one learner (OUTLAST_WORKER: which). Without it, the script starts the
synchronizer, a server, and two learners, which are itself, and kills the synchronizer.
"""
import hashlib
import os
import subprocess
import sys

import torch

import outlast

LEARNERS = 2
OUTER = 10
EVERY = 50
BATCH = 16
WORDS = 32  # of a made-up language, in which each word is followed by one of four


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(WORDS, 16), torch.nn.Linear(16, 64),
                               torch.nn.ReLU(), torch.nn.Linear(64, WORDS))


def batch(learner: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(LEARNERS * step + learner)
    words = torch.randint(WORDS, (BATCH,), generator=random)
    return words, (5 * words + torch.randint(4, (BATCH,), generator=random)) % WORDS


def learn() -> None:
    torch.set_num_threads(1)
    learner = int(os.environ["OUTLAST_WORKER"])
    model = make_model()
    with outlast.connect() as job:
        inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
        sync = outlast.torch.DiLoCo(model, inner=inner, every=EVERY, job=job)
        while sync.outer_steps < OUTER:
            words, following = batch(learner, sync.steps)
            sync.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(words), following)
            loss.backward()
            sync.step(loss=loss.item(), samples=BATCH)
            if learner == 0 and sync.steps % EVERY == 0:
                print(f"outer step {sync.outer_steps}: loss {loss.item():.3f}", flush=True)
        job.finish(OUTER)
        print("done", hashlib.sha256(outlast.torch.vector(model)).hexdigest()[:16], flush=True)
        job.stay(sys.stdin)  # a restored server may need this mirror


def start(servers: outlast.Launch, learner: int) -> subprocess.Popen:
    words = dict(os.environ, OUTLAST_JOB=str(servers), OUTLAST_WORKER=str(learner))
    return subprocess.Popen([sys.executable, __file__], env=words, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def main() -> None:
    with outlast.launch(init=outlast.torch.vector(make_model()), workers=LEARNERS,
                        consistency="sync", rule="nesterov", lr=0.7, momentum=0.9) as servers:
        learners = [start(servers, number) for number in range(LEARNERS)]
        for line in learners[0].stdout:
            print(line, end="")
            if line.startswith("outer step 5:"):
                servers.servers[0].kill()
                print("the synchronizer is killed; an empty one takes its place")
                servers.servers[0].restart(restore="mirror")
            if line.startswith("done"):
                break
        print(learners[1].stdout.readline(), end="")
        for learner in learners:
            learner.stdin.close()
        if any([learner.wait() for learner in learners]):
            sys.exit("a learner failed")


if __name__ == "__main__":
    if "OUTLAST_JOB" in os.environ:
        learn()
    else:
        main()
