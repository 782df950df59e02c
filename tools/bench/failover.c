/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * failover.c -- `outlast bench failover`: from the loss of a server of a chain to the first
 * push that the other servers have committed
 *
 * One worker pushes without a pause, one push at a time; a push is in flight when the signal is
 * sent. All times are CLOCK_MONOTONIC of this machine:
 *
 *	lost       right before kill()
 *	detected   a surviving server first proposes a view without the lost one
 *	view       a surviving server first adopts it (its work after that belongs to the next time)
 *	linked     the later of: the head has a successor again that takes entries; the worker's
 *	           outage is over. A link that was never broken does not count
 *	committed  the worker knows of the first push that was committed after `view`
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/samples.h"

enum {
	WINDOW = 16,
	BETWEEN = 50, /* most pushes between two kills, once the chain is whole */
	MEND_MS = 60000,
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
	int target; /* enum bench_role */
	int signal;
	uint64_t seed;
};

static const struct ol_conf_choice signals[] = { { "KILL", SIGKILL },
						 { "STOP", SIGSTOP },
						 { NULL, 0 } };

static const struct ol_conf_field fields[] = {
	OL_ROW_GROUP("what"),
	OL_ROW_U32(failover_conf, kills, "100", 1, 100000,
		   "how often; the lost server comes back in between, empty"),
	OL_ROW_CHOICE(failover_conf, target, "head", bench_roles,
		      "who is lost, by its role at that moment"),
	OL_ROW_CHOICE(failover_conf, signal, "KILL", signals,
		      "KILL: its connections break; STOP: only its heartbeat tells"),
	OL_ROW_U32(failover_conf, replicas, "3", 2, OL_CHAIN_MAX, "servers of the chain"),
	OL_ROW_STR(failover_conf, size, "4K", "bytes of a gradient (-s)"),
	OL_ROW_U64(failover_conf, seed, "1", 0, 0, "of how many pushes lie between two kills"),
	OL_ROW_STR(failover_conf, raw, NULL,
		   "write every kill to this file: the five times, nanoseconds"),
	BENCH_CHAIN_FIELDS_OF("false", "1000"),
	BENCH_PLACE_FIELDS_OF("none", "50"),
};

static struct failover {
	struct bench_run run;
	struct failover_conf conf;
	struct bench_samples samples[PHASES];
	unsigned seed;
} failover;

/* One loss */
struct loss {
	uint32_t victim; /* server */
	uint32_t epoch; /* of the view in which it was lost */
	uint64_t lost_ns;
	uint64_t detected_ns;
	uint64_t view_ns;
	uint64_t linked_ns;
	uint64_t committed_ns;
};

static const char *signal_name(void)
{
	return failover.conf.signal == SIGKILL ? "KILL" : "STOP";
}

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

/* Read the survivors' counters; view_ns stays 0 while none has adopted the view */
static void survivors_ask(struct loss *loss)
{
	struct bench_run *run = &failover.run;
	struct ol_link_stat link;
	struct ol_server_stat stat;

	loss->detected_ns = loss->view_ns = loss->linked_ns = 0;
	for (uint32_t i = 0; i < failover.conf.replicas; i++) {
		if (i == loss->victim || bench_chain_server_stat(&run->chain, i, &stat) != 0)
			continue;
		if (stat.proposed_ns > loss->lost_ns)
			loss->detected_ns = min_set(loss->detected_ns, stat.proposed_ns);
		if (stat.adopted_ns > loss->lost_ns && stat.epoch > loss->epoch)
			loss->view_ns = min_set(loss->view_ns, stat.adopted_ns);
		if (stat.linked_ns > loss->linked_ns)
			loss->linked_ns = stat.linked_ns;
	}
	if (ol_link_get_stat(run->client.worker, 0, &link) == 0 && link.up_ns > loss->linked_ns)
		loss->linked_ns = link.up_ns;
}

/* Push until a gradient is committed in the next view */
static int recover(struct bench_run *run, struct loss *loss)
{
	int rc = bench_push_wait(&run->client);

	while (rc == 0) {
		loss->committed_ns = ol_clock_ns();
		if (bench_chain_info(&run->chain).epoch > loss->epoch) {
			survivors_ask(loss);
			if (loss->view_ns != 0 && loss->committed_ns >= loss->view_ns)
				return 0;
		}
		rc = push(&run->client);
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
static void note(FILE *raw, const struct loss *loss)
{
	struct bench_samples *samples = failover.samples;
	uint64_t at[PHASES] = { loss->lost_ns, 0, loss->view_ns, 0, loss->committed_ns };

	at[1] = loss->detected_ns == 0 ? loss->view_ns
				       : within(loss->detected_ns, loss->lost_ns, loss->view_ns);
	at[3] = within(loss->linked_ns, loss->view_ns, loss->committed_ns);
	for (unsigned i = 0; i + 1 < PHASES; i++)
		bench_samples_add(&samples[i], at[i + 1] - at[i]);
	bench_samples_add(&samples[TOTAL], loss->committed_ns - loss->lost_ns);
	for (unsigned i = 0; i < PHASES && raw != NULL; i++)
		fprintf(raw, "%llu%c", (unsigned long long)samples[i].ns[samples[i].count - 1],
			i + 1 < PHASES ? ' ' : '\n');
}

static int loss_run(struct bench_run *run)
{
	struct ol_chain_info info;
	struct loss loss = { 0 };
	int victim, rc = 0;

	for (int left = 1 + rand_r(&failover.seed) % BETWEEN; left > 0 && rc == 0; left--)
		rc = push(&run->client);
	if (rc == 0)
		rc = bench_push_rest(&run->client);
	if (rc == 0)
		rc = bench_push_post(&run->client);
	if (rc != 0)
		return rc;
	info = bench_chain_info(&run->chain);
	victim = bench_role_server(run, &info, failover.conf.target);
	if (victim < 0) /* it was lost just now, without a kill */
		return bench_push_wait(&run->client);
	loss.victim = (uint32_t)victim;
	loss.epoch = info.epoch;
	loss.lost_ns = ol_clock_ns();
	ol_proc_kill(&run->chain.servers[victim].proc, failover.conf.signal);
	rc = recover(run, &loss);
	if (rc != 0)
		return rc;
	note(run->raw, &loss);
	ol_proc_fini(&run->chain.servers[victim].proc);
	return 0;
}

static int losses_run(struct bench_run *run)
{
	int rc = 0;

	for (unsigned i = 0; i < PHASES && rc == 0; i++)
		rc = bench_samples_init(&failover.samples[i], failover.conf.kills);
	while (rc == 0 && !bench_samples_full(&failover.samples[TOTAL])) {
		rc = bench_chain_mend(run, push, &run->client, MEND_MS);
		if (rc == 0)
			rc = loss_run(run);
	}
	return rc;
}

static void row(const char *name, const struct bench_summary *s)
{
	printf(" %-10s %-8llu %-12.3f %-15.3f %-12.3f %-12.3f %.3f\n", name,
	       (unsigned long long)s->count, (double)s->min / 1e6, (double)s->p50 / 1e6,
	       s->avg / 1e6, (double)s->p99 / 1e6, (double)s->max / 1e6);
}

static void end(struct bench_run *run)
{
	struct bench_summary summary;

	printf(" #phase     #kills   t_min[ms]    t_typical[ms]   t_avg[ms]    99%%[ms]      "
	       "t_max[ms]\n");
	for (unsigned i = 0; i < PHASES; i++) {
		bench_summary_make(&failover.samples[i], &summary);
		row(phase_names[i], &summary);
		json_object_set_new(run->report, phase_names[i], bench_summary_json(&summary));
	}
	if (run->unasked > 0)
		printf("# %u servers ended by themselves, at a lease that this machine did not "
		       "keep\n",
		       run->unasked);
	json_object_update_new(run->report,
			       json_pack("{s:I, s:s, s:s, s:I, s:I}", "replicas",
					 (json_int_t)failover.conf.replicas, "target",
					 bench_roles[failover.conf.target].name, "signal",
					 signal_name(), "bytes", (json_int_t)run->sizes.bytes[0],
					 "unasked", (json_int_t)run->unasked));
}

static void begin(struct bench_run *run)
{
	printf("# outlast bench failover: %s of %u servers, SIG%s, %u times\n",
	       bench_roles[failover.conf.target].name, failover.conf.replicas, signal_name(),
	       failover.conf.kills);
	bench_chain_print(run, failover.conf.replicas);
	printf("# detection: until a survivor proposes a view without it; view: until one adopts "
	       "it; reconnect: until chain and\n# worker are linked again; commit: until the "
	       "worker knows of the first push committed in that view\n");
}

static int size_run(struct bench_run *run, uint64_t bytes)
{
	int rc =
		bench_servers_open(run, failover.conf.replicas, bytes, bench_window(WINDOW, bytes));

	if (rc != 0)
		return rc;
	rc = losses_run(run);
	if (rc == -ETIMEDOUT)
		snprintf(run->err, sizeof(run->err),
			 "nothing is committed any more: all servers may have ended, at a lease of "
			 "%u ms that this machine did not keep; give a longer one",
			 failover.conf.chain.lease_ms);
	return bench_servers_close(run, rc);
}

static void fini(struct bench_run *run)
{
	(void)run;
	for (unsigned i = 0; i < PHASES; i++)
		bench_samples_fini(&failover.samples[i]);
}

static int check(struct bench_run *run, struct ol_conf *conf)
{
	int rc = bench_sizes_take(run, conf, failover.conf.size);

	if (rc == 0 && run->sizes.count != 1)
		rc = ol_conf_fail(conf, "size", "is one size here");
	failover.seed = (unsigned)failover.conf.seed;
	run->raw_path = failover.conf.raw;
	return rc != 0 ? rc : bench_role_check(conf, failover.conf.target, failover.conf.replicas);
}

const struct bench_measure bench_failover = {
	.name = "failover",
	.summary = "servers of a chain are lost: until pushes are committed again",
	.purpose = "From the loss of a server of a chain to the first push that the rest has "
		   "committed.",
	.examples = "  outlast bench failover --kills 100 --target head\n"
		    "  outlast bench failover --signal STOP --lease-ms 200 --kills 20\n"
		    "  outlast bench failover --coordinator zk:127.0.0.1:2181 --kills 20\n",
	.fields = OL_FIELDS(fields),
	.conf = &failover.conf,
	.run = &failover.run,
	.chain = true,
	.check = check,
	.begin = begin,
	.size = size_run,
	.end = end,
	.fini = fini,
};
