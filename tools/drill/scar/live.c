/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * live.c -- the same with real servers: four processes of `outlast serve`, one is killed
 *
 * This process is the only worker. Until the kill its weights are those of the stored run, bit for
 * bit, because the servers' kernel computes what a step of the problem does; so what a kill costs
 * can be counted as in the study. Partial recovery: one server comes back with its running
 * checkpoint. Full recovery: all four go back to the newest full checkpoint that all have.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/proc.h"
#include "drill/scar/scar.h"

enum {
	SERVERS = 4,
	STREAM_KILL = 48,
	PERIOD = 8, /* C */
	WAIT_MS = 30000 /* for whatever should come at once */
};

struct scene {
	const struct scar_run *run;
	const struct scar_spec *spec;
	struct ol_proc procs[SERVERS];
	struct ol_worker *worker;
	struct ol_op pull, push, flush; /* closing the worker ends one that was given up */
	float *before; /* weights as pulled last before the kill */
	float *next; /* room for a step */
	char folder[64]; /* of checkpoints */
	char addrs[SERVERS * 64];
	char key[40];
	uint64_t seed;
	bool full;
};

static void addr_make(uint32_t shard, char text[64])
{
	snprintf(text, 64, "@outlast-scar-%ld-%u", (long)getpid(), shard);
}

static int server_start(struct scene *s, uint32_t shard, uint32_t epoch, const char *restore,
			uint64_t version)
{
	struct ol_args args = { 0 };
	char addr[64], name[24];
	int rc;

	addr_make(shard, addr);
	snprintf(name, sizeof(name), "server %u", shard);
	ol_args_add(&args, "outlast");
	ol_args_add(&args, "serve");
	ol_args_add(&args, "--listen=%s", addr);
	ol_args_add(&args, "--shard=%u", shard);
	ol_args_add(&args, "--servers=%d", SERVERS);
	ol_args_add(&args, "--workers-max=1");
	ol_args_add(&args, "--epoch=%u", epoch);
	ol_args_add(&args, "--model=%s", s->spec->model);
	ol_args_add(&args, "--data-shape=%s", s->run->problem->shape);
	ol_args_add(&args, "--seed=%" PRIu64, s->seed);
	ol_args_add(&args, "--lr=%.9g", s->spec->lr);
	ol_args_add(&args, "--lease-ms=60000"); /* a busy machine is no death */
	ol_args_add(&args, "--durability=checkpoint");
	ol_args_add(&args, "--checkpoint=%severy=%dsteps,dir=%s", s->full ? "" : "priority,r=1/8,",
		    PERIOD, s->folder);
	ol_args_add(&args, "--restore=%s", restore);
	if (version > 0)
		ol_args_add(&args, "--restore-version=%" PRIu64, version);
	ol_args_add(&args, "--report-fd=%d", OL_PROC_FD);
	rc = ol_proc_spawn(&s->procs[shard], name, &args, s->key);
	ol_args_free(&args);
	return rc;
}

static void folder_drop(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static void scene_fini(struct scene *s)
{
	ol_worker_close(s->worker);
	s->worker = NULL;
	for (uint32_t i = 0; i < SERVERS; i++)
		ol_proc_fini(&s->procs[i]);
	folder_drop(s->folder);
}

static int scene_init(struct scene *s)
{
	struct ol_worker_opts opts;
	char err[256] = "";
	int rc = 0;

	snprintf(s->folder, sizeof(s->folder), "/tmp/outlast-scar-XXXXXX");
	if (mkdtemp(s->folder) == NULL)
		return -errno;
	s->addrs[0] = '\0';
	for (uint32_t i = 0; rc == 0 && i < SERVERS; i++) {
		size_t len = strlen(s->addrs);
		char addr[64];

		addr_make(i, addr);
		snprintf(s->addrs + len, sizeof(s->addrs) - len, "%s%s", i > 0 ? "," : "", addr);
		rc = server_start(s, i, 1, "none", 0);
	}
	if (rc != 0)
		return rc;
	ol_worker_opts_init(&opts);
	opts.servers = s->addrs;
	opts.transport = "shm";
	opts.job_key = s->key;
	opts.param_count = s->run->problem->floats;
	opts.connect_timeout_ms = WAIT_MS;
	opts.op_timeout_ms = WAIT_MS;
	opts.outage = OL_OUTAGE_WAIT;
	opts.lease_ms = 0;
	rc = ol_worker_open(&opts, &s->worker, err, sizeof(err));
	if (rc != 0)
		(void)ol_cmd_error(OL_EXIT_SERVER, "drill", "the servers of a live run", err, NULL);
	return rc;
}

static int pull(struct scene *s)
{
	int rc;

	s->pull = (struct ol_op){ 0 };
	rc = ol_pull(s->worker, OL_PULL_NEWEST, &s->pull);
	return rc != 0 ? rc : ol_worker_wait(s->worker, &s->pull);
}

/* The loss at the weights; unless it is at the target, one more step */
static int live_step(struct scene *s, uint32_t k, bool *ret_there)
{
	const struct scar_problem *problem = s->run->problem;
	struct ol_push_info info = { .samples = 1 };
	double loss;
	float *grad;
	int rc;

	rc = problem->step(problem->model, k, ol_weights(s->worker, &info.base_version), s->next,
			   &loss);
	*ret_there = loss <= s->run->target;
	if (rc != 0 || *ret_there)
		return rc;
	while ((rc = ol_grad_try_acquire(s->worker, &grad)) == -EAGAIN)
		(void)ol_worker_poll(s->worker);
	if (rc != 0)
		return rc;
	memcpy(grad, problem->grad, problem->floats * sizeof(*grad));
	info.loss = (float)loss;
	s->push = (struct ol_op){ 0 };
	rc = ol_push(s->worker, grad, &info, &s->push);
	if (rc == 0)
		rc = ol_worker_wait(s->worker, &s->push);
	return rc != 0 ? rc : pull(s);
}

/* The newest version that all have a full checkpoint of; 0: the first weights */
static int common_version(struct scene *s, uint64_t *ret_version)
{
	struct ol_server_stat stat;

	*ret_version = UINT64_MAX;
	for (uint32_t i = 0; i < SERVERS; i++) {
		int rc = ol_stat(s->worker, i, &stat);

		if (rc != 0)
			return rc;
		if (stat.checkpoint_version < *ret_version)
			*ret_version = stat.checkpoint_version;
	}
	return 0;
}

static int down_wait(struct scene *s, uint32_t shard)
{
	uint64_t end = ol_clock_ns() + (uint64_t)WAIT_MS * 1000000u;
	struct ol_link_stat stat;
	int rc;

	do {
		(void)ol_worker_poll(s->worker);
		rc = ol_link_get_stat(s->worker, shard, &stat);
	} while (rc == 0 && stat.outages == 0 && ol_clock_ns() < end);
	return rc != 0 ? rc : stat.outages == 0 ? -ETIMEDOUT : 0;
}

/* *ret_version: what full recovery goes back to */
static int lose(struct scene *s, uint32_t victim, uint64_t *ret_version)
{
	int rc = s->full ? common_version(s, ret_version) : 0;

	for (uint32_t i = 0; rc == 0 && i < SERVERS; i++) {
		bool first = s->full && *ret_version == 0;

		if (i != victim && !s->full)
			continue;
		ol_proc_kill(&s->procs[i], SIGKILL);
		ol_proc_fini(&s->procs[i]);
		rc = down_wait(s, i);
		if (rc == 0)
			rc = server_start(s, i, 2, first ? "none" : "checkpoint",
					  s->full ? *ret_version : 0);
	}
	s->flush = (struct ol_op){ 0 };
	if (rc == 0)
		rc = ol_flush(s->worker, &s->flush);
	if (rc == 0)
		rc = ol_worker_wait(s->worker, &s->flush);
	return rc != 0 ? rc : pull(s);
}

/* Is each float of the shard what it was in some state up to this step? */
static bool from_history(const struct scene *s, const float *w, uint64_t first, uint64_t count,
			 uint32_t step)
{
	for (uint64_t i = first; i < first + count; i++) {
		uint32_t k = 0;

		while (k <= step && memcmp(&w[i], &scar_state(s->run, k)[i], sizeof(*w)) != 0)
			k++;
		if (k > step)
			return false;
	}
	return true;
}

static void look(const struct scene *s, uint32_t victim, uint32_t step, uint64_t version,
		 struct scar_live *live)
{
	const float *w = ol_weights(s->worker, NULL);
	uint64_t first = 0, count = 0;

	if (s->full) {
		live->strange += memcmp(w, scar_state(s->run, (uint32_t)version),
					s->run->problem->floats * sizeof(*w)) != 0;
		return;
	}
	for (uint32_t i = 0; i < SERVERS; i++) {
		(void)ol_shard_span(s->run->problem->floats, SERVERS, i, &first, &count);
		if (i == victim)
			live->strange += !from_history(s, w, first, count, step);
		else
			live->changed +=
				memcmp(w + first, s->before + first, count * sizeof(*w)) != 0;
	}
}

static int kill_make(struct scene *s, uint32_t step, uint32_t victim, uint32_t at,
		     struct scar_live *live)
{
	uint64_t version = 0;
	uint32_t made = 0;
	bool there = false;
	int rc = scene_init(s);

	if (rc == 0)
		rc = pull(s);
	for (uint32_t k = 0; rc == 0 && k < step; k++)
		rc = live_step(s, k, &there);
	if (rc != 0)
		return rc;
	memcpy(s->before, ol_weights(s->worker, NULL), s->run->problem->floats * sizeof(float));
	live->unlike += memcmp(s->before, scar_state(s->run, step),
			       s->run->problem->floats * sizeof(float)) != 0;
	rc = lose(s, victim, &version);
	if (rc != 0)
		return rc;
	look(s, victim, step, version, live);
	for (; rc == 0 && !there && made < SCAR_LATE * s->run->steps; made++)
		rc = live_step(s, (s->full ? (uint32_t)version : step) + made, &there);
	live->late += !there;
	live->cost[at] = (double)step + made - 1.0 - s->run->steps;
	return rc;
}

static int key_make(char key[40])
{
	uint64_t bits[2];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return -errno;
	snprintf(key, 40, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
	return 0;
}

int scar_live_make(const struct scar_run *run, const struct scar_spec *spec, bool full,
		   uint32_t kills, uint64_t seed, struct scar_live *live)
{
	struct scene s = { .run = run, .spec = spec, .seed = seed, .full = full };
	size_t bytes = run->problem->floats * sizeof(float);
	int rc = key_make(s.key);

	*live = (struct scar_live){ .name = spec->name, .full = full };
	s.before = malloc(bytes);
	s.next = malloc(bytes);
	if (rc == 0 && (s.before == NULL || s.next == NULL))
		rc = -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < kills && i < SCAR_KILLS_MAX; i++) {
		struct scar_rng rng = { .seed = seed, .trial = i, .stream = STREAM_KILL };
		uint32_t step = scar_geometric(&rng, run->steps / 2.0, run->steps - 1);

		rc = kill_make(&s, step, scar_below(&rng, SERVERS), i, live);
		scene_fini(&s);
		live->kills += rc == 0;
	}
	free(s.before);
	free(s.next);
	return rc;
}
