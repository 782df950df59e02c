/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * server_fuzz.c -- whatever peers, neighbours in a chain and a coordinator send to a server, it
 * stays within its memory, its counters stay right, and it never loses an applied gradient
 *
 * The first bytes are the server's options, the rest is a script: who connects, what lands in which
 * slot, ring or mailbox, which bells ring, which views come. Records get their checksum after they
 * were changed, since no fuzzer finds one by chance.
 */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz/liar.h"
#include "server/server.h"
#include "support/fuzz.h"
#include "wire/seq.h"

enum {
	PARAMS = 40,
	WORKERS = 3,
	WINDOW = 2,
	OBSERVERS = 1,
	LANDING = 0x10000, /* bytes at the begin of a landing region that anything lands in */
	INPUT_MAX = 2048,
	CHAIN_SAYS = 5, /* in say(): from here on of a neighbour in a chain */
	DECIDES = 9 /* the same: what shard 0 has decided */
};

/* The server's memory of the one that lies to it */
static struct {
	struct ol_server *server;
	uint64_t version; /* as last seen … */
	uint64_t applied[WORKERS];
	uint32_t epoch; /* … in this one */
} fuzz;

static void books_check(const struct ol_server *server)
{
	uint32_t joined = 0, live = 0;
	uint64_t owed = 0;

	for (uint32_t i = 0; i < server->sessions.count; i++) {
		const struct ol_session *session = &server->sessions.all[i];

		must(session->state <= OL_SESSION_LIVE &&
		     (session->state == OL_SESSION_FREE) ==
			     (session->conn == NULL && session->memory == NULL));
		joined += session->state == OL_SESSION_JOINED && session->role != OL_ROLE_REPLICA;
		live += session->state == OL_SESSION_LIVE && session->role == OL_ROLE_WORKER;
		owed += session->owed_count;
	}
	must(joined == server->sessions.joined_count && live == server->sessions.live_workers);
	must(owed == server->sessions.owed_total);
	/* or successors that have all there is would be refused */
	must(!(server->kind == &ol_chain_strict) ||
	     server->replica.ring.oldest <= server->replica.chain.received + 1);
	must(server->ingest.queue_count + server->ingest.parked_count <=
		     server->ingest.queue_size &&
	     server->ingest.batch_count <= WORKERS);
}

/* No version goes back, and no worker's pushes are forgotten, in one history. */
static void progress_check(const struct ol_server *server)
{
	bool same = server->opts.epoch == fuzz.epoch && !server->restoring.active;

	if (same)
		must(server->store.version >= fuzz.version);
	for (uint32_t i = 0; i < WORKERS; i++) {
		uint64_t seq = ol_store_applied(&server->store, i).seq;

		if (same && server->store.version == fuzz.version)
			must(seq == fuzz.applied[i]);
		fuzz.applied[i] = seq;
	}
	fuzz.version = server->store.version;
	fuzz.epoch = server->restoring.active ? 0 : server->opts.epoch;
}

static void settle(void)
{
	struct ol_xport_event event;
	bool more;

	do {
		while (liar_next(&event))
			ol_server_on_event(fuzz.server, &event, liar.now_ns);
		while (ol_memory_work(&fuzz.server->memory))
			;
		more = ol_memory_has_news(&fuzz.server->memory);
		ol_server_on_memory(fuzz.server, liar.now_ns);
	} while (more);
	if (ol_ingest_waits(&fuzz.server->ingest))
		ol_ingest_progress(&fuzz.server->ingest, liar.now_ns);
	books_check(fuzz.server);
	progress_check(fuzz.server);
}

static void ask(void)
{
	uint8_t who = liar_byte(), raw[OL_XPORT_PRIV_CONNECT_MAX];
	enum ol_wire_role role = (enum ol_wire_role)(OL_ROLE_WORKER + (who & 3));
	uint32_t worker = who >> 2 & 3;

	if ((who & 0x80) != 0) {
		liar_ask_raw(raw, liar_bytes(raw, sizeof(raw)));
		return;
	}
	if ((who & 0x40) == 0)
		liar_ask(OL_CONNECT_KNOCK, role, worker);
	settle();
	liar_ask(OL_CONNECT_PROOF, role, worker);
}

static void hello(struct liar_conn *conn)
{
	const struct ol_geometry *geo = &fuzz.server->store.geo;
	struct ol_hello say = { .magic = OL_WIRE_MAGIC,
				.acks = { .bytes = OL_ACKS_BYTES, .rkey = 1 } };
	uint8_t how = liar_byte();

	if ((how & 1) != 0) {
		say.mirror.bytes = LIAR_FAR_BYTES;
		say.mirror_version = how >> 2;
		say.mirror_epoch = how >> 1 & 1;
		say.table_off = OL_PAGE_BYTES;
		say.weights_off = say.table_off + ol_layout_table_bytes(geo);
		say.state_off = say.weights_off + ol_layout_vector_bytes(geo);
	}
	liar_patch(&say, sizeof(say));
	ol_record_seal(&say);
	liar_land(conn, OL_HELLO_OFF, &say, sizeof(say));
	liar_bell(conn, OL_BELL_HELLO, 0);
}

/* The number of a push, of one of two processes */
static uint64_t seq_any(void)
{
	uint8_t how = liar_byte();

	return ol_seq_make(1 + (how >> 7), how & 127);
}

static void push(struct liar_conn *conn)
{
	const struct ol_store *store = &fuzz.server->store;
	uint64_t bytes = ol_layout_vector_bytes(&store->geo);
	uint8_t how = liar_byte(), grad[16];
	uint32_t slot = how & 1;
	struct ol_push_hdr hdr = { .seq = seq_any(),
				   .base_version = store->version - (how >> 1 & 1),
				   .payload_bytes = bytes,
				   .epoch = fuzz.server->opts.epoch,
				   .samples = 1,
				   .loss = 1.0f,
				   .grads = 1,
				   .flags = how >> 2 & 3,
				   .weight = 1.0f + (how >> 4) };

	liar_patch(&hdr, sizeof(hdr));
	ol_record_seal(&hdr);
	liar_bytes(grad, sizeof(grad));
	liar_land(conn, ol_layout_slot_off(&store->geo, slot), grad, sizeof(grad));
	liar_land(conn, ol_layout_slot_off(&store->geo, slot) + bytes, &hdr, sizeof(hdr));
	liar_bell(conn, OL_BELL_PUSH, slot);
}

static void land(struct liar_conn *conn)
{
	liar_land_any(conn, LANDING);
}

/* A decision of another shard, for which no server vouches */
static void decide(struct liar_conn *conn)
{
	const struct ol_geometry *geo = &fuzz.server->store.geo;
	struct ol_decision decision = { .version = liar_byte(),
					.founded = 1,
					.shard = liar_byte() & 3 };
	uint8_t table[512];
	uint32_t place;

	memset(table, 0, sizeof(table));
	liar_bytes(table, sizeof(table));
	if (ol_layout_table_bytes(geo) > sizeof(table))
		return;
	decision.table_crc = ol_record_crc(table, ol_layout_table_bytes(geo));
	ol_record_seal(&decision);
	place = liar_byte() & 1;
	liar_land(conn, ol_layout_decision_off(geo, WINDOW, place), &decision, sizeof(decision));
	liar_land(conn, ol_layout_decision_off(geo, WINDOW, place) + sizeof(decision), table,
		  (uint32_t)ol_layout_table_bytes(geo));
	liar_bell(conn, (liar_byte() & 1) != 0 ? OL_BELL_WITHDRAW : OL_BELL_DECISION,
		  place + liar_byte() % 2);
}

static void pin(struct liar_conn *conn)
{
	uint64_t word = fuzz.server->store.version + 1 - (liar_byte() & 3);

	liar_land(conn, OL_PIN_OFF, &word, sizeof(word));
}

/* ---- a neighbour in the chain ---- */

static void chain_hello(struct liar_conn *conn)
{
	const struct ol_replica *replica = &fuzz.server->replica;
	const struct ol_member *pred = ol_view_predecessor(&replica->chain.view, replica->self.id);
	struct ol_chain_hello say = {
		.magic = OL_WIRE_MAGIC,
		.epoch = replica->chain.view.epoch,
		.id = pred != NULL ? pred->id : LIAR_ID + 1,
		.successor = replica->self.id,
		.acks = { .bytes = OL_ACKS_BYTES, .rkey = 1 },
		.board = { .bytes = LIAR_FAR_BYTES, .rkey = 2 },
		.content_off = OL_PAGE_BYTES,
		.content_version = liar_byte(),
		.content_epoch = replica->chain.view.epoch,
		.slots = replica->ring.slots,
	};

	liar_patch(&say, sizeof(say));
	ol_record_seal(&say);
	liar_land(conn, OL_HELLO_OFF, &say, sizeof(say));
	liar_bell(conn, OL_BELL_HELLO, 0);
}

/* The next entry, or what is meant to look like it; it is made elsewhere, as ol_ring_seal()
 * would */
static void entry(struct liar_conn *conn)
{
	const struct ol_ring *ring = &fuzz.server->replica.ring;
	uint64_t version = fuzz.server->replica.chain.received + 1;
	uint8_t how = liar_byte(), grad[16];
	struct ol_entry_head head = { .version = version,
				      .payload_bytes = ring->payload_bytes,
				      .epoch = fuzz.server->opts.epoch,
				      .parts = 1 + (how & 1) };
	struct ol_entry_part parts[2] = { { .seq = seq_any(), .grads = 1 },
					  { .seq = seq_any(), .grads = 1, .worker = 1 } };
	uint64_t off = ol_ring_off(ring, version);
	uint32_t sums[2];

	liar_bytes(grad, sizeof(grad));
	liar_patch(&head, sizeof(head));
	liar_patch(parts, sizeof(parts));
	sums[0] = ol_record_crc(&head, sizeof(head) - sizeof(head.crc));
	sums[1] = ol_record_crc(parts, (head.parts & 1) == 0 ? 128 : 64);
	head.crc = ol_record_crc(sums, sizeof(sums));
	liar_land(conn, off, grad, sizeof(grad));
	liar_land(conn, off + ring->payload_bytes, &head, sizeof(head));
	liar_land(conn, off + ring->payload_bytes + sizeof(head), parts, sizeof(parts));
	liar_bell(conn, OL_BELL_ENTRY, (uint32_t)(version % ring->slots));
}

static void successor(struct liar_conn *conn)
{
	const struct ol_replica *replica = &fuzz.server->replica;
	uint8_t how = liar_byte();
	struct ol_chain_welcome welcome = { .have = replica->chain.received - (how >> 1 & 7),
					    .epoch = replica->chain.view.epoch,
					    .loading = how >> 4 & 1 };
	struct ol_chain_ack ack = { .version = replica->chain.forwarded - (how >> 1 & 7),
				    .epoch = replica->chain.view.epoch };

	if ((how & 1) == 0) {
		liar_patch(&welcome, sizeof(welcome));
		ol_record_seal(&welcome);
		liar_land(conn, OL_WELCOME_OFF, &welcome, sizeof(welcome));
		liar_bell(conn, OL_BELL_WELCOME, 0);
		return;
	}
	liar_patch(&ack, sizeof(ack));
	ol_record_seal(&ack);
	liar_land(conn, OL_CHAIN_ACK_OFF, &ack, sizeof(ack));
	liar_bell(conn, OL_BELL_CHAIN_ACK, 0);
}

static void answer(struct liar_conn *conn)
{
	const struct ol_ring *ring = &fuzz.server->replica.ring;

	liar.accept = (struct ol_wire_accept){
		.geo = fuzz.server->store.geo,
		.public_key = { .bytes = ol_layout_public_bytes(&fuzz.server->store.geo) },
		.landing_key = { .bytes = ring->bytes },
		.incarnation = fuzz.server->replica.succ.member.id,
	};
	liar_answer(conn);
}

/* What is said on a connection */
static void say(struct liar_conn *conn, uint8_t op)
{
	static const int reasons[] = { 0, -ETIMEDOUT, -EACCES, -EIO };
	static void (*const says[])(struct liar_conn *) = { hello,       push,          land,
							    pin,         liar_bell_any, entry,
							    chain_hello, successor,     answer };

	if (op == DECIDES && fuzz.server->ingest.follow.on) {
		decide(conn);
		return;
	}
	if (op >= CHAIN_SAYS && op < sizeof(says) / sizeof(says[0]) &&
	    fuzz.server->opts.coordinator == NULL)
		return;
	if (op < sizeof(says) / sizeof(says[0]))
		says[op](conn);
	else
		liar_down(conn, reasons[liar_byte() & 3], NULL, 0);
}

static void pass(void)
{
	static const uint32_t ms[] = { 1, 50, 1000, 6000 };

	liar.now_ns += ms[liar_byte() & 3] * OL_NS_PER_MS;
	ol_server_tick(fuzz.server, liar.now_ns);
}

static void coordinate(void)
{
	uint8_t how = liar_byte();

	if ((how & 1) == 0)
		liar_view(0, 1);
	else
		liar_members(0);
	if (fuzz.server->opts.coordinator != NULL)
		ol_replica_view_read(&fuzz.server->replica, liar.now_ns);
}

static void step(void)
{
	uint8_t op = liar_byte();
	struct liar_conn *conn = liar_pick(op >> 4);

	switch (op & 15) {
	case 0:
		ask();
		break;
	case 1:
		pass();
		break;
	case 2:
		liar_serve();
		break;
	case 3:
		liar_far_any();
		break;
	case 4:
		liar.refuse = liar_byte() & 31;
		break;
	case 5:
		coordinate();
		break;
	default:
		if (conn != NULL)
			say(conn, (op & 15) - 6);
	}
	settle();
}

static struct ol_server_opts options(void)
{
	static const enum ol_wait waits[] = { OL_WAIT_ALL, OL_WAIT_FIXED, OL_WAIT_DBW,
					      OL_WAIT_ADASYNC };
	uint8_t how = liar_byte(), more = liar_byte();
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.listen = "@0";
	opts.transport = "shm";
	opts.job_key = LIAR_KEY;
	opts.param_count = PARAMS;
	opts.workers_max = WORKERS;
	opts.window = WINDOW;
	opts.observers_max = OBSERVERS;
	opts.consistency = (how & 1) != 0 ? OL_CONSISTENCY_SYNC : OL_CONSISTENCY_ASYNC;
	if ((how & 1) == 0 && (more >> 5 & 3) == 3)
		opts.consistency = OL_CONSISTENCY_SSP;
	opts.wait = waits[more >> 5 & 3];
	if (opts.wait == OL_WAIT_FIXED && more >> 7 != 0) {
		opts.wait = OL_WAIT_QUORUM;
		opts.grace_ms = 1;
	}
	if ((how & 1) != 0 && opts.wait != OL_WAIT_ALL && more >> 7 != 0) {
		opts.late = how >> 5 == 7 ? OL_LATE_AGED : OL_LATE_NEXT;
		opts.late_steps = how >> 5;
	}
	opts.wait_k = 1;
	opts.staleness = 1;
	opts.workers = 1 + (how >> 1 & 1);
	opts.rule.optimizer = (how & 4) != 0 ? OL_OPTIMIZER_ADAM : OL_OPTIMIZER_SGD;
	opts.rule.allow_nonfinite = how >> 3 & 1;
	opts.restore = (how & 16) != 0 ? OL_RESTORE_MIRROR : OL_RESTORE_NONE;
	opts.replay = (enum ol_replay)(more % (OL_REPLAY_STALENESS + 1));
	opts.lease_ms = 1000;
	opts.replicas = 1 + (more >> 3 & 1);
	opts.refound = more >> 4 & 1;
	if ((how & 32) != 0)
		opts.coordinator = "fuzz";
	if ((how & 64) != 0)
		opts.replicate_every = 2;
	if ((how & 65) == 65 && opts.coordinator == NULL && opts.wait != OL_WAIT_ALL &&
	    opts.late == OL_LATE_DROP) { /* the second shard of two, of as many parameters */
		opts.param_count += 1024;
		opts.shard_count = 2;
		opts.shard = 1;
	}
	liar.keeps = (how & 128) != 0;
	liar.honest_coord = (more & 128) != 0;
	return opts;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const float weights[PARAMS];
	struct ol_server_opts opts;
	char err[256] = "";

	if (bytes > INPUT_MAX)
		return 0;
	ol_log_sink_set(log_drop, NULL);
	liar_begin(data, bytes);
	opts = options();
	memset(&fuzz, 0, sizeof(fuzz));
	if (ol_server_open(&opts, weights, &fuzz.server, err, sizeof(err)) == 0) {
		while (liar.left > 0 && fuzz.server->replica.end_rc == 0)
			step();
		ol_server_close(fuzz.server);
	} else {
		must(err[0] != '\0');
	}
	liar_end();
	return 0;
}
