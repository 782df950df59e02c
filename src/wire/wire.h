/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wire.h -- what workers and servers say to each other
 *
 * HANDSHAKE, in the private data of connecting. Each end proves that it has the key of the role that
 * it speaks in (wire/auth.h), whoever connects first; no memory key is handed out before both have,
 * and no proof holds twice, or for another connection:
 *
 *	worker                          server
 *	connect: knock, nonce N, mac ->
 *	                          <-    reject: challenge, time T, nonce M, mac over N, M, T
 *	connect: proof, N, T,
 *	  mac over N, M, I        ->
 *	                          <-    accept: geometry, keys, epoch, mac over N, M, I, J
 *	write: struct ol_hello, bell ->
 *	                          <-    write: struct ol_welcome, bell WELCOME
 *
 * Every mac is over the whole message and the one that it answers, protocol, role and id among them.
 *
 * M is a cookie: a mac under a secret of the server's process, over N, T, the role and the id. So a
 * knock costs the server no memory: the proof brings N and T back, from which the server makes M
 * again; and a proof holds at this process alone. T is the server's clock, and no two of its
 * challenges have the same T.
 *
 * I is the connecting end as each end sees it (struct ol_xport_ident). Whoever passes messages on
 * between two ends has connections of its own, so the ends see different ones, and neither proof nor
 * accept holds. J is the accepting end, likewise: where the ends that messages name can be false, a
 * relay that passes I on as it is would put an end of its own into the answer.
 *
 * A proof is good for OL_CHALLENGE_MS after T, and once. For each place that a proof can ask for
 * (a worker's or a reader's id; the predecessor's; for others one of OL_GUEST_PLACES, by N) the server
 * keeps the T of the newest proof that it has seen, and takes later ones only. So the memory for
 * all proofs that were ever used is a number a place, it never runs out, and a storm of peers
 * cannot push out the mark of a used proof. An honest peer whose challenge was overtaken by a newer
 * one of its place is told to knock again; a proof that is seen twice is refused. The mark is set
 * before the server decides about the peer: a proof that was answered with a refusal is used up too.
 *
 * A refusal has a mac as well, unless the server cannot know who asks. One without it, or with a
 * wrong one, may be anybody's: it is a reason to try again, and never the last word.
 *
 * In place of the accept, the server may send a reject with the reason (and, of a limit, which one
 * and its number), or with the time after which to knock again, as the memory for the worker is not
 * ready yet. A transport that cannot hold another connection rejects by itself, before any of
 * this. The welcome may take a while: a server that came back empty first reads the freshest
 * mirror that a hello names. Then the session is live:
 *
 *	write: gradient, struct ol_push_hdr, bell PUSH(slot)     ->
 *	                          <-    bell HELD(slot, number): where shard 0 decides, of the others
 *	                          <-    write: struct ol_ack, bell ACK(index)
 *
 * Records that travel by one-sided writes are little-endian structs of fixed size, read where they
 * land. The handshake has functions that encode, and that decode and check everything.
 *
 * VERSIONS. A chain is upgraded server by server while its job trains, so processes of two versions
 * that follow each other work together. A build speaks the protocols `oldest` to `proto`. Knock and
 * proof say both numbers, and which features their end has; their layout never changes, so that any
 * build reads any other's. The server answers in the newest protocol that both speak, and its accept
 * names the features that both have. All of it is under the macs, so nobody between the ends can
 * lower it. What a version adds is used on a connection only where its bit was agreed on there: a
 * record that changes its layout, or a new doorbell, gets a bit. A chain's replicas are all of
 * protocols that meet each other's. What replicas keep, or pass on, is used only where all of them
 * and all workers have the bit. A build drops a bit's old way two versions after the bit came.
 */
#ifndef OL_WIRE_WIRE_H
#define OL_WIRE_WIRE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outlast.h"
#include "replication/entry.h"
#include "replication/view.h"
#include "wire/bounds.h"
#include "wire/layout.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the records that travel by one-sided writes are little-endian"
#endif

enum {
	OL_WIRE_MAGIC = 0x544c544f, /* "OTLT" */
	OL_WIRE_PROTO = 15,
	OL_WIRE_BACK_MAX = 15, /* protocols that a build may speak beside its own */
	OL_LATER_MAX_MS = 5000, /* longest delay that a server may ask of a peer */
	OL_NONCE_BYTES = 16,
	OL_MAC_BYTES = 16,
	OL_IDENT_BYTES = 24, /* of struct ol_xport_ident */
	OL_WIRE_FAULT_MAX = 128,
};

/* What a build speaks */
struct ol_wire_speaks {
	uint32_t proto; /* its own protocol, the newest */
	uint32_t oldest;
	uint32_t features; /* bits, below 2^16 */
};

/* This build's. It is alone in speaks.c: a test links another, for a version to come */
extern const struct ol_wire_speaks ol_wire_own;

#define OL_INIT_AWAITED UINT64_MAX
#define OL_NOBODY       UINT32_MAX /* the id of an observer that has the observers' key */

/* What a peer needs in order to reach a region; struct ol_xport_rkey on the wire. */
struct ol_wire_rkey {
	uint64_t addr;
	uint64_t bytes;
	uint32_t rkey;
	uint32_t zero;
};

enum ol_wire_role {
	OL_ROLE_WORKER = 1, /* pushes; also pulls, if the chain is of one replica */
	OL_ROLE_OBSERVER, /* reads only */
	OL_ROLE_READER, /* a worker at its chain's tail: pulls, gets acks of commits; no slots */
	OL_ROLE_REPLICA, /* the predecessor in a chain: writes entries */
};

enum ol_wire_connect_kind {
	OL_CONNECT_KNOCK = 1,
	OL_CONNECT_PROOF,
};

struct ol_wire_connect {
	struct ol_wire_speaks speaks; /* all 0: ol_wire_own */
	enum ol_wire_connect_kind kind;
	enum ol_wire_role role;
	uint32_t worker; /* its id; of an observer whose key it has, or OL_NOBODY */
	bool queues; /* a worker with OL_OUTAGE_CONTINUE: needs one more slot, for its queue */
	uint64_t made_ns; /* of a proof: as its challenge has it */
	uint8_t nonce[OL_NONCE_BYTES];
	uint8_t mac[OL_MAC_BYTES];
};

enum ol_wire_reject_code {
	OL_REJECT_CHALLENGE = 1, /* no refusal: prove that you know the key */
	OL_REJECT_WIRE,
	OL_REJECT_AUTH,
	OL_REJECT_WORKER_BUSY, /* id already connected */
	OL_REJECT_WORKER_RANGE, /* id not below workers_max */
	OL_REJECT_FULL,
	OL_REJECT_RESOURCES, /* no memory or descriptors for this peer */
	OL_REJECT_LATER, /* no refusal: come back in delay_ms, with a new knock */
};

/* The limit behind a refusal, and what its number is */
enum ol_wire_limit {
	OL_LIMIT_NONE, /* 0 */
	OL_LIMIT_WORKERS, /* workers_max */
	OL_LIMIT_OBSERVERS, /* observers_max */
	OL_LIMIT_PREDECESSORS, /* one: another is connected */
	OL_LIMIT_CONNECTIONS, /* peers of this role for which the transport has connections */
	OL_LIMIT_SLOT_MEMORY, /* slot_memory_max, in MiB */
	OL_LIMIT_SYSTEM, /* of the server's process or machine: an errno */
	OL_LIMIT_LOOKS, /* observers with one worker's credential */
	OL_LIMIT_READERS, /* a relay lets in so many readers, and no worker */
};

struct ol_wire_reject {
	uint32_t proto; /* in which it is said; 0: ol_wire_own's */
	enum ol_wire_reject_code code;
	uint32_t delay_ms; /* of OL_REJECT_LATER, at most OL_LATER_MAX_MS; 0 otherwise */
	enum ol_wire_limit limit; /* that was met */
	uint32_t number;
	uint64_t made_ns; /* of a challenge: the server's clock; its peer gives it back */
	uint8_t nonce[OL_NONCE_BYTES]; /* of a challenge */
	uint8_t mac[OL_MAC_BYTES];
};

struct ol_wire_accept {
	uint32_t proto; /* that both ends speak; 0: ol_wire_own's */
	uint32_t features; /* that both ends have */
	struct ol_geometry geo;
	struct ol_wire_rkey public_key;
	/* For an observer or a reader the control page alone; for a predecessor the ring */
	struct ol_wire_rkey landing_key;
	uint64_t incarnation; /* of the server process: random; in a chain its id in views */
	float lr; /* of plain SGD; 0: the job has another rule */
	uint32_t nonfinite; /* 1: a gradient may hold a NaN or an infinity */
	uint64_t init; /* digest of worker 0's first weights, with which the job began; 0: others;
			  OL_INIT_AWAITED: the server has no weights yet, and takes those */
	uint8_t mac[OL_MAC_BYTES];
};

enum {
	OL_WIRE_CONNECT_BYTES =
		54, /* less than rdma_cm's 56: the last byte may be the transport's */
	OL_WIRE_REJECT_BYTES = 60,
	OL_WIRE_ACCEPT_BYTES = 160,
};

void ol_wire_connect_encode(const struct ol_wire_connect *msg, uint8_t out[OL_WIRE_CONNECT_BYTES]);
void ol_wire_reject_encode(const struct ol_wire_reject *msg, uint8_t out[OL_WIRE_REJECT_BYTES]);
void ol_wire_accept_encode(const struct ol_wire_accept *msg, uint8_t out[OL_WIRE_ACCEPT_BYTES]);

/* ol_wire_agree -- the newest protocol that this build and another speak; 0: there is none */
uint32_t ol_wire_agree(const struct ol_wire_speaks *other);
/* ol_wire_proto -- the protocol that a message is in; 0: it is none of ours */
uint32_t ol_wire_proto(const uint8_t *in, size_t in_bytes);
/* ol_wire_fault -- why it cannot be talked to, if that is for its version; else NULL. `own`: what this end is */
const char *ol_wire_fault(const uint8_t *in, size_t in_bytes, const char *own,
			  char text[OL_WIRE_FAULT_MAX]);

/* decode: 0, or OL_E_WIRE if the bytes are not such a message. Bytes after it are ignored. */
int ol_wire_connect_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_connect *ret_msg);
int ol_wire_reject_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_reject *ret_msg);
int ol_wire_accept_decode(const uint8_t *in, size_t in_bytes, struct ol_wire_accept *ret_msg);

/* ol_wire_reject_status -- the public code for a reason to refuse */
int ol_wire_reject_status(enum ol_wire_reject_code code);
enum {
	OL_REJECT_TEXT_MAX = 160
};
/* ol_wire_reject_text -- why the server refuses, and what to raise; returns text */
const char *ol_wire_reject_text(const struct ol_wire_reject *msg, char text[OL_REJECT_TEXT_MAX]);

/* The immediate of a doorbell: a kind and an argument */
enum ol_bell {
	OL_BELL_HELLO = 1, /* worker: struct ol_hello is in the control page */
	OL_BELL_PUSH, /* worker: slot arg has landed */
	OL_BELL_PART, /* worker: the end of slot's gradient, from ol_part_first() on, has landed */
	OL_BELL_ACK, /* server: ack record arg has landed: slot arg is free again */
	OL_BELL_WELCOME, /* server: struct ol_welcome, or ol_chain_welcome, is in the ack page */
	OL_BELL_ENTRY, /* predecessor: ring slot arg holds the next entry */
	OL_BELL_CHAIN_ACK, /* successor: struct ol_chain_ack is in the ack page */
	OL_BELL_WITHDRAW, /* worker: its pushes must not wait for other workers' gradients. arg is
			     not 0: the push in slot arg - 1 is one that shard 0 has dropped */
	OL_BELL_PIN, /* reader: it has pinned a version, see struct ol_pin */
	OL_BELL_ENTRY_PART, /* predecessor: the end of the next entry's payload, in ring slot
			       ol_part_slot(), has landed from ol_part_first() on */
	OL_BELL_DECISION, /* worker: struct ol_decision is behind its slots, at place arg */
	OL_BELL_AGAIN, /* worker, where shard 0 decides: it has pushed again on this connection all that
			  it keeps */
	OL_BELL_HELD, /* server of another shard there: it has the push of ol_held_arg() */
};

static inline uint32_t ol_bell_make(enum ol_bell bell, uint32_t arg)
{
	return ((uint32_t)bell << 24) | arg;
}

static inline uint32_t ol_bell_kind(uint32_t imm)
{
	return imm >> 24;
}

static inline uint32_t ol_bell_arg(uint32_t imm)
{
	return imm & 0xffffff;
}

/* The argument of OL_BELL_HELD: a slot, and enough of a push's number to tell it from those that were there before */
static inline uint32_t ol_held_arg(uint32_t slot, uint64_t seq)
{
	return slot << 17 | (uint32_t)(seq & 0x1ffff);
}

static inline uint32_t ol_held_slot(uint32_t arg)
{
	return arg >> 17;
}

/*
 * The argument of OL_BELL_PART: a slot, and how much of its gradient has not landed yet, in units
 * of OL_PART_FLOATS. It is a hint: the server may start on the landed part, and the header of the
 * push that follows shows whether that was right. OL_PART_CANCEL units: the worker took the buffer
 * back, and the announced part is void. OL_PART_FOLLOWS: the worker has pushed, so the rest comes
 * without waiting for its caller. A worker rings at most OL_PARTS_MAX between two acks of a slot, so
 * that doorbells stay bounded; the last is reserved for a cancel.
 *
 * The argument of OL_BELL_ENTRY_PART is the same, of a slot of the ring: a hint about the payload of
 * the next entry. It may come while the entry is not ordered yet. OL_PART_CANCEL: the payload will
 * be written again. A replica rings at most OL_PARTS_MAX for an entry, and none while its successor
 * has not acknowledged more than OL_PARTED_ENTRIES.
 */
enum {
	OL_PART_FLOATS = 16384,
	OL_PART_BYTES = OL_PART_FLOATS * OL_ELEM_BYTES,
	OL_PARTS_MAX = 8,
	OL_PART_CANCEL = (1 << 17) - 1,
	OL_PART_FOLLOWS = 1 << 17,
	OL_PARTED_ENTRIES = 4,
};

static inline uint32_t ol_part_make(uint32_t slot, uint64_t units)
{
	return slot << 18 | (uint32_t)units;
}

static inline bool ol_part_follows(uint32_t arg)
{
	return (arg & OL_PART_FOLLOWS) != 0;
}

static inline uint32_t ol_part_slot(uint32_t arg)
{
	return arg >> 18;
}

static inline bool ol_part_is_cancel(uint32_t arg)
{
	return (arg & OL_PART_CANCEL) == OL_PART_CANCEL;
}

static inline uint64_t ol_part_first(uint32_t arg)
{
	return (uint64_t)(arg & OL_PART_CANCEL) * OL_PART_FLOATS;
}

/*
 * The worker's first record on a new connection; at OL_HELLO_OFF of the control page.
 *
 * mirror: where the worker keeps its last whole weights of this shard, for a server that needs
 * them: table, weights and, unless state_off is OL_MIRROR_NO_STATE, optimizer state, at these
 * offsets. They do not change before the welcome. bytes 0: no mirror. An observer never has one: a
 * peer that only reads must not bring in weights. A worker that has pulled nothing may offer first
 * weights in that place: no server vouches for them, and one alone that waits for those of worker 0
 * reads them. Mirrors of one history are compared by their
 * versions, mirrors of two histories by their epochs, if at all.
 */
struct ol_hello {
	uint32_t magic;
	uint32_t mirror_epoch; /* of the server that it was read from */
	struct ol_wire_rkey acks; /* OL_ACKS_BYTES that the server writes: one struct ol_ack a slot;
				     at OL_WELCOME_OFF the welcome; at OL_PROBE_OFF a word that
				     nobody reads: the write tests whether the peer is reachable */
	struct ol_wire_rkey mirror;
	uint64_t table_off;
	uint64_t weights_off;
	uint64_t state_off;
	uint64_t mirror_version;
	uint64_t mirror_history; /* identity of the mirror's history */
	uint64_t gone_seq; /* its last push that it was told is applied and that it no longer keeps:
			      weights without this push have lost something. 0: it keeps them all */
	uint32_t epoch; /* the newest that it knows: a server that restores begins a newer one */
	uint32_t format; /* of its gradients: enum ol_format, wire/format.h */
	uint64_t init; /* not 0: what lies at `mirror` are the first weights that it offers, and the
			  table of tensors; this is their digest */
	uint32_t tag; /* of a worker's process, in the numbers of its pushes; 0: it does not say */
	uint32_t crc; /* CRC32C of all before it */
};

#define OL_MIRROR_NO_STATE UINT64_MAX

static_assert(sizeof(struct ol_hello) == 128, "hello is part of the wire protocol");

/* The server has its weights: push and pull may begin. */
struct ol_welcome {
	struct ol_applied resolved; /* this worker's pushes in them: go on with the next */
	uint64_t version; /* newest published … */
	uint32_t snapshot; /* … and where it lies */
	uint32_t epoch; /* of every record on this connection */
	uint32_t reserved[5];
	uint32_t crc; /* CRC32C of all before it */
};

static_assert(sizeof(struct ol_welcome) == 64, "welcome is part of the wire protocol");

/*
 * Between replicas, on a connection that the predecessor makes to its successor (OL_ROLE_REPLICA;
 * landing_key of the accept is the successor's ring, replication/entry.h):
 *
 *	predecessor                             successor
 *	write: struct ol_chain_hello, bell HELLO ->
 *	                                        (when it has adopted a view in which that is its
 *	                                        predecessor)
 *	                                      <- write: struct ol_chain_welcome, bell WELCOME
 *	write: parts of a long payload, each with a bell ENTRY_PART ->
 *	write: entry, bell ENTRY(slot)        ->
 *	                                      <- write: struct ol_chain_ack, bell CHAIN_ACK
 *
 * A successor without weights reads `content` meanwhile: the predecessor keeps it as it is until
 * the first ack.
 */
struct ol_chain_hello {
	uint32_t magic;
	uint32_t epoch; /* of the view that the predecessor is in */
	uint64_t id; /* of the predecessor */
	uint64_t successor; /* id that it expects of the other end */
	struct ol_wire_rkey acks; /* OL_ACKS_BYTES for what the successor writes */
	struct ol_wire_rkey board; /* the predecessor's public memory */
	uint64_t content_off; /* a whole snapshot in there … */
	uint64_t content_version; /* … of this version */
	uint32_t content_epoch;
	uint32_t slots; /* of the predecessor's ring: both have the same */
	uint64_t reserved[4];
	uint32_t reserved2;
	uint32_t crc; /* CRC32C of all before it */
};

static_assert(sizeof(struct ol_chain_hello) == 136, "chain hello is part of the wire protocol");

struct ol_chain_welcome {
	uint64_t have; /* its newest entry: send later ones; when loading, content_version */
	uint32_t epoch;
	uint32_t loading; /* 1: it has no weights, and reads `content` */
	uint64_t reserved[5];
	uint32_t reserved2;
	uint32_t crc; /* CRC32C of all before it */
};

static_assert(sizeof(struct ol_chain_welcome) == 64, "chain welcome is part of the wire protocol");

struct ol_chain_ack {
	uint64_t version; /* all up to it is committed; from a joining replica: applied */
	uint64_t reserved[6];
	uint32_t epoch;
	uint32_t crc; /* CRC32C of all before it */
};

static_assert(sizeof(struct ol_chain_ack) == 64, "chain ack is part of the wire protocol");

enum {
	OL_CHAIN_ACK_OFF = 0, /* in the ack page; a newer ack may overwrite an unread one */
	OL_PROBE_OFF = OL_SLOTS_MAX * OL_LINE_BYTES,
	OL_WELCOME_OFF = OL_PROBE_OFF + OL_LINE_BYTES,
	OL_ACKS_BYTES = OL_WELCOME_OFF + OL_LINE_BYTES,
	OL_HELLO_OFF = 0,
	OL_PIN_OFF = 1024,
	OL_LANDING_PROBE_OFF = 2048, /* a word that nobody reads, as at OL_PROBE_OFF */
};

/*
 * A reader that was overtaken writes 1 + version at OL_PIN_OFF of its control page, then reads
 * again: the server does not overwrite the snapshot of that version until the word is 0 or has
 * stood for pin_timeout_ms.
 *
 * The server looks at the words of few peers only: of those that rang OL_BELL_PIN. It stops when it
 * posts an ack to the peer while the word is 0. So a peer rings with its first pin, and with its
 * first pin after each ack that it got; if it has a pin when the ack comes, it rings at once. Until
 * the bell is heard the pin does not count, and the reader may be overtaken again. A peer that gets
 * no acks, as an observer, rings once. So bells of pins are at most one more than acks.
 */
struct ol_pin {
	_Atomic uint64_t version_plus_1;
};

/* Behind the gradient in its slot. */
struct ol_push_hdr {
	uint64_t seq; /* of the worker's process at this shard: wire/seq.h */
	uint64_t base_version; /* of the weights that the gradient was computed at */
	uint64_t payload_bytes; /* padded: so much before this header the gradient begins */
	uint32_t epoch;
	uint32_t samples;
	float loss;
	uint32_t grads; /* gradients summed up in it: 1, unless it comes from a queue */
	uint32_t flags; /* enum ol_push_flags */
	float weight; /* of each of these gradients, see ol_weight_possible() */
	uint64_t last_version; /* no step behind this version has a place for it; 0: each has */
	uint32_t
		ahead; /* where shard 0 decides the steps: it was computed at a version so much newer
			   than base_version, of a server that went back; else 0 */
	uint32_t crc; /* CRC32C of all before it */
};

enum ol_push_flags {
	OL_PUSH_QUEUED = 1 << 0, /* it waited for its server or for a step, and may be the sum of
				   several */
	OL_PUSH_PATH = 1 << 1, /* each of its gradients was computed at weights that contain the
				  ones before it */
	OL_PUSH_VOID = 1 << 2, /* the gradient is not finite, here or at another shard: the server
				  counts it as given and drops it */
	OL_PUSH_RULE = 1 << 3, /* a rule lies behind the header: the step that has this gradient
				  is made by it, and those after it */
	OL_PUSH_AGAIN = 1 << 4, /* its worker was told that it is applied, by a server whose weights
				   are gone: it is not late now */
	OL_PUSH_MEAN = 1 << 5, /* it is the mean of its gradients: their sum has an infinity, or
				  would in its format */
};

static_assert(sizeof(struct ol_push_hdr) == 64, "push header is part of the wire protocol");

/*
 * THE STEP OF SEVERAL SHARDS IS DECIDED ONCE, by shard 0, where it is not one of all workers. The
 * applied table of its snapshots is the decision: what it holds of a worker at version v + 1, and the
 * table of v does not, is in step v + 1. Tables of one version are the same in all shards.
 *
 * A worker carries it: it reads head and table of the shard that is furthest, writes them behind its
 * slots at a shard that is behind, this record in front, and rings. Any worker may, and all are
 * alike: the table has a server's word (wire/vouch.h), and the number of its version orders it. A server
 * ignores one that is torn, as it is being written over, and another bell follows. A worker rings at
 * most OL_DECISIONS_MAX before the shard has made a step, so that doorbells stay bounded. What is
 * written over before the server has looked is void; the version that goes over it is as good.
 *
 * A worker pushes to shard 0 last, when all other shards have said that they have the gradient
 * (OL_BELL_HELD). So what shard 0 takes, the others have, even if the worker dies at that moment.
 *
 * Shard 0 may come back with older weights, and would decide anew what others have made already. So a
 * worker that connects to it first tells the others of the server's founding (`founded`; older ones'
 * decisions are void from then on), waits until their version lines show it (`decider`), and carries
 * to shard 0 the decision of a shard that is ahead. Only then it pushes there. Both have a place of
 * their own behind the slots (1), where only a later one of their kind goes over them: at place 0 a
 * decision about the next step would, before the server has looked.
 */
struct ol_decision {
	uint64_t version;
	uint64_t history; /* as struct ol_hello has it, of the shard that it comes from … */
	uint32_t founded; /* … and the epoch in which that was founded */
	uint32_t shard;
	uint64_t reserved[4];
	uint32_t table_crc; /* CRC32C of what is behind it: ol_layout_table_bytes() */
	uint32_t crc; /* CRC32C of all before it */
};

enum {
	OL_DECISIONS_MAX = 8
};

static_assert(sizeof(struct ol_decision) == OL_LINE_BYTES, "decision is part of the wire protocol");

/*
 * Credit, result and version notice in one. Record i answers slot i, and a worker reads it before
 * it uses the slot again, so no unread record is overwritten.
 */
struct ol_ack {
	uint64_t seq; /* of the push that was in the slot, and is resolved */
	uint64_t version; /* newest published … */
	uint32_t snapshot; /* … and where it lies */
	int32_t status; /* of the push: 0 applied, OL_E_NONFINITE, OL_E_LATE */
	uint32_t epoch;
	uint32_t reserved[8];
	uint32_t crc; /* CRC32C of all before it */
};

static_assert(sizeof(struct ol_ack) == 64, "ack is part of the wire protocol");

/* ol_record_seal -- set the crc at the end of a record; ol_record_whole -- check it */
uint32_t ol_record_crc(const void *record, size_t bytes);

#define ol_record_seal(r)  ((r)->crc = ol_record_crc(r, sizeof(*(r)) - 4))
#define ol_record_whole(r) ((r)->crc == ol_record_crc(r, sizeof(*(r)) - 4))

/*
 * The version line. A reader knows from an ack or an earlier line that version v of snapshot i is
 * published. It reads the data, then, behind a read fence, this line. begin[i] == end[i] == 1 + v
 * proves that the data is not torn: an update sets begin before it touches the data, and end after.
 * (If v was not yet published when the data was read, this proves nothing.)
 * published: version * 4 + snapshot.
 */
struct ol_version_line {
	_Atomic uint64_t published;
	_Atomic uint64_t begin[OL_SNAPSHOTS];
	_Atomic uint64_t end[OL_SNAPSHOTS];
	_Atomic uint64_t
		decider; /* newest founding of shard 0 that this server knows, if that decides */
};

static_assert(sizeof(struct ol_version_line) == OL_LINE_BYTES, "version line is one line");

static inline uint64_t ol_published_make(uint64_t version, uint32_t snapshot)
{
	return version * 4 + snapshot;
}

static inline uint64_t ol_published_version(uint64_t word)
{
	return word / 4;
}

static inline uint32_t ol_published_snapshot(uint64_t word)
{
	return (uint32_t)(word % 4);
}

/* struct ol_latency, as it is kept (base/hist.h) */
struct ol_board_hist {
	_Atomic uint64_t sum_ns;
	_Atomic uint64_t buckets[OL_LATENCY_BUCKETS];
};

/* A slow push of late: a record, so its reader knows whether all of it is of one moment */
struct ol_board_slow {
	uint64_t push; /* count of its worker's pushes; 0: there was none yet */
	uint64_t took_ns;
	uint64_t at_ns; /* when it took effect, CLOCK_REALTIME of the server's host */
	uint32_t worker;
	uint32_t crc;
};

enum {
	OL_BOARD_SLOW_WORDS = sizeof(struct ol_board_slow) / sizeof(uint64_t)
};

/* Written by the server's loop alone; read by any peer, word by word. */
struct ol_board {
	uint32_t magic;
	uint32_t proto;
	uint64_t incarnation;
	struct ol_geometry geo;
	_Atomic uint64_t epoch; /* set before the first version is published */
	uint64_t reserved[4];

	struct ol_version_line line; /* at OL_BOARD_LINE_OFF */

	_Atomic uint64_t heartbeat; /* at OL_BOARD_STAT_OFF */
	_Atomic uint64_t applied;
	_Atomic uint64_t dropped_nonfinite;
	_Atomic uint64_t dropped_late;
	_Atomic uint64_t duplicates;
	_Atomic uint64_t staleness_sum;
	_Atomic uint64_t samples;
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t refused;
	_Atomic uint64_t violations;
	_Atomic uint64_t workers;
	_Atomic uint64_t loss_bits; /* a float in the low 32 bits */
	_Atomic uint64_t replayed;
	_Atomic uint64_t restored_version;
	_Atomic uint64_t restored_from;
	_Atomic uint64_t restored_lost;
	_Atomic uint64_t ready_ns;
	_Atomic uint64_t first_applied_ns;
	_Atomic uint64_t checkpoints;
	_Atomic uint64_t checkpoints_failed;
	_Atomic uint64_t checkpoints_skipped;
	_Atomic uint64_t checkpoint_version;
	_Atomic uint64_t checkpoint_bytes;
	_Atomic uint64_t replica;
	_Atomic uint64_t received;
	_Atomic uint64_t committed;
	_Atomic uint64_t forwarded;
	_Atomic uint64_t forwarded_bytes;
	_Atomic uint64_t resent;
	_Atomic uint64_t resync_bytes;
	_Atomic uint64_t resync_ns;
	_Atomic uint64_t views;
	_Atomic uint64_t suspicions;
	_Atomic uint64_t role; /* enum ol_replica_role */
	_Atomic uint64_t ring_slots;
	_Atomic uint64_t ring_used;
	_Atomic uint64_t proposed_ns;
	_Atomic uint64_t adopted_ns;
	_Atomic uint64_t linked_ns;
	_Atomic uint64_t wait_for;
	_Atomic uint64_t turn_max_ns;
	_Atomic uint64_t sent_away;
	_Atomic uint64_t early_bytes;
	_Atomic uint64_t early_void_bytes;
	/* of its transport, at the last heartbeat */
	_Atomic uint64_t conns;
	_Atomic uint64_t regions;
	_Atomic uint64_t region_bytes;
	_Atomic uint64_t writes;
	_Atomic uint64_t write_bytes;
	_Atomic uint64_t doorbells;
	_Atomic uint64_t reads;
	_Atomic uint64_t read_bytes;
	_Atomic uint64_t rung;
	_Atomic uint64_t busy;
	_Atomic uint64_t carried;
	_Atomic uint64_t beat_ns;
	_Atomic uint64_t checkpoint_ns;
	uint64_t reserved2[47]; /* of counters to come */

	struct ol_board_hist push_applied; /* at OL_BOARD_HIST_OFF */
	uint64_t reserved3[5];

	/* at OL_BOARD_SLOW_OFF; 0 where a server of an earlier build has nothing */
	_Atomic uint64_t push_slow[OL_BOARD_SLOW_WORDS];
};

enum {
	OL_BOARD_LINE_OFF = 128,
	OL_BOARD_STAT_OFF = 192,
	OL_BOARD_HIST_OFF = 1024, /* no line of these is one that a peer reads to make progress */
	OL_BOARD_SLOW_OFF = 1920,
};

static_assert(offsetof(struct ol_board, line) == OL_BOARD_LINE_OFF, "board layout");
static_assert(offsetof(struct ol_board, heartbeat) == OL_BOARD_STAT_OFF, "board layout");
static_assert(offsetof(struct ol_board, push_applied) == OL_BOARD_HIST_OFF, "board layout");
static_assert(offsetof(struct ol_board, push_slow) == OL_BOARD_SLOW_OFF, "board layout");
static_assert(sizeof(struct ol_board) <= OL_PAGE_BYTES, "board fits its page");

/* ol_board_stat -- the counters of a board, here or as a copy read from a server */
void ol_board_stat(const struct ol_board *board, struct ol_server_stat *ret_stat);

#endif /* OL_WIRE_WIRE_H */
