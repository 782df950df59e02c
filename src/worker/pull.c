/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pull.c -- reads weights into the mirror, without a server's CPU
 *
 *	read [applied table | weights] of the snapshot that lies where the newest known version is
 *	read, behind a fence, the version line: untorn if begin == end == 1 + version
 *
 * If it is torn, the line just read names the newest version: pin that, and read again.
 *
 * A pull of a span reads some shards. The other ones are to be in the new mirror, too, as they are in
 * the last one: they are copied there, unless they have been there since the pull before.
 */

#include <errno.h>
#include <string.h>

#include "outlast_span.h"
#include "rdma/order.h"
#include "wire/format.h"
#include "wire/seq.h"
#include "worker/shown.h"
#include "worker/worker_internal.h"

static struct ol_mirror *target_mirror(struct ol_worker *worker)
{
	return &worker->mirrors[1 - worker->mirror];
}

void ol_pull_read_at(struct ol_link *link, uint64_t version, uint32_t snapshot)
{
	link->read_version = version;
	link->read_snapshot = snapshot;
	link->read_off = 0;
	link->read_state = OL_READ_DATA;
	target_mirror(link->worker)->intact &= ~(UINT64_C(1) << link->index);
}

/* Read from the beginning, at the newest version known */
static void read_start(struct ol_link *link)
{
	ol_pull_read_at(link, link->version, link->snapshot);
}

/* True if a pull takes the last weights of this shard, as its server is gone; or another one, without which a step has
 * no part of this worker */
static bool last_will_do(const struct ol_link *link)
{
	const struct ol_worker *worker = link->worker;

	return (!ol_link_usable(link) || !ol_outage_is_whole(worker)) &&
	       worker->opts.outage == OL_OUTAGE_CONTINUE && worker->mirrors[worker->mirror].whole;
}

static int pull_begin(struct ol_worker *worker, unsigned flags, uint64_t span, struct ol_op *op)
{
	if (worker->opts.observer == OL_OBSERVER_COUNTERS)
		return -EPERM;
	if ((flags & ~(unsigned)(OL_PULL_NEWEST | OL_PULL_FORWARD | OL_PULL_EVEN)) != 0)
		return -EINVAL;
	if (worker->pull_op == &worker->own_pull && op != &worker->own_pull &&
	    worker->next_pull == NULL) {
		op->done = 0;
		worker->next_pull = op;
		worker->next_pull_flags = flags;
		worker->next_pull_span = span;
		return 0;
	}
	if (worker->pull_op != NULL)
		return -EBUSY;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		enum ol_link_state state = worker->links[i].state;

		if (state == OL_LINK_FAILED ||
		    (state != OL_LINK_LIVE && worker->opts.outage == OL_OUTAGE_END))
			return OL_E_NO_SERVER;
	}
	if (span != ol_worker_all(worker) && !worker->mirrors[worker->mirror].whole)
		return -ENODATA;
	op->done = 0;
	op->local = 0;
	op->age_ns = 0;
	worker->pull_op = op;
	worker->pull_span = span;
	worker->pull_status = 0;
	worker->pull_begun_ns = ol_sampler_next(&worker->pull_sampler);
	worker->pull_forward = (flags & OL_PULL_FORWARD) != 0;
	ol_even_begin(worker, (flags & OL_PULL_EVEN) != 0);
	target_mirror(worker)->whole = false;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		link->read_local = ol_link_is_in(link, span) && last_will_do(link);
		link->read_state = OL_READ_DONE;
		if (!ol_link_is_in(link, span))
			continue;
		link->read_retries = 0;
		read_start(link);
		if (link->read_local) {
			link->read_state = OL_READ_DONE;
			worker->pull_even = OL_EVEN_NOT;
		} else if ((flags & OL_PULL_NEWEST) != 0 || worker->pull_even != OL_EVEN_NOT ||
			   !ol_link_readable(link)) {
			link->read_state = OL_READ_NEWEST;
		}
	}
	for (uint32_t i = 0; i < worker->link_count; i++)
		ol_pull_progress(&worker->links[i]);
	ol_pull_check(worker);
	return 0;
}

int ol_pull(struct ol_worker *worker, unsigned flags, struct ol_op *op)
{
	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	return pull_begin(worker, flags, ol_worker_all(worker), op);
}

int ol_pull_span(struct ol_worker *worker, unsigned flags, uint64_t first, uint64_t count,
		 struct ol_op *op)
{
	uint64_t span;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	span = ol_worker_span(worker, first, count);
	return span != 0 ? pull_begin(worker, flags, span, op) : -EINVAL;
}

/* Say which version must not be overwritten; 0: none. False: not now. */
static bool pin_post(struct ol_link *link, uint64_t version_plus_1)
{
	struct ol_xport_write write = {
		.segs = { { .off = (uintptr_t)&version_plus_1, .bytes = sizeof(version_plus_1) } },
		.seg_count = 1,
		.flags = OL_XPORT_INLINE,
		.imm = ol_bell_make(OL_BELL_PIN, 0),
		.dst = link->reader->dial.landing_key,
		.dst_off = OL_PIN_OFF,
	};
	const bool rings = version_plus_1 != 0 && !link->reader->pin_told;

	if (rings)
		write.flags |= OL_XPORT_DOORBELL;
	if (link->worker->ops->post_write(link->reader->dial.conn, &write) != 0)
		return false;
	link->reader->pin_told = link->reader->pin_told || rings;
	return true;
}

void ol_pull_pin(struct ol_link *link)
{
	link->pinned = pin_post(link, link->read_version + 1) || link->pinned;
}

void ol_pull_on_ack(struct ol_peer *peer)
{
	struct ol_link *link = peer->link;
	const struct ol_xport_write bell = {
		.flags = OL_XPORT_INLINE | OL_XPORT_DOORBELL,
		.imm = ol_bell_make(OL_BELL_PIN, 0),
		.dst = peer->dial.landing_key,
		.dst_off = OL_PIN_OFF,
	};

	peer->pin_told = false;
	if (peer != link->reader || !link->pinned || peer->dial.state != OL_DIAL_LIVE)
		return;
	/* if that fails, the next pin rings */
	peer->pin_told = link->worker->ops->post_write(peer->dial.conn, &bell) == 0;
}

void ol_pull_unpin(struct ol_link *link)
{
	if (link->pinned && link->read_state == OL_READ_NONE && pin_post(link, 0))
		link->pinned = false;
}

/* Read the version line into `line`; kind: the cookie of the completion */
static int post_line(struct ol_link *link, struct ol_version_line *line, enum ol_cookie kind,
		     unsigned flags)
{
	struct ol_worker *worker = link->worker;
	struct ol_xport_read read = {
		.segs = { { .region = link->reader->rail->work_region,
			    .off = ol_worker_work_off(worker, line),
			    .bytes = sizeof(*line) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED | flags,
		.src = link->reader->dial.public_key,
		.src_off = OL_BOARD_LINE_OFF,
		.cookie = ol_cookie_make(kind, link->index),
	};

	return worker->ops->post_read(link->reader->dial.conn, &read);
}

/* Where the content of a shard at byte `off` lies in a mirror, and how much of it in one piece */
static uint8_t *mirror_piece(const struct ol_link *link, struct ol_mirror *mirror, uint64_t off,
			     uint64_t *ret_bytes)
{
	uint64_t table = ol_layout_table_bytes(&link->geo);
	uint64_t vector = ol_layout_vector_bytes(&link->geo);

	if (off < table) {
		*ret_bytes = table - off;
		return mirror->applied[link->index] + off;
	}
	off -= table;
	if (off < vector) {
		*ret_bytes = vector - off;
		return (uint8_t *)mirror->weights + ol_layout_shard_off(&link->geo) + off;
	}
	off -= vector;
	*ret_bytes = vector * link->geo.state_vectors - off;
	return (uint8_t *)mirror->state[link->index] + off;
}

/* Where what is read of a shard at byte `off` goes to, and how much of it in one piece */
static uint8_t *read_piece(const struct ol_link *link, uint64_t off, uint64_t *ret_bytes)
{
	uint64_t table = ol_layout_table_bytes(&link->geo);

	if (link->read_bf16 == NULL || off < table)
		return mirror_piece(link, target_mirror(link->worker), off, ret_bytes);
	off -= table;
	*ret_bytes = ol_layout_bf16_bytes(&link->geo) - off;
	return (uint8_t *)link->read_bf16 + off;
}

/* The next piece of a shard's content; the first one goes on behind the table, unless the weights
 * are read as bf16, which lie elsewhere. */
static int post_data(struct ol_link *link, uint64_t *ret_bytes)
{
	struct ol_worker *worker = link->worker;
	uint64_t total = ol_worker_read(link), off = link->read_off, left = OL_CHUNK_BYTES;
	uint64_t table = ol_layout_table_bytes(&link->geo);
	struct ol_xport_read read = {
		.flags = OL_XPORT_MORE, /* the version line follows */
		.src = link->reader->dial.public_key,
		.src_off = ol_layout_snapshot_off(&link->geo, link->read_snapshot) + off,
	};

	if (link->read_bf16 != NULL && off < table)
		total = table;
	else if (link->read_bf16 != NULL)
		read.src_off += ol_layout_bf16_off(&link->geo) - table;
	while (off < total && left > 0 && read.seg_count < OL_XPORT_SEGS_MAX) {
		uint64_t bytes;
		const uint8_t *at = read_piece(link, off, &bytes);

		if (bytes > left)
			bytes = left;
		read.segs[read.seg_count++] = (struct ol_xport_seg){
			.region = link->reader->rail->mirror_region,
			.off = (uint64_t)(at - (const uint8_t *)worker->mirror_slab->addr),
			.bytes = (uint32_t)bytes,
		};
		off += bytes;
		left -= bytes;
	}
	*ret_bytes = off - link->read_off;
	return worker->ops->post_read(link->reader->dial.conn, &read);
}

/* True: it was posted. False: not now; or never, and the link ends */
static bool post_check(struct ol_link *link, int rc)
{
	if (rc != 0 && rc != -EAGAIN && rc != -ENOTCONN)
		ol_peer_break(link->reader, rc);
	return rc == 0;
}

void ol_pull_progress(struct ol_link *link)
{
	struct ol_version_line *line;
	uint64_t bytes;

	/* OL_READ_NONE also before all links are up, when there is no memory for it */
	if (link->read_state == OL_READ_NONE || !ol_link_readable(link) ||
	    (link->worker->pull_even == OL_EVEN_ASKS && ol_even_waits(link)))
		return;
	line = ol_worker_line(link->worker, link->index);
	if (link->read_state == OL_READ_NEWEST &&
	    post_check(link, post_line(link, line, OL_COOKIE_READ, 0)))
		link->read_state = OL_READ_NEWEST_POSTED;
	while (link->read_state == OL_READ_DATA && post_check(link, post_data(link, &bytes))) {
		link->read_off += bytes;
		if (link->read_off == ol_worker_read(link))
			link->read_state = OL_READ_CHECK;
	}
	if (link->read_state == OL_READ_CHECK &&
	    post_check(link, post_line(link, line, OL_COOKIE_READ, OL_XPORT_AFTER_READS)))
		link->read_state = OL_READ_CHECK_POSTED;
}

/* A mirror has what was read of a shard when the other one's was */
static bool has_same(const struct ol_link *link, const struct ol_mirror *a,
		     const struct ol_mirror *b)
{
	uint32_t k = link->index;

	return ol_link_is_in(link, a->intact & b->intact) && a->versions[k] == b->versions[k] &&
	       a->histories[k] == b->histories[k] && a->identities[k] == b->identities[k] &&
	       a->read_ns[k] == b->read_ns[k];
}

/* The shards that were not read, or whose server is gone, keep their last weights */
static void last_copy(struct ol_link *link, const struct ol_mirror *from, struct ol_mirror *to)
{
	uint64_t total = ol_worker_mirrored(link), bytes;
	uint32_t k = link->index;

	if (has_same(link, from, to))
		return;
	for (uint64_t off = 0; off < total; off += bytes) {
		struct ol_mirror source = *from;
		const uint8_t *src = mirror_piece(link, &source, off, &bytes);

		memcpy(mirror_piece(link, to, off, &bytes), src, bytes);
	}
	to->versions[k] = from->versions[k];
	to->histories[k] = from->histories[k];
	to->identities[k] = from->identities[k];
	to->read_ns[k] = from->read_ns[k];
	to->intact |= UINT64_C(1) << k;
}

/* Weights of these shards have come. Where a server has applied its whole queue, the pulled weights
 * of its shard replace the local ones. */
static void local_replace(struct ol_worker *worker, uint64_t read)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (worker->local_moved == 0)
		return;
	for (uint32_t k = 0; k < worker->link_count; k++) {
		const struct ol_link *link = &worker->links[k];

		if (!ol_link_is_in(link, read) || !ol_link_usable(link) || link->queue.count > 0)
			continue;
		worker->local_moved &= ~(UINT64_C(1) << k);
		memcpy(worker->local + link->geo.shard_first,
		       mirror->weights + link->geo.shard_first,
		       link->geo.shard_len * sizeof(float));
	}
}

/* The version of the shard furthest behind, of a span */
static uint64_t oldest_of(const struct ol_worker *worker, const struct ol_mirror *mirror,
			  uint64_t span)
{
	uint64_t oldest = UINT64_MAX;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (ol_link_is_in(&worker->links[i], span) && mirror->versions[i] < oldest)
			oldest = mirror->versions[i];
	}
	return oldest;
}

/* The weights that were read are older than those that the caller has, or has waited for */
static bool goes_back(struct ol_worker *worker)
{
	const struct ol_mirror *last = &worker->mirrors[worker->mirror];
	const struct ol_mirror *read = target_mirror(worker);
	const uint64_t span = worker->pull_span;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].read_local) /* an outage: there are no others */
			return false;
	}
	for (uint32_t i = 0; last->whole && i < worker->link_count; i++) {
		if (ol_link_is_in(&worker->links[i], span) && read->versions[i] < last->versions[i])
			return true;
	}
	return oldest_of(worker, read, span) < worker->pace.handed;
}

/* All shards of the span are read: the mirror that was written becomes the one that the caller reads. */
static void mirror_flip(struct ol_worker *worker, struct ol_op *op)
{
	const struct ol_mirror *last = &worker->mirrors[worker->mirror];
	struct ol_mirror *mirror = target_mirror(worker);
	uint64_t read = worker->pull_span;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		uint64_t age_ns = worker->now_ns - last->read_ns[i];

		if (!worker->links[i].read_local)
			continue;
		worker->links[i].own_version = worker->links[i].version;
		read &= ~(UINT64_C(1) << i);
		op->local = 1;
		if (age_ns > op->age_ns)
			op->age_ns = age_ns;
	}
	if (read == 0)
		return;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (ol_link_is_in(link, read)) {
			link->mirror_gone = false;
			if (worker->pull_begun_ns != 0)
				ol_times_pull(link);
		} else {
			last_copy(link, last, mirror);
		}
	}
	mirror->version = oldest_of(worker, mirror, ol_worker_all(worker));
	mirror->whole = true;
	worker->mirror = 1 - worker->mirror;
	ol_init_on_pull(worker);
	if (worker->opts.observer && mirror->version > worker->pace.handed)
		worker->pace.handed = mirror->version;
	ol_keep_on_pull(worker, read);
	local_replace(worker, read);
}

/* Begin the caller's pull, which came while the library pulled for itself */
static void next_begin(struct ol_worker *worker)
{
	struct ol_op *op = worker->next_pull;
	int rc;

	worker->next_pull = NULL;
	if (op == NULL)
		return;
	rc = pull_begin(worker, worker->next_pull_flags, worker->next_pull_span, op);
	if (rc != 0)
		ol_op_done(worker, op, rc, 0);
}

static void pull_end(struct ol_worker *worker, int status)
{
	const struct ol_mirror *mirror;
	struct ol_op *op = worker->pull_op;

	worker->pull_op = NULL;
	worker->even_ns = 0;
	for (uint32_t i = 0; i < worker->link_count; i++)
		worker->links[i].read_state = OL_READ_NONE;
	if (status == 0 && worker->pull_forward && goes_back(worker))
		status = OL_E_HISTORY;
	if (status == 0)
		mirror_flip(worker, op);
	mirror = &worker->mirrors[worker->mirror];
	ol_op_done(worker, op, status,
		   status == 0 ? oldest_of(worker, mirror, worker->pull_span) : 0);
	next_begin(worker);
}

void ol_pull_check(struct ol_worker *worker)
{
	for (uint32_t i = 0; worker->pull_op != NULL && i < worker->link_count; i++) {
		if (worker->links[i].read_state != OL_READ_DONE)
			return;
	}
	if (worker->pull_op != NULL && !(worker->pull_missed && ol_even_again(worker)))
		pull_end(worker, worker->pull_status);
}

/* This shard is read, or given up. */
static void read_done(struct ol_link *link, int status)
{
	struct ol_worker *worker = link->worker;
	struct ol_mirror *mirror = target_mirror(worker);

	if (link->pinned && pin_post(link, 0))
		link->pinned = false;
	if (status != 0)
		worker->pull_status = status;
	else if (link->read_bf16 != NULL)
		ol_format_decode(OL_FORMAT_BF16, mirror->weights + link->geo.shard_first,
				 link->read_bf16, 0, link->geo.shard_len);
	mirror->versions[link->index] = link->read_version;
	mirror->histories[link->index] = link->history;
	mirror->identities[link->index] = link->identity;
	mirror->read_ns[link->index] = worker->now_ns;
	if (worker->pull_begun_ns != 0)
		ol_times_read(link);
	if (status == 0)
		mirror->intact |= UINT64_C(1) << link->index;
	link->reader->dial.backoff_ns = 0;
	link->read_state = OL_READ_DONE;
	ol_pull_check(worker);
}

/* Reads of this pull are posted, and the last of them, of a line, has not come */
static bool is_being_read(const struct ol_link *link)
{
	return link->read_state == OL_READ_NEWEST_POSTED ||
	       (link->read_state == OL_READ_DATA && link->read_off > 0) ||
	       link->read_state == OL_READ_CHECK || link->read_state == OL_READ_CHECK_POSTED;
}

/* No shard is read by this pull: a mirror is of one version. It ends once nothing is being read, as the next pull reads
 * into the same mirror */
static void all_local(struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		link->read_local = true;
		if (!is_being_read(link))
			link->read_state = OL_READ_DONE;
		else if (link->read_state == OL_READ_DATA)
			link->read_state = OL_READ_CHECK; /* without the rest */
	}
	worker->pull_even = OL_EVEN_NOT;
	worker->pull_missed = false;
}

void ol_pull_on_down(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	link->pinned = false;
	link->asking = false;
	/* also a shard that was read already: its new weights may be lost, and a server that comes
	   back reads the older mirror meanwhile */
	if (worker->pull_op == NULL || !ol_link_is_in(link, worker->pull_span))
		return;
	link->read_local = link->read_local || last_will_do(link);
	/* otherwise wait for the server, and read again */
	link->read_state = link->read_local ? OL_READ_DONE : OL_READ_NEWEST;
	if (link->read_local && ol_worker_decided(worker))
		all_local(worker);
	else if (link->read_local)
		ol_even_give_up(worker);
	ol_pull_check(worker);
}

void ol_pull_on_up(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;

	link->asking = false;
	if (worker->pull_op == NULL || !ol_link_is_in(link, worker->pull_span) || link->read_local)
		return;
	/* weights read before may be of a lost history */
	link->read_retries = 0;
	link->read_state = OL_READ_NEWEST; /* pushes that are pushed again make newer versions */
	ol_pull_progress(link);
}

/* A torn read: the read was overtaken, or the line changed meanwhile. Find the newest version and
 * read that. */
static void read_again(struct ol_link *link, bool known)
{
	if (link->read_retries++ >= link->worker->opts.pull_retries_max) {
		read_done(link, OL_E_TORN);
		ol_even_answered(link->worker);
		return;
	}
	link->read_state = OL_READ_NEWEST;
	if (known) {
		read_start(link);
		ol_pull_pin(link);
	}
	ol_pull_progress(link);
}

void ol_line_read(const struct ol_version_line *line, uint64_t words[1 + 2 * OL_SNAPSHOTS])
{
	words[0] = ol_word_load(&line->published);
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		words[1 + i] = ol_word_load(&line->begin[i]);
		words[1 + OL_SNAPSHOTS + i] = ol_word_load(&line->end[i]);
	}
}

bool ol_line_learn(struct ol_link *link, const uint64_t *words)
{
	uint64_t version = ol_published_version(words[0]);
	uint32_t snapshot = ol_published_snapshot(words[0]);

	if (snapshot >= OL_SNAPSHOTS || words[1 + snapshot] != version + 1 ||
	    words[1 + OL_SNAPSHOTS + snapshot] != version + 1)
		return false;
	ol_link_learn_version(link, version, snapshot);
	return true;
}

void ol_pull_on_read(struct ol_link *link, int status)
{
	uint64_t words[1 + 2 * OL_SNAPSHOTS];
	uint64_t want = link->read_version + 1;
	bool known;

	if (status != 0 || link->worker->pull_op == NULL)
		return; /* the connection goes down and ends the pull; or the pull has ended */
	if (link->read_local) { /* it was being read when another shard's server was lost */
		link->read_state = OL_READ_DONE;
		ol_pull_check(link->worker);
		return;
	}
	ol_line_read(ol_worker_line(link->worker, link->index), words);
	known = ol_line_learn(link, words);
	switch (link->read_state) {
	case OL_READ_NEWEST_POSTED:
		if (known && link->worker->pull_even != OL_EVEN_NOT) {
			ol_even_known(link);
		} else if (known) {
			read_start(link);
			ol_pull_progress(link);
		} else {
			read_again(link, false);
		}
		break;
	case OL_READ_CHECK_POSTED:
		if (words[1 + link->read_snapshot] == want &&
		    words[1 + OL_SNAPSHOTS + link->read_snapshot] == want)
			read_done(link, 0);
		else if (link->worker->pull_even != OL_EVEN_NOT)
			ol_even_miss(link);
		else
			read_again(link, known);
		break;
	case OL_READ_NONE:
	case OL_READ_KNOWN:
	case OL_READ_NEWEST:
	case OL_READ_DATA:
	case OL_READ_CHECK:
	case OL_READ_DONE:
		break; /* a pull that was given up */
	}
}

void ol_pull_detach(struct ol_worker *worker, const struct ol_op *op)
{
	if (worker->next_pull == op)
		worker->next_pull = NULL;
	if (worker->pull_op != op)
		return;
	worker->own_pull = (struct ol_op){ 0 };
	worker->pull_op = &worker->own_pull;
}

void ol_pull_fail(struct ol_worker *worker, int status)
{
	struct ol_op *next = worker->next_pull;

	worker->next_pull = NULL; /* it would begin */
	if (worker->pull_op != NULL)
		pull_end(worker, status);
	if (next != NULL)
		ol_op_done(worker, next, status, 0);
}

uint64_t ol_newest(struct ol_worker *worker)
{
	uint64_t newest = UINT64_MAX;

	if (!ol_worker_is_mine(worker))
		return 0;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];
		struct ol_version_line *line = ol_worker_line(worker, worker->link_count + i);

		if (link->version < newest)
			newest = link->version;
		/* also while gradients are pushed again: they may be held for a step that nobody makes,
		   and the caller withdraws them when it hears that the last one is made */
		if (!link->asking && link->reader->dial.state == OL_DIAL_LIVE)
			link->asking = post_check(link, post_line(link, line, OL_COOKIE_NEWEST, 0));
	}
	return newest;
}

void ol_pull_on_newest(struct ol_link *link, int status)
{
	struct ol_worker *worker = link->worker;
	uint64_t words[1 + 2 * OL_SNAPSHOTS];

	link->asking = false;
	if (status != 0)
		return;
	ol_line_read(ol_worker_line(worker, worker->link_count + link->index), words);
	(void)ol_line_learn(link, words);
}

const float *ol_weights(const struct ol_worker *worker, uint64_t *ret_version)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (!ol_worker_is_mine(worker))
		return NULL;
	if (!mirror->whole)
		return NULL;
	if (ret_version != NULL)
		*ret_version = mirror->version;
	return worker->local_moved != 0 ? worker->local : mirror->weights;
}

static struct ol_applied applied_find(const struct ol_worker *worker, uint32_t shard,
				      uint32_t worker_id)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (!mirror->whole || shard >= worker->link_count ||
	    worker_id >= worker->links[shard].geo.workers_max)
		return (struct ol_applied){ 0 };
	return ol_applied_of(mirror->applied[shard], worker_id);
}

uint64_t ol_applied(const struct ol_worker *worker, uint32_t shard, uint32_t worker_id)
{
	if (!ol_worker_is_mine(worker))
		return 0;
	return ol_seq_count(applied_find(worker, shard, worker_id).seq);
}

uint64_t ol_applied_grads(const struct ol_worker *worker, uint32_t shard, uint32_t worker_id)
{
	if (!ol_worker_is_mine(worker))
		return 0;
	return applied_find(worker, shard, worker_id).grads;
}

void ol_worker_show(const struct ol_worker *worker, uint32_t shard, struct ol_shown *ret_shown)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	const struct ol_geometry *geo = &worker->links[shard].geo;

	*ret_shown = (struct ol_shown){ .geo = geo };
	if (!mirror->whole)
		return;
	ret_shown->table = mirror->applied[shard];
	ret_shown->weights = mirror->weights + geo->shard_first;
	ret_shown->version = mirror->versions[shard];
	ret_shown->epoch = mirror->histories[shard];
	ret_shown->history = mirror->identities[shard];
}
