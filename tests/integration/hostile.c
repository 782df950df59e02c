/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hostile.c -- a peer that lies loses its connection, changes nothing, and is counted; the server
 * and honest workers go on
 *
 * The liar has a handshake of its own, and is honest up to the step at which it begins to lie.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/job.h"
#include "support/peer.h"
#include "wire/seq.h"

enum {
	LEN = 100
};

static const char key[] = "the key of this job";

/* The lies. Each is told on a live session but for the first ones. */
enum lie {
	LIE_BELL_BEFORE_HELLO,
	LIE_HELLO_CRC,
	LIE_HELLO_NO_ACKS,
	LIE_HELLO_TWICE,
	LIE_BELL_UNKNOWN,
	LIE_DECISION, /* each shard makes its own steps here … */
	LIE_GONE, /* … and no other drops a gradient, … */
	LIE_AGAIN, /* … or waits for what is pushed again */
	LIE_SLOT_NOT_ITS_OWN,
	LIE_HDR_CRC,
	LIE_HDR_EPOCH,
	LIE_HDR_LENGTH,
	LIE_HDR_FUTURE,
	LIE_HDR_SEQ_ZERO,
	LIE_HDR_SEQ_NO_PROCESS,
	LIE_HDR_SEQ_LAST, /* the number behind it is of another process */
	LIE_HDR_NO_GRADS,
	LIE_HDR_WEIGHT_ZERO,
	LIE_HDR_WEIGHT_NEGATIVE,
	LIE_HDR_WEIGHT_NAN,
	LIE_HDR_WEIGHT_INFINITE,
	LIE_HDR_WEIGHT_HUGE,
	LIE_PART_SLOT,
	LIE_COUNT,
	LIE_HDR_SEQ_AGAIN, /* told in sync mode, of a push that waits for others */
	LIE_HDR_SEQ_PROCESS, /* the same: of another process of the id */
};

static void tell_hello(struct peer *peer, enum lie lie)
{
	struct ol_hello hello = peer_hello(peer);

	if (lie == LIE_HELLO_NO_ACKS)
		hello.acks.bytes = 64;
	ol_record_seal(&hello);
	if (lie == LIE_HELLO_CRC)
		hello.crc ^= 1;
	peer_write(peer, &hello, sizeof(hello), OL_HELLO_OFF, ol_bell_make(OL_BELL_HELLO, 0));
	if (lie == LIE_HELLO_TWICE)
		peer_write(peer, &hello, sizeof(hello), OL_HELLO_OFF,
			   ol_bell_make(OL_BELL_HELLO, 0));
}

static float weight_of(enum lie lie)
{
	static const float weights[LIE_COUNT] = {
		[LIE_HDR_WEIGHT_NEGATIVE] = -1.0f,
		[LIE_HDR_WEIGHT_NAN] = NAN,
		[LIE_HDR_WEIGHT_INFINITE] = INFINITY,
		[LIE_HDR_WEIGHT_HUGE] = 3e38f,
	};

	return lie >= LIE_HDR_WEIGHT_ZERO && lie <= LIE_HDR_WEIGHT_HUGE ? weights[lie] : 1.0f;
}

static void tell_push(struct peer *peer, enum lie lie)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	uint64_t off =
		ol_layout_slot_off(geo, lie >= LIE_HDR_SEQ_AGAIN) + ol_layout_vector_bytes(geo);
	uint32_t slot = lie == LIE_SLOT_NOT_ITS_OWN ? geo->window : lie >= LIE_HDR_SEQ_AGAIN;
	uint32_t tag = lie == LIE_HDR_SEQ_PROCESS ? 8 : lie == LIE_HDR_SEQ_NO_PROCESS ? 0 : 7;
	struct ol_push_hdr hdr = {
		.seq = lie == LIE_HDR_SEQ_LAST ? UINT64_MAX
					       : ol_seq_make(tag, lie != LIE_HDR_SEQ_ZERO),
		.base_version = lie == LIE_HDR_FUTURE ? 1000 : 0,
		.payload_bytes = ol_layout_vector_bytes(geo) + (lie == LIE_HDR_LENGTH ? 64 : 0),
		.epoch = 1 + (lie == LIE_HDR_EPOCH ? 1 : 0),
		.grads = lie == LIE_HDR_NO_GRADS ? 0 : 1,
		.weight = weight_of(lie),
	};

	if (lie == LIE_PART_SLOT) {
		peer_write(peer, &hdr, 8, OL_LANDING_PROBE_OFF,
			   ol_bell_make(OL_BELL_PART, ol_part_make(geo->window, 0)));
		return;
	}
	ol_record_seal(&hdr);
	if (lie == LIE_HDR_CRC)
		hdr.crc ^= 0x80000000;
	peer_write(peer, &hdr, sizeof(hdr), off, ol_bell_make(OL_BELL_PUSH, slot));
}

static int tell(const struct job *job, long lie)
{
	struct peer peer;
	uint8_t priv[8];

	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	peer_join(&peer, job);
	if (lie == LIE_BELL_BEFORE_HELLO) {
		tell_push(&peer, LIE_COUNT);
	} else {
		tell_hello(&peer, (enum lie)lie);
		if (lie == LIE_BELL_UNKNOWN)
			peer_write(&peer, priv, 8, OL_PIN_OFF + 8, ol_bell_make(200, 0));
		if (lie == LIE_DECISION)
			peer_write(&peer, priv, 8, OL_PIN_OFF + 8,
				   ol_bell_make(OL_BELL_DECISION, 0));
		if (lie == LIE_GONE)
			peer_write(&peer, priv, 8, OL_PIN_OFF + 8,
				   ol_bell_make(OL_BELL_WITHDRAW, 1));
		if (lie == LIE_AGAIN)
			peer_write(&peer, priv, 8, OL_PIN_OFF + 8, ol_bell_make(OL_BELL_AGAIN, 0));
		if (lie >= LIE_SLOT_NOT_ITS_OWN)
			tell_push(&peer, (enum lie)lie);
	}
	peer_wait(&peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	peer_close(&peer);
	return 0;
}

/* Not a lie: a push that is sent again, as after a failure, is acknowledged and not applied
 * again */
static int repeat(const struct job *job, long unused)
{
	struct peer peer;
	uint8_t priv[8];

	(void)unused;
	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	peer_join(&peer, job);
	tell_hello(&peer, LIE_COUNT);
	peer_welcome(&peer);
	for (int i = 0; i < 3; i++) {
		tell_push(&peer, LIE_COUNT);
		peer_wait(&peer, OL_XPORT_DOORBELL_RUNG, priv, sizeof(priv));
	}
	peer_close(&peer);
	return 0;
}

/* In sync mode a push waits for the other workers': meanwhile its slot is not to be written, and
 * its number not to be used again, nor that of another process */
static int push_twice(const struct job *job, long how)
{
	struct peer peer;
	uint8_t priv[8];

	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	peer_join(&peer, job);
	tell_hello(&peer, LIE_COUNT);
	peer_welcome(&peer);
	tell_push(&peer, LIE_COUNT);
	if (how == 2)
		tell_push(&peer, LIE_HDR_SEQ_AGAIN);
	else if (how == 3)
		tell_push(&peer, LIE_HDR_SEQ_PROCESS);
	else if (how == 1)
		peer_write(&peer, priv, 8, OL_LANDING_PROBE_OFF,
			   ol_bell_make(OL_BELL_PART, ol_part_make(0, 0)));
	else
		tell_push(&peer, LIE_COUNT);
	peer_wait(&peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	peer_close(&peer);
	return 0;
}

static struct ol_worker *honest(const struct job *job, uint32_t id, const char *with_key, int want)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker = NULL;
	char err[256] = "";

	ol_worker_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.servers = job->addrs;
	opts.transport = job_transport();
	opts.worker = id;
	opts.job_key = with_key;
	opts.connect_timeout_ms = want == OL_E_AUTH ? 3000 : opts.connect_timeout_ms;
	check_eq(ol_worker_open(&opts, &worker, err, sizeof(err)), want);
	check((want == 0) == (err[0] == '\0'));
	return worker;
}

/* A decision with a table of zeros */
static void tell_decision(struct peer *peer, uint32_t shard, bool torn)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	const uint64_t bytes = ol_layout_table_bytes(geo);
	struct ol_decision decision = { .version = 1, .history = 1, .founded = 1, .shard = shard };
	uint8_t *table = calloc(1, bytes);

	check(table != NULL);
	decision.table_crc = ol_record_crc(table, bytes) + torn;
	free(table);
	ol_record_seal(&decision);
	peer_write(peer, &decision, sizeof(decision), ol_layout_decision_off(geo, geo->window, 0),
		   ol_bell_make(OL_BELL_DECISION, 0));
}

/* Where one shard decides, and a worker says what it has decided */
static int decide_falsely(const struct job *job, long how)
{
	static const uint32_t shards[] = { 1, 0, 2 }; /* another one, its own, none */
	struct job first = *job; /* of its shards */
	struct peer peer;
	uint8_t priv[8];

	snprintf(first.addrs, sizeof(first.addrs), "%s", job->addr[0]);
	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	peer_join(&peer, &first);
	tell_hello(&peer, LIE_COUNT);
	peer_welcome(&peer);
	if (how == 3) {
		peer_write(&peer, priv, 8, OL_PIN_OFF + 8,
			   ol_bell_make(OL_BELL_WITHDRAW, 1 + peer.accept.geo.window));
	} else if (how == 4) {
		peer_write(&peer, priv, 8, OL_PIN_OFF + 8,
			   ol_bell_make(OL_BELL_DECISION, OL_DECISION_PLACES));
	} else {
		tell_decision(&peer, 1, true); /* as while it is written: no lie, and no news */
		tell_decision(&peer, shards[how], false);
	}
	peer_wait(&peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	peer_close(&peer);
	return 0;
}

static int decided_count(const struct job *job, long violations)
{
	struct ol_worker *worker = honest(job, 0, key, 0);
	struct ol_server_stat stat;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(job_push(worker, 1.0f));
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(ol_stat(worker, 0, &stat));
	check_eq(stat.violations, violations);
	for (uint32_t k = 0; k < 2; k++)
		check_eq(ol_applied_grads(worker, k, 0), violations);
	ol_worker_close(worker);
	return 0;
}

static int handshakes(const struct job *job, long unused)
{
	uint8_t garbage[OL_XPORT_PRIV_CONNECT_MAX], bytes[OL_WIRE_CONNECT_BYTES];
	struct ol_wire_connect used;
	struct peer peer;

	(void)unused;
	peer_open(&peer, key, OL_ROLE_WORKER, 1);
	memset(garbage, 0x5a, sizeof(garbage));
	peer_refused(&peer, garbage, sizeof(garbage), job, OL_REJECT_WIRE);
	peer_refused(&peer, garbage, 0, job, OL_REJECT_WIRE);
	peer_say(&peer, job, OL_CONNECT_PROOF, OL_REJECT_AUTH); /* a proof of nothing */
	peer_say(&peer, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	peer.hello.worker = 2; /* a challenge is for the id that knocked */
	peer_say(&peer, job, OL_CONNECT_PROOF, OL_REJECT_AUTH);
	peer.hello.worker = 100; /* proves the key, but asks for an id that cannot be */
	peer_say(&peer, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	peer_say(&peer, job, OL_CONNECT_PROOF, OL_REJECT_WORKER_RANGE);
	used = peer.hello; /* and the same proof, once more */
	ol_wire_connect_encode(&used, bytes);
	peer_refused(&peer, bytes, sizeof(bytes), job, OL_REJECT_AUTH);
	peer_close(&peer);
	return 0;
}

static int strangers(const struct job *job, long unused)
{
	struct ol_worker *worker;

	(void)unused;
	honest(job, 1, "another key of a job", OL_E_AUTH);
	honest(job, 1, NULL, OL_E_AUTH);
	honest(job, 2, key, OL_E_WORKER_ID); /* workers_max is 2 */
	worker = honest(job, 1, key, 0);
	honest(job, 1, key, OL_E_WORKER_ID); /* it is connected */
	ol_worker_close(worker);
	return 0;
}

/* An honest worker pushes; all that changed the weights is its own pushes, once each */
static int push_and_count(const struct job *job, long violations)
{
	struct ol_worker *worker = honest(job, 0, key, 0);
	struct ol_server_stat stat;

	check_ok(job_push(worker, 1.0f));
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(ol_stat(worker, 0, &stat));
	check_eq(stat.violations, violations);
	check(ol_weights(worker, NULL)[0] == -(float)ol_applied_grads(worker, 0, 0));
	if (ol_applied(worker, 0, 1) > 0) { /* after repeat(): its gradient was 0 */
		check_eq(ol_applied(worker, 0, 1), 1);
		check_eq(stat.duplicates, 2);
		check_eq(stat.applied, ol_applied_grads(worker, 0, 0) + 1);
	}
	ol_worker_close(worker);
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	struct job job;
	long lie;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers_max = 2;
	opts.job_key = key;
	opts.rule.lr = 1.0f;
	job_start(&job, opts, 0.0f);
	job_join(job_fork(handshakes, &job, 0));
	printf("ok handshakes\n");
	job_join(job_fork(strangers, &job, 0));
	printf("ok strangers\n");
	for (lie = 0; lie < LIE_COUNT; lie++) {
		job_join(job_fork(tell, &job, lie));
		job_join(job_fork(push_and_count, &job, lie + 1));
		printf("ok lie %ld\n", lie);
	}
	job_join(job_fork(repeat, &job, 0));
	job_join(job_fork(push_and_count, &job, lie));
	printf("ok repeated push\n");
	job_stop(&job);

	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = 2;
	job_start(&job, opts, 0.0f);
	for (long how = 0; how < 4; how++)
		job_join(job_fork(push_twice, &job, how));
	job_stop(&job);
	printf("ok slot in use\n");

	opts.param_count = 2048;
	opts.shard_count = 2;
	opts.wait = OL_WAIT_FIXED;
	opts.wait_k = 1;
	job_start(&job, opts, 0.0f);
	for (long how = 0; how < 5; how++) {
		job_join(job_fork(decide_falsely, &job, how));
		job_join(job_fork(decided_count, &job, how + 1));
	}
	job_stop(&job);
	printf("ok decisions\n");
	return 0;
}
