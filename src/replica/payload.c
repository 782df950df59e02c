/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * payload.c -- the next entry's payload, before its entry is whole
 *
 *	head    gradients, as far as they have landed      -> ring -> successor, snapshot
 *	others  predecessor's writes, as its bells say     -> ring -> successor, snapshot
 *
 * So a long payload goes down the chain while it is still being made. It has no place in the chain's
 * order: `chain` hears of the entry when that is whole, and nothing takes effect before. If the payload is
 * void by then, what a neighbour or a snapshot has of it is not used.
 */

#include "rdma/order.h"
#include "replica/replica.h"

uint64_t ol_payload_part(const struct ol_replica *replica)
{
	return ol_round_up(replica->geo->shard_len / OL_PARTS_MAX, OL_PART_FLOATS);
}

/* That of the entry that follows those received, whatever is there of it */
static struct ol_payload *payload_next(struct ol_replica *replica)
{
	struct ol_payload *payload = &replica->payload;
	const uint64_t version = replica->chain.received + 1;

	if (payload->version != version)
		*payload = (struct ol_payload){ .version = version,
						.first = replica->geo->shard_len,
						.stamp = ++replica->stamps };
	return payload;
}

void ol_payload_drop(struct ol_replica *replica)
{
	if (replica->succ.sent_version != 0 && replica->succ.recall == OL_RECALL_NONE)
		replica->succ.recall = OL_RECALL_DUE;
	replica->void_stamp = replica->stamps;
	replica->payload.version = 0;
}

void ol_payload_progress(struct ol_replica *replica)
{
	const struct ol_chain *chain = &replica->chain;

	if (replica->payload.version != chain->received + 1)
		return;
	if (chain->succ_up && chain->forwarded == chain->received)
		ol_successor_part(replica);
	if (chain->loaded && chain->applied == chain->received)
		replica->host->apply_part(replica->arg, &replica->payload);
}

uint64_t ol_payload_first(const struct ol_replica *replica)
{
	return replica->payload.version == replica->chain.received + 1 ? replica->payload.first
								       : replica->geo->shard_len;
}

void ol_payload_made(struct ol_replica *replica, uint64_t first)
{
	payload_next(replica)->first = first;
	ol_payload_progress(replica);
}

const char *ol_payload_on_bell(struct ol_replica *replica, uint32_t arg)
{
	const uint64_t version = replica->chain.received + 1, first = ol_part_first(arg);
	const uint64_t before = ol_payload_first(replica);

	if (replica->periodic || ol_part_slot(arg) != version % replica->ring.slots ||
	    version > replica->chain.acked + replica->ring.slots)
		return "part of an entry that is not the next one";
	if (ol_part_is_cancel(arg)) {
		ol_counter_add(&replica->board->early_void_bytes,
			       (replica->geo->shard_len - before) * OL_ELEM_BYTES);
		ol_payload_drop(replica);
		return NULL;
	}
	if (first >= before)
		return "part of an entry that it has sent already";
	ol_counter_add(&replica->board->early_bytes, (before - first) * OL_ELEM_BYTES);
	ol_payload_made(replica, first);
	return NULL;
}
