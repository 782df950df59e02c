/* SPDX-License-Identifier: BSD-3-Clause */

/* puppet.c -- a server's half of the handshake, and single records on demand */

#include "support/puppet.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "outlast_server.h"
#include "rdma/order.h"
#include "support/check.h"
#include "wire/auth.h"
#include "wire/seq.h"

/* Of the worker's process, as its pushes say: there is one at a time */
static uint32_t tag;

static uint64_t seq_of(uint64_t count)
{
	return ol_seq_make(count > 0 ? tag : 0, count);
}

/* What workers read, of its geometry */
static void public_make(struct puppet *puppet)
{
	struct ol_board *board;

	check_ok(ol_slab_create(ol_layout_public_bytes(&puppet->geo), OL_SLAB_NODE_ANY, false,
				&puppet->memory));
	check_ok(puppet->ops->reg(puppet->xport, NULL, puppet->memory, 0, puppet->memory->bytes,
				  OL_XPORT_ACCESS_PEER_READ, &puppet->region));
	board = puppet->memory->addr;
	board->magic = OL_WIRE_MAGIC;
	board->geo = puppet->geo;
	board->incarnation = puppet->id;
	puppet_publish(puppet, 0, 0.0f, 0);
}

void puppet_open(struct puppet *puppet, uint64_t id)
{
	struct ol_xport_opts opts;
	char listen[64];

	memset(puppet, 0, sizeof(*puppet));
	puppet->id = id;
	puppet->key = "";
	puppet->ops = ol_xport_find("shm");
	ol_xport_opts_init(&opts);
	check_ok(puppet->ops->open(&opts, &puppet->xport));
	snprintf(listen, sizeof(listen), "@ol-puppet-%d-%llu", (int)getpid(),
		 (unsigned long long)id);
	check_ok(puppet->ops->listen(puppet->xport, listen, puppet->addr));
	puppet->geo = (struct ol_geometry){ .param_count = PUPPET_LEN,
					    .shard_len = PUPPET_LEN,
					    .shard_count = 1,
					    .workers_max = 1,
					    .window = PUPPET_WINDOW,
					    .groups = 1,
					    .consistency = OL_CONSISTENCY_ASYNC };
	public_make(puppet);
}

static void public_again(struct puppet *puppet)
{
	puppet->ops->dereg(puppet->region);
	ol_slab_destroy(puppet->memory);
	public_make(puppet);
}

void puppet_shard(struct puppet *puppet, uint32_t shard, uint32_t count)
{
	struct ol_geometry *geo = &puppet->geo;

	geo->param_count = (count - 1) * OL_SHARD_ALIGN + PUPPET_LEN;
	geo->shard_count = count;
	geo->shard = shard;
	check_ok(ol_shard_span(geo->param_count, count, shard, &geo->shard_first, &geo->shard_len));
	public_again(puppet);
}

void puppet_size(struct puppet *puppet, uint64_t floats)
{
	puppet->geo.param_count = puppet->geo.shard_len = floats;
	public_again(puppet);
}

static void session_free(struct puppet *puppet, struct puppet_session *session)
{
	unsigned hellos = session->hellos;

	if (session->conn != NULL)
		puppet->ops->conn_free(session->conn);
	if (session->region != NULL)
		puppet->ops->dereg(session->region);
	ol_slab_destroy(session->landing);
	*session = (struct puppet_session){ .hellos = hellos };
}

void puppet_close(struct puppet *puppet)
{
	for (unsigned i = 0; i < PUPPET_ROLES; i++)
		session_free(puppet, &puppet->sessions[i]);
	puppet->ops->dereg(puppet->region);
	puppet->ops->close(puppet->xport);
	ol_slab_destroy(puppet->memory);
}

static struct ol_wire_rkey wire_rkey(struct ol_xport_rkey rkey)
{
	return (struct ol_wire_rkey){ .addr = rkey.addr, .bytes = rkey.bytes, .rkey = rkey.rkey };
}

/* Not to be let in: another protocol or proof, or the last session of this role is not over */
static void turn_away(struct puppet *puppet, struct ol_xport_conn *conn,
		      const struct ol_wire_connect *asked, enum ol_wire_reject_code code)
{
	struct ol_wire_reject no = { .code = code, .delay_ms = code == OL_REJECT_LATER };
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	ol_auth_reject(puppet->key, asked, &no);
	ol_wire_reject_encode(&no, bytes);
	puppet->ops->reject(conn, bytes, sizeof(bytes));
}

static void knocked(struct puppet *puppet, struct ol_xport_conn *conn,
		    const struct ol_wire_connect *knock)
{
	struct ol_wire_reject challenge = { .code = OL_REJECT_CHALLENGE };
	uint8_t bytes[OL_WIRE_REJECT_BYTES];

	puppet->asked = *knock;
	puppet->knocks++;
	if (puppet->foreign || puppet->full) {
		turn_away(puppet, conn, knock, puppet->foreign ? OL_REJECT_WIRE : OL_REJECT_FULL);
		return;
	}
	check_ok(ol_auth_random(puppet->m, sizeof(puppet->m)));
	memcpy(challenge.nonce, puppet->m, sizeof(challenge.nonce));
	ol_auth_reject(puppet->key, knock, &challenge);
	ol_wire_reject_encode(&challenge, bytes);
	puppet->ops->reject(conn, bytes, sizeof(bytes));
}

static void proved(struct puppet *puppet, struct ol_xport_conn *conn,
		   const struct ol_wire_connect *proof)
{
	struct puppet_session *session = &puppet->sessions[proof->role];
	uint32_t slots = proof->role == OL_ROLE_WORKER ? PUPPET_WINDOW + proof->queues : 0;
	uint64_t bytes = ol_layout_landing_bytes(&puppet->geo, slots);
	struct ol_wire_accept accept = { .geo = puppet->geo,
					 .incarnation = puppet->id,
					 .lr = puppet->lr,
					 .nonfinite = puppet->nonfinite,
					 .init = puppet->init };
	uint8_t priv[OL_WIRE_ACCEPT_BYTES];
	struct ol_xport_ident ident, own;

	puppet->ops->ident(conn, &ident);
	if (memcmp(proof->nonce, puppet->asked.nonce, sizeof(proof->nonce)) != 0 ||
	    !ol_auth_proof_holds(puppet->key, puppet->m, ident.bytes, proof)) {
		turn_away(puppet, conn, proof, OL_REJECT_AUTH);
		return;
	}
	if (session->conn != NULL) {
		turn_away(puppet, conn, proof, OL_REJECT_WORKER_BUSY);
		return;
	}
	if (puppet->scarce) {
		turn_away(puppet, conn, proof,
			  puppet->scarcities++ % 2 == 0 ? OL_REJECT_LATER : OL_REJECT_RESOURCES);
		return;
	}
	check_ok(ol_slab_create(bytes, OL_SLAB_NODE_ANY, false, &session->landing));
	check_ok(puppet->ops->reg(puppet->xport, conn, session->landing, 0, bytes,
				  OL_XPORT_ACCESS_PEER_WRITE, &session->region));
	session->conn = conn;
	conn->user = session;
	accept.public_key = wire_rkey(puppet->ops->rkey(puppet->region, conn));
	accept.landing_key = wire_rkey(puppet->ops->rkey(session->region, conn));
	check_ok(puppet->ops->acceptor(conn, &own));
	ol_auth_accept(puppet->key, proof, puppet->m,
		       (struct ol_auth_ends){ ident.bytes, own.bytes }, &accept);
	ol_wire_accept_encode(&accept, priv);
	check_ok(puppet->ops->accept(conn, priv, sizeof(priv)));
}

static void landed(struct puppet *puppet, struct puppet_session *session, uint32_t slot)
{
	struct puppet_push *push = &puppet->pushes[puppet->push_count++];
	const uint8_t *at = session->landing->addr;
	struct ol_push_hdr hdr;

	check(slot <= PUPPET_WINDOW && puppet->push_count <= PUPPET_PUSHES_MAX);
	check(session == &puppet->sessions[OL_ROLE_WORKER] && session->welcomed);
	at += ol_layout_slot_off(&puppet->geo, slot);
	memcpy(&hdr, at + ol_layout_vector_bytes(&puppet->geo), sizeof(hdr));
	check(ol_record_whole(&hdr));
	check_eq(hdr.epoch, session->epoch);
	tag = ol_seq_tag(hdr.seq);
	*push = (struct puppet_push){ .seq = ol_seq_count(hdr.seq),
				      .base_version = hdr.base_version,
				      .slot = slot };
	memcpy(&push->value, at, sizeof(push->value));
}

static void rung(struct puppet *puppet, struct puppet_session *session, uint32_t imm)
{
	const uint8_t *page = session->landing->addr;

	if (ol_bell_kind(imm) == OL_BELL_PUSH) {
		landed(puppet, session, ol_bell_arg(imm));
		return;
	}
	if (ol_bell_kind(imm) == OL_BELL_WITHDRAW) {
		puppet->withdrawals++;
		return;
	}
	if (ol_bell_kind(imm) == OL_BELL_PIN) {
		puppet->pins++;
		return;
	}
	if (ol_bell_kind(imm) == OL_BELL_DECISION) {
		puppet->decisions++;
		return;
	}
	if (ol_bell_kind(imm) == OL_BELL_AGAIN)
		return;
	if (ol_bell_kind(imm) == OL_BELL_PART) {
		puppet->parts++;
		puppet->part_first = ol_part_first(ol_bell_arg(imm));
		return;
	}
	check_eq(ol_bell_kind(imm), OL_BELL_HELLO);
	memcpy(&session->hello, page + OL_HELLO_OFF, sizeof(session->hello));
	check(ol_record_whole(&session->hello));
	session->said_hello = true;
	session->hellos++;
}

static void requested(struct puppet *puppet, const struct ol_xport_event *event)
{
	struct ol_wire_connect msg;

	if (puppet->crowded) {
		puppet->crowd++;
		return;
	}
	check_ok(ol_wire_connect_decode(event->priv, event->priv_len, &msg));
	check((unsigned)msg.role < PUPPET_ROLES);
	if (msg.kind == OL_CONNECT_KNOCK)
		knocked(puppet, event->conn, &msg);
	else
		proved(puppet, event->conn, &msg);
}

static void ended(struct puppet *puppet, struct ol_xport_conn *conn)
{
	if (conn->user != NULL)
		session_free(puppet, conn->user);
	else /* a call that was not answered */
		puppet->ops->conn_free(conn);
}

void puppet_poll(struct puppet *puppet)
{
	struct ol_xport_event event;

	while (puppet->ops->poll(puppet->xport, &event, 1) == 1) {
		if (event.type == OL_XPORT_CONN_REQUEST)
			requested(puppet, &event);
		else if (event.type == OL_XPORT_DOORBELL_RUNG)
			rung(puppet, event.conn->user, event.imm);
		else if (event.type == OL_XPORT_CONN_DOWN)
			ended(puppet, event.conn);
	}
}

void puppet_publish(struct puppet *puppet, uint64_t version, float value, uint64_t seq)
{
	struct ol_board *board = puppet->memory->addr;
	uint32_t at = (uint32_t)(version % OL_SNAPSHOTS);
	uint8_t *snapshot =
		(uint8_t *)puppet->memory->addr + ol_layout_snapshot_off(&puppet->geo, at);
	struct ol_applied applied = { .seq = seq_of(seq), .grads = seq };
	float weights[PUPPET_LEN] = { value, value };

	ol_word_store(&board->line.begin[at], version + 1);
	memcpy(snapshot + sizeof(struct ol_snapshot_head), &applied, sizeof(applied));
	memcpy(snapshot + ol_layout_table_bytes(&puppet->geo), weights, sizeof(weights));
	ol_word_store(&board->line.end[at], version + 1);
	ol_word_store(&board->line.published, ol_published_make(version, at));
	puppet->version = version;
}

static void say(struct puppet *puppet, struct puppet_session *session, const void *record,
		uint64_t off, uint32_t imm)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)record, .bytes = OL_LINE_BYTES } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = imm,
		.dst = { .addr = session->hello.acks.addr,
			 .bytes = session->hello.acks.bytes,
			 .rkey = session->hello.acks.rkey },
		.dst_off = off,
	};

	check_ok(puppet->ops->post_write(session->conn, &write));
}

void puppet_welcome(struct puppet *puppet, enum ol_wire_role role, uint32_t epoch, uint64_t seq)
{
	struct puppet_session *session = &puppet->sessions[role];
	struct ol_welcome welcome = {
		.resolved = { .seq = seq_of(seq), .grads = seq - puppet->dropped },
		.version = puppet->version,
		.snapshot = (uint32_t)(puppet->version % OL_SNAPSHOTS),
		.epoch = epoch,
	};

	check(puppet_waits(puppet, role));
	session->welcomed = true;
	session->epoch = epoch;
	ol_record_seal(&welcome);
	say(puppet, session, &welcome, OL_WELCOME_OFF, ol_bell_make(OL_BELL_WELCOME, 0));
}

void puppet_ack(struct puppet *puppet, enum ol_wire_role role, uint64_t seq, uint32_t slot,
		int status)
{
	struct puppet_session *session = &puppet->sessions[role];
	struct ol_ack ack = {
		.seq = seq_of(seq),
		.version = puppet->version,
		.snapshot = (uint32_t)(puppet->version % OL_SNAPSHOTS),
		.status = status,
		.epoch = session->epoch,
	};

	check(session->welcomed);
	ol_record_seal(&ack);
	ack.crc ^= puppet->torn;
	say(puppet, session, &ack, slot * sizeof(ack), ol_bell_make(OL_BELL_ACK, slot));
}

void puppet_held(struct puppet *puppet, uint64_t seq, uint32_t slot)
{
	const struct ol_xport_write bell = {
		.flags = OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_HELD, ol_held_arg(slot, seq_of(seq))),
	};

	check_ok(puppet->ops->post_write(puppet->sessions[OL_ROLE_WORKER].conn, &bell));
}

void puppet_knows(struct puppet *puppet, uint32_t founded)
{
	struct ol_board *board = puppet->memory->addr;

	ol_word_store(&board->line.decider, founded);
}

void puppet_cut(struct puppet *puppet, enum ol_wire_role role)
{
	session_free(puppet, &puppet->sessions[role]);
}
