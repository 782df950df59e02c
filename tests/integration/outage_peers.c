/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outage_peers.c -- when a worker lies about its mirror to a server that came back empty, the server
 * takes the honest worker's mirror, and no gradient is lost
 *
 * Worker 0 is honest. The test plays worker 1, which claims to have newer weights than all others.
 * Where the lie is not about that, a server vouches for its mirror: a liar that has the servers' key.
 */

#include <string.h>

#include "support/check.h"
#include "support/peer.h"
#include "support/stage.h"
#include "wire/seq.h"
#include "wire/vouch.h"

enum {
	LEN = 100,
	PUSHES = 5,
	MIRROR_BYTES = OL_PAGE_BYTES,
	HISTORY = 4711
};

enum lie {
	LIE_KEY, /* of no region */
	LIE_KEY_OF_ACKS, /* of a region that may be written, not read */
	LIE_REGION_SHORT, /* ends in the middle of the weights */
	LIE_OFFSET, /* behind the region's end */
	LIE_OFFSET_WRAPS, /* so far that addresses wrap around */
	LIE_VERSION, /* more steps than gradients */
	LIE_UNVOUCHED, /* no server ever said so: a liar has no key to say it with */
	LIE_NEWER, /* a true mirror, with a newer version */
	LIE_HISTORY, /* a true mirror, of another history */
	LIE_TABLE, /* a true mirror, with more of another worker's gradients */
	LIE_NOT_FINITE,
	LIE_SEQ, /* a number that no push has */
	LIE_GRADS, /* more gradients than can be added up */
	LIE_EPOCH, /* knows of one so late that soon there could be none after it */
	LIE_STEPS, /* of an optimizer that has made more steps than there can be versions */
	LIE_REFUSED, /* the first that breaks a rule */
	LIE_VERSION_MAX = LIE_REFUSED,
	LIE_EPOCH_MAX,
	LIE_PUSH_EARLY, /* before the welcome */
	LIE_HELLO_AGAIN,
	LIE_COUNT
};

static const char key[] = "";
static enum lie lie; /* that is told; set before processes are forked */

/* What an honest worker 1 would have after a thousand pushes that all were 0 */
static void mirror_fill(uint8_t *at, const struct ol_geometry *geo)
{
	const struct ol_vouched what = { .history = HISTORY, .founded = 1, .version = 1000 };
	const struct ol_snapshot_head head = { .optimizer_steps =
						       lie == LIE_STEPS ? UINT64_MAX : 0 };
	struct ol_voucher *voucher;
	struct ol_applied applied = { .seq = lie == LIE_SEQ ? UINT64_MAX : ol_seq_make(7, 1000),
				      .grads = lie == LIE_GRADS ? OL_GRADS_MAX + 1 : 1000 };

	memset(at, 0, MIRROR_BYTES);
	memcpy(at, &head, sizeof(head));
	if (lie != LIE_VERSION)
		memcpy(at + sizeof(struct ol_snapshot_head) + sizeof(applied), &applied,
		       sizeof(applied));
	check_ok(ol_voucher_open(key, 7, geo, &voucher));
	if (lie != LIE_UNVOUCHED)
		ol_voucher_begin(voucher, &what, at);
	ol_voucher_close(voucher);
	if (lie == LIE_TABLE)
		memcpy(at + sizeof(struct ol_snapshot_head), &applied, sizeof(applied));
	if (lie == LIE_NOT_FINITE)
		memset(at + ol_layout_table_bytes(geo) + 40, 0xff, 4);
}

static void lie_in(struct ol_hello *hello, const struct peer *peer)
{
	if (lie == LIE_KEY)
		hello->mirror.rkey ^= 0x5a5a;
	else if (lie == LIE_KEY_OF_ACKS)
		hello->mirror = hello->acks;
	else if (lie == LIE_REGION_SHORT)
		hello->mirror.bytes = ol_layout_table_bytes(&peer->accept.geo) + 64;
	else if (lie == LIE_OFFSET)
		hello->weights_off = UINT64_C(1) << 40;
	else if (lie == LIE_OFFSET_WRAPS)
		hello->table_off = 0 - (UINT64_C(1) << 12);
	else if (lie == LIE_VERSION_MAX)
		hello->mirror_version = OL_VERSION_MAX + 1;
	else if (lie == LIE_EPOCH_MAX)
		hello->mirror_epoch = OL_EPOCH_MAX + 1;
	else if (lie == LIE_EPOCH)
		hello->epoch = OL_EPOCH_MAX - 1;
	else if (lie == LIE_NEWER)
		hello->mirror_version++;
	else if (lie == LIE_HISTORY)
		hello->mirror_history++;
	ol_record_seal(hello);
}

static void push_early(struct peer *peer)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	struct ol_push_hdr hdr = {
		.seq = ol_seq_make(7, 1),
		.payload_bytes = ol_layout_vector_bytes(geo),
		.epoch = 1,
		.grads = 1,
		.weight = 1.0f,
	};

	ol_record_seal(&hdr);
	peer_write(peer, &hdr, sizeof(hdr),
		   ol_layout_slot_off(geo, 0) + ol_layout_vector_bytes(geo),
		   ol_bell_make(OL_BELL_PUSH, 0));
}

static void liar(const struct job *job)
{
	struct ol_xport_region *region;
	struct ol_slab *slab;
	struct ol_xport_rkey rkey;
	struct ol_hello hello;
	struct peer peer;
	uint8_t priv[8];

	check_ok(ol_slab_create(MIRROR_BYTES, OL_SLAB_NODE_ANY, false, &slab));
	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	peer_join(&peer, job);
	mirror_fill(slab->addr, &peer.accept.geo);
	check_ok(peer.ops->reg(peer.xport, peer.conn, slab, 0, MIRROR_BYTES,
			       OL_XPORT_ACCESS_PEER_READ, &region));
	rkey = peer.ops->rkey(region, peer.conn);
	hello = peer_hello(&peer);
	hello.mirror =
		(struct ol_wire_rkey){ .addr = rkey.addr, .bytes = rkey.bytes, .rkey = rkey.rkey };
	hello.weights_off = ol_layout_table_bytes(&peer.accept.geo);
	hello.state_off = OL_MIRROR_NO_STATE;
	hello.mirror_epoch = 1;
	hello.mirror_version = 1000;
	hello.mirror_history = HISTORY;
	lie_in(&hello, &peer);
	peer_write(&peer, &hello, sizeof(hello), OL_HELLO_OFF, ol_bell_make(OL_BELL_HELLO, 0));
	if (lie == LIE_PUSH_EARLY)
		push_early(&peer);
	else if (lie == LIE_HELLO_AGAIN)
		peer_write(&peer, &hello, sizeof(hello), OL_HELLO_OFF,
			   ol_bell_make(OL_BELL_HELLO, 0));
	if (lie >= LIE_REFUSED)
		peer_wait(&peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	stage_meet(); /* it has joined: now the honest one may come */
	stage_meet();
	peer.ops->conn_free(peer.conn);
	peer.conn = NULL;
	peer.ops->dereg(region);
	peer_close(&peer);
	ol_slab_destroy(slab);
}

/* No server vouches for what was read of it */
static bool is_unvouched(void)
{
	return (lie >= LIE_UNVOUCHED && lie <= LIE_TABLE) || lie == LIE_SEQ || lie == LIE_GRADS ||
	       lie == LIE_STEPS;
}

static void honest(const struct job *job)
{
	struct ol_server_stat stat;
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.outage = OL_OUTAGE_WAIT;
	worker = job_worker_with(job, 0, opts);
	for (unsigned i = 0; i < PUSHES; i++) {
		check_ok(job_push(worker, 1.0f));
		check_ok(job_pull(worker, 0));
	}
	stage_kill(0);
	stage_restart(0, OL_RESTORE_MIRROR);
	stage_meet();
	stage_meet();
	stage_down(worker, 0);
	stage_flush(worker);
	check(ol_weights(worker, NULL)[0] == 100.0f - PUSHES);
	check(ol_weights(worker, NULL)[LEN - 1] == 100.0f - PUSHES);
	check_eq(stage_stat(worker, 0).applied, PUSHES);
	check_eq(stage_stat(worker, 0).lost, 0);
	check_eq(ol_applied(worker, 0, 1), 0);
	check_ok(ol_stat(worker, 0, &stat));
	check_eq(stat.restored_from, OL_RESTORE_MIRROR);
	check_eq(stat.restored_version, PUSHES);
	check_eq(stat.epoch, 2);
	check_eq(stat.violations, lie >= LIE_REFUSED || is_unvouched());
	check_ok(job_push(worker, 1.0f));
	stage_meet();
	ol_worker_close(worker);
}

static int story(const struct job *job, long id)
{
	if (id == 0) {
		honest(job);
		return 0;
	}
	stage_meet();
	liar(job);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	struct job job;

	setvbuf(stdout, NULL, _IOLBF, 0);
	job_transport();
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers = 1;
	opts.workers_max = 2;
	opts.rule.lr = 1.0f;
	opts.restore_workers = 2;
	for (lie = LIE_KEY; lie < LIE_COUNT; lie++) {
		/* where the liar is thrown out there is one worker to wait for, and no more */
		opts.restore_wait_ms = lie >= LIE_REFUSED ? 200 : 20000;
		job_start(&job, opts, 100.0f);
		stage_run(&job, 2, story);
		job_stop(&job);
		printf("ok lie %d\n", (int)lie);
	}
	return 0;
}
