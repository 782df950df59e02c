/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_embedded.c -- back end of coord.h: a session with the embedded coordinator
 *
 * One thread owns the socket and all that is in here but `stopping` and the wake-up. What it says
 * and hears is in coord_wire.h.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "replication/coord/coord_internal.h"
#include "replication/coord_wire.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
	RETRY_FIRST_MS = 5, /* after an attempt that failed; then twice as long each time … */
	RETRY_MAX_MS = 250,
	GREETING_MS = 3000, /* an attempt that takes longer has failed */
	BEATS = 4, /* a lease */
};

enum phase {
	AWAY, /* no socket; tries again at `due_ns` */
	CONNECTING,
	GREETING, /* HELLO is sent */
	PROVING, /* PROOF is sent: there may be a session */
	SYNCING, /* WATCH is sent: news come in */
	LIVE, /* all was told once */
};

struct embedded {
	struct ol_coord *coord;
	struct ol_coord_secret secret;
	pthread_t thread;
	int wake_fd;
	atomic_bool stopping;
	enum phase phase;
	uint64_t due_ns; /* AWAY: next attempt; up to SYNCING: this one has failed */
	uint32_t retry_ms;
	uint8_t nonce[OL_COORD_NONCE_BYTES];
	uint64_t session_ns; /* duration of a lease */
	uint64_t lease_ns; /* until when the session is sure to live; 0: there is none */
	uint64_t proof_ns; /* when PROOF was sent */
	uint64_t beat_ns; /* when the last BEAT was sent */
	bool beat_due;
	bool wish_due; /* somebody woke us */
	bool join_sent;
	char said[OL_COORD_LINE_MAX]; /* last reason for being away */
	struct ol_coord_pipe pipe;
};

/* away -- without a socket, and why. ended: it was we who closed it, and the session with it. */
static void away(struct embedded *e, bool ended, const char *why)
{
	if (e->pipe.fd >= 0) {
		shutdown(e->pipe.fd, SHUT_RDWR); /* also for a fork's copy */
		close(e->pipe.fd);
	}
	e->pipe.fd = -1;
	if (ended)
		e->lease_ns = 0;
	if (e->phase == LIVE)
		e->retry_ms = RETRY_FIRST_MS;
	e->phase = AWAY;
	e->due_ns = ol_coord_now_ns() + e->retry_ms * NS_PER_MS;
	e->retry_ms = e->retry_ms * 2 < RETRY_MAX_MS ? e->retry_ms * 2 : RETRY_MAX_MS;
	ol_coord_set_session(e->coord, false, e->lease_ns);
	if (strcmp(e->said, why) != 0) {
		snprintf(e->said, sizeof(e->said), "%s", why);
		ol_coord_say(e->coord, "%s", why);
	}
}

static void say_hello(struct embedded *e)
{
	uint8_t body[OL_COORD_BODY_MAX];
	struct ol_coord_hello hello;
	struct ol_coord_frame frame;

	if (ol_coord_random(e->nonce, sizeof(e->nonce)) != 0) {
		away(e, true, "the system has no random numbers");
		return;
	}
	memcpy(hello.nonce, e->nonce, sizeof(hello.nonce));
	frame = ol_coord_hello_frame(&hello, body);
	ol_coord_pipe_put(&e->pipe, &frame);
	e->phase = GREETING;
}

static void attempt(struct embedded *e)
{
	struct ol_coord_place place;
	int rc = ol_coord_place_parse(e->coord->opts.addr, &place);

	if (rc == -EINVAL)
		ol_coord_settle(e->coord, rc, "an address is HOST:PORT or @NAME");
	if (rc != 0) {
		away(e, true, "no such host or port");
		return;
	}
	memset(&e->pipe, 0, sizeof(e->pipe));
	e->join_sent = false;
	e->beat_due = false;
	e->due_ns = ol_coord_now_ns() + GREETING_MS * NS_PER_MS;
	e->pipe.fd = ol_coord_socket(&place);
	if (e->pipe.fd < 0) {
		away(e, false, "no socket");
		return;
	}
	if (connect(e->pipe.fd, (const struct sockaddr *)&place.at, place.bytes) == 0) {
		say_hello(e);
		return;
	}
	if (errno != EINPROGRESS) {
		away(e, false, "nobody listens there");
		return;
	}
	e->phase = CONNECTING;
}

static void connected(struct embedded *e)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(e->pipe.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0)
		away(e, false, "nobody listens there");
	else
		say_hello(e);
}

/* text_put -- a frame with a text; there is room, or it was asked for before */
static void text_put(struct embedded *e, enum ol_coord_msg type, uint32_t shard, uint64_t value,
		     const char *text, size_t bytes)
{
	struct ol_coord_frame frame = { .type = type,
					.shard = (uint16_t)shard,
					.value = value,
					.body = text,
					.bytes = (uint32_t)bytes };

	ol_coord_pipe_put(&e->pipe, &frame);
}

static void on_challenge(struct embedded *e, const struct ol_coord_frame *frame)
{
	static const char no_proof[] =
		"no proof of the job key can be made: the crypto library fails";
	uint8_t body[OL_COORD_BODY_MAX], mac[OL_COORD_MAC_BYTES];
	struct ol_coord_challenge challenge;
	struct ol_coord_proof proof = { .shard_count = e->coord->opts.shard_count,
					.lease_ms = e->coord->opts.lease_ms };
	struct ol_coord_frame answer;

	if (ol_coord_challenge_decode(frame, &challenge) != 0) {
		away(e, true, "what answers there is no coordinator of this version");
		return;
	}
	if (ol_coord_challenge_mac(&e->secret, e->nonce, challenge.nonce, mac) != 0) {
		away(e, true, no_proof);
		return;
	}
	if (!ol_coord_mac_same(mac, challenge.mac)) {
		static const char why[] = "it has another job key";

		ol_coord_settle(e->coord, -EACCES, why);
		away(e, true, why);
		return;
	}
	snprintf(proof.job, sizeof(proof.job), "%s", e->coord->opts.job);
	if (ol_coord_proof_mac(&e->secret, e->nonce, challenge.nonce, &proof, proof.mac) != 0) {
		away(e, true, no_proof);
		return;
	}
	answer = ol_coord_proof_frame(&proof, body);
	ol_coord_pipe_put(&e->pipe, &answer);
	e->proof_ns = ol_coord_now_ns();
	e->phase = PROVING;
}

/* join_put -- once a session, unless it was refused */
static void join_put(struct embedded *e)
{
	struct ol_member member;
	char text[OL_MEMBER_TEXT_MAX];
	uint32_t shard;

	if (e->join_sent || !ol_coord_pipe_room(&e->pipe) ||
	    !ol_coord_wish_member(e->coord, &shard, &member))
		return;
	text_put(e, OL_COORD_JOIN, shard, 0, text, ol_member_encode(&member, text));
	e->join_sent = true;
}

static void offer_put(struct embedded *e, uint32_t shard)
{
	struct ol_coord_state state;
	char text[OL_VIEW_TEXT_MAX];

	ol_coord_look(e->coord, shard, &state);
	if (state.version != 0)
		text_put(e, OL_COORD_OFFER, shard, 0, text, ol_view_encode(&state.view, text));
}

/*
 * on_welcome -- a session. A server hands over the view that it knows before anything else: of a
 * coordinator that has lost it nobody, this server least of all, must hear that there is none.
 */
static void on_welcome(struct embedded *e, const struct ol_coord_frame *frame)
{
	struct ol_member member;
	uint32_t shard;

	if (frame->type != OL_COORD_WELCOME) {
		away(e, true, "it answers what was not asked");
		return;
	}
	e->lease_ns = e->proof_ns + e->session_ns;
	e->beat_ns = e->proof_ns;
	for (shard = 0; e->coord->opts.offers && shard < e->coord->opts.shard_count; shard++)
		offer_put(e, shard);
	if (ol_coord_wish_member(e->coord, &shard, &member)) {
		offer_put(e, shard);
		join_put(e);
	}
	text_put(e, OL_COORD_WATCH, 0, 0, NULL, 0);
	e->phase = SYNCING;
}

static int on_view(struct embedded *e, const struct ol_coord_frame *frame)
{
	struct ol_view view;

	if (frame->shard >= e->coord->opts.shard_count ||
	    (frame->value == 0) != (frame->bytes == 0) ||
	    (frame->bytes > 0 && ol_view_decode(frame->body, frame->bytes, &view) != 0))
		return -EPROTO;
	ol_coord_set_view(e->coord, frame->shard, frame->value, &view);
	return 0;
}

static int on_members(struct embedded *e, const struct ol_coord_frame *frame)
{
	struct ol_member members[OL_MEMBERS_MAX];
	int count = ol_coord_members_decode(frame, members);

	if (count < 0 || frame->shard >= e->coord->opts.shard_count)
		return -EPROTO;
	ol_coord_set_members(e->coord, frame->shard, members, (uint32_t)count);
	return 0;
}

/* line_copy -- what somebody else says, fit for a line of ours */
static void line_copy(const struct ol_coord_frame *frame, char line[OL_COORD_LINE_MAX])
{
	const char *text = frame->body;
	uint32_t at = 0;

	for (; at < frame->bytes && at < OL_COORD_LINE_MAX - 1; at++)
		line[at] = (unsigned char)text[at] < ' ' || text[at] == 0x7f ? '?' : text[at];
	line[at] = '\0';
}

static void on_joined(struct embedded *e, const struct ol_coord_frame *frame)
{
	char line[OL_COORD_LINE_MAX];

	if (frame->value == 0)
		return;
	line_copy(frame, line);
	if (strcmp(e->said, line) != 0) {
		snprintf(e->said, sizeof(e->said), "%s", line);
		ol_coord_say(e->coord, "%s", line);
	}
	e->join_sent = false; /* the next beat tries again */
}

static void on_ready(struct embedded *e)
{
	e->phase = LIVE;
	e->retry_ms = RETRY_FIRST_MS;
	e->wish_due = true;
	ol_coord_set_session(e->coord, true, e->lease_ns);
	ol_coord_settle(e->coord, 0, NULL);
	if (e->said[0] != '\0')
		ol_coord_say(e->coord, "it answers");
	e->said[0] = '\0';
}

static int on_beat(struct embedded *e, const struct ol_coord_frame *frame)
{
	if (frame->value > e->beat_ns || frame->value < e->proof_ns)
		return -EPROTO;
	if (frame->value + e->session_ns <= e->lease_ns)
		return 0;
	e->lease_ns = frame->value + e->session_ns;
	if (e->phase == LIVE)
		ol_coord_set_session(e->coord, true, e->lease_ns);
	return 0;
}

static void on_news(struct embedded *e, const struct ol_coord_frame *frame)
{
	int rc = 0;

	if (frame->type == OL_COORD_VIEW)
		rc = on_view(e, frame);
	else if (frame->type == OL_COORD_MEMBERS)
		rc = on_members(e, frame);
	else if (frame->type == OL_COORD_BEAT)
		rc = on_beat(e, frame);
	else if (frame->type == OL_COORD_JOINED)
		on_joined(e, frame);
	else if (frame->type == OL_COORD_READY && e->phase == SYNCING)
		on_ready(e);
	else
		rc = -EPROTO;
	if (rc != 0)
		away(e, true, "it answers what was not asked");
}

static void on_refuse(struct embedded *e, const struct ol_coord_frame *frame)
{
	char line[OL_COORD_LINE_MAX];

	line_copy(frame, line);
	if (frame->value == EACCES || frame->value == EINVAL)
		ol_coord_settle(e->coord, -(int)frame->value, line);
	away(e, true, line);
}

static void on_frame(struct embedded *e, const struct ol_coord_frame *frame)
{
	if (frame->type == OL_COORD_REFUSE)
		on_refuse(e, frame);
	else if (e->phase == GREETING)
		on_challenge(e, frame);
	else if (e->phase == PROVING)
		on_welcome(e, frame);
	else
		on_news(e, frame);
}

static void receive(struct embedded *e)
{
	struct ol_coord_frame frame;
	int rc = ol_coord_pipe_fill(&e->pipe);

	if (rc < 0) {
		away(e, false, "the connection is gone");
		return;
	}
	while (e->phase != AWAY && (rc = ol_coord_pipe_take(&e->pipe, &frame)) > 0)
		on_frame(e, &frame);
	if (e->phase != AWAY && rc < 0)
		away(e, true, "what answers there is no coordinator of this version");
}

/* wishes_put -- what callers asked for since we looked; the rest when there is room again */
static void wishes_put(struct embedded *e)
{
	struct ol_view next;
	char text[OL_VIEW_TEXT_MAX];
	uint64_t version;

	if (e->phase != LIVE || !e->wish_due)
		return;
	join_put(e);
	for (uint32_t shard = 0; shard < e->coord->opts.shard_count; shard++) {
		if (!ol_coord_pipe_room(&e->pipe))
			return;
		if (ol_coord_wish_view(e->coord, shard, &version, &next))
			text_put(e, OL_COORD_PROPOSE, shard, version, text,
				 ol_view_encode(&next, text));
	}
	e->wish_due = false;
}

static void beat_put(struct embedded *e, uint64_t now)
{
	if (e->phase < SYNCING || now < e->beat_ns + e->session_ns / BEATS ||
	    !ol_coord_pipe_room(&e->pipe))
		return;
	e->beat_ns = now;
	text_put(e, OL_COORD_BEAT, 0, now, NULL, 0);
	if (e->phase == LIVE)
		join_put(e);
}

/* on_time -- what is due without anybody's word */
static void on_time(struct embedded *e)
{
	uint64_t now = ol_coord_now_ns();

	if (e->phase == AWAY) {
		if (now >= e->due_ns)
			attempt(e);
	} else if (e->phase != LIVE && now >= e->due_ns) {
		away(e, true, "it does not answer");
	} else if (e->phase >= SYNCING && now >= e->lease_ns) {
		away(e, true, "it does not answer");
	} else {
		beat_put(e, now);
	}
}

static int wait_ms(const struct embedded *e)
{
	uint64_t now = ol_coord_now_ns(), until = e->due_ns, beat;

	if (e->phase >= SYNCING) {
		beat = e->beat_ns + e->session_ns / BEATS;
		until = e->phase == LIVE || e->lease_ns < until ? e->lease_ns : until;
		if (beat < until && ol_coord_pipe_room(&e->pipe))
			until = beat;
	}
	return until > now ? (int)((until - now) / NS_PER_MS) + 1 : 0;
}

static void turn(struct embedded *e)
{
	struct pollfd fds[2] = { { .fd = e->wake_fd, .events = POLLIN },
				 { .fd = e->pipe.fd, .events = POLLIN } };
	eventfd_t count;
	int rc;

	if (e->phase == CONNECTING || e->pipe.out_end > e->pipe.out_at)
		fds[1].events |= POLLOUT;
	if (poll(fds, e->phase == AWAY ? 1 : 2, wait_ms(e)) > 0) {
		if (fds[0].revents != 0) {
			(void)eventfd_read(e->wake_fd, &count);
			e->wish_due = true;
		}
		if (e->phase == CONNECTING && fds[1].revents != 0)
			connected(e);
		else if (e->phase != AWAY && (fds[1].revents & ~POLLOUT) != 0)
			receive(e);
	}
	on_time(e);
	do {
		wishes_put(e);
		rc = e->phase > CONNECTING ? ol_coord_pipe_flush(&e->pipe) : 0;
	} while (rc == 0 && e->phase == LIVE && e->wish_due); /* there was no room for all */
	if (rc != 0 && rc != -EAGAIN)
		receive(e); /* what it said last, then the end */
}

static void *run(void *arg)
{
	struct embedded *e = arg;

	while (!atomic_load(&e->stopping))
		turn(e);
	if (e->phase >= PROVING && ol_coord_pipe_room(&e->pipe)) {
		text_put(e, OL_COORD_BYE, 0, 0, NULL, 0);
		(void)ol_coord_pipe_flush(&e->pipe);
	}
	if (e->pipe.fd >= 0) {
		shutdown(e->pipe.fd, SHUT_RDWR);
		close(e->pipe.fd);
	}
	return NULL;
}

/* thread_start -- signals are for the caller's threads */
static int thread_start(struct embedded *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&e->thread, NULL, run, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static int embedded_start(struct ol_coord *coord, void **ret_back, char *err, size_t err_bytes)
{
	struct embedded *e = calloc(1, sizeof(*e));
	int rc = -ENOMEM;

	if (e == NULL)
		goto fail;
	e->coord = coord;
	e->secret.mac = coord->opts.mac;
	e->secret.arg = coord->opts.mac_arg;
	e->pipe.fd = -1;
	e->phase = AWAY;
	e->retry_ms = RETRY_FIRST_MS;
	e->session_ns = coord->opts.lease_ms * NS_PER_MS;
	atomic_init(&e->stopping, false);
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->wake_fd < 0) {
		rc = -errno;
		goto fail;
	}
	*ret_back = e;
	rc = thread_start(e);
	if (rc == 0)
		return 0;
	close(e->wake_fd);
fail:
	free(e);
	snprintf(err, err_bytes, "no memory, file or thread for a session");
	return rc;
}

static void embedded_wake(void *back)
{
	struct embedded *e = back;

	(void)eventfd_write(e->wake_fd, 1);
}

static void embedded_stop(void *back)
{
	struct embedded *e = back;

	atomic_store(&e->stopping, true);
	embedded_wake(e);
	pthread_join(e->thread, NULL);
	close(e->wake_fd);
	free(e);
}

const struct ol_coord_backend ol_coord_embedded = {
	.start = embedded_start,
	.wake = embedded_wake,
	.stop = embedded_stop,
};
