/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_probe.h -- one replica's state machine, whose actions are compared as text: f5 forward, a5
 * apply, c5 commit, k5 ack, <P and >P fence predecessor and successor, +7 connect to replica 7
 */
#ifndef OL_TESTS_UNIT_REPLICATION_CHAIN_PROBE_H
#define OL_TESTS_UNIT_REPLICATION_CHAIN_PROBE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "replication/chain.h"

enum {
	SLOTS = 4,
	DID_MAX = 512
};

struct probe {
	struct ol_chain chain;
	char did[DID_MAX];
	bool no_forward; /* -EAGAIN */
	bool no_apply;
	bool no_ack;
};

static inline void did(struct probe *probe, const char *what, uint64_t number)
{
	size_t used = strlen(probe->did);

	snprintf(probe->did + used, DID_MAX - used, "%s%s%llu", used > 0 ? " " : "", what,
		 (unsigned long long)number);
}

static inline int carry_out(struct probe *probe, const struct ol_chain_action *action)
{
	switch (action->what) {
	case OL_CHAIN_FORWARD:
		if (probe->no_forward)
			return -EAGAIN;
		did(probe, "f", action->version);
		break;
	case OL_CHAIN_APPLY:
		if (probe->no_apply)
			return -EAGAIN;
		did(probe, "a", action->version);
		break;
	case OL_CHAIN_ACK:
		if (probe->no_ack)
			return -EAGAIN;
		did(probe, "k", action->version);
		break;
	}
	ol_chain_on_done(&probe->chain, action);
	if (action->commits)
		did(probe, "c", action->version);
	return 0;
}

static inline void progress(struct probe *probe)
{
	struct ol_chain_action action;
	unsigned not_now = 0;

	while (ol_chain_next_action(&probe->chain, not_now, &action)) {
		if (carry_out(probe, &action) != 0)
			not_now |= action.what;
	}
}

static inline bool waits(const struct probe *probe)
{
	struct ol_chain_action action;

	return ol_chain_next_action(&probe->chain, 0, &action);
}

static inline void connects(struct probe *probe)
{
	did(probe, "+", ol_view_successor(&probe->chain.view, probe->chain.id)->id);
}

static inline void load(struct probe *probe, uint64_t version)
{
	if (ol_chain_on_load(&probe->chain, version))
		connects(probe);
}

static inline void start(struct probe *probe, uint64_t id)
{
	*probe = (struct probe){ .no_ack = false };
	ol_chain_init(&probe->chain, id, SLOTS);
}

/* Adopt a view of the replicas in `ids`; one after '+' joins: "123", "12+3" */
static inline int view_of(struct probe *probe, uint32_t epoch, const char *ids, uint32_t founded)
{
	struct ol_view view = { .epoch = epoch,
				.founded = founded,
				.history = founded,
				.origin = 1,
				.shard_count = 1,
				.wanted = 3 };
	const struct ol_view before = probe->chain.view;
	struct ol_chain_links links;
	int rc;

	for (; *ids != '\0'; ids++) {
		if (*ids == '+')
			view.joining = 1;
		else
			view.replicas[view.count++].id = (uint64_t)(*ids - '0');
	}
	view.count -= view.joining;
	rc = ol_chain_on_view(&probe->chain, &view, &links);
	if (links.fence_predecessor)
		did(probe, "<", ol_view_predecessor(&before, probe->chain.id)->id);
	if (links.fence_successor)
		did(probe, ">", ol_view_successor(&before, probe->chain.id)->id);
	if (links.connect)
		connects(probe);
	return rc;
}

static inline void adopt(struct probe *probe, uint32_t epoch, const char *ids)
{
	assert_int_equal(view_of(probe, epoch, ids, 1), 0);
}

/* What was done since the last time, as text */
static inline void check_did(struct probe *probe, const char *what, int line)
{
	if (strcmp(probe->did, what) != 0)
		fail_msg("line %d: did \"%s\", not \"%s\"", line, probe->did, what);
	probe->did[0] = '\0';
}
#define DID(probe, what) check_did(probe, what, __LINE__)

static inline void entry(struct probe *probe, uint64_t version)
{
	assert_int_equal(ol_chain_on_entry(&probe->chain, version), 0);
	progress(probe);
}

static inline void ack(struct probe *probe, uint64_t version)
{
	assert_int_equal(ol_chain_on_ack(&probe->chain, version), 0);
	progress(probe);
}

/* The predecessor offers `content`; `have` is the answer */
static inline void hello(struct probe *probe, uint64_t content, int rc, uint64_t have)
{
	uint64_t said;

	assert_int_equal(ol_chain_on_hello(&probe->chain, content, &said), rc);
	assert_int_equal(said, have);
	ol_chain_on_predecessor(&probe->chain, true);
}

static inline void order(struct probe *probe, uint64_t version)
{
	uint64_t ordered;

	assert_int_equal(ol_chain_order(&probe->chain, &ordered), 0);
	assert_int_equal(ordered, version);
	progress(probe);
}

static inline void up(struct probe *probe, uint64_t have)
{
	assert_int_equal(ol_chain_on_successor_up(&probe->chain, have), 0);
	progress(probe);
}

/* A replica `id`, full in the chain of `ids` with epoch 2, that has `version` */
static inline void member(struct probe *probe, uint64_t id, uint64_t version, const char *ids)
{
	char alone[2] = { (char)('0' + id), '\0' };

	start(probe, id);
	load(probe, version);
	adopt(probe, 1, alone); /* everyone was the tail once */
	adopt(probe, 2, ids);
	probe->did[0] = '\0';
	if (ids[0] - '0' != (int)id)
		hello(probe, 0, 0, version);
	progress(probe);
	probe->did[0] = '\0';
}

#endif /* OL_TESTS_UNIT_REPLICATION_CHAIN_PROBE_H */
