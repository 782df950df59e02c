/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * send.c -- what is refused, and the order in which writes land
 *
 * rdma_rxe carries out the requests of a queue pair in order, each whole. So another order is made
 * here, before it sees them: plain writes are held back, cut, and posted shuffled. They become a
 * group below with one completion, out of which the program's own are made again.
 *
 * A group that fails has landed in part. The program sees success up to the first request that has
 * not landed whole, then the error, then flushes: where its own order and ours differ that is not
 * the request that the error was about.
 */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request of ours is known by the upper half of its identity. */
#define TAG      (UINT64_C(0x0ad4b70c) << 32)
#define TAG_MASK (UINT64_C(0xffffffff) << 32)

/* A part of a request: it is posted below on its own. */
struct part {
	uint8_t ask;
	bool whole;
	uint32_t from;
	uint32_t bytes;
};

static uint32_t random_below(uint32_t bound)
{
	static uint32_t state = 0x9e3779b9;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % bound;
}

static uint64_t wr_bytes(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static bool has_imm(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

/*
 * No write with immediate: siw has no opcode for it (map_send_opcode in providers/siw/siw.c), nor
 * has irdma without IRDMA_WRITE_WITH_IMM (irdma_upost_send() in providers/irdma/uverbs.c).
 */
static bool imm_refused(const struct ibv_send_wr *wr)
{
	return ad_set.no_imm && has_imm(wr);
}

/*
 * More inline than was granted: irdma_uk_inline_rdma_write() (providers/irdma/uk.c) and
 * siw_push_wqe() give EINVAL, mlx4_post_send() ENOMEM.
 */
static bool inline_refused(const struct ad_qp *qp, const struct ibv_send_wr *wr)
{
	return (wr->send_flags & IBV_SEND_INLINE) != 0 && wr_bytes(wr) > qp->inline_max;
}

/* An iWARP read has one target: siw_post_send() in the kernel's siw_verbs.c; max_sge_rd says so. */
static bool sge_refused(const struct ad_qp *qp, const struct ibv_send_wr *wr)
{
	if (ad_set.sge_read_max != AD_NONE && wr->opcode == IBV_WR_RDMA_READ &&
	    wr->num_sge > ad_set.sge_read_max)
		return true;
	return ad_set.sge_max != AD_NONE && (uint32_t)wr->num_sge > qp->sge_max;
}

/* Cuts a write where its bytes would come in other packets or in other lines of the cache. */
static unsigned parts_cut(const struct ibv_send_wr *wr, uint8_t ask, struct part *parts)
{
	const uint64_t bytes = wr_bytes(wr);
	const bool write =
		wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t lines = (uint32_t)(bytes / AD_PIECE_BYTES);
	uint32_t from = 0;
	unsigned count = 0;

	if (!ad_set.pieces || !write || lines < 2) {
		parts[0] = (struct part){ .ask = ask, .whole = true };
		return 1;
	}
	while (count < AD_PIECES_MAX - 1 && lines > 1) {
		uint32_t cut = 1 + random_below(lines - 1);

		parts[count++] = (struct part){ ask, false, from, cut * AD_PIECE_BYTES };
		from += cut * AD_PIECE_BYTES;
		lines -= cut;
	}
	parts[count++] = (struct part){ ask, false, from, (uint32_t)bytes - from };
	return count;
}

static void parts_shuffle(struct part *parts, unsigned count)
{
	for (unsigned i = count; i > 1; i--) {
		const unsigned other = random_below(i);
		const struct part part = parts[i - 1];

		parts[i - 1] = parts[other];
		parts[other] = part;
	}
}

/*
 * The end of a write goes first. An adapter looks at the bounds of a whole message before its first
 * byte lands (IBTA volume 1, 9.7.4.1.3: the length is in the first packet's RETH), so a write that
 * crosses the end of a region changes nothing; nor does it here.
 */
static void ends_first(struct part *parts, unsigned count, unsigned asks)
{
	for (unsigned ask = 0; ask < asks; ask++) {
		struct part *first = NULL;
		struct part *end = NULL;
		struct part part;

		for (unsigned i = 0; i < count; i++) {
			if (parts[i].ask != ask)
				continue;
			if (first == NULL)
				first = &parts[i];
			if (end == NULL || parts[i].from > end->from)
				end = &parts[i];
		}
		part = *first;
		*first = *end;
		*end = part;
	}
}

/* The elements of a request that hold so many bytes from an offset on. Returns how many. */
static int sges_slice(const struct ibv_send_wr *wr, const struct part *part, struct ibv_sge *sges)
{
	uint32_t skip = part->from;
	uint32_t left = part->bytes;
	int count = 0;

	for (int i = 0; i < wr->num_sge && left > 0; i++) {
		struct ibv_sge sge = wr->sg_list[i];

		if (skip >= sge.length) {
			skip -= sge.length;
			continue;
		}
		sge.addr += skip;
		sge.length -= skip;
		skip = 0;
		if (sge.length > left)
			sge.length = left;
		left -= sge.length;
		sges[count++] = sge;
	}
	return count;
}

static int below(const struct ad_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	wr->next = NULL;
	return qp->ctx->ops.post_send(qp->qp, wr, &bad);
}

static int part_post(struct ad_qp *qp, const struct ibv_send_wr *of, const struct part *part,
		     bool last, bool signaled)
{
	struct ibv_send_wr wr = *of;
	struct ibv_sge sges[AD_SGES_MAX];

	wr.wr_id = TAG | qp->posted;
	wr.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
	if (last && signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (!part->whole) {
		wr.sg_list = sges;
		wr.num_sge = sges_slice(of, part, sges);
		wr.wr.rdma.remote_addr += part->from;
		if (!last && has_imm(of)) {
			wr.opcode = IBV_WR_RDMA_WRITE;
			wr.send_flags &= ~(unsigned)IBV_SEND_SOLICITED;
		}
	}
	return below(qp, &wr);
}

static struct ad_group *group_make(const struct ad_qp *qp, struct ibv_send_wr *const *wrs,
				   unsigned count)
{
	struct ad_group *group = calloc(1, sizeof(*group));

	if (group == NULL)
		abort();
	group->first_num = qp->posted;
	group->count = count;
	for (unsigned i = 0; i < count; i++) {
		group->asks[i].wr_id = wrs[i]->wr_id;
		group->asks[i].signaled = (wrs[i]->send_flags & IBV_SEND_SIGNALED) != 0;
	}
	return group;
}

/* A read that overtakes the writes before it is carried out first. */
static void reads_first(struct part *parts, unsigned count, struct ibv_send_wr *const *wrs)
{
	for (unsigned i = 0; i < count; i++) {
		const struct part part = parts[i];

		if (wrs[part.ask]->opcode != IBV_WR_RDMA_READ)
			continue;
		parts[i] = parts[0];
		parts[0] = part;
	}
}

/*
 * Payload in any order before its completion. PCIe orders no two reads' answers and, with relaxed
 * ordering, no two writes; a network with adaptive routing orders no two packets. The standard
 * promises the order of completions alone (IBTA volume 1, 10.8.3.3).
 *
 * Fails only if nothing was posted.
 */
static int group_post(struct ad_qp *qp, struct ibv_send_wr *const *wrs, unsigned count)
{
	struct ad_group *group = group_make(qp, wrs, count);
	struct part parts[AD_PARTS_MAX];
	unsigned total = 0;
	bool signaled = false;
	int rc;

	for (unsigned i = 0; i < count; i++) {
		total += parts_cut(wrs[i], (uint8_t)i, &parts[total]);
		signaled |= group->asks[i].signaled;
	}
	parts_shuffle(parts, total);
	ends_first(parts, total, count);
	reads_first(parts, total, wrs);
	for (unsigned i = 0; i < total; i++) {
		rc = part_post(qp, wrs[parts[i].ask], &parts[i], i + 1 == total, signaled);
		if (rc != 0 && i == 0) {
			free(group);
			return rc;
		}
		if (rc != 0) { /* it has room for every piece of what the program asked for */
			fprintf(stderr, "OL_ADAPTER: the queue below is full: error %d\n", rc);
			abort();
		}
		group->part_ask[i] = parts[i].ask;
		qp->posted++;
	}
	group->parts = total;
	*qp->tail = group;
	qp->tail = &group->next;
	return 0;
}

/* Copies a request, as its buffers of inline data belong to the program again. */
static void keep(struct ad_held *held, const struct ibv_send_wr *wr)
{
	uint8_t *to = held->inlined;

	ad_held_total++;
	held->wr = *wr;
	held->wr.sg_list = held->sges;
	memcpy(held->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	for (int i = 0; i < wr->num_sge && (wr->send_flags & IBV_SEND_INLINE) != 0; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		held->sges[i].addr = (uintptr_t)to;
		to += wr->sg_list[i].length;
	}
}

static void refused_late(const struct ad_qp *qp, int rc)
{
	if (rc == 0 || qp->ctx->dead)
		return;
	fprintf(stderr, "OL_ADAPTER: what was held back is refused: error %d\n", rc);
	abort();
}

/* Posts what is held back, and with it a read (NULL: none) that overtakes it. */
static void held_post(struct ad_qp *qp, struct ibv_send_wr *read)
{
	struct ibv_send_wr *wrs[AD_HELD_MAX];
	unsigned count = qp->held_count;

	for (unsigned i = 0; i < count; i++)
		wrs[i] = &qp->held[i].wr;
	qp->held_count = 0;
	ad_held_total -= count;
	if (read != NULL)
		wrs[count++] = read;
	refused_late(qp, group_post(qp, wrs, count));
}

/*
 * Writes of one connection become visible out of order, also behind a read that was posted after
 * them, until one with an immediate or a send: a queue pair
 * with MLX5DV_QP_CREATE_OOO_DP (providers/mlx5/man/mlx5dv_create_qp.3.md), and what EFA's SRD does
 * always. The sender is the one who holds them back here, until it posts something else, polls or
 * goes to sleep.
 */
static void hold(struct ad_qp *qp, const struct ibv_send_wr *wr)
{
	keep(&qp->held[qp->held_count++], wr);
	if (qp->held_count == AD_HELD_MAX)
		held_post(qp, NULL);
}

static int request_send(struct ad_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr copy = *wr;
	struct ibv_send_wr *only = &copy;

	if (!ad_send_translates())
		return below(qp, &copy);
	if (ad_set.ooo && wr->opcode == IBV_WR_RDMA_WRITE && wr->num_sge <= AD_SGES_MAX &&
	    (wr->send_flags & IBV_SEND_FENCE) == 0) {
		hold(qp, wr);
		return 0;
	}
	if (qp->held_count > 0 && wr->opcode == IBV_WR_RDMA_READ && /* held_count < AD_HELD_MAX */
	    (wr->send_flags & IBV_SEND_FENCE) == 0) {
		held_post(qp, &copy);
		return 0;
	}
	if (qp->held_count > 0)
		held_post(qp, NULL);
	return group_post(qp, &only, 1);
}

static void last_send(struct ad_qp *qp)
{
	if (!qp->last_waits)
		return;
	qp->last_waits = false;
	ad_held_total--;
	refused_late(qp, request_send(qp, &qp->last->wr));
}

void ad_send_flush(struct ad_qp *qp)
{
	last_send(qp);
	if (qp->held_count > 0)
		held_post(qp, NULL);
}

/*
 * A post only rings the adapter, which fetches the request later; so does rdma_rxe of kernel 6.12,
 * where that of 6.1 sends within the post. A queue pair that goes to error meanwhile flushes it
 * (IBTA volume 1, 10.3.1). So the last request waits here for the next one, a poll or an armed
 * queue.
 */
static int one_post(struct ad_qp *qp, struct ibv_send_wr *wr)
{
	if (imm_refused(wr) || inline_refused(qp, wr) || sge_refused(qp, wr))
		return EINVAL;
	last_send(qp);
	if (!ad_set.unsent || wr->num_sge > AD_SGES_MAX)
		return request_send(qp, wr);
	keep(qp->last, wr);
	qp->last_waits = true;
	return 0;
}

int ad_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ad_qp *qp;
	int rc = 0;

	ad_lock();
	qp = ad_qp_find(ibv_qp);
	if (qp == NULL) /* made by a call that is not replaced here */
		rc = ad_ctx_find(ibv_qp->context)->ops.post_send(ibv_qp, wr, bad);
	for (; qp != NULL && rc == 0 && wr != NULL; wr = wr->next) {
		rc = qp->ctx->dead ? EIO : one_post(qp, wr);
		if (rc != 0)
			*bad = wr;
		else
			ad_post_counted(qp->ctx, qp);
	}
	ad_unlock();
	return rc;
}

static void ask_tell(struct ad_cq *cq, const struct ad_ask *ask, const struct ibv_wc *wc,
		     enum ibv_wc_status status)
{
	struct ibv_wc told = *wc;

	told.wr_id = ask->wr_id;
	told.status = status;
	if (status != IBV_WC_SUCCESS || ask->signaled)
		ad_cq_put(cq, &told);
}

/* The part of that number has failed; those before it have landed. */
static void group_failed(struct ad_cq *cq, struct ad_group *group, const struct ibv_wc *wc,
			 uint32_t part)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (unsigned i = 0; i < group->count; i++) {
		bool whole = true;

		for (uint32_t at = part; at < group->parts; at++)
			whole = whole && group->part_ask[at] != i;
		if (!whole && status == IBV_WC_SUCCESS)
			status = wc->status;
		else if (status != IBV_WC_SUCCESS)
			status = IBV_WC_WR_FLUSH_ERR;
		ask_tell(cq, &group->asks[i], wc, status);
	}
	group->failed = true;
}

static void group_drop(struct ad_qp *qp)
{
	struct ad_group *group = qp->first;

	qp->first = group->next;
	if (qp->first == NULL)
		qp->tail = &qp->first;
	free(group);
}

bool ad_send_done(struct ad_cq *cq, const struct ibv_wc *wc)
{
	const uint32_t num = (uint32_t)wc->wr_id;
	struct ad_group *group;
	struct ad_qp *qp;

	if (!ad_send_translates() || (wc->wr_id & TAG_MASK) != TAG)
		return false;
	qp = ad_qp_of_num(wc->qp_num);
	if (qp == NULL)
		return true;
	while (qp->first != NULL && num - qp->first->first_num >= qp->first->parts)
		group_drop(qp);
	group = qp->first;
	if (group == NULL)
		return true;
	if (wc->status == IBV_WC_SUCCESS) {
		for (unsigned i = 0; i < group->count; i++)
			ask_tell(cq, &group->asks[i], wc, IBV_WC_SUCCESS);
	} else if (!group->failed) {
		group_failed(cq, group, wc, num - group->first_num);
	}
	if (num - group->first_num + 1 == group->parts)
		group_drop(qp);
	return true;
}

void ad_send_forget(struct ad_qp *qp)
{
	ad_held_total -= qp->held_count + qp->last_waits;
	while (qp->first != NULL)
		group_drop(qp);
}
