/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bench_failover.c -- `outlast bench failover`: from the loss of a server of a chain to the first
 * push that the rest has committed
 *
 * One worker pushes without a pause, one push at a time; a push is under way when the signal is
 * sent. All times are CLOCK_MONOTONIC of this machine:
 *
 *	lost       right before kill()
 *	detected   a surviving server first proposes a view without the lost one
 *	view       a surviving server first adopts it (what it does then counts for what follows)
 *	linked     the last of: the head has a successor again that takes entries; the worker's
 *	           outage is over. What of this was never broken counts for nothing
 *	committed  the worker knows of the first push that was committed after `view`
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/chain.h"
#include "bench/pattern.h"
#include "bench/samples.h"
#include "bench/table.h"
#include "outlast/bench.h"
#include "outlast/cmd.h"

enum {
	WINDOW = 16,
	BETWEEN = 50, /* pushes between two kills, at most, once the chain is whole */
	MEND_MS = 60000,
	CONNECT_TIMEOUT_MS = 15000,
};

enum target {
	TARGET_HEAD,
	TARGET_MIDDLE,
	TARGET_TAIL
};

enum phase {
	DETECTION,
	VIEW,
	RECONNECT,
	COMMIT,
	TOTAL,
	PHASES
};

static const char *const phase_names[PHASES] = { "detection", "view", "reconnect", "commit",
						 "total" };

struct failover_conf {
	struct bench_chain_conf chain;
	const char *size;
	const char *raw;
	uint32_t replicas;
	uint32_t kills;
	int target; /* enum target */
	int signo;
	uint64_t seed;
};

#define AT(member) .offset = offsetof(struct failover_conf, member)

static const struct ol_conf_choice targets[] = {
	{ "head", TARGET_HEAD }, { "middle", TARGET_MIDDLE }, { "tail", TARGET_TAIL }, { NULL, 0 }
};
static const struct ol_conf_choice signals[] = { { "KILL", SIGKILL },
						 { "STOP", SIGSTOP },
						 { NULL, 0 } };

static const struct ol_conf_field fields[] = {
	{ .help = "what", .type = OL_CONF_GROUP },
	{ .name = "kills",
	  .dflt = "100",
	  .help = "how often; the lost server comes back in between, empty",
	  AT(kills),
	  .type = OL_CONF_U32,
	  .min = 1,
	  .max = 100000 },
	{ .name = "target",
	  .dflt = "head",
	  .help = "who is lost, by its role at that moment",
	  AT(target),
	  .type = OL_CONF_CHOICE,
	  .choices = targets },
	{ .name = "signal",
	  .dflt = "KILL",
	  .help = "KILL: its connections break; STOP: only its heartbeat tells",
	  AT(signo),
	  .type = OL_CONF_CHOICE,
	  .choices = signals },
	{ .name = "replicas",
	  .dflt = "3",
	  .help = "servers of the chain",
	  AT(replicas),
	  .type = OL_CONF_U32,
	  .min = 2,
	  .max = OL_CHAIN_MAX },
	{ .name = "size",
	  .dflt = "4K",
	  .help = "bytes of a gradient (-s)",
	  AT(size),
	  .type = OL_CONF_STR },
	{ .name = "seed",
	  .dflt = "1",
	  .help = "of how many pushes lie between two kills",
	  AT(seed),
	  .type = OL_CONF_U64 },
	{ .name = "raw",
	  .help = "write every kill to this file: the five times, nanoseconds",
	  AT(raw),
	  .type = OL_CONF_STR },
	BENCH_CHAIN_FIELDS_OF("false", "1000"),
	BENCH_PLACE_FIELDS_OF("none", "50"),
};

struct failover {
	struct failover_conf conf;
	struct bench_sizes sizes;
	struct bench_ends ends;
	int cpus[OL_CHAIN_MAX];
	struct bench_chain chain;
	struct bench_client client;
	struct bench_samples samples[PHASES];
	unsigned unasked; /* servers that ended by themselves */
	unsigned seed;
	FILE *raw;
	char err[BENCH_ERR_MAX];
};

/* What is known of one loss */
struct loss {
	uint32_t victim; /* server */
	uint32_t epoch; /* in which it was lost */
	uint64_t lost_ns;
	uint64_t detected_ns;
	uint64_t view_ns;
	uint64_t linked_ns;
	uint64_t committed_ns;
};

static int push(void *arg)
{
	struct bench_client *client = arg;
	int rc = bench_push_rest(client);

	return rc != 0 ? rc : bench_push_step(client);
}

static uint64_t min_set(uint64_t a, uint64_t b)
{
	return a == 0 || b < a ? b : a;
}

/* What the survivors say; view_ns stays 0 while none has adopted the view */
static void survivors_ask(struct failover *f, struct loss *loss)
{
	struct ol_link_stat link;
	struct ol_server_stat stat;

	loss->detected_ns = loss->view_ns = loss->linked_ns = 0;
	for (uint32_t i = 0; i < f->conf.replicas; i++) {
		if (i == loss->victim || bench_chain_server_stat(&f->chain, i, &stat) != 0)
			continue;
		if (stat.proposed_ns > loss->lost_ns)
			loss->detected_ns = min_set(loss->detected_ns, stat.proposed_ns);
		if (stat.adopted_ns > loss->lost_ns && stat.epoch > loss->epoch)
			loss->view_ns = min_set(loss->view_ns, stat.adopted_ns);
		if (stat.linked_ns > loss->linked_ns)
			loss->linked_ns = stat.linked_ns;
	}
	if (ol_link_get_stat(f->client.worker, 0, &link) == 0 && link.up_ns > loss->linked_ns)
		loss->linked_ns = link.up_ns;
}

/* Push on until something is committed in the next view */
static int recover(struct failover *f, struct loss *loss)
{
	int rc = bench_push_wait(&f->client);

	while (rc == 0) {
		loss->committed_ns = ol_clock_ns();
		if (bench_chain_info(&f->chain).epoch > loss->epoch) {
			survivors_ask(f, loss);
			if (loss->view_ns != 0 && loss->committed_ns >= loss->view_ns)
				return 0;
		}
		rc = push(&f->client);
	}
	return rc;
}

static uint64_t within(uint64_t at, uint64_t low, uint64_t high)
{
	if (at < low)
		return low;
	return at > high ? high : at;
}

/* Each phase begins where the one before ended */
static void note(struct failover *f, const struct loss *loss)
{
	uint64_t at[PHASES] = { loss->lost_ns, 0, loss->view_ns, 0, loss->committed_ns };

	at[1] = loss->detected_ns == 0 ? loss->view_ns
				       : within(loss->detected_ns, loss->lost_ns, loss->view_ns);
	at[3] = within(loss->linked_ns, loss->view_ns, loss->committed_ns);
	for (unsigned i = 0; i + 1 < PHASES; i++)
		bench_samples_add(&f->samples[i], at[i + 1] - at[i]);
	bench_samples_add(&f->samples[TOTAL], loss->committed_ns - loss->lost_ns);
	for (unsigned i = 0; i < PHASES && f->raw != NULL; i++)
		fprintf(f->raw, "%llu%c",
			(unsigned long long)f->samples[i].ns[f->samples[i].count - 1],
			i + 1 < PHASES ? ' ' : '\n');
}

static int victim_choose(const struct failover *f, const struct ol_chain_info *info)
{
	switch ((enum target)f->conf.target) {
	case TARGET_HEAD:
		return bench_chain_at(&f->chain, info, 0);
	case TARGET_MIDDLE:
		return bench_chain_at(&f->chain, info, info->count / 2);
	case TARGET_TAIL:
		break;
	}
	return bench_chain_at(&f->chain, info, info->count - 1);
}

static int loss_run(struct failover *f)
{
	struct ol_chain_info info;
	struct loss loss = { 0 };
	int victim, rc = 0;

	for (int left = 1 + rand_r(&f->seed) % BETWEEN; left > 0 && rc == 0; left--)
		rc = push(&f->client);
	if (rc == 0)
		rc = bench_push_rest(&f->client);
	if (rc == 0)
		rc = bench_push_post(&f->client);
	if (rc != 0)
		return rc;
	info = bench_chain_info(&f->chain);
	victim = victim_choose(f, &info);
	if (victim < 0) /* it was lost this moment, without our doing */
		return bench_push_wait(&f->client);
	loss.victim = (uint32_t)victim;
	loss.epoch = info.epoch;
	loss.lost_ns = ol_clock_ns();
	kill(f->chain.servers[victim].pid, f->conf.signo);
	rc = recover(f, &loss);
	if (rc == 0)
		note(f, &loss);
	return rc != 0 ? rc : bench_chain_server_reap(&f->chain, loss.victim);
}

static int losses_run(struct failover *f)
{
	int rc = 0;

	for (unsigned i = 0; i < PHASES && rc == 0; i++)
		rc = bench_samples_init(&f->samples[i], f->conf.kills);
	while (rc == 0 && !bench_samples_full(&f->samples[TOTAL])) {
		rc = bench_chain_mend(&f->chain, push, &f->client, MEND_MS, &f->unasked, f->err);
		if (rc == 0)
			rc = loss_run(f);
	}
	return rc;
}

static void row(const char *name, const struct bench_summary *s)
{
	printf(" %-10s %-8llu %-12.3f %-15.3f %-12.3f %-12.3f %.3f\n", name,
	       (unsigned long long)s->count, (double)s->min / 1e6, (double)s->p50 / 1e6,
	       s->avg / 1e6, (double)s->p99 / 1e6, (double)s->max / 1e6);
}

static int report(struct failover *f)
{
	json_t *json = bench_chain_report("failover", &f->ends, f->cpus, &f->chain);
	int rc;

	printf(" #phase     #kills   t_min[ms]    t_typical[ms]   t_avg[ms]    99%%[ms]      "
	       "t_max[ms]\n");
	for (unsigned i = 0; i < PHASES; i++) {
		struct bench_summary summary;

		bench_summary_make(&f->samples[i], &summary);
		row(phase_names[i], &summary);
		json_object_set_new(json, phase_names[i], bench_summary_json(&summary));
	}
	if (f->unasked > 0)
		printf("# %u servers ended by themselves, at a lease that this machine did not "
		       "keep\n",
		       f->unasked);
	json_object_set_new(json, "replicas", json_integer(f->conf.replicas));
	json_object_set_new(json, "target", json_string(targets[f->conf.target].name));
	json_object_set_new(json, "signal",
			    json_string(f->conf.signo == SIGKILL ? "KILL" : "STOP"));
	json_object_set_new(json, "bytes", json_integer((json_int_t)f->sizes.bytes[0]));
	json_object_set_new(json, "unasked", json_integer(f->unasked));
	rc = bench_report_write(&f->conf.chain.place, json, f->err);
	json_decref(json);
	return rc;
}

static void head_print(const struct failover *f)
{
	printf("# outlast bench failover: %s of %u servers, SIG%s, %u times\n",
	       targets[f->conf.target].name, f->conf.replicas,
	       f->conf.signo == SIGKILL ? "KILL" : "STOP", f->conf.kills);
	bench_chain_print(&f->ends, f->cpus, f->conf.replicas, &f->chain);
	printf("# detection: until a survivor proposes a view without it; view: until one adopts "
	       "it; reconnect: until chain and\n# worker are linked again; commit: until the "
	       "worker knows of the first push committed in that view\n");
	fflush(stdout);
}

static int chain_run(struct failover *f)
{
	uint64_t bytes = f->sizes.bytes[0];
	uint32_t window = bench_window(WINDOW, bytes);
	struct bench_peer_opts opts;
	int rc = bench_chain_open(&f->chain, f->conf.replicas, bytes, window, f->err);

	if (rc != 0)
		return rc;
	opts = bench_chain_opts(&f->chain);
	rc = bench_client_open(&opts, NULL, bytes, window, CONNECT_TIMEOUT_MS, &f->client, f->err);
	if (rc == 0) {
		rc = losses_run(f);
		if (rc == -ETIMEDOUT)
			snprintf(f->err, sizeof(f->err),
				 "nothing is committed any more: all servers may have ended, at a "
				 "lease of %u ms that this machine did not keep; give a longer one",
				 f->conf.chain.lease_ms);
		bench_client_close(&f->client);
	}
	bench_chain_close(&f->chain);
	return rc;
}

static int failover_run(struct failover *f)
{
	int rc = bench_chain_ends(&f->conf.chain, &f->ends, f->cpus, f->err);

	if (rc == 0)
		rc = bench_chain_start(&f->ends.opts, f->cpus, &f->chain, f->err);
	if (rc != 0)
		return rc;
	if (f->conf.raw != NULL) {
		f->raw = fopen(f->conf.raw, "we");
		if (f->raw == NULL) {
			rc = -errno;
			snprintf(f->err, sizeof(f->err), "cannot write %.150s: %s", f->conf.raw,
				 ol_strerror(rc));
			rc = -EIO; /* -ENOENT would be an address's folder */
		}
	}
	if (rc == 0) {
		head_print(f);
		rc = chain_run(f);
	}
	if (rc == 0)
		rc = report(f);
	if (f->raw != NULL && fclose(f->raw) != 0 && rc == 0)
		rc = -errno;
	for (unsigned i = 0; i < PHASES; i++)
		bench_samples_fini(&f->samples[i]);
	bench_chain_stop(&f->chain);
	return rc;
}

static int conf_check(struct failover *f, struct ol_conf *conf)
{
	if (bench_sizes_parse(f->conf.size, &f->sizes, f->err, sizeof(f->err)) != 0)
		return ol_conf_fail(conf, "size", f->err);
	if (f->sizes.count != 1)
		return ol_conf_fail(conf, "size", "is one size here");
	if (f->conf.target == TARGET_MIDDLE && f->conf.replicas < 3)
		return ol_conf_fail(conf, "target", "needs --replicas 3 or more to have a middle");
	f->seed = (unsigned)f->conf.seed;
	return 0;
}

int bench_failover(int argc, char **argv)
{
	static const struct ol_conf_spec spec = {
		.program = "outlast bench failover",
		.purpose = "From the loss of a server of a chain to the first push that the rest "
			   "has committed.",
		.examples = "  outlast bench failover --kills 100 --target head\n"
			    "  outlast bench failover --signal STOP --lease-ms 200 --kills 20\n"
			    "  outlast bench failover --coordinator zk:127.0.0.1:2181 --kills 20\n",
		.fields = fields,
		.field_count = sizeof(fields) / sizeof(fields[0]),
	};
	static struct failover f;
	struct ol_conf *conf;
	int code, rc;

	if (bench_conf_load(&spec, &f.conf, argc, argv, &conf, &code) == 0) {
		if (conf_check(&f, conf) != 0) {
			fprintf(stderr, "%s\n", ol_conf_error(conf));
			code = OL_EXIT_USAGE;
		} else {
			rc = failover_run(&f);
			code = rc == 0 ? OL_EXIT_OK : bench_fail("failover", rc, f.err);
		}
	}
	ol_conf_destroy(conf);
	return code;
}
