/* SPDX-License-Identifier: BSD-3-Clause */

/* stage.c -- workers send requests through a pipe; the process that holds the job answers each */

#include "support/stage.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

enum {
	STAGE_S = 200, /* a whole story */
	LOOK_MS = 200, /* how often the workers' health is looked at */
	WORDS = 8
};

enum request_kind {
	REQUEST_KILL,
	REQUEST_PAUSE,
	REQUEST_RESUME,
	REQUEST_STOP,
	REQUEST_RESTART,
	REQUEST_KILL_WORKER,
	REQUEST_PAUSE_WORKER,
	REQUEST_RESUME_WORKER,
};

struct request {
	enum request_kind kind;
	uint32_t from; /* worker that asks */
	uint32_t target; /* shard or worker */
	enum ol_restore restore;
};

/* Shared by all processes of a story */
struct shared {
	sem_t answered[STAGE_WORKERS_MAX];
	pthread_barrier_t meet;
	uint64_t words[WORDS];
};

static struct shared *shared;
static int (*told)(const struct job *job, long id);
static int asks[2]; /* a pipe */
static uint32_t self;
static pid_t pids[STAGE_WORKERS_MAX]; /* 0: has ended */
static uint32_t worker_count;

static int worker_main(const struct job *job, long id)
{
	close(asks[0]);
	self = (uint32_t)id;
	return told(job, id);
}

/* Wait until it has really stopped */
static void stopped(pid_t pid)
{
	int status = 0;

	kill(pid, SIGSTOP);
	while (waitpid(pid, &status, WUNTRACED) < 0)
		check(errno == EINTR);
	check(WIFSTOPPED(status));
}

static void killed(uint32_t id)
{
	int status = 0;

	kill(pids[id], SIGKILL);
	while (waitpid(pids[id], &status, 0) < 0)
		check(errno == EINTR);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	pids[id] = 0;
}

static void answer(struct job *job, const struct request *request)
{
	uint32_t target = request->target;

	switch (request->kind) {
	case REQUEST_KILL:
		job_kill(job, target);
		break;
	case REQUEST_PAUSE:
		stopped(job->servers[target]);
		break;
	case REQUEST_RESUME:
		kill(job->servers[target], SIGCONT);
		break;
	case REQUEST_STOP:
		kill(job->servers[target], SIGTERM);
		job_join(job->servers[target]);
		job->servers[target] = 0;
		break;
	case REQUEST_RESTART:
		job->opts.restore = request->restore;
		job_restart(job, target, false);
		break;
	case REQUEST_KILL_WORKER:
		killed(target);
		break;
	case REQUEST_PAUSE_WORKER:
		stopped(pids[target]);
		break;
	case REQUEST_RESUME_WORKER:
		kill(pids[target], SIGCONT);
		break;
	}
	sem_post(&shared->answered[request->from]);
}

/* One that fails ends the test at once, before others wait for it in vain */
static void workers_look(void)
{
	for (uint32_t i = 0; i < worker_count; i++) {
		siginfo_t info = { 0 };

		if (pids[i] == 0 ||
		    waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
		    info.si_pid == 0)
			continue;
		check_msg(info.si_code == CLD_EXITED && info.si_status == 0, "worker %u failed", i);
	}
}

static void shared_init(uint32_t workers)
{
	pthread_barrierattr_t attr;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(shared != MAP_FAILED);
	for (uint32_t i = 0; i < workers; i++)
		sem_init(&shared->answered[i], 1, 0);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->meet, &attr, workers);
}

void stage_run(struct job *job, uint32_t workers, int (*story)(const struct job *job, long id))
{
	struct request request;
	ssize_t got;

	check(workers <= STAGE_WORKERS_MAX);
	alarm(STAGE_S);
	shared_init(workers);
	check_ok(pipe(asks));
	told = story;
	worker_count = workers;
	for (uint32_t i = 0; i < workers; i++)
		pids[i] = job_fork(worker_main, job, i);
	close(asks[1]); /* the workers' ends are left: it ends with the last of them */
	for (;;) {
		struct pollfd fd = { .fd = asks[0], .events = POLLIN };

		workers_look();
		if (poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		got = read(asks[0], &request, sizeof(request));
		if (got == 0)
			break;
		check_eq(got, sizeof(request));
		answer(job, &request);
	}
	close(asks[0]);
	for (uint32_t i = 0; i < workers; i++) {
		if (pids[i] != 0)
			job_join(pids[i]);
	}
	munmap(shared, sizeof(*shared));
	alarm(0);
}

void stage_play(struct ol_server_opts opts, float initial, uint32_t workers,
		int (*story)(const struct job *job, long id), const char *name)
{
	struct job job;

	job_start(&job, opts, initial);
	stage_run(&job, workers, story);
	job_stop(&job);
	printf("ok %s\n", name);
}

static void ask(enum request_kind kind, uint32_t target, enum ol_restore restore)
{
	struct request request = {
		.kind = kind, .from = self, .target = target, .restore = restore
	};

	check_eq(write(asks[1], &request, sizeof(request)), sizeof(request));
	while (sem_wait(&shared->answered[self]) != 0)
		check(errno == EINTR);
}

void stage_kill(uint32_t shard)
{
	ask(REQUEST_KILL, shard, OL_RESTORE_NONE);
}

void stage_pause(uint32_t shard)
{
	ask(REQUEST_PAUSE, shard, OL_RESTORE_NONE);
}

void stage_resume(uint32_t shard)
{
	ask(REQUEST_RESUME, shard, OL_RESTORE_NONE);
}

void stage_stop(uint32_t shard)
{
	ask(REQUEST_STOP, shard, OL_RESTORE_NONE);
}

void stage_restart(uint32_t shard, enum ol_restore restore)
{
	ask(REQUEST_RESTART, shard, restore);
}

void stage_kill_worker(uint32_t id)
{
	ask(REQUEST_KILL_WORKER, id, OL_RESTORE_NONE);
}

void stage_pause_worker(uint32_t id)
{
	ask(REQUEST_PAUSE_WORKER, id, OL_RESTORE_NONE);
}

void stage_resume_worker(uint32_t id)
{
	ask(REQUEST_RESUME_WORKER, id, OL_RESTORE_NONE);
}

void stage_meet(void)
{
	int rc = pthread_barrier_wait(&shared->meet);

	check(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
}

uint64_t *stage_word(unsigned index)
{
	check(index < WORDS);
	return &shared->words[index];
}

struct ol_link_stat stage_stat(const struct ol_worker *worker, uint32_t shard)
{
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, shard, &stat));
	check_eq(stat.pushed, stat.applied + stat.nonfinite + stat.late + stat.queue_dropped +
				      stat.lost + stat.pending);
	check(stat.queued <= stat.pending && stat.pending <= stat.pushed);
	return stat;
}

static void poll_one(struct ol_worker *worker)
{
	check(ol_worker_poll(worker) >= 0);
	sched_yield();
}

void stage_down(struct ol_worker *worker, uint32_t shard)
{
	while (!stage_stat(worker, shard).down)
		poll_one(worker);
}

void stage_up(struct ol_worker *worker, uint32_t shard)
{
	while (stage_stat(worker, shard).down)
		poll_one(worker);
}

int stage_done(struct ol_worker *worker, struct ol_op *op)
{
	while (!op->done)
		poll_one(worker);
	return op->status;
}

int stage_push(struct ol_worker *worker, float value, struct ol_op *op)
{
	return job_push_start(worker, value, op);
}

void stage_flush(struct ol_worker *worker)
{
	struct ol_op flush = { 0 }, pull = { 0 };

	check_ok(ol_flush(worker, &flush));
	check_ok(stage_done(worker, &flush));
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &pull));
	check_ok(stage_done(worker, &pull));
	check_eq(pull.local, 0);
	check_eq(pull.age_ns, 0);
}
