/* SPDX-License-Identifier: BSD-3-Clause */

/* wire.c -- the handshake to and from bytes; checksums of the one-sided records */

#include "wire/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <isa-l/crc.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

enum {
	CONNECT_QUEUES = 0x80, /* beside the role */
	CONNECT_BACK_SHIFT =
		3, /* how many protocols before its own the sender speaks, above the role */
	CONNECT_ROLE = (1 << CONNECT_BACK_SHIFT) - 1
};

/* A position in a message, and the bytes left. bad: a field did not fit or was not valid. */
struct cursor {
	uint8_t *out;
	const uint8_t *in;
	size_t left;
	int bad;
};

static void cursor_write(struct cursor *cur, const void *bytes, size_t count)
{
	if (count > cur->left) {
		cur->bad = 1;
		return;
	}
	memcpy(cur->out, bytes, count);
	cur->out += count;
	cur->left -= count;
}

static void put_u32(struct cursor *cur, uint32_t value)
{
	cursor_write(cur, &value, sizeof(value));
}

static void put_u64(struct cursor *cur, uint64_t value)
{
	cursor_write(cur, &value, sizeof(value));
}

static void cursor_read(struct cursor *cur, void *bytes, size_t count)
{
	if (count > cur->left) {
		cur->bad = 1;
		memset(bytes, 0, count);
		return;
	}
	memcpy(bytes, cur->in, count);
	cur->in += count;
	cur->left -= count;
}

static uint32_t get_u32(struct cursor *cur)
{
	uint32_t value;

	cursor_read(cur, &value, sizeof(value));
	return value;
}

static uint64_t get_u64(struct cursor *cur)
{
	uint64_t value;

	cursor_read(cur, &value, sizeof(value));
	return value;
}

static void put_u16(struct cursor *cur, uint32_t value)
{
	const uint16_t half = (uint16_t)value;

	cursor_write(cur, &half, sizeof(half));
}

static uint32_t get_u16(struct cursor *cur)
{
	uint16_t half;

	cursor_read(cur, &half, sizeof(half));
	return half;
}

/* Every message starts with magic, protocol and its kind in one word. */
static void put_head(struct cursor *cur, uint32_t proto, uint32_t kind)
{
	put_u32(cur, OL_WIRE_MAGIC);
	put_u32(cur, (proto != 0 ? proto : ol_wire_own.proto) << 16 | kind);
}

static uint32_t get_head(struct cursor *cur, uint32_t *ret_proto)
{
	uint32_t word;

	if (get_u32(cur) != OL_WIRE_MAGIC)
		cur->bad = 1;
	word = get_u32(cur);
	*ret_proto = word >> 16;
	return word & 0xffff;
}

/* The head of an answer: in a protocol that this build speaks */
static uint32_t get_answer(struct cursor *cur, uint32_t *ret_proto)
{
	const uint32_t kind = get_head(cur, ret_proto);

	if (*ret_proto < ol_wire_own.oldest || *ret_proto > ol_wire_own.proto)
		cur->bad = 1;
	return kind;
}

uint32_t ol_wire_agree(const struct ol_wire_speaks *other)
{
	const struct ol_wire_speaks *own = &ol_wire_own;

	if (other->proto == 0) /* as in a message that was not sent yet */
		return own->proto;
	if (other->proto < own->oldest || own->proto < other->oldest)
		return 0;
	return other->proto < own->proto ? other->proto : own->proto;
}

uint32_t ol_wire_proto(const uint8_t *in, size_t in_bytes)
{
	struct cursor cur = { .in = in, .left = in_bytes };
	uint32_t proto;

	if (in_bytes < 2 * sizeof(uint32_t))
		return 0;
	(void)get_head(&cur, &proto);
	return cur.bad ? 0 : proto;
}

const char *ol_wire_fault(const uint8_t *in, size_t in_bytes, const char *own,
			  char text[OL_WIRE_FAULT_MAX])
{
	const uint32_t proto = ol_wire_proto(in, in_bytes);
	const struct ol_wire_speaks *speaks = &ol_wire_own;

	if (proto == 0 || (proto >= speaks->oldest && proto <= speaks->proto))
		return NULL;
	if (speaks->oldest == speaks->proto)
		snprintf(
			text, OL_WIRE_FAULT_MAX,
			"it speaks protocol %u, this %s %u: their versions do not follow each other",
			proto, own, speaks->proto);
	else
		snprintf(text, OL_WIRE_FAULT_MAX,
			 "it speaks protocol %u, this %s %u to %u: their versions do not follow "
			 "each other",
			 proto, own, speaks->oldest, speaks->proto);
	return text;
}

void ol_wire_connect_encode(const struct ol_wire_connect *msg, uint8_t out[OL_WIRE_CONNECT_BYTES])
{
	const struct ol_wire_speaks *speaks = msg->speaks.proto != 0 ? &msg->speaks : &ol_wire_own;
	struct cursor cur = { .out = out, .left = OL_WIRE_CONNECT_BYTES };

	put_head(&cur, speaks->proto,
		 (uint32_t)msg->kind << 8 | (msg->queues ? CONNECT_QUEUES : 0) |
			 (speaks->proto - speaks->oldest) << CONNECT_BACK_SHIFT |
			 (uint32_t)msg->role);
	put_u16(&cur, speaks->features);
	put_u32(&cur, msg->worker);
	put_u64(&cur, msg->made_ns);
	cursor_write(&cur, msg->nonce, sizeof(msg->nonce));
	cursor_write(&cur, msg->mac, sizeof(msg->mac));
}

int ol_wire_connect_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_connect *ret_msg)
{
	struct cursor cur = { .in = in, .left = in_bytes };
	struct ol_wire_connect msg = { 0 };
	uint32_t kind = get_head(&cur, &msg.speaks.proto), role = kind & CONNECT_ROLE;
	const uint32_t back = (kind & 0xff & ~(uint32_t)CONNECT_QUEUES) >> CONNECT_BACK_SHIFT;

	if (kind >> 8 != OL_CONNECT_KNOCK && kind >> 8 != OL_CONNECT_PROOF)
		return OL_E_WIRE;
	if (role < OL_ROLE_WORKER || role > OL_ROLE_REPLICA)
		return OL_E_WIRE;
	if (msg.speaks.proto == 0 || back >= msg.speaks.proto)
		return OL_E_WIRE;
	msg.speaks.oldest = msg.speaks.proto - back;
	if (ol_wire_agree(&msg.speaks) == 0)
		return OL_E_WIRE;
	msg.kind = (enum ol_wire_connect_kind)(kind >> 8);
	msg.role = (enum ol_wire_role)role;
	msg.queues = (kind & CONNECT_QUEUES) != 0;
	msg.speaks.features = get_u16(&cur);
	msg.worker = get_u32(&cur);
	msg.made_ns = get_u64(&cur);
	cursor_read(&cur, msg.nonce, sizeof(msg.nonce));
	cursor_read(&cur, msg.mac, sizeof(msg.mac));
	if (cur.bad)
		return OL_E_WIRE;
	*ret_msg = msg;
	return 0;
}

void ol_wire_reject_encode(const struct ol_wire_reject *msg, uint8_t out[OL_WIRE_REJECT_BYTES])
{
	struct cursor cur = { .out = out, .left = OL_WIRE_REJECT_BYTES };

	put_head(&cur, msg->proto, (uint32_t)msg->code);
	put_u32(&cur, msg->delay_ms);
	put_u32(&cur, (uint32_t)msg->limit);
	put_u32(&cur, msg->number);
	put_u64(&cur, msg->made_ns);
	cursor_write(&cur, msg->nonce, sizeof(msg->nonce));
	cursor_write(&cur, msg->mac, sizeof(msg->mac));
}

int ol_wire_reject_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_reject *ret_msg)
{
	struct cursor cur = { .in = in, .left = in_bytes };
	struct ol_wire_reject msg = { 0 };
	uint32_t code = get_answer(&cur, &msg.proto), limit;

	if (code < OL_REJECT_CHALLENGE || code > OL_REJECT_LATER)
		return OL_E_WIRE;
	msg.code = (enum ol_wire_reject_code)code;
	msg.delay_ms = get_u32(&cur);
	if (msg.delay_ms > (code == OL_REJECT_LATER ? OL_LATER_MAX_MS : 0))
		return OL_E_WIRE;
	limit = get_u32(&cur);
	if (limit > OL_LIMIT_READERS)
		return OL_E_WIRE;
	msg.limit = (enum ol_wire_limit)limit;
	msg.number = get_u32(&cur);
	msg.made_ns = get_u64(&cur);
	cursor_read(&cur, msg.nonce, sizeof(msg.nonce));
	cursor_read(&cur, msg.mac, sizeof(msg.mac));
	if (cur.bad)
		return OL_E_WIRE;
	*ret_msg = msg;
	return 0;
}

static void put_rkey(struct cursor *cur, const struct ol_wire_rkey *key)
{
	put_u64(cur, key->addr);
	put_u64(cur, key->bytes);
	put_u32(cur, key->rkey);
}

static struct ol_wire_rkey get_rkey(struct cursor *cur)
{
	struct ol_wire_rkey key = { 0 };

	key.addr = get_u64(cur);
	key.bytes = get_u64(cur);
	key.rkey = get_u32(cur);
	return key;
}

void ol_wire_accept_encode(const struct ol_wire_accept *msg, uint8_t out[OL_WIRE_ACCEPT_BYTES])
{
	struct cursor cur = { .out = out, .left = OL_WIRE_ACCEPT_BYTES };

	put_head(&cur, msg->proto, 0);
	put_u32(&cur, msg->features);
	put_u64(&cur, msg->geo.param_count);
	put_u64(&cur, msg->geo.shard_first);
	put_u64(&cur, msg->geo.shard_len);
	put_u32(&cur, msg->geo.shard);
	put_u32(&cur, msg->geo.shard_count);
	put_u32(&cur, msg->geo.workers_max);
	put_u32(&cur, msg->geo.window);
	put_u32(&cur, msg->geo.state_vectors);
	put_u32(&cur, msg->geo.consistency);
	put_u32(&cur, msg->geo.groups);
	put_u32(&cur, msg->geo.tensors_bytes);
	put_u32(&cur, msg->geo.weights_bf16 | msg->geo.decided << 1);
	put_u64(&cur, msg->geo.tensors_digest);
	put_rkey(&cur, &msg->public_key);
	put_rkey(&cur, &msg->landing_key);
	put_u64(&cur, msg->incarnation);
	cursor_write(&cur, &msg->lr, sizeof(msg->lr));
	put_u32(&cur, msg->nonfinite);
	put_u64(&cur, msg->init);
	cursor_write(&cur, msg->mac, sizeof(msg->mac));
	assert(!cur.bad && cur.left == 0);
}

int ol_wire_accept_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_accept *ret_msg)
{
	struct cursor cur = { .in = in, .left = in_bytes };
	struct ol_wire_accept msg = { 0 };
	uint32_t bits;

	if (get_answer(&cur, &msg.proto) != 0)
		return OL_E_WIRE;
	msg.features = get_u32(&cur);
	msg.geo.param_count = get_u64(&cur);
	msg.geo.shard_first = get_u64(&cur);
	msg.geo.shard_len = get_u64(&cur);
	msg.geo.shard = get_u32(&cur);
	msg.geo.shard_count = get_u32(&cur);
	msg.geo.workers_max = get_u32(&cur);
	msg.geo.window = get_u32(&cur);
	msg.geo.state_vectors = get_u32(&cur);
	msg.geo.consistency = get_u32(&cur);
	msg.geo.groups = get_u32(&cur);
	msg.geo.tensors_bytes = get_u32(&cur);
	bits = get_u32(&cur);
	msg.geo.weights_bf16 = bits & 1;
	msg.geo.decided = bits >> 1; /* checked with the geometry */
	msg.geo.tensors_digest = get_u64(&cur);
	msg.public_key = get_rkey(&cur);
	msg.landing_key = get_rkey(&cur);
	msg.incarnation = get_u64(&cur);
	cursor_read(&cur, &msg.lr, sizeof(msg.lr));
	msg.nonfinite = get_u32(&cur);
	msg.init = get_u64(&cur);
	cursor_read(&cur, msg.mac, sizeof(msg.mac));
	if ((msg.features & ~ol_wire_own.features) != 0)
		return OL_E_WIRE;
	if (cur.bad || !isfinite(msg.lr) || msg.nonfinite > 1 || ol_geometry_check(&msg.geo) != 0)
		return OL_E_WIRE;
	if (msg.public_key.bytes != ol_layout_public_bytes(&msg.geo))
		return OL_E_WIRE;
	if (msg.landing_key.bytes != ol_layout_landing_bytes(&msg.geo, 0) &&
	    msg.landing_key.bytes != ol_layout_landing_bytes(&msg.geo, msg.geo.window) &&
	    msg.landing_key.bytes != ol_layout_landing_bytes(&msg.geo, msg.geo.window + 1) &&
	    msg.landing_key.bytes != ol_layout_ring_bytes(&msg.geo))
		return OL_E_WIRE;
	*ret_msg = msg;
	return 0;
}

int ol_wire_reject_status(enum ol_wire_reject_code code)
{
	switch (code) {
	case OL_REJECT_AUTH:
		return OL_E_AUTH;
	case OL_REJECT_WORKER_BUSY:
	case OL_REJECT_WORKER_RANGE:
		return OL_E_WORKER_ID;
	case OL_REJECT_FULL:
	case OL_REJECT_LATER:
		return OL_E_FULL;
	case OL_REJECT_RESOURCES:
		return OL_E_RESOURCES;
	case OL_REJECT_CHALLENGE:
	case OL_REJECT_WIRE:
		break;
	}
	return OL_E_WIRE;
}

/* What is said of a limit, around its number */
static const struct {
	const char *before, *after;
} limit_texts[] = {
	[OL_LIMIT_WORKERS] = { "worker id is not below the server's workers_max of ",
			       "; raise workers_max" },
	[OL_LIMIT_OBSERVERS] = { "server holds its observers_max of ",
				 " observers; raise observers_max (outlast serve --observers-max)" },
	[OL_LIMIT_PREDECESSORS] = { "server holds ", " predecessor, whose session must end first" },
	[OL_LIMIT_CONNECTIONS] = { "server's device has connections for ",
				   " peers of this role; lower workers_max, observers_max or "
				   "window there" },
	[OL_LIMIT_SLOT_MEMORY] = { "slots of workers fill the server's slot_memory_max of ",
				   " MiB; raise it, or lower window" },
	[OL_LIMIT_SYSTEM] = { NULL, NULL },
	[OL_LIMIT_LOOKS] = { "server lets in no more than ",
			     " observers with one worker's credential: give each an observer's" },
	[OL_LIMIT_READERS] = { "it is a relay, which lets in up to ",
			       " readers and no worker: workers connect to the job's servers" },
};

const char *ol_wire_reject_text(const struct ol_wire_reject *msg, char text[OL_REJECT_TEXT_MAX])
{
	const char *status = ol_strerror(ol_wire_reject_status(msg->code));

	if (limit_texts[msg->limit].before != NULL)
		snprintf(text, OL_REJECT_TEXT_MAX, "%s%u%s", limit_texts[msg->limit].before,
			 msg->number, limit_texts[msg->limit].after);
	else if (msg->limit == OL_LIMIT_SYSTEM)
		snprintf(text, OL_REJECT_TEXT_MAX, "%s: %s", status,
			 ol_strerror(-(int)(msg->number & 0xfff)));
	else
		snprintf(text, OL_REJECT_TEXT_MAX, "%s", status);
	return text;
}

#if defined(__x86_64__)
/* By the processor's own instruction. `bytes` is a multiple of 4, as a record's length is */
__attribute__((target("sse4.2"), always_inline)) static inline uint32_t
crc_of(const uint8_t *at, size_t bytes, uint32_t crc)
{
	uint64_t sum = crc, word;
	uint32_t rest;

#pragma GCC unroll 8
	for (size_t i = 0; i < bytes / sizeof(word); i++) {
		memcpy(&word, at + i * sizeof(word), sizeof(word));
		sum = _mm_crc32_u64(sum, word);
	}
	if (bytes % sizeof(word) == 0)
		return (uint32_t)sum;
	memcpy(&rest, at + bytes - sizeof(rest), sizeof(rest));
	return _mm_crc32_u32((uint32_t)sum, rest);
}

__attribute__((target("sse4.2"))) static uint32_t crc_quick(const uint8_t *at, size_t bytes)
{
	/* most records are a cache line */
	return bytes == OL_LINE_BYTES - 4 ? crc_of(at, OL_LINE_BYTES - 4, 0) : crc_of(at, bytes, 0);
}

static bool crc_is_quick(size_t bytes)
{
	return __builtin_cpu_supports("sse4.2") && bytes % 4 == 0;
}
#else
static uint32_t crc_quick(const uint8_t *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	return 0;
}

static bool crc_is_quick(size_t bytes)
{
	(void)bytes;
	return false;
}
#endif

static __attribute__((noinline)) uint32_t crc_any(const uint8_t *at, size_t bytes)
{
	uint8_t copy[128];
	uint32_t crc = 0;

	/* isa-l takes a pointer to non-const; it does not write */
	for (size_t part; bytes > 0; bytes -= part, at += part) {
		part = bytes < sizeof(copy) ? bytes : sizeof(copy);
		memcpy(copy, at, part);
		crc = crc32_iscsi(copy, (int)part, crc);
	}
	return crc;
}

uint32_t ol_record_crc(const void *record, size_t bytes)
{
	return crc_is_quick(bytes) ? crc_quick(record, bytes) : crc_any(record, bytes);
}

static void hist_copy(const struct ol_board_hist *hist, struct ol_latency *ret_latency)
{
	ret_latency->sum_ns = hist->sum_ns;
	for (unsigned i = 0; i < OL_LATENCY_BUCKETS; i++)
		ret_latency->buckets[i] = hist->buckets[i];
}

static void slow_copy(const struct ol_board *board, struct ol_server_stat *ret_stat)
{
	uint64_t words[OL_BOARD_SLOW_WORDS];
	struct ol_board_slow slow;

	for (unsigned i = 0; i < OL_BOARD_SLOW_WORDS; i++)
		words[i] = board->push_slow[i];
	memcpy(&slow, words, sizeof(slow));
	if (slow.push == 0 || !ol_record_whole(&slow))
		return;
	ret_stat->slow_push = slow.push;
	ret_stat->slow_worker = slow.worker;
	ret_stat->slow_ns = slow.took_ns;
	ret_stat->slow_at_ns = slow.at_ns;
}

void ol_board_stat(const struct ol_board *board, struct ol_server_stat *ret_stat)
{
	uint64_t bits = board->loss_bits;

	*ret_stat = (struct ol_server_stat){
		.version = ol_published_version(board->line.published),
		.heartbeat = board->heartbeat,
		.applied = board->applied,
		.dropped_nonfinite = board->dropped_nonfinite,
		.dropped_late = board->dropped_late,
		.duplicates = board->duplicates,
		.staleness_sum = board->staleness_sum,
		.samples = board->samples,
		.bytes_in = board->bytes_in,
		.refused = board->refused,
		.violations = board->violations,
		.replayed = board->replayed,
		.restored_version = board->restored_version,
		.restored_lost = board->restored_lost,
		.ready_ns = board->ready_ns,
		.first_applied_ns = board->first_applied_ns,
		.checkpoints = board->checkpoints,
		.checkpoints_failed = board->checkpoints_failed,
		.checkpoints_skipped = board->checkpoints_skipped,
		.checkpoint_version = board->checkpoint_version,
		.checkpoint_bytes = board->checkpoint_bytes,
		.restored_from = (uint32_t)board->restored_from,
		.epoch = (uint32_t)board->epoch,
		.workers = (uint32_t)board->workers,
		.replica = board->replica,
		.received = board->received,
		.committed = board->committed,
		.forwarded = board->forwarded,
		.forwarded_bytes = board->forwarded_bytes,
		.resent = board->resent,
		.resync_bytes = board->resync_bytes,
		.resync_ns = board->resync_ns,
		.views = board->views,
		.suspicions = board->suspicions,
		.role = (uint32_t)board->role,
		.ring_slots = (uint32_t)board->ring_slots,
		.ring_used = (uint32_t)board->ring_used,
		.proposed_ns = board->proposed_ns,
		.adopted_ns = board->adopted_ns,
		.linked_ns = board->linked_ns,
		.wait_for = (uint32_t)board->wait_for,
		.turn_max_ns = board->turn_max_ns,
		.sent_away = board->sent_away,
		.early_bytes = board->early_bytes,
		.early_void_bytes = board->early_void_bytes,
		.conns = board->conns,
		.regions = board->regions,
		.region_bytes = board->region_bytes,
		.writes = board->writes,
		.write_bytes = board->write_bytes,
		.doorbells = board->doorbells,
		.reads = board->reads,
		.read_bytes = board->read_bytes,
		.rung = board->rung,
		.busy = board->busy,
		.carried = board->carried,
		.beat_ns = board->beat_ns,
		.checkpoint_ns = board->checkpoint_ns,
	};
	hist_copy(&board->push_applied, &ret_stat->push_applied);
	slow_copy(board, ret_stat);
	memcpy(&ret_stat->loss, &bits, sizeof(ret_stat->loss));
}
