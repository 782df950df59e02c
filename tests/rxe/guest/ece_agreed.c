/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ece_agreed.c -- both queue pairs of a connection use the options of enhanced connection
 * establishment that both ends know, and are told so before they receive
 *
 * It runs under the adapters' quirk `ece`. What the connecting end offers is changed on its way to
 * the connection manager.
 */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "support/check.h"
#include "support/wrap.h"
#include "support/xport_pair.h"

enum {
	VENDOR = 0x15b3,
	ALL = 0x30000003, /* what the quirk offers */
	FEW = 0x3,
	ENDS = 2,
};

/* A queue pair as it was seen */
struct seen {
	struct ibv_qp *qp;
	struct ibv_ece ece; /* as it was set last */
	bool set;
	bool receives;
};

static struct {
	struct seen ends[ENDS];
	unsigned count;
	unsigned offers;
	bool hide; /* the connecting end knows nothing of it */
	uint32_t mask; /* of its options */
} seen;

static struct seen *seen_of(struct ibv_qp *qp)
{
	for (unsigned i = 0; i < seen.count; i++) {
		if (seen.ends[i].qp == qp)
			return &seen.ends[i];
	}
	check(seen.count < ENDS);
	seen.ends[seen.count].qp = qp;
	return &seen.ends[seen.count++];
}

WRAP(int, ibv_set_ece, struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct seen *end = seen_of(qp);

	check(!end->receives);
	end->ece = *ece;
	end->set = true;
	return __real_ibv_set_ece(qp, ece);
}

WRAP(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTR)
		seen_of(qp)->receives = true;
	return __real_ibv_modify_qp(qp, attr, mask);
}

/* The first one is the connecting end's offer */
WRAP(int, rdma_set_local_ece, struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct ibv_ece other = *ece;

	if (seen.offers++ > 0)
		return __real_rdma_set_local_ece(id, ece);
	if (seen.hide)
		return 0;
	other.options &= seen.mask;
	return __real_rdma_set_local_ece(id, &other);
}

static void agreed(uint32_t options)
{
	struct xp_pair pair;

	xp_pair_open(&pair, NULL);
	xp_bell(pair.b_conn, 1);
	xp_wait_bell(&pair.a, pair.a_conn, 1);
	check_eq(seen.count, ENDS);
	check(seen.offers > 0);
	for (unsigned i = 0; i < ENDS; i++) {
		check(seen.ends[i].set && seen.ends[i].receives);
		check_eq(seen.ends[i].ece.vendor_id, VENDOR);
		check_eq(seen.ends[i].ece.options, options);
	}
	xp_pair_close(&pair);
}

static void all(void)
{
	seen.mask = ALL;
	agreed(ALL);
}

static void few(void)
{
	seen.mask = FEW;
	agreed(FEW);
}

static void none(void)
{
	seen.hide = true;
	agreed(0);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("both ends use what both know", all);
	xp_run1("both use what the connecting end knows", few);
	xp_run1("with an end that knows nothing of it, both use nothing", none);
	return xp_result();
}
