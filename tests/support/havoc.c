/* SPDX-License-Identifier: BSD-3-Clause */

/* havoc.c -- faults of chains' servers */

#include "support/havoc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "support/check.h"
#include "worker/worker_internal.h"

enum {
	EXIT_FENCED = 9,
	RUN_S = 150, /* a schedule that takes longer hangs */
	READ_MS = 1000, /* a replica that is left out just now will not answer */
};

/* What a sanitizer finds is in the code that schedules run, and a few of them run all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum {
	RUNS_SHARE = 6
};
#else
enum {
	RUNS_SHARE = 1
};
#endif

struct havoc_seeds havoc_seeds(int argc, char **argv, unsigned runs)
{
	struct havoc_seeds seeds = { .first = 1, .last = (runs + RUNS_SHARE - 1) / RUNS_SHARE };
	enum ol_log_level level = OL_LOG_ERROR;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("OL_LOG") != NULL)
		check_ok(ol_log_level_parse(getenv("OL_LOG"), &level));
	ol_log_level_set(level);
	for (int i = 1; i + 1 < argc; i += 2) {
		unsigned value = (unsigned)strtoul(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--seed") == 0)
			seeds.first = seeds.last = value;
		else if (strcmp(argv[i], "--runs") == 0)
			seeds.last = seeds.first + value - 1;
		else if (strcmp(argv[i], "--from") == 0)
			seeds = (struct havoc_seeds){ value, value + runs - 1 };
		else
			check_msg(false, "%s: not --seed, --from or --runs", argv[i]);
	}
	return seeds;
}

unsigned havoc_rand(struct havoc *havoc, unsigned span)
{
	return (unsigned)rand_r(&havoc->seed) % span;
}

static void on_alarm(int signal_number)
{
	static const char text[] = "havoc: the schedule hangs\n";

	(void)signal_number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0 || getenv("OL_HOLD") == NULL)
		_exit(1);
	for (;;)
		pause(); /* for a debugger */
}

void havoc_start(struct havoc *havoc, unsigned seed, struct ol_server_opts opts)
{
	struct sigaction action = { .sa_handler = on_alarm };
	enum ol_restore restore = opts.restore;

	sigaction(SIGALRM, &action, NULL);
	alarm(RUN_S);
	*havoc = (struct havoc){ .seed = seed * 2654435761u };
	(void)havoc_rand(havoc, 2);
	opts.restore = OL_RESTORE_NONE; /* of the first there are no workers to wait for */
	job_fork_chain(&havoc->job, opts, 0.0f);
	havoc_full(havoc);
	havoc->job.opts.restore = restore;
}

struct ol_chain_info havoc_view(struct havoc *havoc, uint32_t shard)
{
	struct job *job = &havoc->job;
	struct ol_chains *chains;
	char err[256];

	if (havoc->views_gone)
		return havoc->last[shard];
	check_msg(ol_chains_open(job->coordinator_addr, job->opts.job, NULL, job->shard_count,
				 10000, &chains, err, sizeof(err)) == 0,
		  "chains: %s", err);
	check_ok(ol_chains_get(chains, shard, &havoc->last[shard]));
	ol_chains_close(chains);
	return havoc->last[shard];
}

static bool is_dead(const struct havoc *havoc, uint64_t id)
{
	for (uint32_t i = 0; i < havoc->dead_count; i++) {
		if (havoc->dead[i] == id)
			return true;
	}
	return false;
}

static uint32_t shard_of(const struct havoc *havoc, int server)
{
	return (uint32_t)server * havoc->job.shard_count / havoc->job.server_count;
}

/* Whoever is at this server's address in a view is no more */
static void dead_add(struct havoc *havoc, int server, const struct ol_chain_info *info)
{
	for (uint32_t i = 0; i < info->count + info->joining; i++) {
		if (strcmp(info->addrs[i], havoc->job.addr[server]) != 0 ||
		    is_dead(havoc, info->ids[i]))
			continue;
		check(havoc->dead_count < HAVOC_DEAD_MAX);
		havoc->dead[havoc->dead_count++] = info->ids[i];
	}
}

/* A server is no more; before: its chain, when it may have lived */
static void bury(struct havoc *havoc, int server, struct ol_chain_info before)
{
	struct ol_chain_info after = havoc_view(havoc, shard_of(havoc, server));
	bool left = false;

	havoc->job.servers[server] = 0;
	dead_add(havoc, server, &before);
	dead_add(havoc, server, &after);
	for (uint32_t i = 0; i < before.count; i++) {
		int at = job_server_at(&havoc->job, &before, i);

		left = left || (at >= 0 && !is_dead(havoc, before.ids[i]) &&
				havoc->job.servers[at] != 0 && havoc->wake_ns[at] == 0);
	}
	havoc->all_lost = havoc->all_lost || !left;
}

int havoc_pick(struct havoc *havoc, uint32_t shard, unsigned place)
{
	struct ol_chain_info info = havoc_view(havoc, shard);
	int found[OL_CHAIN_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < info.count; i++) {
		int at = job_server_at(&havoc->job, &info, i);

		if (at >= 0 && !is_dead(havoc, info.ids[i]) && havoc->job.servers[at] != 0 &&
		    havoc->wake_ns[at] == 0)
			found[count++] = at;
	}
	if (count == 0)
		return -1;
	return found[place == 0 ? 0 : place == 1 ? (count - 1) / 2 : count - 1];
}

int havoc_joining(struct havoc *havoc, uint32_t shard)
{
	struct ol_chain_info info = havoc_view(havoc, shard);
	int at;

	if (info.joining == 0 || is_dead(havoc, info.ids[info.count]))
		return -1;
	info.count++;
	at = job_server_at(&havoc->job, &info, info.count - 1);
	return at >= 0 && havoc->job.servers[at] != 0 && havoc->wake_ns[at] == 0 ? at : -1;
}

void havoc_kill(struct havoc *havoc, int server, uint32_t back_ms)
{
	struct ol_chain_info before;
	int status = 0;

	if (server < 0 || havoc->job.servers[server] == 0)
		return;
	before = havoc_view(havoc, shard_of(havoc, server));
	ol_log(OL_LOG_INFO, "havoc: %s is killed", havoc->job.addr[server]);
	kill(havoc->job.servers[server], SIGKILL);
	while (waitpid(havoc->job.servers[server], &status, 0) < 0)
		check(errno == EINTR);
	check(WIFSIGNALED(status) || WEXITSTATUS(status) == EXIT_FENCED); /* just before */
	havoc->fenced += !WIFSIGNALED(status);
	bury(havoc, server, before);
	havoc->kills++;
	havoc->wake_ns[server] = 0;
	havoc->back_ns[server] = back_ms == UINT32_MAX
					 ? UINT64_MAX
					 : ol_clock_ns() + (uint64_t)back_ms * OL_NS_PER_MS;
}

void havoc_stop(struct havoc *havoc, int server, uint32_t ms)
{
	struct ol_chain_info before;
	int status = 0;

	if (server < 0 || havoc->job.servers[server] == 0)
		return;
	before = havoc_view(havoc, shard_of(havoc, server));
	ol_log(OL_LOG_INFO, "havoc: %s is stopped for %u ms", havoc->job.addr[server], ms);
	kill(havoc->job.servers[server], SIGSTOP);
	while (waitpid(havoc->job.servers[server], &status, WUNTRACED) < 0)
		check(errno == EINTR);
	if (!WIFSTOPPED(status)) { /* it had ended before */
		check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FENCED);
		havoc->fenced++;
		bury(havoc, server, before);
		return;
	}
	havoc->stops++;
	havoc->wake_ns[server] = ol_clock_ns() + (uint64_t)ms * OL_NS_PER_MS;
	havoc->all_lost = havoc->all_lost || havoc_pick(havoc, shard_of(havoc, server), 0) < 0;
}

void havoc_worker_stop(struct havoc *havoc, uint32_t id, uint32_t ms)
{
	ol_log(OL_LOG_INFO, "havoc: worker %u is stopped for %u ms", id, ms);
	kill(havoc->workers[id], SIGSTOP);
	havoc->worker_wake_ns[id] = ol_clock_ns() + (uint64_t)ms * OL_NS_PER_MS;
}

void havoc_workers_kill(struct havoc *havoc)
{
	for (uint32_t i = 0; i < HAVOC_WORKERS_MAX; i++) {
		if (havoc->workers[i] == 0)
			continue;
		kill(havoc->workers[i], SIGKILL);
		while (waitpid(havoc->workers[i], NULL, 0) < 0)
			check(errno == EINTR);
		havoc->workers[i] = 0;
	}
}

void havoc_views_drop(struct havoc *havoc)
{
	for (uint32_t i = 0; i < havoc->job.shard_count; i++)
		(void)havoc_view(havoc, i);
	havoc->views_gone = true;
	ol_log(OL_LOG_INFO, "havoc: the folder of views is taken away");
	job_views_drop(&havoc->job);
}

static void tend_one(struct havoc *havoc, uint32_t i, uint64_t now_ns)
{
	struct job *job = &havoc->job;
	int status;

	if (havoc->wake_ns[i] != 0 && now_ns >= havoc->wake_ns[i]) {
		havoc->wake_ns[i] = 0;
		ol_log(OL_LOG_INFO, "havoc: %s goes on", job->addr[i]);
		kill(job->servers[i], SIGCONT);
	}
	if (job->servers[i] != 0 && waitpid(job->servers[i], &status, WNOHANG) > 0) {
		check_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FENCED,
			  "server %u ended with status %#x", i, (unsigned)status);
		havoc->wake_ns[i] = 0;
		havoc->back_ns[i] = 0;
		havoc->fenced++;
		bury(havoc, (int)i, havoc_view(havoc, shard_of(havoc, (int)i)));
	}
	if (job->servers[i] == 0 && now_ns >= havoc->back_ns[i] && !havoc->views_gone)
		job_restart(job, i, havoc_rand(havoc, 2) == 0);
}

static void worker_tend(struct havoc *havoc, uint32_t id)
{
	siginfo_t info = { 0 };

	if (havoc->worker_wake_ns[id] != 0 && ol_clock_ns() >= havoc->worker_wake_ns[id]) {
		havoc->worker_wake_ns[id] = 0;
		ol_log(OL_LOG_INFO, "havoc: worker %u goes on", id);
		kill(havoc->workers[id], SIGCONT);
	}
	if (waitid(P_PID, (id_t)havoc->workers[id], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid != 0)
		check_msg(info.si_code == CLD_EXITED && info.si_status == 0, "worker %u failed",
			  id);
}

void havoc_tend(struct havoc *havoc)
{
	for (uint32_t i = 0; i < havoc->job.server_count; i++)
		tend_one(havoc, i, ol_clock_ns());
	for (uint32_t i = 0; i < HAVOC_WORKERS_MAX; i++) {
		if (havoc->workers[i] != 0)
			worker_tend(havoc, i);
	}
	poll(NULL, 0, 1); /* so that the one that waits is not the one that works */
}

void havoc_tend_ms(struct havoc *havoc, uint32_t ms)
{
	uint64_t until_ns = ol_clock_ns() + (uint64_t)ms * OL_NS_PER_MS;

	while (ol_clock_ns() < until_ns)
		havoc_tend(havoc);
}

static bool shard_full(struct havoc *havoc, uint32_t shard)
{
	struct ol_chain_info info = havoc_view(havoc, shard);

	if (info.epoch == 0 || info.count != info.wanted || info.joining != 0)
		return false;
	for (uint32_t i = 0; i < info.count; i++) {
		int at = job_server_at(&havoc->job, &info, i);

		if (at < 0 || is_dead(havoc, info.ids[i]) || havoc->job.servers[at] == 0 ||
		    havoc->wake_ns[at] != 0)
			return false;
	}
	return true;
}

void havoc_full(struct havoc *havoc)
{
	for (uint32_t i = 0; i < havoc->job.shard_count; i++) {
		while (!shard_full(havoc, i))
			havoc_tend(havoc);
	}
}

static uint32_t soon_ms(struct havoc *havoc)
{
	return havoc_rand(havoc, 3) == 0 ? 0 : havoc_rand(havoc, HAVOC_REACH_MS);
}

/* Until the chain has noticed, or a little later or earlier */
static void next_view(struct havoc *havoc, uint32_t shard)
{
	struct ol_chain_info info = havoc_view(havoc, shard);
	uint64_t until_ns = ol_clock_ns() + 3 * HAVOC_REACH_MS * OL_NS_PER_MS;

	while (havoc_view(havoc, shard).epoch == info.epoch && ol_clock_ns() < until_ns)
		havoc_tend(havoc);
	havoc_tend_ms(havoc, soon_ms(havoc));
}

void havoc_random(struct havoc *havoc, uint32_t shard, bool stops)
{
	uint32_t lease_ms = havoc->job.opts.lease_ms;
	unsigned place = havoc_rand(havoc, 3);
	uint32_t back_ms = havoc_rand(havoc, 2) * havoc_rand(havoc, 100);

	switch (havoc_rand(havoc, stops ? 9 : 5)) {
	case 0:
		havoc_kill(havoc, havoc_pick(havoc, shard, place), back_ms);
		break;
	case 1: /* the head, and who is head then */
		havoc_kill(havoc, havoc_pick(havoc, shard, 0), back_ms);
		next_view(havoc, shard);
		havoc_kill(havoc, havoc_pick(havoc, shard, 0), back_ms);
		break;
	case 2: /* two at once */
		havoc_kill(havoc, havoc_pick(havoc, shard, place), back_ms);
		havoc_kill(havoc, havoc_pick(havoc, shard, havoc_rand(havoc, 3)), back_ms);
		break;
	case 3: /* the tail, and who is tail then */
		havoc_kill(havoc, havoc_pick(havoc, shard, 2), back_ms);
		next_view(havoc, shard);
		havoc_kill(havoc, havoc_pick(havoc, shard, 2), back_ms);
		break;
	case 4: /* one, and then somebody while the next one joins */
		havoc_kill(havoc, havoc_pick(havoc, shard, place), 0);
		for (int i = 0; i < 100 && havoc_joining(havoc, shard) < 0; i++)
			havoc_tend(havoc);
		havoc_tend_ms(havoc, havoc_rand(havoc, 4));
		if (havoc_rand(havoc, 2) == 0)
			havoc_kill(havoc, havoc_joining(havoc, shard), back_ms);
		else
			havoc_kill(havoc, havoc_pick(havoc, shard, havoc_rand(havoc, 3)), back_ms);
		break;
	case 5: /* shorter than the lease */
		havoc_stop(havoc, havoc_pick(havoc, shard, place),
			   10 + havoc_rand(havoc, lease_ms / 2));
		break;
	case 6: /* longer */
		havoc_stop(havoc, havoc_pick(havoc, shard, place),
			   lease_ms + havoc_rand(havoc, lease_ms));
		break;
	case 7: /* a worker, that has missed what happened when it wakes up */
		havoc_worker_stop(havoc, havoc_rand(havoc, 2), havoc_rand(havoc, 2 * lease_ms));
		havoc_tend_ms(havoc, havoc_rand(havoc, 3));
		havoc_kill(havoc, havoc_pick(havoc, shard, place), back_ms);
		break;
	default: /* about as long */
		havoc_stop(havoc, havoc_pick(havoc, shard, place),
			   lease_ms * 3 / 4 + havoc_rand(havoc, lease_ms / 2));
		havoc_tend_ms(havoc, soon_ms(havoc));
		havoc_kill(havoc, havoc_pick(havoc, shard, havoc_rand(havoc, 3)), back_ms);
		break;
	}
}

/* What a reader finds in one replica */
struct content {
	bool read;
	uint64_t version;
	uint64_t sum;
};

static uint64_t sum_of(const void *bytes, size_t count, uint64_t sum)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ at[i]) * UINT64_C(1099511628211);
	return sum;
}

static struct content *contents;

/* By its address: an observer may look into any replica */
static int reader(const struct job *job, long index)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	const struct ol_link *link;
	const struct ol_mirror *mirror;
	struct content *content = &contents[index];
	struct ol_op op = { 0 };
	char err[256] = "";
	uint64_t bytes;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.servers = job->addr[index];
	opts.transport = job_transport();
	opts.observer = 1;
	opts.mirror_state = 1;
	opts.outage = OL_OUTAGE_END;
	opts.connect_timeout_ms = READ_MS;
	if (ol_worker_open(&opts, &worker, err, sizeof(err)) != 0) {
		fprintf(stderr, "reader of %s: %s\n", opts.servers, err);
		return 1;
	}
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(ol_worker_wait(worker, &op));
	link = &worker->links[0];
	mirror = &worker->mirrors[worker->mirror];
	bytes = link->geo.shard_len * sizeof(float);
	content->sum = sum_of(mirror->weights, bytes, 1);
	/* but for the head, in which each server gives its own word */
	content->sum = sum_of((const uint8_t *)mirror->applied[0] + sizeof(struct ol_snapshot_head),
			      ol_layout_table_bytes(&link->geo) - sizeof(struct ol_snapshot_head),
			      content->sum);
	if (mirror->state[0] != NULL)
		content->sum = sum_of(mirror->state[0],
				      link->geo.state_vectors * ol_layout_vector_bytes(&link->geo),
				      content->sum);
	content->version = mirror->versions[0];
	content->read = true;
	ol_worker_close(worker);
	return 0;
}

static bool all_same(struct havoc *havoc, bool *ret_there)
{
	struct job *job = &havoc->job;
	bool same = true;

	*ret_there = true;
	for (uint32_t i = 0; i < job->server_count; i++) {
		pid_t pid;
		int status = 0;

		contents[i] = (struct content){ 0 };
		pid = job_fork(reader, job, i);
		while (waitpid(pid, &status, 0) < 0)
			check(errno == EINTR);
		*ret_there = *ret_there && contents[i].read;
		same = same && contents[i].version == contents[0].version &&
		       contents[i].sum == contents[0].sum;
	}
	return same;
}

void havoc_same(struct havoc *havoc)
{
	bool there = false, same = false;

	check_eq(havoc->job.shard_count, 1); /* an address alone is no job of several shards */
	contents = mmap(NULL, JOB_SERVERS_MAX * sizeof(*contents), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(contents != MAP_FAILED);
	/* one may be left out just now; acks of the last entries may be on their way */
	for (int tries = 0; tries < 20 && !(there && same); tries++) {
		havoc_full(havoc);
		same = all_same(havoc, &there);
		havoc_tend(havoc);
	}
	for (uint32_t i = 0; !(there && same) && i < havoc->job.server_count; i++)
		fprintf(stderr, "server %u: read %d, version %llu, sum %016llx\n", i,
			contents[i].read, (unsigned long long)contents[i].version,
			(unsigned long long)contents[i].sum);
	check(there && same);
	munmap(contents, JOB_SERVERS_MAX * sizeof(*contents));
}

void havoc_end(struct havoc *havoc)
{
	struct job *job = &havoc->job;

	for (uint32_t i = 0; i < job->server_count; i++) {
		int status = 0;

		if (job->servers[i] == 0)
			continue;
		kill(job->servers[i], SIGCONT);
		kill(job->servers[i], SIGTERM);
		while (waitpid(job->servers[i], &status, 0) < 0)
			check(errno == EINTR);
		job->servers[i] = 0;
		check_msg(WIFEXITED(status) &&
				  (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_FENCED),
			  "server %u ended with status %#x", i, (unsigned)status);
	}
	job_stop(job);
	alarm(0);
}
