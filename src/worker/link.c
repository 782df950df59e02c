/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * link.c -- one shard's side of the worker: how its connections depend on each other
 *
 * It is LIVE while every server that it needs is connected; then pushes and pulls may be sent. When
 * a server is lost an outage begins (OL_OUTAGE_END: FAILED); when all are back it ends.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "worker/worker_internal.h"

static void link_init(struct ol_link *link, struct ol_worker *worker, uint32_t index)
{
	link->worker = worker;
	link->index = index;
	for (uint32_t i = 0; i < OL_PEERS; i++) {
		link->peers[i].link = link;
		link->peers[i].rail = &worker->rails[0];
	}
	link->reader = ol_link_head(link);
	ol_link_head(link)->role = worker->opts.observer ? OL_ROLE_OBSERVER : OL_ROLE_WORKER;
}

int ol_links_make(struct ol_worker *worker, uint32_t count)
{
	worker->links = calloc(count, sizeof(*worker->links));
	if (worker->links == NULL)
		return -ENOMEM;
	worker->link_count = count;
	for (uint32_t i = 0; i < count; i++)
		link_init(&worker->links[i], worker, i);
	return 0;
}

/* End the link for good; ol_worker_open() reports the reason (NULL: the status's text) */
static void link_fail(struct ol_peer *peer, int status, const char *why)
{
	struct ol_link *link = peer->link;
	struct ol_worker *worker = link->worker;
	char text[OL_STATUS_TEXT_MAX];

	for (uint32_t i = 0; i < OL_PEERS; i++) {
		ol_peer_drop(&link->peers[i]);
		link->peers[i].dial.state = OL_DIAL_NONE;
	}
	link->state = OL_LINK_FAILED;
	link->status = status;
	if (why == NULL)
		why = ol_status_text(status, text);
	if (worker->err[0] == '\0')
		snprintf(worker->err, sizeof(worker->err), "server %s (shard %u): %s",
			 peer->dial.addr, link->index, why);
	if (!worker->started)
		return;
	ol_log(OL_LOG_WARN, "server %s (shard %u): given up: %s", peer->dial.addr, link->index,
	       why);
	ol_push_fail(worker, status);
	ol_pull_fail(worker, status);
}

/* A connection is lost: tell the parts that used it */
static void peer_on_loss(struct ol_peer *peer, bool was_live, int status, uint64_t now_ns)
{
	struct ol_link *link = peer->link;

	link->state = OL_LINK_DOWN;
	if (!link->worker->started)
		return;
	if (was_live)
		ol_carry_on_down(peer);
	if (was_live && peer == ol_link_head(link))
		ol_keep_on_head_down(link);
	if (!link->stat.down) {
		link->stat.down = 1;
		link->stat.outages++;
		link->stat.down_ns = now_ns;
		link->stat.reason = status;
		ol_keep_on_outage(link);
	}
	if (was_live && peer == link->reader)
		ol_pull_on_down(link);
}

static void link_lost(struct ol_peer *peer, int status, uint64_t now_ns)
{
	struct ol_worker *worker = peer->link->worker;
	bool was_live = peer->dial.state == OL_DIAL_LIVE;

	if (worker->started && worker->opts.outage == OL_OUTAGE_END) {
		link_fail(peer, OL_E_NO_SERVER, NULL);
		return;
	}
	ol_rail_on_lost(peer, status);
	ol_peer_retry(peer, now_ns);
	if (was_live && worker->started)
		ol_peer_at_once(peer, now_ns);
	peer_on_loss(peer, was_live, status, now_ns);
}

void ol_link_end_noted(struct ol_link *link, uint64_t now_ns)
{
	for (uint32_t i = 0; i < OL_PEERS; i++) {
		struct ol_peer *peer = &link->peers[i];
		enum ol_peer_end end = peer->end;

		peer->end = OL_PEER_GOES_ON;
		if (end == OL_PEER_LOST)
			link_lost(peer, peer->end_status, now_ns);
		else if (end == OL_PEER_FAILED)
			link_fail(peer, peer->end_status,
				  peer->end_why[0] != '\0' ? peer->end_why : NULL);
	}
}

void ol_link_start(struct ol_peer *peer, uint64_t now_ns)
{
	ol_peer_start(peer, now_ns);
	ol_link_act_on_ends(peer->link, now_ns);
}

void ol_link_watch(struct ol_link *link, uint64_t now_ns)
{
	for (uint32_t i = 0; i < OL_PEERS; i++)
		ol_peer_watch(&link->peers[i], now_ns);
	ol_link_act_on_ends(link, now_ns);
}

void ol_link_tick(struct ol_link *link, uint64_t now_ns)
{
	uint64_t limit_ns = link->worker->opts.outage_timeout_ms * OL_NS_PER_MS;

	if (link->stat.down && limit_ns != 0 && link->state != OL_LINK_FAILED &&
	    now_ns - link->stat.down_ns >= limit_ns) {
		link_fail(link->reader->dial.state != OL_DIAL_LIVE ? link->reader
								   : ol_link_head(link),
			  OL_E_NO_SERVER, "it did not come back within outage_timeout_ms");
		return;
	}
	for (uint32_t i = 0; i < OL_PEERS; i++) {
		ol_peer_tick(&link->peers[i], now_ns);
		ol_link_act_on_ends(link, now_ns);
	}
}

/* End an outage if all needed servers are connected */
static void link_check_up(struct ol_link *link, uint64_t now_ns)
{
	for (uint32_t i = 0; i < OL_PEERS; i++) {
		enum ol_dial_state state = link->peers[i].dial.state;

		if (state != OL_DIAL_NONE && state != OL_DIAL_LIVE)
			return;
	}
	link->state = OL_LINK_LIVE;
	if (link->stat.down) {
		link->stat.down = 0;
		link->stat.up_ns = now_ns;
	}
}

/* Read from this server from now on */
static void reader_up(struct ol_link *link, const struct ol_welcome *welcome)
{
	link->version = welcome->version;
	if (link->own_version > link->version) /* it went back */
		link->own_version = link->version;
	link->snapshot = welcome->snapshot;
	link->history = link->worker->coord != NULL ? link->founded : welcome->epoch;
	link->identity =
		link->worker->coord != NULL ? link->chain_history : link->reader->incarnation;
	if (link->worker->started)
		ol_keep_on_reader_up(link, &welcome->resolved);
}

static int head_up(struct ol_link *link, const struct ol_welcome *welcome)
{
	return link->worker->started ? ol_keep_on_head_up(link, welcome->resolved.seq) : 0;
}

/* True if the server is behind what this worker knows: its welcome is refused */
static bool server_is_stale(struct ol_peer *peer, const struct ol_welcome *welcome)
{
	const struct ol_link *link = peer->link;

	if (link->worker->coord == NULL) {
		if (welcome->epoch >= link->epoch)
			return false;
		ol_log_rated(
			&peer->said, link->worker->now_ns, OL_LOG_WARN,
			"server %s (shard %u): refused: its epoch %u is below %u, the last server's",
			peer->dial.addr, link->index, welcome->epoch, link->epoch);
		return true;
	}
	if (welcome->epoch < peer->since)
		return true; /* it has not yet adopted the view that gives it this role */
	if (!link->strict || peer != link->reader || welcome->version >= link->version)
		return false;
	if (!peer->told_off)
		ol_log(OL_LOG_WARN,
		       "server %s (shard %u): refused: its version %llu is below %llu, which is "
		       "committed",
		       peer->dial.addr, link->index, (unsigned long long)welcome->version,
		       (unsigned long long)link->version);
	peer->told_off = true;
	return true;
}

/* What a server has answered before its welcome could be taken, as that waited for a view or for the tail's */
static void acks_look(struct ol_peer *peer)
{
	for (uint32_t slot = 0; slot < peer->link->worker->slots; slot++)
		ol_push_on_ack(peer, slot);
}

/* The server has its weights: take version, epoch and applied pushes from its welcome. */
static void welcome_take(struct ol_peer *peer, const struct ol_welcome *welcome, uint64_t now_ns)
{
	struct ol_link *link = peer->link;
	int rc = 0;

	ol_dial_set_live(&peer->dial);
	ol_rail_on_live(peer);
	peer->busy_ns = peer->short_ns = 0;
	peer->epoch = welcome->epoch;
	peer->resolved_seq = welcome->resolved.seq;
	peer->told_off = false;
	peer->strangers_told = 0;
	link->init_told = false;
	if (link->epoch < welcome->epoch)
		link->epoch = welcome->epoch;
	link->stat.epoch = link->epoch;
	if (peer == link->reader)
		reader_up(link, welcome);
	if (peer == ol_link_head(link))
		rc = head_up(link, welcome);
	if (rc != 0) {
		link_fail(peer, rc, "its slots cannot be mapped");
		return;
	}
	link_check_up(link, now_ns);
	if (link->worker->started) {
		acks_look(link->reader);
		acks_look(ol_link_head(link));
	}
	if (peer == link->reader && link->worker->started)
		ol_pull_on_up(link);
}

/*
 * A server's welcome has come. The head's may have to wait: for a view that names its server, as
 * the view gives the server's role; and for the tail's welcome, which tells what is committed, as
 * only then the head's can tell what must be pushed again.
 */
static void welcome_on_bell(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_link *link = peer->link;
	struct ol_welcome welcome;

	memcpy(&welcome, (const uint8_t *)peer->dial.acks->addr + OL_WELCOME_OFF, sizeof(welcome));
	if (!ol_record_whole(&welcome) || welcome.snapshot >= OL_SNAPSHOTS) {
		ol_peer_on_stranger(peer, OL_E_WIRE, NULL, true, now_ns);
		ol_link_act_on_ends(link, now_ns);
		return;
	}
	peer->dial.state = OL_DIAL_WELCOME;
	if (link->worker->coord != NULL && welcome.epoch > link->view_epoch)
		return;
	if (peer != link->reader && link->reader->dial.state != OL_DIAL_LIVE)
		return;
	if (server_is_stale(peer, &welcome)) {
		ol_peer_retry(peer, now_ns);
		return;
	}
	welcome_take(peer, &welcome, now_ns);
	if (peer == link->reader && ol_link_head(link)->dial.state == OL_DIAL_WELCOME)
		welcome_on_bell(ol_link_head(link), now_ns);
}

void ol_link_review_welcomes(struct ol_link *link, uint64_t now_ns)
{
	if (link->reader->dial.state == OL_DIAL_WELCOME)
		welcome_on_bell(link->reader, now_ns);
	if (ol_link_head(link)->dial.state == OL_DIAL_WELCOME)
		welcome_on_bell(ol_link_head(link), now_ns);
}

void ol_link_leave(struct ol_peer *peer, uint64_t now_ns)
{
	bool was_live = peer->dial.state == OL_DIAL_LIVE, was = peer->dial.state != OL_DIAL_NONE;

	ol_peer_drop(peer);
	peer->dial.state = OL_DIAL_NONE;
	peer->member = 0;
	if (was)
		peer_on_loss(peer, was_live, 0, now_ns);
}

void ol_link_lose_rail(struct ol_link *link, const struct ol_rail *rail, uint64_t now_ns)
{
	for (uint32_t i = 0; i < OL_PEERS && link->state != OL_LINK_FAILED; i++) {
		if (link->peers[i].rail == rail && link->peers[i].dial.conn != NULL)
			link_lost(&link->peers[i], OL_E_DEVICE, now_ns);
	}
}

void ol_link_dial_now(struct ol_link *link, uint64_t now_ns)
{
	for (uint32_t i = 0; i < OL_PEERS; i++) {
		struct ol_dial *dial = &link->peers[i].dial;

		dial->backoff_ns = 0;
		dial->attempts = 0;
		dial->retry_ns = now_ns;
	}
}

void ol_link_move(struct ol_link *link, uint64_t now_ns)
{
	struct ol_peer *head = ol_link_head(link);

	head->dial.attempts = 0;
	head->dial.backoff_ns = 0;
	link_lost(head, 0, now_ns);
}

/* Why a connection ended, as the worker's own code */
static int down_status(const struct ol_xport_event *event)
{
	return event->status == -ENODEV ? OL_E_DEVICE : event->status;
}

static void link_done(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	struct ol_link *link = peer->link;

	switch ((enum ol_cookie)(event->cookie >> 32)) {
	case OL_COOKIE_PLACED:
		ol_push_on_placed(link, (uint32_t)event->cookie, event->status);
		break;
	case OL_COOKIE_READ:
		if (peer == link->reader)
			ol_pull_on_read(link, event->status);
		break;
	case OL_COOKIE_NEWEST:
		if (peer == link->reader)
			ol_pull_on_newest(link, event->status);
		break;
	case OL_COOKIE_PROBE:
		peer->probing = false;
		break;
	case OL_COOKIE_BEAT:
		ol_peer_on_beat(peer, event->status, now_ns);
		break;
	case OL_COOKIE_TABLE:
		ol_carry_on_table(link->worker, (uint32_t)event->cookie, event->status);
		break;
	case OL_COOKIE_CARRIED:
		ol_carry_on_written(link, (uint32_t)event->cookie);
		break;
	case OL_COOKIE_LINE:
		ol_carry_on_line(link, event->status);
		break;
	case OL_COOKIE_STAT:
		if ((uint32_t)event->cookie != link->worker->stat_generation)
			break; /* the call that asked has given up */
		link->worker->stat_done = true;
		link->worker->stat_status = event->status;
		break;
	}
}

void ol_link_on_event(struct ol_peer *peer, const struct ol_xport_event *event, uint64_t now_ns)
{
	peer->heard_ns = 0; /* the next long wait begins to count silence */
	switch (event->type) {
	case OL_XPORT_DONE:
		link_done(peer, event, now_ns);
		break;
	case OL_XPORT_DOORBELL_RUNG:
		if (ol_bell_kind(event->imm) == OL_BELL_ACK) {
			ol_push_on_ack(peer, ol_bell_arg(event->imm));
			ol_pull_on_ack(peer);
		} else if (ol_bell_kind(event->imm) == OL_BELL_HELD) {
			ol_push_on_held(peer, ol_bell_arg(event->imm));
		} else if (ol_bell_kind(event->imm) == OL_BELL_WELCOME &&
			   peer->dial.state == OL_DIAL_JOINING) {
			welcome_on_bell(peer, now_ns);
		}
		break;
	case OL_XPORT_CONN_UP:
		ol_peer_on_up(peer, event, now_ns);
		break;
	case OL_XPORT_CONN_DOWN:
		if (ol_peer_on_down(peer, event, now_ns))
			break;
		ol_log(OL_LOG_DEBUG, "server %s: connection lost: %s", peer->dial.addr,
		       ol_strerror(down_status(event)));
		link_lost(peer, down_status(event), now_ns);
		break;
	case OL_XPORT_CONN_REQUEST:
		break; /* workers do not listen */
	}
	ol_link_act_on_ends(peer->link, now_ns);
}

void ol_link_free(struct ol_link *link)
{
	for (uint32_t i = 0; i < OL_PEERS; i++)
		ol_peer_drop(&link->peers[i]);
	ol_init_free(link);
	ol_queue_free(link);
}
