/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relay.c -- whoever passes a handshake on between a worker and its server is let in by neither
 *
 * The relay is a process with an address of its own. It passes every byte that travels with
 * connecting on, both ways, and has a connection to each end: with a handshake that is not bound to
 * connections it would hold the worker's place, and the keys to its slots.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/job.h"
#include "support/peer.h"

enum {
	LEN = 1000,
	RELAY_S = 4, /* the relay's life */
	CONNS = 64,
};

static const char key[] = "0123456789abcdef0123456789abcdef";

struct half {
	struct ol_xport_conn *near; /* to the worker */
	struct ol_xport_conn *far; /* to the server */
};

static struct {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct half halves[CONNS];
	unsigned passed;
	unsigned let_in; /* by the server */
} relay;

static struct half *half_of(const struct ol_xport_conn *conn)
{
	for (unsigned i = 0; i < CONNS; i++) {
		if (relay.halves[i].near == conn || relay.halves[i].far == conn)
			return &relay.halves[i];
	}
	return NULL;
}

static void pass(const struct ol_xport_event *event, const char *server)
{
	struct half *half = half_of(event->type == OL_XPORT_CONN_REQUEST ? NULL : event->conn);

	if (half == NULL)
		return;
	switch (event->type) {
	case OL_XPORT_CONN_REQUEST:
		half->near = event->conn;
		relay.passed++;
		check_ok(relay.ops->connect(relay.xport, server, event->priv,
					    event->priv_len < OL_XPORT_PRIV_CONNECT_MAX
						    ? event->priv_len
						    : OL_XPORT_PRIV_CONNECT_MAX,
					    NULL, &half->far));
		break;
	case OL_XPORT_CONN_UP:
		if (event->conn == half->far) {
			relay.let_in++;
			check_ok(relay.ops->accept(half->near, event->priv, event->priv_len));
		}
		break;
	case OL_XPORT_CONN_DOWN:
		if (event->conn == half->far && half->near != NULL)
			relay.ops->reject(half->near, event->priv, event->priv_len);
		else if (half->near != NULL)
			relay.ops->conn_free(half->near);
		if (half->far != NULL)
			relay.ops->conn_free(half->far);
		*half = (struct half){ 0 };
		break;
	case OL_XPORT_DONE:
	case OL_XPORT_DOORBELL_RUNG:
		break;
	}
}

/* arg: the end of a pipe, for the address */
static int relays(const struct job *job, long arg)
{
	const uint64_t end_ns = ol_clock_ns() + RELAY_S * OL_NS_PER_S;
	char listen[OL_XPORT_ADDR_MAX], addr[OL_XPORT_ADDR_MAX];
	struct ol_xport_event event;
	struct ol_xport_opts opts;

	relay.ops = ol_xport_find(job_transport());
	ol_xport_opts_init(&opts);
	check_ok(relay.ops->open(&opts, &relay.xport));
	if (strcmp(job_transport(), "shm") == 0)
		snprintf(listen, sizeof(listen), "@ol-relay-%d", (int)getpid());
	else
		snprintf(listen, sizeof(listen), "%s:0", getenv("OL_ADDR"));
	check_ok(relay.ops->listen(relay.xport, listen, addr));
	check(write((int)arg, addr, sizeof(addr)) == sizeof(addr));
	while (ol_clock_ns() < end_ns) {
		if (relay.ops->poll(relay.xport, &event, 1) == 1)
			pass(&event, job->addrs);
	}
	printf("note: %u attempts passed on\n", relay.passed);
	check(relay.passed >= 2); /* a knock and a proof */
	check_eq(relay.let_in, 0);
	relay.ops->close(relay.xport);
	return 0;
}

static int works_by(const char *addr, char *err, size_t err_bytes)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = addr;
	opts.transport = job_transport();
	opts.job_key = key;
	opts.connect_timeout_ms = 1000;
	rc = ol_worker_open(&opts, &worker, err, err_bytes);
	if (rc == 0)
		ol_worker_close(worker);
	return rc;
}

/* arg: the other end of the pipe */
static int works(const struct job *job, long arg)
{
	char addr[OL_XPORT_ADDR_MAX], err[256];

	check(read((int)arg, addr, sizeof(addr)) == sizeof(addr));
	check_eq(works_by(addr, err, sizeof(err)), OL_E_AUTH);
	printf("note: by the relay: %s\n", err);
	check_ok(works_by(job->addrs, err, sizeof(err)));
	return 0;
}

int main(void)
{
	struct ol_server_opts opts;
	pid_t processes[2];
	struct job job;
	int fds[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_ok(pipe(fds));
	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.workers_max = 1;
	opts.job_key = key;
	job_start(&job, opts, 0.0f);
	processes[0] = job_fork(relays, &job, fds[1]);
	processes[1] = job_fork(works, &job, fds[0]);
	job_join(processes[1]);
	job_join(processes[0]);
	job_stop(&job);
	return 0;
}
