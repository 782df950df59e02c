/* SPDX-License-Identifier: BSD-3-Clause */

/* wrong.c -- rules of the ZooKeeper back end that are left out, by calls that the linker redirects */

#include "replication/coord/zookeeper/zk.h"
#include "sim/ensemble/ensemble.h"
#include "sim/world/wrap.h"

WRAP(void, ol_coord_set_session, struct ol_coord *coord, bool connected, uint64_t lease_ns);
WRAP(struct zk_event *, zk_events_take, struct zk *zk, uint64_t due_ns, bool *ret_woken);
WRAP(void, zk_view_event, struct zk *zk, const struct zk_event *event);
WRAP(void, zk_forget, struct zk *zk, uint32_t shard);
WRAP(void, zk_join, struct zk *zk);

enum ens_wrong ens_wrong;

const char *const ens_wrong_names[ENS_WRONGS] = {
	[ENS_RIGHT] = "nothing",
	[ENS_LEASE_FROM_ANSWER] = "lease-from-answer",
	[ENS_LEASE_OF_SIGN] = "lease-of-sign",
	[ENS_SIGNS_TOGETHER] = "signs-together",
	[ENS_WATCH_ONCE] = "watch-once",
	[ENS_STALE_IS_NEW] = "stale-is-new",
	[ENS_LOSS_UNSEEN] = "loss-unseen",
	[ENS_NO_COMPARE] = "no-compare",
	[ENS_TWICE] = "twice",
	[ENS_STAYS] = "stays",
	[ENS_ZXID_ALONE] = "zxid-alone",
	[ENS_JOINS_ONCE] = "joins-once",
	[ENS_EXPIRY_UNSEEN] = "expiry-unseen",
};

void __wrap_ol_coord_set_session(struct ol_coord *coord, bool connected, uint64_t lease_ns)
{
	struct zk *zk = coord->back;
	uint64_t losses = coord->losses;

	if (connected && zk != NULL) {
		uint64_t session_ns = zk->timeout_ms * SIM_MS;

		if (ens_wrong == ENS_LEASE_FROM_ANSWER)
			lease_ns = sim_now() + session_ns;
		if (ens_wrong == ENS_LEASE_OF_SIGN)
			lease_ns = zk->sign_known_ns + session_ns;
		zk->lease_ns = lease_ns;
	}
	__real_ol_coord_set_session(coord, connected, lease_ns);
	if (ens_wrong == ENS_EXPIRY_UNSEEN)
		coord->losses = losses;
}

struct zk_event *__wrap_zk_events_take(struct zk *zk, uint64_t due_ns, bool *ret_woken)
{
	if (ens_wrong == ENS_SIGNS_TOGETHER && zk->up && !zk->sign_out) {
		zk->sign_due_ns = zk->sign_sent_ns + zk->timeout_ms * SIM_MS / 4;
		if (due_ns > zk->sign_due_ns)
			due_ns = zk->sign_due_ns;
	}
	return __real_zk_events_take(zk, due_ns, ret_woken);
}

void __wrap_zk_view_event(struct zk *zk, const struct zk_event *event)
{
	struct zk_shard *shard = &zk->shards[event->ref->shard];

	if (ens_wrong == ENS_STALE_IS_NEW)
		shard->view_created = 0;
	if (ens_wrong == ENS_ZXID_ALONE)
		shard->view_version = 0;
	__real_zk_view_event(zk, event);
}

void __wrap_zk_forget(struct zk *zk, uint32_t shard)
{
	if (ens_wrong != ENS_LOSS_UNSEEN)
		__real_zk_forget(zk, shard);
}

void __wrap_zk_join(struct zk *zk)
{
	if (ens_wrong != ENS_JOINS_ONCE || zk->coord->losses == 0)
		__real_zk_join(zk);
}
