/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * worker_fuzz.c -- whatever servers and a coordinator send to a worker or an observer, it stays
 * within its memory, every call returns, every op ends once, and no gradient is counted twice
 *
 * The first bytes are the worker's options, the rest is a script of two sides in turns: the
 * program's calls and, whenever the worker polls, a server's actions: answers to the handshake,
 * welcomes, acks, a board and snapshots to read, views. Records get their checksum after they were
 * changed, since no fuzzer finds one by chance.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz/liar.h"
#include "support/fuzz.h"
#include "wire/seq.h"
#include "worker/worker_internal.h"

enum {
	PARAMS_ONE = 40,
	PARAMS_TWO = OL_SHARD_ALIGN + 40, /* of two shards */
	WORKERS = 2,
	OPS = 6,
	LANDING = 0x2000, /* bytes at the begin of a landing region that anything lands in */
	INPUT_MAX = 2048
};

static struct {
	struct ol_worker *worker;
	struct ol_op ops[OPS];
	bool busy[OPS]; /* given to the library, not seen done */
	uint64_t params;
	uint32_t shards;
	uint32_t state_vectors;
	uint64_t version; /* that servers publish */
	uint32_t epoch;
} fuzz;

/* ---- a server ---- */

static struct ol_geometry geometry(uint32_t shard)
{
	struct ol_geometry geo = { .param_count = fuzz.params,
				   .shard = shard,
				   .shard_count = fuzz.shards,
				   .shard_first = shard * (uint64_t)OL_SHARD_ALIGN,
				   .workers_max = WORKERS,
				   .window = 3,
				   .groups = 1,
				   .state_vectors = fuzz.state_vectors,
				   .consistency = OL_CONSISTENCY_ASYNC };

	geo.shard_len =
		shard + 1 < fuzz.shards ? (uint64_t)OL_SHARD_ALIGN : fuzz.params - geo.shard_first;
	return geo;
}

/* The shard that a server was called for: of two the second has the higher letter */
static uint32_t shard_of(const struct liar_conn *conn)
{
	const struct ol_peer *peer = conn->base.user;

	return peer != NULL && peer->link->index < fuzz.shards ? peer->link->index : 0;
}

/* The process that a view says is at this address */
static uint64_t process_at(const struct liar_conn *conn)
{
	for (uint32_t k = 0; k < fuzz.shards; k++) {
		const struct ol_view *view = &liar.coord[k].view;

		for (uint32_t i = 0; i < view->count; i++) {
			if (strcmp(view->replicas[i].addr, conn->addr) == 0)
				return view->replicas[i].id;
		}
	}
	return LIAR_ID;
}

static void answer(struct liar_conn *conn)
{
	struct ol_geometry geo = geometry(shard_of(conn));
	uint32_t slots = conn->call.role == OL_ROLE_WORKER ? geo.window : 0;

	liar.accept = (struct ol_wire_accept){
		.geo = geo,
		.public_key = { .bytes = ol_layout_public_bytes(&geo), .rkey = 1 },
		.landing_key = { .bytes = ol_layout_landing_bytes(&geo, slots), .rkey = 2 },
		.incarnation = process_at(conn),
		.lr = fuzz.state_vectors == 0 ? 0.1f : 0.0f,
	};
	liar_answer(conn);
}

/* The number of a push of this worker's process, or of another of its id */
static uint64_t seq_make(unsigned other, unsigned count)
{
	return ol_seq_make(fuzz.worker != NULL && other == 0 ? fuzz.worker->tag : 1, count);
}

static void welcome(struct liar_conn *conn)
{
	uint8_t how = liar_byte();
	struct ol_welcome say = { .resolved = { .seq = seq_make(how >> 3 & 1, how & 3),
						.grads = how & 3,
						.earlier = how >> 4 & 1 },
				  .version = fuzz.version,
				  .snapshot = (uint32_t)(fuzz.version % OL_SNAPSHOTS),
				  .epoch = fuzz.epoch + (how >> 2 & 1) };

	if (liar.coord[0].version != 0)
		say.epoch = liar.coord[shard_of(conn)].view.epoch;
	liar_patch(&say, sizeof(say));
	ol_record_seal(&say);
	liar_land(conn, OL_WELCOME_OFF, &say, sizeof(say));
	liar_bell(conn, OL_BELL_WELCOME, 0);
}

/* An answer to the last push that came on any connection of this one's shard */
static void ack(struct liar_conn *conn)
{
	static const int statuses[] = { 0, OL_E_NONFINITE, OL_E_LATE, 0 };
	struct ol_push_hdr hdr = { 0 };
	uint8_t how = liar_byte();
	struct ol_ack say = { .version = fuzz.version,
			      .snapshot = (uint32_t)(fuzz.version % OL_SNAPSHOTS),
			      .status = statuses[how & 3] };
	uint32_t slot = how >> 2 & 3;

	for (struct liar_conn *at = liar.conns; at != NULL; at = at->next) {
		if (ol_bell_kind(at->imm) != OL_BELL_PUSH || at->last_bytes < sizeof(hdr) ||
		    shard_of(at) != shard_of(conn))
			continue;
		slot = ol_bell_arg(at->imm);
		memcpy(&hdr, at->last + at->last_bytes - sizeof(hdr), sizeof(hdr));
	}
	say.seq = hdr.seq;
	say.epoch = hdr.epoch;
	liar_patch(&say, sizeof(say));
	liar_patch(&slot, sizeof(slot));
	ol_record_seal(&say);
	liar_land(conn, slot * sizeof(say), &say, sizeof(say));
	liar_bell(conn, OL_BELL_ACK, slot);
}

/* A version is there, or the board says so */
static void publish(void)
{
	uint8_t how = liar_byte();
	struct ol_applied applied[WORKERS] = { { .seq = seq_make(how >> 6 & 1, how & 15),
						 .grads = how & 15 } };
	struct ol_geometry geo = geometry(0);
	uint64_t words[1 + 2 * OL_SNAPSHOTS], at;

	fuzz.version += how >> 4 & 3;
	memcpy(words, liar.far + OL_BOARD_LINE_OFF, sizeof(words));
	at = fuzz.version % OL_SNAPSHOTS;
	words[0] = ol_published_make(fuzz.version, (uint32_t)at);
	words[1 + at] = words[1 + OL_SNAPSHOTS + at] = fuzz.version + 1;
	liar_patch(words, sizeof(words));
	memcpy(liar.far + OL_BOARD_LINE_OFF, words, sizeof(words));
	memcpy(liar.far + ol_layout_snapshot_off(&geo, (uint32_t)at) +
		       sizeof(struct ol_snapshot_head),
	       applied, sizeof(applied));
}

static void land(struct liar_conn *conn)
{
	liar_land_any(conn, LANDING);
}

static void down(struct liar_conn *conn)
{
	static const int reasons[] = { 0, -ETIMEDOUT, -EACCES, -ECONNREFUSED };

	fuzz.epoch += liar_byte() & 1;
	liar_down(conn, reasons[liar_byte() & 3], NULL, 0);
}

/* The server is alive, and the network works */
static void alive(void)
{
	uint64_t beat;

	memcpy(&beat, liar.far + OL_BOARD_STAT_OFF, sizeof(beat));
	beat++;
	memcpy(liar.far + OL_BOARD_STAT_OFF, &beat, sizeof(beat));
	for (unsigned i = 0; i < 4; i++)
		liar_serve();
}

static void say(struct liar_conn *conn, uint8_t op)
{
	static void (*const says[])(struct liar_conn *) = { answer, welcome,       ack,
							    land,   liar_bell_any, down };

	says[op % (sizeof(says) / sizeof(says[0]))](conn);
}

static void turn(void)
{
	uint8_t op;
	struct liar_conn *conn;

	if (liar.left == 0)
		return;
	op = liar_byte();
	conn = liar_pick(op >> 4);
	switch (op & 15) {
	case 0:
		alive();
		break;
	case 1:
		publish();
		break;
	case 2:
		liar_far_any();
		break;
	case 3:
		liar.refuse = liar_byte() & 7;
		break;
	case 4:
		if (liar.coord[0].version != 0)
			liar_view(liar_byte() % fuzz.shards, fuzz.shards);
		break;
	case 5:
		liar.now_ns += liar_byte() * OL_NS_PER_MS;
		break;
	default:
		if (conn != NULL)
			say(conn, (op & 15) - 6);
	}
}

/* ---- the program ---- */

/* One that is not under way; NULL: all are */
static struct ol_op *op_free(void)
{
	for (unsigned i = 0; i < OPS; i++) {
		fuzz.busy[i] = fuzz.busy[i] && !fuzz.ops[i].done;
		if (fuzz.busy[i])
			continue;
		fuzz.busy[i] = true;
		memset(&fuzz.ops[i], 0, sizeof(fuzz.ops[i]));
		return &fuzz.ops[i];
	}
	return NULL;
}

/* The library did not take it */
static void op_back(const struct ol_op *op)
{
	fuzz.busy[op - fuzz.ops] = false;
}

static void push(void)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	uint8_t how = liar_byte();
	struct ol_op *op = op_free();
	float *grad;

	if (op == NULL)
		return;
	if (ol_grad_try_acquire(fuzz.worker, &grad) != 0) {
		op_back(op);
		return;
	}
	memset(grad, how & 8 ? 0xff : 0, fuzz.params * sizeof(*grad));
	(void)ol_weights(fuzz.worker, &info.base_version);
	op->level = (enum ol_level)(how & 3) % (OL_LEVEL_COMMITTED + 1);
	if ((how & 4) != 0)
		(void)ol_grad_ready(fuzz.worker, grad, fuzz.params / 2);
	if ((how & 16) != 0 || ol_push(fuzz.worker, grad, &info, op) != 0) {
		op_back(op);
		(void)ol_grad_release(fuzz.worker, grad);
	}
}

static void pull(void)
{
	struct ol_op *op = op_free();

	if (op != NULL && ol_pull(fuzz.worker, liar_byte() & OL_PULL_NEWEST, op) != 0)
		op_back(op);
}

static void flush(void)
{
	struct ol_op *op = op_free();

	if (op != NULL && ol_flush(fuzz.worker, op) != 0)
		op_back(op);
}

static void wait(void)
{
	unsigned which = liar_byte() % OPS;

	if (fuzz.busy[which])
		(void)ol_worker_wait(fuzz.worker, &fuzz.ops[which]);
}

/* What the library says of itself: all of it is read, and adds up */
static void look(void)
{
	const float *weights = ol_weights(fuzz.worker, NULL);
	struct ol_server_stat stat;
	struct ol_link_stat link;
	struct ol_job_info info;
	float sum = 0;

	ol_worker_info(fuzz.worker, &info);
	must(info.shard_count == fuzz.shards || fuzz.worker->opts.observer != 0);
	for (uint64_t i = 0; weights != NULL && i < info.param_count; i++)
		sum += weights[i];
	must(sum == sum || weights != NULL);
	for (uint32_t k = 0; k <= info.shard_count; k++) {
		(void)ol_applied(fuzz.worker, k, liar_byte());
		if (ol_link_get_stat(fuzz.worker, k, &link) == 0)
			must(link.pending <= link.pushed && link.queued <= link.pending);
	}
	(void)ol_stat(fuzz.worker, liar_byte() % fuzz.shards, &stat);
}

static void redirect(void)
{
	(void)ol_worker_redirect(fuzz.worker, liar_byte() & 1, "@3");
}

static void poll_once(void)
{
	must(ol_worker_poll(fuzz.worker) >= 0);
}

static void call(void)
{
	static void (*const calls[])(void) = { poll_once, push, pull,     wait,
					       flush,     look, redirect, poll_once };

	calls[liar_byte() & 7]();
}

static struct ol_worker_opts options(void)
{
	uint8_t how = liar_byte(), more = liar_byte();
	struct ol_worker_opts opts;

	fuzz.shards = 1 + (how & 1);
	fuzz.params = fuzz.shards == 1 ? PARAMS_ONE : PARAMS_TWO;
	fuzz.state_vectors = (how & 2) != 0 ? OL_STATE_VECTORS_MAX : 0;
	fuzz.epoch = 1;
	ol_worker_opts_init(&opts);
	opts.transport = "shm";
	opts.servers = fuzz.shards == 1 ? "@1|@2" : "@1,@2";
	opts.job_key = LIAR_KEY;
	opts.param_count = fuzz.params;
	opts.connect_timeout_ms = 400;
	opts.op_timeout_ms = 200;
	opts.retry_timeout_ms = 20;
	opts.outage_timeout_ms = 1000;
	opts.lease_ms = 100;
	opts.pull_retries_max = 3;
	opts.queue_max = 3;
	opts.outage = (enum ol_outage)((how >> 2 & 3) % (OL_OUTAGE_CONTINUE + 1));
	opts.queue = (enum ol_queue)((how >> 4 & 3) % (OL_QUEUE_WAIT + 1));
	opts.observer = (how >> 6) % (OL_OBSERVER_COUNTERS + 1);
	opts.local_progress = more & 1;
	opts.mirror_state = more >> 1 & 1;
	if ((more & 4) != 0) {
		opts.coordinator = "fuzz";
		opts.servers = NULL;
		for (uint32_t k = 0; k < fuzz.shards; k++)
			liar_view(k, fuzz.shards);
	}
	return opts;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ol_worker_opts opts;
	char err[OL_ERR_MAX] = "";

	if (bytes > INPUT_MAX)
		return 0;
	ol_log_sink_set(log_drop, NULL);
	memset(&fuzz, 0, sizeof(fuzz));
	liar_begin(data, bytes);
	liar.turn = turn;
	opts = options();
	if (ol_worker_open(&opts, &fuzz.worker, err, sizeof(err)) == 0) {
		while (liar.left > 0)
			call();
		ol_worker_close(fuzz.worker);
		for (unsigned i = 0; i < OPS; i++)
			must(!fuzz.busy[i] || fuzz.ops[i].done);
	} else {
		must(err[0] != '\0' && strchr(err, '\n') == NULL);
	}
	liar_end();
	return 0;
}
