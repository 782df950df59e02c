/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_hostile_test.c -- a client that sends garbage, too much, nothing, or does not listen ends
 * its own connection and nothing else, and every limit is a refusal that says so
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "replication/coord_wire.h"
#include "replication/coordinator_internal.h"
#include "unit/replication/coord_util.h"

enum {
	GARBAGE_ROUNDS = 300,
	SLOW_VIEWS = 2000,
};

static void house_start(struct house *house, char *secret)
{
	char listen[64];

	snprintf(listen, sizeof(listen), "@ol-coord-hostile-%d", (int)getpid());
	house_open(house, listen, secret);
}

/* A client without a handle: its socket blocks, and gives up in the end. */
static struct ol_coord_pipe *raw_new(const char *addr)
{
	struct ol_coord_pipe *raw = calloc(1, sizeof(*raw));
	struct timeval patience = { .tv_sec = WAIT_S };
	struct ol_coord_place place;

	assert_non_null(raw);
	assert_int_equal(ol_coord_place_parse(addr, &place), 0);
	raw->fd = ol_coord_socket(&place);
	assert_true(raw->fd >= 0);
	assert_int_equal(fcntl(raw->fd, F_SETFL, 0), 0);
	setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return raw;
}

static void raw_connect(const struct ol_coord_pipe *raw, const char *addr)
{
	struct ol_coord_place place;

	assert_int_equal(ol_coord_place_parse(addr, &place), 0);
	assert_int_equal(connect(raw->fd, (const struct sockaddr *)&place.at, place.bytes), 0);
}

static struct ol_coord_pipe *raw_open(const char *addr)
{
	struct ol_coord_pipe *raw = raw_new(addr);

	raw_connect(raw, addr);
	return raw;
}

static void raw_close(struct ol_coord_pipe *raw)
{
	close(raw->fd);
	free(raw);
}

static void raw_send(struct ol_coord_pipe *raw, const struct ol_coord_frame *frame)
{
	assert_int_equal(ol_coord_pipe_put(raw, frame), 0);
	assert_int_equal(ol_coord_pipe_flush(raw), 0);
}

/* raw_next -- 1: a frame; 0: the connection is over */
static int raw_next(struct ol_coord_pipe *raw, struct ol_coord_frame *ret_frame)
{
	int rc;

	while ((rc = ol_coord_pipe_take(raw, ret_frame)) == 0) {
		rc = ol_coord_pipe_fill(raw);
		if (rc < 0)
			return 0;
		assert_true(rc > 0); /* 0: nobody said anything for too long */
	}
	assert_int_equal(rc, 1);
	return 1;
}

static enum ol_coord_msg raw_until(struct ol_coord_pipe *raw, enum ol_coord_msg type,
				   struct ol_coord_frame *ret_frame)
{
	do {
		if (raw_next(raw, ret_frame) == 0)
			fail_msg("the connection ended before message %d", (int)type);
	} while (ret_frame->type != type && ret_frame->type != OL_COORD_REFUSE);
	return ret_frame->type;
}

static void raw_hello(struct ol_coord_pipe *raw, struct ol_coord_challenge *challenge)
{
	struct ol_coord_hello hello = { .nonce = { 7 } };
	uint8_t body[OL_COORD_BODY_MAX];
	struct ol_coord_frame frame = ol_coord_hello_frame(&hello, body);

	raw_send(raw, &frame);
	assert_int_equal(raw_until(raw, OL_COORD_CHALLENGE, &frame), OL_COORD_CHALLENGE);
	assert_int_equal(ol_coord_challenge_decode(&frame, challenge), 0);
}

/* raw_enter -- WELCOME, or what was refused in *ret_frame */
static enum ol_coord_msg raw_enter(struct ol_coord_pipe *raw, const char *job, uint32_t lease_ms,
				   struct ol_coord_frame *ret_frame)
{
	struct ol_coord_challenge challenge;
	struct ol_coord_proof proof = { .shard_count = 2, .lease_ms = lease_ms };
	uint8_t body[OL_COORD_BODY_MAX];
	struct ol_coord_frame frame;

	raw_hello(raw, &challenge);
	snprintf(proof.job, sizeof(proof.job), "%s", job);
	frame = ol_coord_proof_frame(&proof, body);
	raw_send(raw, &frame);
	return raw_until(raw, OL_COORD_WELCOME, ret_frame);
}

static uint64_t rng_state = 88172645463325252u;

static uint32_t rng(uint32_t below)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 33) % below;
}

/* raw_drain -- until the coordinator ends the connection */
static void raw_drain(struct ol_coord_pipe *raw)
{
	char bytes[512];
	ssize_t got;

	while ((got = recv(raw->fd, bytes, sizeof(bytes), 0)) > 0)
		;
	assert_true(got == 0 || errno == ECONNRESET);
}

/* What one that behaves sees all the while. */
static void check_order(struct guest *a, struct guest *b)
{
	struct ol_coord_state seen;
	struct ol_view next;

	ol_coord_look(a->coord, 0, &seen);
	next = view_make(seen.view.epoch + 1, 1, 2);
	ol_coord_propose(a->coord, 0, seen.version, &next);
	guest_wait(b, 0, has_epoch, next.epoch, "a view", &seen);
	guest_wait(a, 0, has_epoch, next.epoch, "a view", &seen);
	assert_true(has_member(&seen, 1));
	assert_int_equal(seen.member_count, 1);
}

static void order_open(const char *addr, struct guest *a, struct guest *b)
{
	struct ol_member one = server_make(1);
	struct ol_coord_state seen;

	guest_open(a, addr);
	guest_open(b, addr);
	assert_int_equal(ol_coord_join(a->coord, 0, &one), 0);
	guest_wait(a, 0, has_member, 1, "a member", &seen);
	guest_wait(b, 0, has_member, 1, "a member", &seen);
}

static void test_garbage_ends_its_own_connection(void **unused)
{
	struct house house;
	struct guest a, b;

	(void)unused;
	house_start(&house, NULL);
	order_open(house.addr, &a, &b);
	for (unsigned round = 0; round < GARBAGE_ROUNDS; round++) {
		struct ol_coord_pipe *raw = raw_open(house.addr);
		struct ol_coord_frame frame;
		uint8_t bytes[600];
		size_t count = 16 + rng(sizeof(bytes) - 16);

		for (size_t i = 0; i < count; i++)
			bytes[i] = (uint8_t)rng(256);
		if (round % 3 != 0) /* as a client that was let in */
			assert_int_equal(raw_enter(raw, "test-job", LONG_LEASE_MS, &frame),
					 OL_COORD_WELCOME);
		if (round % 3 == 2) /* heads that are nearly right */
			memcpy(bytes, (uint8_t[8]){ (uint8_t)rng(256), 0, 0, 0, (uint8_t)rng(18) },
			       8);
		/* what is not yet whole is waited for: we end it then */
		(void)!send(raw->fd, bytes, count, MSG_NOSIGNAL);
		shutdown(raw->fd, SHUT_WR);
		raw_drain(raw);
		raw_close(raw);
	}
	check_order(&a, &b);
	assert_true(atomic_load(&house.cuts) > GARBAGE_ROUNDS / 3);
	guest_close(&a);
	guest_close(&b);
	house_close(&house);
}

/* Frames of the right form that say what cannot be, from one who was let in. */
static void test_messages_that_cannot_be_are_refused(void **unused)
{
	static const char member[] = "member 0000000000000009 0000000000000001 1 0 @nine\n";
	static const struct ol_coord_frame bad[] = {
		{ .type = OL_COORD_HELLO, .value = 1, .body = "outlastC0123456789abcdef", 24 },
		{ .type = OL_COORD_WELCOME },
		{ .type = OL_COORD_READY },
		{ .type = OL_COORD_VIEW, .value = 1, .body = "x", .bytes = 1 },
		{ .type = OL_COORD_JOIN, .body = "member", .bytes = 6 },
		{ .type = OL_COORD_JOIN,
		  .body = member,
		  .bytes = sizeof(member) }, /* with its end */
		{ .type = OL_COORD_PROPOSE, .body = "epoch 1\n", .bytes = 8 },
		{ .type = OL_COORD_OFFER, .body = "epoch 1\n", .bytes = 8 },
	};
	struct house house;
	struct guest a, b;

	(void)unused;
	house_start(&house, NULL);
	order_open(house.addr, &a, &b);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_coord_pipe *raw = raw_open(house.addr);
		struct ol_coord_frame frame;

		assert_int_equal(raw_enter(raw, "test-job", LONG_LEASE_MS, &frame),
				 OL_COORD_WELCOME);
		raw_send(raw, &bad[i]);
		assert_int_equal(raw_until(raw, OL_COORD_REFUSE, &frame), OL_COORD_REFUSE);
		assert_int_equal(frame.value, EPROTO);
		assert_int_equal(raw_next(raw, &frame), 0);
		raw_close(raw);
	}
	check_order(&a, &b);
	guest_close(&a);
	guest_close(&b);
	house_close(&house);
}

static void test_nobody_is_listened_to_before_a_proof(void **unused)
{
	char key[] = "right";
	struct ol_view view = view_make(9, 1, 2);
	struct ol_coord_challenge challenge;
	struct ol_coord_proof proof = { .shard_count = 2, .lease_ms = 1000, .job = "test-job" };
	struct ol_coord_frame frame, offer = { .type = OL_COORD_OFFER };
	struct ol_coord_pipe *raw;
	struct ol_coord_state seen;
	struct ol_coord_opts opts;
	struct house house;
	struct guest a;
	uint8_t body[OL_COORD_BODY_MAX];
	char text[OL_VIEW_TEXT_MAX];

	(void)unused;
	house_start(&house, key);
	offer.body = text;
	offer.bytes = (uint32_t)ol_view_encode(&view, text);
	raw = raw_open(house.addr); /* instead of a hello */
	raw_send(raw, &offer);
	assert_int_equal(raw_until(raw, OL_COORD_REFUSE, &frame), OL_COORD_REFUSE);
	assert_int_equal(frame.value, EINVAL);
	raw_close(raw);
	raw = raw_open(house.addr); /* instead of a proof */
	raw_hello(raw, &challenge);
	raw_send(raw, &offer);
	assert_int_equal(raw_until(raw, OL_COORD_REFUSE, &frame), OL_COORD_REFUSE);
	raw_close(raw);
	raw = raw_open(house.addr); /* a proof that was heard on another connection */
	raw_hello(raw, &challenge);
	ol_coord_proof_mac(&(struct ol_coord_secret){ toy_mac, key }, (uint8_t[16]){ 7 },
			   challenge.nonce, &proof, proof.mac);
	raw_close(raw);
	raw = raw_open(house.addr);
	raw_hello(raw, &challenge);
	frame = ol_coord_proof_frame(&proof, body);
	raw_send(raw, &frame);
	assert_int_equal(raw_until(raw, OL_COORD_REFUSE, &frame), OL_COORD_REFUSE);
	assert_int_equal(frame.value, EACCES);
	raw_close(raw);
	opts = guest_opts(&a, house.addr);
	opts.mac = toy_mac;
	opts.mac_arg = key;
	guest_enter(&a, &opts);
	ol_coord_look(a.coord, 0, &seen);
	assert_int_equal(seen.version, 0);
	guest_close(&a);
	house_close(&house);
}

static void test_nobody_is_let_in_while_no_proof_can_be_checked(void **unused)
{
	struct ol_coord_proof proof = { .shard_count = 1, .lease_ms = 1000, .job = "job" };
	struct ol_coord_hello hello = { .nonce = { 7 } };
	struct ol_coord_challenge challenge;
	struct ol_coord_frame frame;
	struct ol_coord_pipe *raw;
	struct ol_coord_opts opts;
	struct house house;
	struct guest a;
	uint8_t body[OL_COORD_BODY_MAX];
	char key[] = "right";

	(void)unused;
	house_start(&house, key);
	raw = raw_open(house.addr);
	raw_hello(raw, &challenge);
	atomic_store(&toy_mac_fails, true);
	frame = ol_coord_proof_frame(&proof, body); /* all 0, as what stands for none */
	raw_send(raw, &frame);
	assert_int_equal(raw_until(raw, OL_COORD_REFUSE, &frame), OL_COORD_REFUSE);
	assert_int_equal(frame.value, EAGAIN);
	raw_close(raw);
	raw = raw_open(house.addr); /* nor does it say what could be taken for its proof */
	frame = ol_coord_hello_frame(&hello, body);
	raw_send(raw, &frame);
	assert_int_equal(raw_until(raw, OL_COORD_CHALLENGE, &frame), OL_COORD_REFUSE);
	assert_int_equal(frame.value, EAGAIN);
	raw_close(raw);
	atomic_store(&toy_mac_fails, false);
	opts = guest_opts(&a, house.addr);
	opts.mac = toy_mac;
	opts.mac_arg = key;
	guest_enter(&a, &opts);
	guest_close(&a);
	house_close(&house);
}

static void test_silent_strangers_keep_nobody_out(void **unused)
{
	struct ol_coord_pipe *raw[OL_COORDD_GREETINGS_MAX + 20];
	struct house house;
	struct guest a, b;

	(void)unused;
	house_start(&house, NULL);
	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
		raw[i] = raw_open(house.addr);
	order_open(house.addr, &a, &b);
	check_order(&a, &b);
	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
		raw_drain(raw[i]); /* they are sent away, all of them, in the end */
		raw_close(raw[i]);
	}
	guest_close(&a);
	guest_close(&b);
	house_close(&house);
}

static void test_one_who_does_not_listen_delays_nobody(void **unused)
{
	struct house house;
	struct guest a, b;
	struct ol_coord_pipe *raw;
	struct ol_coord_frame frame, watch = { .type = OL_COORD_WATCH };
	struct ol_coord_state seen;
	struct ol_view view;
	uint32_t told = 0;
	int small = 1;

	(void)unused;
	house_start(&house, NULL);
	order_open(house.addr, &a, &b);
	raw = raw_open(house.addr);
	setsockopt(raw->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(raw_enter(raw, "test-job", LONG_LEASE_MS, &frame), OL_COORD_WELCOME);
	raw_send(raw, &watch);
	for (unsigned i = 0; i < SLOW_VIEWS; i++)
		check_order(&a, &b);
	ol_coord_look(a.coord, 0, &seen);
	do { /* what was true in between it was not told: but what is true now */
		assert_int_equal(raw_until(raw, OL_COORD_VIEW, &frame), OL_COORD_VIEW);
		told++;
		if (frame.bytes > 0)
			assert_int_equal(ol_view_decode(frame.body, frame.bytes, &view), 0);
	} while (frame.value != seen.version);
	assert_memory_equal(&view, &seen.view, sizeof(view));
	assert_true(told < SLOW_VIEWS);
	raw_close(raw);
	guest_close(&a);
	guest_close(&b);
	house_close(&house);
}

static void test_a_connection_that_is_cut_leaves_the_lease(void **unused)
{
	static const char member[] = "member 0000000000000009 0000000000000001 1 0 @nine\n";
	struct ol_coord_frame frame, join = { .type = OL_COORD_JOIN, .body = member };
	struct ol_coord_frame bad = { .type = OL_COORD_READY };
	struct ol_coord_state seen;
	struct ol_coord_pipe *raw;
	struct house house;
	struct guest a;

	(void)unused;
	join.bytes = sizeof(member) - 1;
	house_start(&house, NULL);
	guest_open(&a, house.addr);
	raw = raw_open(house.addr);
	assert_int_equal(raw_enter(raw, "test-job", 4000, &frame), OL_COORD_WELCOME);
	raw_send(raw, &join);
	guest_wait(&a, 0, has_member, 9, "a member", &seen);
	raw_send(raw, &bad);
	raw_drain(raw); /* cut off: but its process may still think that it has a lease */
	ol_coord_look(a.coord, 0, &seen);
	assert_true(has_member(&seen, 9));
	guest_wait(&a, 0, lacks_member, 9, "the lease is over", &seen);
	raw_close(raw);
	guest_close(&a);
	house_close(&house);
}

static void test_the_seventeenth_server_waits_for_a_place(void **unused)
{
	struct guest guests[OL_MEMBERS_MAX + 1];
	struct ol_coord_opts opts;
	struct ol_coord_state seen;
	struct house house;

	(void)unused;
	house_start(&house, NULL);
	for (unsigned i = 0; i <= OL_MEMBERS_MAX; i++) {
		struct ol_member one = server_make(i + 1);

		opts = guest_opts(&guests[i], house.addr);
		opts.lease_ms = 4000;
		guest_enter(&guests[i], &opts);
		assert_int_equal(ol_coord_join(guests[i].coord, 0, &one), 0);
		if (i < OL_MEMBERS_MAX)
			guest_wait(&guests[0], 0, has_member, i + 1, "a member", &seen);
	}
	guest_wait_line(&guests[OL_MEMBERS_MAX], "16 servers");
	guest_close(&guests[3]);
	guest_wait(&guests[0], 0, has_member, OL_MEMBERS_MAX + 1, "the one that waited", &seen);
	assert_int_equal(seen.member_count, OL_MEMBERS_MAX);
	for (unsigned i = 0; i <= OL_MEMBERS_MAX; i++) {
		if (i != 3)
			guest_close(&guests[i]);
	}
	house_close(&house);
}

static void test_one_client_too_many_is_told_so(void **unused)
{
	static struct ol_coord_pipe *raw[OL_COORDD_CLIENTS_MAX + 1];
	struct rlimit files;
	struct ol_coord_frame frame;
	struct house house;

	(void)unused;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < 2 * OL_COORDD_CLIENTS_MAX + 200)
		skip();
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	house_start(&house, NULL);
	for (unsigned i = 0; i < OL_COORDD_CLIENTS_MAX; i++) {
		raw[i] = raw_open(house.addr);
		assert_int_equal(raw_enter(raw[i], "test-job", 3600 * 1000, &frame),
				 OL_COORD_WELCOME);
	}
	raw[OL_COORDD_CLIENTS_MAX] = raw_open(house.addr);
	assert_int_equal(raw_enter(raw[OL_COORDD_CLIENTS_MAX], "test-job", 1000, &frame),
			 OL_COORD_REFUSE);
	assert_int_equal(frame.value, ENOSPC);
	assert_memory_equal(frame.body, "the coordinator has 2048 clients already", frame.bytes);
	raw_close(raw[OL_COORDD_CLIENTS_MAX]);
	raw_close(raw[0]);
	do { /* until the coordinator has heard that one is gone */
		raw[0] = raw_open(house.addr);
		if (raw_enter(raw[0], "test-job", 1000, &frame) == OL_COORD_WELCOME)
			break;
		raw_close(raw[0]);
	} while (true);
	for (unsigned i = 0; i < OL_COORDD_CLIENTS_MAX; i++)
		raw_close(raw[i]);
	house_close(&house);
}

static void test_without_files_it_waits_for_some(void **unused)
{
	struct rlimit files, few;
	struct ol_coord_pipe *raw;
	struct ol_coord_frame frame;
	struct house house;

	(void)unused;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	house_start(&house, NULL);
	raw = raw_new(house.addr);
	few = files;
	few.rlim_cur = 3; /* no number below it is free */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	raw_connect(raw, house.addr);
	while (atomic_load(&house.shortages) < 2) /* it tried, and tried again */
		sched_yield();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(raw_enter(raw, "test-job", 1000, &frame), OL_COORD_WELCOME);
	raw_close(raw);
	house_close(&house);
}

struct impostor {
	int fd; /* listens; shut down: the end */
	const uint8_t *bytes;
	size_t count;
};

static void *impostor_run(void *arg)
{
	const struct impostor *impostor = arg;
	char drop[256];
	int fd;

	while ((fd = accept(impostor->fd, NULL, NULL)) >= 0) {
		(void)!send(fd, impostor->bytes, impostor->count, MSG_NOSIGNAL);
		while (recv(fd, drop, sizeof(drop), 0) > 0) /* until the client goes */
			;
		close(fd);
	}
	return NULL;
}

/* A client that asks whoever listens there, and is answered something. */
static void test_a_client_believes_no_impostor(void **unused)
{
	static const struct ol_coord_frame frames[] = {
		{ .type = OL_COORD_WELCOME },
		{ .type = OL_COORD_VIEW },
		{ .type = OL_COORD_READY },
		{ .type = OL_COORD_REFUSE, .value = ESTALE, .body = "go\033away", .bytes = 7 },
	};
	uint8_t bytes[OL_COORD_FRAME_MAX];
	struct impostor impostor = { .bytes = bytes };
	struct ol_coord_place place;
	struct ol_coord_opts opts;
	struct ol_coord *coord;
	struct guest guest;
	pthread_t thread;
	char addr[64], err[256];

	(void)unused;
	snprintf(addr, sizeof(addr), "@ol-coord-impostor-%d", (int)getpid());
	assert_int_equal(ol_coord_place_parse(addr, &place), 0);
	for (size_t i = 0; i <= sizeof(frames) / sizeof(frames[0]); i++) {
		impostor.count = 100;
		memset(bytes, 0xa5, impostor.count);
		if (i < sizeof(frames) / sizeof(frames[0]))
			impostor.count = ol_coord_frame_encode(&frames[i], bytes);
		impostor.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(impostor.fd, (const struct sockaddr *)&place.at, place.bytes),
				 0);
		assert_int_equal(listen(impostor.fd, 8), 0);
		assert_int_equal(pthread_create(&thread, NULL, impostor_run, &impostor), 0);
		opts = guest_opts(&guest, addr);
		opts.open_timeout_ms = 100;
		assert_int_equal(ol_coord_open(&opts, &coord, err, sizeof(err)), -ETIMEDOUT);
		if (strstr(err, "no coordinator of this version") == NULL &&
		    strstr(err, "go?away") == NULL)
			fail_msg("unclear: %s", err);
		shutdown(impostor.fd, SHUT_RDWR);
		pthread_join(thread, NULL);
		close(impostor.fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_garbage_ends_its_own_connection),
		cmocka_unit_test(test_messages_that_cannot_be_are_refused),
		cmocka_unit_test(test_nobody_is_listened_to_before_a_proof),
		cmocka_unit_test(test_nobody_is_let_in_while_no_proof_can_be_checked),
		cmocka_unit_test(test_silent_strangers_keep_nobody_out),
		cmocka_unit_test(test_one_who_does_not_listen_delays_nobody),
		cmocka_unit_test(test_a_connection_that_is_cut_leaves_the_lease),
		cmocka_unit_test(test_the_seventeenth_server_waits_for_a_place),
		cmocka_unit_test(test_one_client_too_many_is_told_so),
		cmocka_unit_test(test_without_files_it_waits_for_some),
		cmocka_unit_test(test_a_client_believes_no_impostor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
