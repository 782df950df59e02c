/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scribble.c -- a worker that writes anything, anywhere that it can, while the server runs
 *
 *	scribble [--mutations N]
 *
 * It has the credential of worker 1. Of each connection it maps the landing memory and the transport's own
 * control segment, with the rings of doorbells in both directions. A thread writes random bytes, words and
 * runs of them, at random places of records, pins and rings, as fast as it can. Another pushes gradients of
 * zeros meanwhile with headers that are well made when they are written, and now and then posts anything
 * with any bell. It is thrown out, and comes again. An honest worker pushes as well, and all that the weights
 * contain is its pushes, once each. Over verbs there is no thread, and the same goes by posts.
 *
 * not under tsan: the liar's races are its lies
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdma/shm/shm.h"
#include "support/check.h"
#include "support/peer.h"
#include "wire/seq.h"

enum {
	LEN = 2000,
	MUTATIONS = 1000000,
	RINGS = 2000, /* of a session, at most */
	IDLE_POLLS = 20,
	RUN_BYTES = 8,
};

static int ends[2]; /* of a pipe that is closed when the liar is done */
static char credential[OL_CREDENTIAL_MAX];
static const char key[] = "0123456789abcdef0123456789abcdef";

/* A place that this process may write */
struct place {
	uint8_t *at;
	size_t bytes;
};

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

/* Words that code compares with: ends of ranges, and what is there already, a little changed */
static uint64_t word_next(const uint8_t *at)
{
	static const uint64_t edges[] = { 0,          1,         UINT64_MAX,   INT64_MAX,
					  UINT32_MAX, INT32_MAX, 1u << 24,     4096,
					  63,         64,        OL_WIRE_MAGIC };
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	switch (random_next() % 4) {
	case 0:
		return edges[random_next() % (sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return word + random_next() % 5 - 2;
	case 2:
		return word ^ UINT64_C(1) << random_next() % 64;
	default:
		return random_next();
	}
}

static void mutate(const struct place *place)
{
	const size_t room = place->bytes - RUN_BYTES;
	/* the first page has the records; most of the rest is a gradient */
	const size_t off =
		random_next() % 4 != 0 && room > 4096 ? random_next() % 4096 : random_next() % room;
	uint8_t *at = place->at + off;
	const uint64_t word = word_next(at);

	switch (random_next() % 4) {
	case 0:
		memcpy(at, &word, 1);
		break;
	case 1:
		memcpy(at, &word, 4);
		break;
	case 2:
		memcpy((uint8_t *)((uintptr_t)at & ~(uintptr_t)7), &word, 8);
		break;
	case 3:
		memset(at, (int)(word & 0xff), random_next() % RUN_BYTES);
		break;
	}
}

static void post_random(struct peer *peer)
{
	uint64_t words[4] = { random_next(), random_next(), random_next(), random_next() };
	const uint32_t bell = (uint32_t)(random_next() % 12) << 24;
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)words, .bytes = sizeof(words) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE,
		.dst = peer->landing,
		.dst_off = random_next() % (OL_PAGE_BYTES - sizeof(words)),
	};

	if (random_next() % 64 == 0) {
		write.flags |= OL_XPORT_DOORBELL;
		write.imm =
			bell | (uint32_t)(random_next() % 3 == 0 ? random_next() & 0xffffff : 0);
	}
	(void)peer->ops->post_write(peer->conn, &write);
}

/* What the thread writes to. No gradients: its own it may push as it likes, so they must be zeros */
struct scribbler {
	struct place places[JOB_WINDOW + 2];
	unsigned count;
	atomic_bool stop;
	uint64_t done;
};

static void *scribbles(void *arg)
{
	struct scribbler *scribbler = arg;

	while (!atomic_load(&scribbler->stop)) {
		mutate(&scribbler->places[random_next() % scribbler->count]);
		scribbler->done++;
	}
	return NULL;
}

static void places_find(struct peer *peer, struct scribbler *scribbler)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	struct ol_shm_conn *conn = ol_shm_conn(peer->conn);
	uint8_t *at;

	at = mmap(NULL, peer->landing.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(at != MAP_FAILED);
	check_ok(peer->ops->map(peer->conn, peer->landing, 0, peer->landing.bytes, at));
	scribbler->places[scribbler->count++] = (struct place){ at, OL_PAGE_BYTES };
	for (uint32_t slot = 0; slot < geo->window; slot++)
		scribbler->places[scribbler->count++] =
			(struct place){ at + ol_layout_slot_off(geo, slot) +
						ol_layout_vector_bytes(geo),
					sizeof(struct ol_push_hdr) };
	/* who writes to the rings is soon found out, and does not come far elsewhere */
	if (random_next() % 4 == 0)
		scribbler->places[scribbler->count++] =
			(struct place){ conn->ctrl, conn->ctrl_bytes };
}

static void push_zeros(struct peer *peer, uint32_t slot, uint64_t seq)
{
	const struct ol_geometry *geo = &peer->accept.geo;
	struct ol_push_hdr hdr = { .seq = ol_seq_make(7, seq),
				   .payload_bytes = ol_layout_vector_bytes(geo),
				   .epoch = 1,
				   .grads = 1,
				   .weight = 1.0f };
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&hdr, .bytes = sizeof(hdr) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_PUSH, slot),
		.dst = peer->landing,
		.dst_off = ol_layout_slot_off(geo, slot) + ol_layout_vector_bytes(geo),
	};

	ol_record_seal(&hdr);
	(void)peer->ops->post_write(peer->conn, &write);
}

/* Until it is thrown out, or has rung so often */
static void rings(struct peer *peer, uint64_t seq)
{
	struct ol_xport_event event;

	for (unsigned i = 0; i < RINGS; i++) {
		if (random_next() % 16 == 0)
			post_random(peer);
		else
			push_zeros(peer, i % JOB_WINDOW, seq + i + 1);
		for (unsigned idle = 0; idle < IDLE_POLLS; idle++) {
			if (peer->ops->poll(peer->xport, &event, 1) == 1 &&
			    event.type == OL_XPORT_CONN_DOWN)
				return;
		}
	}
}

static void session(const struct job *job, uint64_t *done)
{
	const bool shm = strcmp(job_transport(), "shm") == 0;
	struct scribbler scribbler = { .count = 0 };
	struct ol_welcome welcome = { 0 };
	struct ol_hello hello;
	struct peer peer;
	pthread_t thread;

	peer_open(&peer, credential, OL_ROLE_WORKER, 1);
	peer_join(&peer, job);
	if (random_next() % 8 != 0) { /* else it says no hello */
		hello = peer_hello(&peer);
		peer_write(&peer, &hello, sizeof(hello), OL_HELLO_OFF,
			   ol_bell_make(OL_BELL_HELLO, 0));
		welcome = peer_welcome(&peer);
	}
	if (shm) {
		places_find(&peer, &scribbler);
		check(pthread_create(&thread, NULL, scribbles, &scribbler) == 0);
	}
	rings(&peer, ol_seq_count(welcome.resolved.seq));
	if (shm) {
		atomic_store(&scribbler.stop, true);
		check(pthread_join(thread, NULL) == 0);
		munmap(scribbler.places[0].at, peer.landing.bytes);
	}
	*done += shm ? scribbler.done : RINGS;
	peer_close(&peer);
}

static int liar(const struct job *job, long mutations)
{
	uint64_t done = 0;
	unsigned sessions = 0;

	for (; done < (uint64_t)mutations; sessions++)
		session(job, &done);
	printf("note: %llu mutations in %u sessions\n", (unsigned long long)done, sessions);
	return 0;
}

static struct ol_worker *honest(const struct job *job)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;
	char err[256];

	ol_worker_opts_init(&opts);
	opts.servers = job->addrs;
	opts.transport = job_transport();
	opts.job_key = key;
	opts.lease_ms = JOB_LEASE_MS;
	check_msg(ol_worker_open(&opts, &worker, err, sizeof(err)) == 0, "%s", err);
	return worker;
}

static int trains(const struct job *job, long unused)
{
	struct ol_worker *worker = honest(job);
	struct ol_server_stat stat;
	const float *weights;
	unsigned pushes = 0;
	char end;

	(void)unused;
	close(ends[1]);
	do {
		for (unsigned i = 0; i < 20; i++, pushes++)
			check_ok(job_push(worker, 1.0f));
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		weights = ol_weights(worker, NULL);
		for (unsigned i = 0; i < LEN; i++)
			check_msg(weights[i] == -(float)pushes, "weight %u is %g after %u pushes",
				  i, (double)weights[i], pushes);
	} while (read(ends[0], &end, 1) != 0);
	check_ok(ol_stat(worker, 0, &stat));
	check(stat.applied >= pushes); /* the others are zeros */
	check(stat.violations > 0);
	printf("note: %u pushes, %llu of zeros taken, %llu violations\n", pushes,
	       (unsigned long long)(stat.applied - pushes), (unsigned long long)stat.violations);
	ol_worker_close(worker);
	return 0;
}

int main(int argc, char **argv)
{
	long mutations = argc == 3 ? strtol(argv[2], NULL, 10) : MUTATIONS;
	struct ol_server_opts opts;
	pid_t processes[2];
	struct job job;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_ok(ol_credential(key, OL_HOLDER_WORKER, 1, credential));
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.workers_max = 2;
	opts.job_key = key;
	opts.rule.lr = 1.0f;
	job_start(&job, opts, 0.0f);
	check_ok(pipe2(ends, O_NONBLOCK | O_CLOEXEC)); /* the server has no copy of it */
	processes[0] = job_fork(liar, &job, mutations);
	processes[1] = job_fork(trains, &job, 0);
	job_join(processes[0]);
	close(ends[1]);
	job_join(processes[1]);
	job_stop(&job);
	return 0;
}
