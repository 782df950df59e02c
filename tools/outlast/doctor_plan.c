/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * doctor_plan.c -- what a job takes: memory, queue pairs, bytes of a step
 *
 * Sizes of a server are the library's own (ol_server_sizes()), so that they are those which it will
 * ask for. The formulas of the rest stand beside their rows, and in tools/CLUSTER.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/defaults.h"
#include "cmd/cmd.h"
#include "cmd/settings.h"
#include "outlast/doctor.h"
#include "outlast_server.h"

enum {
	MIRRORS = 2, /* of a worker: the last weights, and those that are being read */
	ELEM_BYTES = 4, /* fp32 */
	LINE_BYTES = 64,
	PLAN_ERROR_MAX = 256,
};

#define PARAMS_MAX 1e12

struct plan {
	double params;
	uint32_t servers;
	uint32_t replicas;
	uint32_t workers;
	uint32_t window;
	int optimizer; /* enum ol_optimizer */
	int gradients; /* enum ol_format */
	int consistency; /* 1: async, an entry of the chain for each gradient */
	uint32_t readers;
	double gbps; /* of a server's port */
	uint32_t keep; /* full checkpoints */
};

/* What is computed of it */
struct needs {
	struct ol_server_sizes sizes; /* of shard 0, which is the largest */
	uint64_t params;
	uint64_t weights; /* bytes of a shard's weights */
	uint64_t payload; /* bytes of a gradient of a shard on the wire */
	uint64_t server; /* bytes of memory, all of it registered */
	uint64_t memlock; /* bytes that count against the limit on locked memory, on verbs */
	uint64_t mirrors; /* of a worker */
	uint64_t buffers; /* of a worker */
	uint64_t in; /* bytes a step that reach a head … */
	uint64_t hop; /* … that each replica sends to the next … */
	uint64_t out; /* … and that a tail is read for */
	uint32_t pairs; /* queue pairs of the replica that has most */
};

static const struct ol_conf_choice optimizers[] = {
#define X(name, value, word, vectors) { word, OL_OPTIMIZER_##name },
	OL_OPTIMIZER_MAP(X)
#undef X
		{ NULL, 0 },
};

static const struct ol_conf_choice consistencies[] = { { "sync", 0 }, { "async", 1 }, { NULL, 0 } };

static const struct ol_conf_field fields[] = {
	OL_ROW_F64(plan, params, "0", 1.0, PARAMS_MAX, "parameters"),
	OL_ROW_U32(plan, servers, "1", 1, 64, "shards"),
	OL_ROW_U32(plan, replicas, "1", 1, 8, "of a shard"),
	OL_ROW_U32(plan, workers, "8", 1, 1024, "of the job"),
	OL_ROW_U32(plan, window, OL_DEFAULT_TEXT(OL_DEFAULT_WINDOW), 1, 64,
		   "landing slots a worker"),
	OL_ROW_CHOICE(plan, optimizer, "sgd", optimizers, "update rule"),
	OL_ROW_CHOICE(plan, gradients, "fp32", ol_formats, "on the wire"),
	OL_ROW_CHOICE(plan, consistency, "sync", consistencies, "steps"),
	OL_ROW_U32(plan, readers, "0", 0, 4096, "observers"),
	OL_ROW_F64(plan, gbps, "100", 0.001, 1e5, "of a server's port"),
	OL_ROW_U32(plan, keep, "3", 1, 1000, "full checkpoints"),
};

/* Of a gradient's elements on the wire: an int8 has 64 bytes of scales for each 4,096 */
static uint64_t payload_of(int format, uint64_t floats)
{
	uint64_t bytes = floats * ELEM_BYTES;

	if (format == OL_FORMAT_BF16 || format == OL_FORMAT_FP16)
		bytes = floats * 2;
	else if (format == OL_FORMAT_INT8)
		bytes = floats + (floats + 4095) / 4096 * LINE_BYTES;
	return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static int needs_make(const struct plan *plan, struct needs *needs)
{
	const uint64_t workers = plan->workers;
	struct ol_server_opts opts;
	uint64_t first, count;
	int rc;

	*needs = (struct needs){ .params = (uint64_t)plan->params };
	ol_server_opts_init(&opts);
	opts.param_count = needs->params;
	opts.shard_count = plan->servers;
	opts.workers_max = plan->workers;
	opts.window = plan->window;
	opts.rule.optimizer = (enum ol_optimizer)plan->optimizer;
	opts.coordinator = plan->replicas > 1 ? "zk:" : NULL;
	rc = ol_server_sizes(&opts, &needs->sizes);
	if (rc == 0)
		rc = ol_shard_span(needs->params, plan->servers, 0, &first, &count);
	if (rc != 0)
		return rc;
	needs->weights = count * ELEM_BYTES;
	needs->payload = payload_of(plan->gradients, count);
	needs->server = needs->sizes.snapshots + workers * needs->sizes.slots + needs->sizes.ring;
	/* a replica alone is head and tail; of a chain the tail is read, and the head written */
	needs->pairs = plan->workers + plan->readers + (plan->replicas > 1);
	needs->memlock = needs->server + (needs->pairs - 1) * needs->sizes.snapshots;
	needs->mirrors = MIRRORS * needs->params * ELEM_BYTES;
	needs->buffers = plan->window * (needs->params * ELEM_BYTES +
					 (plan->gradients != OL_FORMAT_FP32
						  ? payload_of(plan->gradients, needs->params)
						  : 0)) +
			 (plan->gradients == OL_FORMAT_INT8 ? needs->params * ELEM_BYTES : 0);
	needs->in = workers * needs->payload;
	needs->out = workers * needs->weights;
	needs->hop =
		plan->replicas > 1 ? (plan->consistency != 0 ? workers : 1) * needs->weights : 0;
	return 0;
}

static double most_ms(const struct plan *plan, const struct needs *needs)
{
	/* a head sends what it forwards, a tail what it is read for: one alone only the latter */
	uint64_t most = needs->in > needs->out ? needs->in : needs->out;

	return (double)(most > needs->hop ? most : needs->hop) * 8 / (plan->gbps * 1e9) * 1e3;
}

static void row(const char *what, const char *how, double bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
	unsigned unit = 0;

	for (; bytes >= 1000 && unit < 5; unit++)
		bytes /= 1000;
	printf("%-34s %9.*f %-2s  %s\n", what, unit == 0 ? 0 : 2, bytes, units[unit], how);
}

static void show(const struct plan *plan, const struct needs *needs)
{
	const uint64_t count = (uint64_t)plan->servers * plan->replicas;

	printf("# %" PRIu64 " parameters, %u shard%s of %u replica%s, %u workers, window %u, %s, "
	       "gradients %s\n",
	       needs->params, plan->servers, plan->servers == 1 ? "" : "s", plan->replicas,
	       plan->replicas == 1 ? "" : "s", plan->workers, plan->window,
	       optimizers[plan->optimizer - 1].name, ol_formats[plan->gradients].name);
	row("a server: board and snapshots", "3 x weights and optimizer state",
	    (double)needs->sizes.snapshots);
	row("a server: a worker's slots", "window x a gradient, for each worker",
	    (double)needs->sizes.slots);
	if (plan->replicas > 1)
		row("a server: ring of its chain", "entries that are not committed",
		    (double)needs->sizes.ring);
	row("a server, in all",
	    plan->replicas > 1 ? "each may become head, and has the slots then" : "",
	    (double)needs->server);
	row("a server: locked memory, verbs",
	    "LimitMEMLOCK; snapshots count once a connection; or "
	    "--isolation job",
	    (double)needs->memlock);
	row("all servers", "", (double)needs->server * (double)count);
	row("a worker: mirrors", "2 x weights; --mirror-state adds twice the state",
	    (double)needs->mirrors);
	row("a worker: gradient buffers", "window x a gradient; over shm fp32 lies in the slots",
	    (double)needs->buffers);
	row("a shard's folder of checkpoints", "full ones, as many as are kept and one more",
	    (double)needs->sizes.checkpoint * (plan->keep + 1));
	row("a step: into a head", "workers x a gradient", (double)needs->in);
	if (plan->replicas > 1)
		row("a step: to each next replica",
		    plan->consistency != 0 ? "fp32, each gradient" : "fp32, once a step",
		    (double)needs->hop);
	row("a step: out of a tail", "workers x weights; readers beside that", (double)needs->out);
	printf("%-34s %9u     %s\n", "a server: queue pairs, at most", needs->pairs,
	       "workers, readers, and a neighbour in the chain");
	printf("%-34s %9.2f ms  a port of %g Gb/s; no step is faster\n", "a step: on the wire",
	       most_ms(plan, needs), plan->gbps);
}

static json_t *report(const struct plan *plan, const struct needs *needs)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
			 "params", (json_int_t)needs->params, "snapshots_bytes",
			 (json_int_t)needs->sizes.snapshots, "slots_bytes_a_worker",
			 (json_int_t)needs->sizes.slots, "ring_bytes",
			 (json_int_t)needs->sizes.ring, "server_bytes", (json_int_t)needs->server,
			 "server_memlock_bytes", (json_int_t)needs->memlock, "mirrors_bytes",
			 (json_int_t)needs->mirrors, "buffers_bytes", (json_int_t)needs->buffers,
			 "checkpoint_bytes", (json_int_t)needs->sizes.checkpoint, "step_in_bytes",
			 (json_int_t)needs->in, "step_hop_bytes", (json_int_t)needs->hop,
			 "step_out_bytes", (json_int_t)needs->out, "queue_pairs",
			 (json_int_t)needs->pairs, "step_wire_ms", most_ms(plan, needs));
}

int doctor_plan(const char *text, const char *json)
{
	char err[PLAN_ERROR_MAX] = "";
	struct plan plan = { .servers = 1,
			     .replicas = 1,
			     .workers = 8,
			     .window = OL_DEFAULT_WINDOW,
			     .optimizer = OL_OPTIMIZER_SGD,
			     .gbps = 100,
			     .keep = 3 };
	struct needs needs;
	json_t *made;
	int rc = ol_conf_words(OL_FIELDS(fields), text, &plan, err, sizeof(err));

	if (rc == 0 && plan.params < 1.0) {
		snprintf(err, sizeof(err), "names no params, as params=7e9");
		rc = -EINVAL;
	}
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "doctor", "--plan", text, err);
	if (needs_make(&plan, &needs) != 0)
		return ol_cmd_error(
			OL_EXIT_USAGE, "doctor", "--plan", text,
			"has more servers than parameters are for: a shard has 1024 at least");
	show(&plan, &needs);
	if (json == NULL)
		return OL_EXIT_OK;
	errno = 0;
	made = report(&plan, &needs);
	rc = made != NULL && json_dump_file(made, json, JSON_INDENT(1)) == 0 ? 0 : -1;
	json_decref(made);
	return rc == 0 ? OL_EXIT_OK
		       : ol_cmd_error(OL_EXIT_FAILED, "doctor", "cannot write", json,
				      errno != 0 ? strerror(errno) : "no memory");
}
