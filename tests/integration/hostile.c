/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hostile.c -- a peer that lies loses its connection, changes nothing, and is counted; the server
 * and honest workers go on
 *
 * The liar speaks to the transport itself, up to the step where it starts to lie.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/transport.h"
#include "support/check.h"
#include "support/job.h"
#include "wire/auth.h"

enum {
	LEN = 100,
	EVENTS_S = 20 /* alarm: no answer within this */
};

static const char key[] = "the key";

/* A liar's end: one connection, the last event of each kind that matters */
struct liar {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_conn *conn;
	struct ol_wire_connect hello; /* nonce and proof of the last handshake */
	struct ol_wire_reject challenge;
	struct ol_wire_accept accept;
	struct ol_xport_rkey landing;
	struct ol_slab *acks;
	struct ol_xport_region *acks_region;
};

static void liar_open(struct liar *liar)
{
	struct ol_xport_opts opts;

	memset(liar, 0, sizeof(*liar));
	liar->ops = ol_xport_find(job_transport());
	ol_xport_opts_init(&opts);
	check_ok(liar->ops->open(&opts, &liar->xport));
	check_ok(ol_slab_create(4096, OL_SLAB_NODE_ANY, false, &liar->acks));
	check_ok(ol_auth_random(liar->hello.nonce, sizeof(liar->hello.nonce)));
	liar->hello.role = OL_ROLE_WORKER;
}

static void liar_close(struct liar *liar)
{
	if (liar->conn != NULL)
		liar->ops->conn_free(liar->conn);
	if (liar->acks_region != NULL)
		liar->ops->dereg(liar->acks_region);
	liar->ops->close(liar->xport);
	ol_slab_destroy(liar->acks);
}

/* The next event of type; the alarm bounds the wait */
static struct ol_xport_event liar_wait(struct liar *liar, enum ol_xport_event_type type,
				       uint8_t *priv, size_t priv_bytes)
{
	struct ol_xport_event event;

	alarm(EVENTS_S);
	do {
		int count;

		do {
			count = liar->ops->poll(liar->xport, &event, 1);
			check(count >= 0);
		} while (count == 0);
	} while (event.type != type);
	alarm(0);
	memset(priv, 0, priv_bytes);
	if (event.priv_len > 0 && event.priv_len <= priv_bytes)
		memcpy(priv, event.priv, event.priv_len);
	return event;
}

/* Connect with these bytes; the answer must be a reject with this code */
static void liar_refused(struct liar *liar, const void *bytes, uint32_t count,
			 const struct job *job, enum ol_wire_reject_code want)
{
	uint8_t priv[256];
	struct ol_xport_event event;

	check_ok(liar->ops->connect(liar->xport, job->addrs, bytes, count, &liar->conn));
	event = liar_wait(liar, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	check_eq(event.status, -ECONNREFUSED);
	check_ok(ol_wire_reject_decode(priv, sizeof(priv), &liar->challenge));
	check_eq(liar->challenge.code, want);
	liar->ops->conn_free(liar->conn);
	liar->conn = NULL;
}

static void liar_say(struct liar *liar, const struct job *job, enum ol_wire_connect_kind kind,
		     enum ol_wire_reject_code want)
{
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];

	liar->hello.kind = kind;
	if (kind == OL_CONNECT_PROOF)
		ol_auth_proof(key, liar->challenge.nonce, &liar->hello);
	ol_wire_connect_encode(&liar->hello, bytes);
	liar_refused(liar, bytes, sizeof(bytes), job, want);
}

/* An honest handshake, up to CONN_UP */
static void liar_join(struct liar *liar, const struct job *job)
{
	uint8_t bytes[OL_WIRE_CONNECT_BYTES], priv[256];

	liar_say(liar, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	check(ol_auth_challenge_holds(key, liar->hello.nonce, &liar->challenge));
	liar->hello.kind = OL_CONNECT_PROOF;
	ol_auth_proof(key, liar->challenge.nonce, &liar->hello);
	ol_wire_connect_encode(&liar->hello, bytes);
	check_ok(liar->ops->connect(liar->xport, job->addrs, bytes, sizeof(bytes), &liar->conn));
	liar_wait(liar, OL_XPORT_CONN_UP, priv, sizeof(priv));
	check_ok(ol_wire_accept_decode(priv, sizeof(priv), &liar->accept));
	liar->landing = (struct ol_xport_rkey){ .addr = liar->accept.landing_key.addr,
						.bytes = liar->accept.landing_key.bytes,
						.rkey = liar->accept.landing_key.rkey };
}

static void liar_write(struct liar *liar, const void *bytes, uint32_t count, uint64_t off,
		       uint32_t imm)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)bytes, .bytes = count } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = imm,
		.dst = liar->landing,
		.dst_off = off,
	};

	check_ok(liar->ops->post_write(liar->conn, &write));
}

static struct ol_hello liar_hello(struct liar *liar)
{
	struct ol_hello hello = { .magic = OL_WIRE_MAGIC, .epoch = liar->accept.epoch };
	struct ol_xport_rkey acks;

	check_ok(liar->ops->reg(liar->xport, liar->conn, liar->acks, 0, 4096,
				OL_XPORT_ACCESS_PEER_WRITE, &liar->acks_region));
	acks = liar->ops->rkey(liar->acks_region, liar->conn);
	hello.acks.addr = acks.addr;
	hello.acks.bytes = acks.bytes;
	hello.acks.rkey = acks.rkey;
	ol_record_seal(&hello);
	return hello;
}

/* The lies. Each is told on a live session but for the first ones. */
enum lie {
	LIE_BELL_BEFORE_HELLO,
	LIE_HELLO_CRC,
	LIE_HELLO_EPOCH,
	LIE_HELLO_NO_ACKS,
	LIE_HELLO_TWICE,
	LIE_BELL_UNKNOWN,
	LIE_SLOT_NOT_ITS_OWN,
	LIE_HDR_CRC,
	LIE_HDR_EPOCH,
	LIE_HDR_LENGTH,
	LIE_HDR_FUTURE,
	LIE_HDR_SEQ_ZERO,
	LIE_COUNT
};

static void tell_hello(struct liar *liar, enum lie lie)
{
	struct ol_hello hello = liar_hello(liar);

	if (lie == LIE_HELLO_EPOCH)
		hello.epoch++;
	if (lie == LIE_HELLO_NO_ACKS)
		hello.acks.bytes = 64;
	ol_record_seal(&hello);
	if (lie == LIE_HELLO_CRC)
		hello.crc ^= 1;
	liar_write(liar, &hello, sizeof(hello), OL_HELLO_OFF, ol_bell_make(OL_BELL_HELLO, 0));
	if (lie == LIE_HELLO_TWICE)
		liar_write(liar, &hello, sizeof(hello), OL_HELLO_OFF,
			   ol_bell_make(OL_BELL_HELLO, 0));
}

static void tell_push(struct liar *liar, enum lie lie)
{
	const struct ol_geometry *geo = &liar->accept.geo;
	uint64_t off = ol_layout_slot_off(geo, 0) + ol_layout_vector_bytes(geo);
	uint32_t slot = lie == LIE_SLOT_NOT_ITS_OWN ? geo->window : 0;
	struct ol_push_hdr hdr = {
		.seq = lie == LIE_HDR_SEQ_ZERO ? 0 : 1,
		.base_version = lie == LIE_HDR_FUTURE ? 1000 : 0,
		.payload_bytes = ol_layout_vector_bytes(geo) + (lie == LIE_HDR_LENGTH ? 64 : 0),
		.epoch = liar->accept.epoch + (lie == LIE_HDR_EPOCH ? 1 : 0),
	};

	ol_record_seal(&hdr);
	if (lie == LIE_HDR_CRC)
		hdr.crc ^= 0x80000000;
	liar_write(liar, &hdr, sizeof(hdr), off, ol_bell_make(OL_BELL_PUSH, slot));
}

static int tell(const struct job *job, long lie)
{
	struct liar liar;
	uint8_t priv[8];

	liar_open(&liar);
	liar.hello.worker = 1;
	liar_join(&liar, job);
	if (lie == LIE_BELL_BEFORE_HELLO) {
		tell_push(&liar, LIE_COUNT);
	} else {
		tell_hello(&liar, (enum lie)lie);
		if (lie == LIE_BELL_UNKNOWN)
			liar_write(&liar, priv, 8, OL_PIN_OFF + 8, ol_bell_make(200, 0));
		if (lie >= LIE_SLOT_NOT_ITS_OWN)
			tell_push(&liar, (enum lie)lie);
	}
	liar_wait(&liar, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	liar_close(&liar);
	return 0;
}

/* Not a lie: a push that is sent again, as after a failure, is acknowledged and not applied again
 */
static int repeat(const struct job *job, long unused)
{
	struct liar liar;
	uint8_t priv[8];

	(void)unused;
	liar_open(&liar);
	liar.hello.worker = 1;
	liar_join(&liar, job);
	tell_hello(&liar, LIE_COUNT);
	for (int i = 0; i < 3; i++) {
		tell_push(&liar, LIE_COUNT);
		liar_wait(&liar, OL_XPORT_DOORBELL_RUNG, priv, sizeof(priv));
	}
	liar_close(&liar);
	return 0;
}

static int handshakes(const struct job *job, long unused)
{
	uint8_t garbage[56], bytes[OL_WIRE_CONNECT_BYTES];
	struct ol_wire_connect used;
	struct liar liar;

	(void)unused;
	liar_open(&liar);
	memset(garbage, 0x5a, sizeof(garbage));
	liar_refused(&liar, garbage, sizeof(garbage), job, OL_REJECT_WIRE);
	liar_refused(&liar, garbage, 0, job, OL_REJECT_WIRE);
	liar.hello.worker = 1;
	liar_say(&liar, job, OL_CONNECT_PROOF, OL_REJECT_AUTH); /* a proof of nothing */
	liar_say(&liar, job, OL_CONNECT_KNOCK, OL_REJECT_CHALLENGE);
	liar.hello.worker = 100; /* proves the key, but asks for an id that cannot be */
	liar_say(&liar, job, OL_CONNECT_PROOF, OL_REJECT_WORKER_RANGE);
	used = liar.hello; /* and the same proof, once more */
	ol_wire_connect_encode(&used, bytes);
	liar_refused(&liar, bytes, sizeof(bytes), job, OL_REJECT_AUTH);
	liar_close(&liar);
	return 0;
}

static struct ol_worker *honest(const struct job *job, uint32_t id, const char *with_key, int want)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker = NULL;
	char err[256] = "";

	ol_worker_opts_init(&opts);
	opts.servers = job->addrs;
	opts.transport = job_transport();
	opts.worker = id;
	opts.job_key = with_key;
	check_eq(ol_worker_open(&opts, &worker, err, sizeof(err)), want);
	check((want == 0) == (err[0] == '\0'));
	return worker;
}

static int strangers(const struct job *job, long unused)
{
	struct ol_worker *worker;

	(void)unused;
	honest(job, 1, "another key", OL_E_AUTH);
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
	check(ol_weights(worker, NULL)[0] == -(float)ol_applied(worker, 0, 0));
	if (ol_applied(worker, 0, 1) > 0) { /* after repeat(): its gradient was 0 */
		check_eq(ol_applied(worker, 0, 1), 1);
		check_eq(stat.duplicates, 2);
		check_eq(stat.applied, ol_applied(worker, 0, 0) + 1);
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
	return 0;
}
