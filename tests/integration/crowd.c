/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * crowd.c -- a thousand workers that connect at once are all admitted: all knock before the first
 * sends its proof, and none is told that its key is wrong
 *
 * One process with one transport plays them all, with a handshake of its own. Some are told to come
 * back, and do. Then the same once more, beside a stranger that knocks a thousand times a second.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "rdma/transport.h"
#include "support/check.h"
#include "support/job.h"
#include "wire/auth.h"

enum {
	PEERS = 1000,
	EVENTS = 64,
	SECONDS_MAX = 120,
	FDS = 16384, /* of a server with so many workers */
};

static const char key[] = "the key of the crowd";

struct one {
	struct ol_xport_conn *conn;
	uint8_t n[OL_NONCE_BYTES];
	struct ol_wire_connect said; /* knock or proof */
	uint8_t m[OL_NONCE_BYTES];
	uint64_t made_ns;
	uint64_t retry_ns; /* 0: it is under way, or in */
	bool challenged;
	bool in;
};

static struct {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	const char *addr;
	struct one ones[PEERS];
	unsigned challenged;
	unsigned in;
	unsigned sent_away;
} crowd;

static void prove(void *arg, const struct ol_xport_ident *ident, void *priv, uint32_t priv_len)
{
	struct one *one = arg;

	check_eq(priv_len, OL_WIRE_CONNECT_BYTES);
	ol_auth_proof(key, one->m, ident->bytes, &one->said);
	ol_wire_connect_encode(&one->said, priv);
}

static void say(uint32_t id, enum ol_wire_connect_kind kind)
{
	struct one *one = &crowd.ones[id];
	struct ol_wire_connect msg = { .kind = kind, .role = OL_ROLE_WORKER, .worker = id };
	const struct ol_xport_seal seal = { .make = prove, .arg = one };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	int rc;

	if (kind == OL_CONNECT_KNOCK)
		check_ok(ol_auth_random(one->n, sizeof(one->n)));
	memcpy(msg.nonce, one->n, sizeof(msg.nonce));
	if (kind == OL_CONNECT_PROOF)
		msg.made_ns = one->made_ns;
	if (kind == OL_CONNECT_KNOCK)
		ol_auth_knock(key, &msg);
	one->said = msg;
	ol_wire_connect_encode(&msg, bytes);
	one->retry_ns = 0;
	rc = crowd.ops->connect(crowd.xport, crowd.addr, bytes, sizeof(bytes),
				kind == OL_CONNECT_PROOF ? &seal : NULL, &one->conn);
	if (rc == -EAGAIN || rc == -ECONNREFUSED) { /* its queue of callers is full */
		one->conn = NULL;
		one->retry_ns = ol_clock_ns() + OL_NS_PER_MS;
		return;
	}
	check_ok(rc);
	one->conn->user = one;
}

static void refused(struct one *one, const struct ol_xport_event *event)
{
	struct ol_wire_reject reject;

	crowd.ops->conn_free(one->conn);
	one->conn = NULL;
	if (one->in) /* it never says hello, and is dropped for it at last */
		return;
	one->retry_ns = ol_clock_ns() + OL_NS_PER_MS; /* nobody had time for it */
	if (event->priv_len == 0)
		return;
	check_ok(ol_wire_reject_decode(event->priv, event->priv_len, &reject));
	check_msg(reject.code == OL_REJECT_CHALLENGE || reject.code == OL_REJECT_LATER,
		  "a worker with the right key is refused with code %d", (int)reject.code);
	if (reject.code == OL_REJECT_LATER) {
		check(reject.delay_ms > 0);
		crowd.sent_away++;
		one->challenged = false;
		one->retry_ns = ol_clock_ns() + reject.delay_ms * OL_NS_PER_MS;
		return;
	}
	check(ol_auth_reject_holds(key, &one->said, &reject));
	memcpy(one->m, reject.nonce, sizeof(one->m));
	one->made_ns = reject.made_ns;
	one->challenged = true;
	one->retry_ns = UINT64_MAX;
	crowd.challenged++;
}

static void turn(void)
{
	struct ol_xport_event events[EVENTS];
	int count = crowd.ops->poll(crowd.xport, events, EVENTS);
	uint64_t now_ns = ol_clock_ns();

	check(count >= 0);
	for (int i = 0; i < count; i++) {
		struct one *one = events[i].conn->user;

		if (events[i].type == OL_XPORT_CONN_DOWN)
			refused(one, &events[i]);
		if (events[i].type == OL_XPORT_CONN_UP) {
			one->in = true;
			crowd.in++;
		}
	}
	for (uint32_t i = 0; i < PEERS; i++) {
		struct one *one = &crowd.ones[i];

		/* nobody proves anything before all have a challenge */
		if (one->in)
			continue;
		if (one->conn == NULL && !one->challenged && one->retry_ns <= now_ns)
			say(i, OL_CONNECT_KNOCK);
		else if (one->conn == NULL && one->challenged && crowd.challenged >= PEERS)
			say(i, OL_CONNECT_PROOF);
	}
}

/* Knocks with a key of its own, until it is killed */
__attribute__((noreturn)) static int knocks(const struct job *job, long unused)
{
	struct ol_wire_connect msg = { .kind = OL_CONNECT_KNOCK, .role = OL_ROLE_WORKER };
	uint8_t bytes[OL_WIRE_CONNECT_BYTES];
	struct ol_xport_conn *conn = NULL;
	struct ol_xport_event event;
	struct ol_xport_opts opts;
	struct ol_xport *xport;
	uint64_t next_ns = 0;

	(void)unused;
	ol_xport_opts_init(&opts);
	check_ok(ol_xport_find(job_transport())->open(&opts, &xport));
	crowd.ops = ol_xport_find(job_transport());
	for (;;) {
		if (conn == NULL && ol_clock_ns() >= next_ns) {
			check_ok(ol_auth_random(msg.nonce, sizeof(msg.nonce)));
			ol_auth_knock("the key of nobody in the crowd", &msg);
			ol_wire_connect_encode(&msg, bytes);
			next_ns = ol_clock_ns() + OL_NS_PER_MS;
			if (crowd.ops->connect(xport, job->addrs, bytes, sizeof(bytes), NULL,
					       &conn) != 0)
				conn = NULL;
		}
		if (crowd.ops->poll(xport, &event, 1) == 1 && event.type == OL_XPORT_CONN_DOWN) {
			crowd.ops->conn_free(event.conn);
			conn = NULL;
		}
	}
}

static int come(const struct job *job, long beside)
{
	const uint64_t began_ns = ol_clock_ns();
	uint64_t end_ns = began_ns + SECONDS_MAX * OL_NS_PER_S;
	struct ol_xport_opts opts;

	crowd.ops = ol_xport_find(job_transport());
	crowd.addr = job->addrs;
	ol_xport_opts_init(&opts);
	opts.conns_max = PEERS + 16;
	opts.connect_timeout_ms = SECONDS_MAX * 1000;
	check_ok(crowd.ops->open(&opts, &crowd.xport));
	while (crowd.in < PEERS) {
		turn();
		check_msg(ol_clock_ns() < end_ns, "%u of %d are in", crowd.in, PEERS);
	}
	printf("%d workers are in after %.2f s%s, %u times one was told to come back\n", PEERS,
	       (double)(ol_clock_ns() - began_ns) / 1e9, beside ? " beside a stranger" : "",
	       crowd.sent_away);
	for (uint32_t i = 0; i < PEERS; i++) {
		if (crowd.ones[i].conn != NULL)
			crowd.ops->conn_free(crowd.ones[i].conn);
	}
	crowd.ops->close(crowd.xport);
	return 0;
}

int main(void)
{
	struct rlimit fds = { .rlim_cur = FDS, .rlim_max = FDS };
	struct ol_server_opts opts;
	struct job job;
	pid_t stranger;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (setrlimit(RLIMIT_NOFILE, &fds) != 0) {
		printf("skip: a process may have fewer than %d descriptors\n", FDS);
		return CHECK_SKIP;
	}
	ol_server_opts_init(&opts);
	opts.param_count = 16;
	opts.workers_max = PEERS;
	opts.window = 1;
	opts.job_key = key;
	opts.lease_ms = 0;
	job_start(&job, opts, 1.0f);
	job_join(job_fork(come, &job, 0));
	job_stop(&job);
	job_start(&job, opts, 1.0f);
	stranger = job_fork(knocks, &job, 0);
	job_join(job_fork(come, &job, 1));
	check_ok(kill(stranger, SIGKILL));
	check(waitpid(stranger, NULL, 0) == stranger);
	job_stop(&job);
	return 0;
}
