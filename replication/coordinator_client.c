/* SPDX-License-Identifier: BSD-3-Clause */

/* coordinator_client.c -- one client of the embedded coordinator: heard, told, refused, gone */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replication/coord/coord_internal.h"
#include "replication/coordinator_internal.h"

enum {
	LINE_MAX_BYTES = 256,
	SHARDS_MAX = 64,
};

void ol_coordd_say(const struct ol_coordd *coordd, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list args;

	if (coordd->opts.log == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	coordd->opts.log(coordd->opts.log_arg, text);
}

void ol_coordd_client_due(struct ol_coordd_client *client)
{
	if (client->due)
		return;
	client->due = true;
	client->due_next = client->coordd->due;
	client->coordd->due = client;
}

static void due_remove(struct ol_coordd_client *client)
{
	struct ol_coordd_client **link = &client->coordd->due;

	if (!client->due)
		return;
	while (*link != client)
		link = &(*link)->due_next;
	*link = client->due_next;
	client->due = false;
}

static void view_changed(void *owner, uint32_t shard)
{
	struct ol_coordd_client *client = owner;

	client->views_due |= UINT64_C(1) << shard;
	ol_coordd_client_due(client);
}

static void members_changed(void *owner, uint32_t shard)
{
	struct ol_coordd_client *client = owner;

	client->members_due |= UINT64_C(1) << shard;
	ol_coordd_client_due(client);
}

static void count_out(struct ol_coordd_client *client)
{
	if (client->phase == OL_COORDD_MEMBER)
		client->coordd->members--;
	else
		client->coordd->greetings--;
}

void ol_coordd_client_close(struct ol_coordd_client *client)
{
	struct ol_coordd *coordd = client->coordd;

	count_out(client);
	due_remove(client);
	if (client->next != NULL)
		client->next->prev = client->prev;
	if (client->prev != NULL)
		client->prev->next = client->next;
	else
		coordd->clients = client->next;
	/* by hand: a fork's copy of the socket would keep it in there */
	epoll_ctl(coordd->epoll_fd, EPOLL_CTL_DEL, client->pipe.fd, NULL);
	shutdown(client->pipe.fd, SHUT_RDWR);
	close(client->pipe.fd);
	free(client);
}

/* Is the other end on this machine? Then nothing but its own kernel ends the connection. */
static bool local(const struct ol_coordd_client *client)
{
	struct sockaddr_storage at = { 0 };
	socklen_t bytes = sizeof(at);
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	/* this end: the other is unknown to a connection that was reset */
	if (getsockname(client->pipe.fd, (struct sockaddr *)&at, &bytes) != 0)
		return false;
	memcpy(&in, &at, sizeof(in));
	memcpy(&in6, &at, sizeof(in6));
	return at.ss_family == AF_UNIX ||
	       (at.ss_family == AF_INET && ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) ||
	       (at.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr));
}

/*
 * client_gone -- the connection is over. ended: its process has closed it, or died: so is its
 * session. Otherwise the network may have broken it, and its process lives and counts on its lease.
 */
static void client_gone(struct ol_coordd_client *client, bool ended)
{
	struct ol_coord_session *session = client->session;

	ended = ended || local(client);
	ol_coordd_client_close(client);
	if (session != NULL && ended)
		ol_coord_session_end(session);
	else if (session != NULL)
		ol_coord_session_orphan(session);
}

/* refuse -- the last word to a client; its session, if any, is left to its lease */
static void refuse(struct ol_coordd_client *client, int code, const char *text)
{
	struct ol_coord_frame frame = { .type = OL_COORD_REFUSE,
					.value = (uint64_t)code,
					.body = text,
					.bytes = (uint32_t)strlen(text) };

	if (client->phase == OL_COORDD_LEAVING)
		return;
	if (client->session != NULL)
		ol_coord_session_orphan(client->session);
	client->session = NULL;
	count_out(client);
	client->coordd->greetings++;
	client->phase = OL_COORDD_LEAVING;
	client->since_ns = ol_coord_now_ns();
	ol_coord_pipe_put(&client->pipe, &frame); /* without room: the end says enough */
	ol_coordd_client_due(client);
}

static void expired(void *owner)
{
	struct ol_coordd_client *client = owner;

	ol_coordd_say(client->coordd, "a session was silent for longer than its lease");
	client->session = NULL;
	refuse(client, ESTALE, "the session was silent for longer than its lease");
}

const struct ol_coord_store_ops ol_coordd_store_ops = {
	.view_changed = view_changed,
	.members_changed = members_changed,
	.expired = expired,
};

static const char no_proof[] = "the coordinator's crypto library fails: no proof of the job key";

static void on_hello(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	struct ol_coord_hello hello;
	struct ol_coord_challenge challenge;
	struct ol_coord_frame answer;
	uint8_t body[OL_COORD_BODY_MAX];

	if (ol_coord_hello_decode(frame, &hello) != 0) {
		refuse(client, EINVAL, "this coordinator speaks another protocol");
		return;
	}
	if (ol_coord_random(client->nonce, sizeof(client->nonce)) != 0) {
		refuse(client, EAGAIN, "the coordinator has no random numbers");
		return;
	}
	memcpy(client->client_nonce, hello.nonce, sizeof(hello.nonce));
	memcpy(challenge.nonce, client->nonce, sizeof(challenge.nonce));
	if (ol_coord_challenge_mac(&client->coordd->secret, client->client_nonce, client->nonce,
				   challenge.mac) != 0) {
		refuse(client, EAGAIN, no_proof);
		return;
	}
	answer = ol_coord_challenge_frame(&challenge, body);
	ol_coord_pipe_put(&client->pipe, &answer);
	client->phase = OL_COORDD_PROOF;
	ol_coordd_client_due(client);
}

static void on_proof(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	struct ol_coordd *coordd = client->coordd;
	struct ol_coord_frame welcome = { .type = OL_COORD_WELCOME };
	struct ol_coord_proof proof;
	uint8_t mac[OL_COORD_MAC_BYTES];
	int rc;

	if (ol_coord_proof_decode(frame, &proof) != 0 || proof.shard_count > SHARDS_MAX) {
		refuse(client, EINVAL, "this coordinator speaks another protocol");
		return;
	}
	if (ol_coord_proof_mac(&coordd->secret, client->client_nonce, client->nonce, &proof, mac) !=
	    0) {
		refuse(client, EAGAIN, no_proof);
		return;
	}
	if (!ol_coord_mac_same(mac, proof.mac)) {
		ol_coordd_say(coordd, "a client with another job key was refused");
		refuse(client, EACCES, "it has another job key");
		return;
	}
	if (coordd->members == OL_COORDD_CLIENTS_MAX) {
		refuse(client, ENOSPC, "the coordinator has 2048 clients already");
		return;
	}
	rc = ol_coord_session_begin(coordd->store, proof.job, proof.shard_count, proof.lease_ms,
				    ol_coord_now_ns(), client, &client->session);
	if (rc != 0) {
		refuse(client, -rc,
		       rc == -ENOBUFS  ? "the coordinator has 64 jobs already"
		       : rc == -ENOSPC ? "the coordinator has 4096 sessions already"
				       : "the coordinator has no memory");
		return;
	}
	coordd->greetings--;
	coordd->members++;
	client->phase = OL_COORDD_MEMBER;
	client->shard_count = proof.shard_count;
	ol_coord_pipe_put(&client->pipe, &welcome);
	ol_coordd_client_due(client);
}

static void on_join(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	struct ol_member member;
	int rc;

	if (ol_member_decode(frame->body, frame->bytes, &member) != 0) {
		refuse(client, EPROTO, "the coordinator cannot read what this client sends");
		return;
	}
	rc = ol_coord_session_join(client->session, frame->shard, &member);
	client->joined_due = true;
	client->joined_shard = frame->shard;
	client->joined_errno = (uint32_t)-rc;
	if (rc == 0)
		ol_coordd_say(client->coordd, "job %s shard %u: %s is here",
			      ol_coord_session_job(client->session), frame->shard, member.addr);
	ol_coordd_client_due(client);
}

static void view_say(const struct ol_coordd_client *client, uint32_t shard,
		     const struct ol_view *view)
{
	ol_coordd_say(client->coordd, "job %s shard %u epoch %u: %u of %u replicas%s, head %s",
		      ol_coord_session_job(client->session), shard, view->epoch, view->count,
		      view->wanted, view->joining != 0 ? ", one joins" : "",
		      view->replicas[0].addr);
}

static void on_view(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	struct ol_view view;
	int rc;

	if (ol_view_decode(frame->body, frame->bytes, &view) != 0) {
		refuse(client, EPROTO, "the coordinator cannot read what this client sends");
		return;
	}
	if (frame->type == OL_COORD_OFFER)
		rc = ol_coord_session_offer(client->session, frame->shard, &view,
					    ol_coord_now_ns());
	else
		rc = ol_coord_session_propose(client->session, frame->shard, frame->value, &view);
	if (rc == 0) {
		view_say(client, frame->shard, &view);
	} else if (frame->type == OL_COORD_PROPOSE && frame->shard < client->shard_count) {
		client->views_due |= UINT64_C(1) << frame->shard; /* what is in force instead */
		ol_coordd_client_due(client);
	}
}

static void on_watch(struct ol_coordd_client *client)
{
	client->watches = true;
	client->ready_due = true;
	client->views_due = UINT64_MAX >> (SHARDS_MAX - client->shard_count);
	client->members_due = client->views_due;
	ol_coordd_client_due(client);
}

static void on_member(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	if (frame->type == OL_COORD_BEAT) {
		client->beat = frame->value;
		client->beat_due = true;
		ol_coordd_client_due(client);
	} else if (frame->type == OL_COORD_PROPOSE || frame->type == OL_COORD_OFFER) {
		on_view(client, frame);
	} else if (frame->type == OL_COORD_JOIN) {
		on_join(client, frame);
	} else if (frame->type == OL_COORD_WATCH && !client->watches) {
		on_watch(client);
	} else {
		refuse(client, EPROTO, "the coordinator cannot read what this client sends");
	}
}

static void on_frame(struct ol_coordd_client *client, const struct ol_coord_frame *frame)
{
	switch (client->phase) {
	case OL_COORDD_HELLO:
		on_hello(client, frame);
		break;
	case OL_COORDD_PROOF:
		on_proof(client, frame);
		break;
	case OL_COORDD_MEMBER:
		on_member(client, frame);
		break;
	case OL_COORDD_LEAVING: /* it is not listened to any more */
		break;
	}
}

void ol_coordd_client_read(struct ol_coordd_client *client)
{
	struct ol_coord_frame frame;
	int rc = ol_coord_pipe_fill(&client->pipe);

	if (rc < 0) {
		client_gone(client, rc == -EPIPE);
		return;
	}
	if (rc > 0 && client->session != NULL)
		ol_coord_session_renew(client->session, ol_coord_now_ns());
	while (client->phase != OL_COORDD_LEAVING &&
	       (rc = ol_coord_pipe_take(&client->pipe, &frame)) > 0) {
		if (client->phase == OL_COORDD_MEMBER && frame.type == OL_COORD_BYE) {
			client_gone(client, true);
			return;
		}
		on_frame(client, &frame);
	}
	if (client->phase != OL_COORDD_LEAVING && rc < 0) {
		ol_coordd_say(client->coordd, "a client that sends what is no message is cut off");
		refuse(client, EPROTO, "the coordinator cannot read what this client sends");
	}
	if (client->phase == OL_COORDD_LEAVING)
		client->pipe.in_at = client->pipe.in_end;
}

static void shard_put(struct ol_coordd_client *client, enum ol_coord_msg type, uint32_t shard)
{
	struct ol_member members[OL_MEMBERS_MAX];
	struct ol_coord_frame frame = { .type = type, .shard = (uint16_t)shard };
	uint8_t body[OL_COORD_BODY_MAX];
	char text[OL_VIEW_TEXT_MAX];
	const struct ol_view *view;

	if (type == OL_COORD_VIEW) {
		view = ol_coord_session_view(client->session, shard, &frame.value);
		frame.body = text;
		if (view != NULL)
			frame.bytes = (uint32_t)ol_view_encode(view, text);
	} else {
		frame = ol_coord_members_frame(
			shard, members, ol_coord_session_members(client->session, shard, members),
			body);
	}
	ol_coord_pipe_put(&client->pipe, &frame);
}

static void joined_put(struct ol_coordd_client *client)
{
	const char *why = "";
	struct ol_coord_frame frame = { .type = OL_COORD_JOINED,
					.shard = (uint16_t)client->joined_shard,
					.value = client->joined_errno };

	if (client->joined_errno == ENOSPC)
		why = "16 servers offer themselves for the shard already";
	else if (client->joined_errno != 0)
		why = "the coordinator cannot register this server";
	frame.body = why;
	frame.bytes = (uint32_t)strlen(why);
	ol_coord_pipe_put(&client->pipe, &frame);
}

/* tell -- one thing that the client was not told yet; false: there is none. There is room. */
static bool tell(struct ol_coordd_client *client)
{
	struct ol_coord_frame frame = { .type = OL_COORD_READY };
	int shard;

	if (client->session == NULL)
		return false;
	if (client->joined_due) {
		client->joined_due = false;
		joined_put(client);
	} else if (client->watches && client->views_due != 0) {
		shard = __builtin_ctzll(client->views_due);
		client->views_due &= client->views_due - 1;
		shard_put(client, OL_COORD_VIEW, (uint32_t)shard);
	} else if (client->watches && client->members_due != 0) {
		shard = __builtin_ctzll(client->members_due);
		client->members_due &= client->members_due - 1;
		shard_put(client, OL_COORD_MEMBERS, (uint32_t)shard);
	} else if (client->ready_due) {
		client->ready_due = false;
		ol_coord_pipe_put(&client->pipe, &frame);
	} else if (client->beat_due) {
		client->beat_due = false;
		frame.type = OL_COORD_BEAT;
		frame.value = client->beat;
		ol_coord_pipe_put(&client->pipe, &frame);
	} else {
		return false;
	}
	return true;
}

static void writable_want(struct ol_coordd_client *client, bool want)
{
	struct epoll_event event = { .events = want ? EPOLLIN | EPOLLOUT : EPOLLIN,
				     .data.ptr = client };

	if (client->writable == want)
		return;
	client->writable = want;
	epoll_ctl(client->coordd->epoll_fd, EPOLL_CTL_MOD, client->pipe.fd, &event);
}

void ol_coordd_client_flush(struct ol_coordd_client *client)
{
	bool full;
	int rc;

	do {
		while (ol_coord_pipe_room(&client->pipe) && tell(client))
			;
		full = !ol_coord_pipe_room(&client->pipe);
		rc = ol_coord_pipe_flush(&client->pipe);
	} while (rc == 0 && full); /* what there was no room for may be told now */
	if (rc != 0 && rc != -EAGAIN) {
		client_gone(client, false);
		return;
	}
	writable_want(client, rc == -EAGAIN);
	if (rc == 0 && client->phase == OL_COORDD_LEAVING)
		shutdown(client->pipe.fd, SHUT_WR);
}
