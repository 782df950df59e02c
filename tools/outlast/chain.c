/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain.c -- `outlast chain`: a replica more, one less, one elsewhere, none on a host, while training goes on
 *
 * Each order is one view (ol_view_ordered()), which the servers carry on from by their own rules. A move adds
 * before it removes, so that the chain never has fewer full replicas than before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "cmd/cmd.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "server/coordinator.h"

enum {
	SHARDS_MAX = 64,
	PROGRESS_MS = 2000,
};

enum action {
	ACTION_ADD,
	ACTION_REMOVE,
	ACTION_MOVE,
	ACTION_DRAIN,
	ACTIONS
};

static const struct {
	const char *name;
	bool needs_what; /* a server, or a host */
} actions[ACTIONS] = {
	[ACTION_ADD] = { "add", false },
	[ACTION_REMOVE] = { "remove", true },
	[ACTION_MOVE] = { "move", true },
	[ACTION_DRAIN] = { "drain", true },
};

struct chain_set {
	struct ol_set_coord coord;
	struct ol_set_key key;
	const char *shard; /* "": the only one */
	const char *to;
	bool fewer;
	bool json;
	uint32_t wait_s;
	uint32_t timeout_ms;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_STR(chain_set, shard, "", "add: the shard, where a job has several"),
	OL_ROW_STR(
		chain_set, to, "",
		"move, drain: the server that joins, an address of one that waits; else it is the first that "
		"waits on a host without a replica of the shard, or on any other host"),
	OL_ROW_BOOL(
		chain_set, fewer, "false",
		"drain: where no server waits elsewhere, the chain wants one replica less from now on, instead "
		"of a refusal; a last full replica stays"),
	OL_ROW_BOOL(
		chain_set, json, "false",
		"print one object for each order: order, shard, server (that left or joined), wanted, seconds"),
	OL_ROW_U32(chain_set, wait_s, "600", 1, 86400,
		   "until it is no longer waited for; what was ordered stands, and goes on"),
	OL_ROW_U32(chain_set, timeout_ms, "5000", 10, 600000, "until the coordinator is given up"),
};

struct chain {
	struct chain_set set;
	enum action action;
	const char *what; /* server or host; NULL: none */
	struct ol_coordinator coordinator;
	struct ol_kept *shards; /* with a view, by number */
	uint32_t shard_count;
	bool unread; /* a shard's view is damaged, or may not be read */
};

/* One order, while it is waited for */
struct order {
	uint32_t shard;
	const char *verb; /* of what is told: "joins", "leaves" */
	struct ol_view_order order;
	char addr[OL_ENDPOINT_MAX]; /* of who leaves or joins; "": not known before it joins */
	uint64_t begun_ns, told_ns;
	uint32_t wanted; /* when it is done */
};

static int fail(int exit_code, const char *what, const char *object, const char *remedy)
{
	return ol_cmd_error(exit_code, "chain", what, object, remedy);
}

/* ---- what there is ---- */

static void on_kept(void *arg, const struct ol_kept *kept)
{
	struct chain *chain = arg;

	chain->unread = chain->unread || kept->damaged || kept->access == OL_KEPT_CLOSED;
	if (kept->shard != OL_KEPT_NO_SHARD && kept->view.epoch != 0 &&
	    chain->shard_count < SHARDS_MAX)
		chain->shards[chain->shard_count++] = *kept;
}

static int shards_read(struct chain *chain)
{
	char err[256] = "";
	int rc;

	chain->shard_count = 0;
	rc = ol_coordinator_list(&chain->coordinator, on_kept, chain, err, sizeof(err));
	if (rc != 0)
		return fail(ol_cmd_exit_of_coord(rc), err, NULL, NULL);
	if (chain->unread)
		return fail(OL_EXIT_REFUSED, "not all views of the job can be read",
			    chain->set.coord.job, "outlast stat --views shows what there is");
	if (chain->shard_count == 0)
		return fail(OL_EXIT_SERVER, "the job has no chain", chain->set.coord.job,
			    "outlast stat --views shows what there is");
	return 0;
}

/* An address without its port; a name on this machine is a host of its own */
static size_t host_bytes(const char *addr)
{
	const char *colon = strrchr(addr, ':');

	return addr[0] == '@' || addr[0] == '/' || colon == NULL ? strlen(addr)
								 : (size_t)(colon - addr);
}

static bool is_on(const char *addr, const char *host)
{
	return strlen(host) == host_bytes(addr) && strncmp(addr, host, strlen(host)) == 0;
}

static bool same_host(const char *a, const char *b)
{
	return host_bytes(a) == host_bytes(b) && strncmp(a, b, host_bytes(a)) == 0;
}

/* The replica at an address, a live one before one that is gone; NULL: none. *ret_kept: of which shard */
static const struct ol_member *replica_find(const struct chain *chain, const char *addr,
					    const struct ol_kept **ret_kept)
{
	const struct ol_member *found = NULL;

	for (uint32_t s = 0; s < chain->shard_count; s++) {
		const struct ol_kept *kept = &chain->shards[s];

		for (uint32_t i = 0; i < kept->view.count + kept->view.joining; i++) {
			const struct ol_member *member = &kept->view.replicas[i];

			if (strcmp(member->addr, addr) != 0 ||
			    (found != NULL &&
			     !ol_members_have(kept->members, kept->member_count, member->id)))
				continue;
			found = member;
			*ret_kept = kept;
		}
	}
	return found;
}

/* Can it become the neighbour of each replica, and is it surely alive? After a restart at its address an old
 * registration may stand for a while, and nobody knows which of the two is the old one. */
static bool is_fit(const struct ol_kept *kept, const struct ol_member *member)
{
	const struct ol_view *view = &kept->view;

	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (member->job != view->replicas[i].job ||
		    !ol_member_meets(member, &view->replicas[i]) ||
		    strcmp(member->addr, view->replicas[i].addr) == 0)
			return false;
	}
	for (uint32_t i = 0; i < kept->member_count; i++) {
		if (kept->members[i].id != member->id &&
		    strcmp(kept->members[i].addr, member->addr) == 0)
			return false;
	}
	return ol_view_find(view, member->id) < 0;
}

/* How well a server that waits would do as a replica of the shard; 0: not at all */
static int spare_worth(const struct chain *chain, const struct ol_kept *kept,
		       const struct ol_member *member, const char *not_on)
{
	const struct ol_view *view = &kept->view;

	if (!is_fit(kept, member) || (not_on != NULL && same_host(member->addr, not_on)))
		return 0;
	if (chain->set.to[0] != '\0')
		return strcmp(member->addr, chain->set.to) == 0;
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (same_host(member->addr, view->replicas[i].addr))
			return 1;
	}
	return 2;
}

/* The server that is to join; NULL: none waits */
static const struct ol_member *spare_find(const struct chain *chain, const struct ol_kept *kept,
					  const char *not_on)
{
	const struct ol_member *best = NULL;
	int best_worth = 0;

	for (uint32_t i = 0; i < kept->member_count; i++) {
		const struct ol_member *member = &kept->members[i];
		int worth = spare_worth(chain, kept, member, not_on);

		if (worth > best_worth ||
		    (worth == best_worth && worth > 0 && member->rank < best->rank)) {
			best = member;
			best_worth = worth;
		}
	}
	return best;
}

/* ---- orders ---- */

static int order_is_done(const struct order *order, const struct ol_coord_state *state)
{
	const struct ol_view *view = &state->view;
	int at = order->order.join != 0 ? ol_view_find(view, order->order.join) : -1;

	if (order->order.join != 0 && at < 0)
		return -EPIPE;
	if (order->order.join != 0)
		return (uint32_t)at < view->count ? OL_ORDER_DONE : 0;
	if (ol_view_find(view, order->order.leave) >= 0)
		return 0;
	/* while it is registered it has not heard of it yet */
	return ol_members_have(state->members, state->member_count, order->order.leave)
		       ? 0
		       : OL_ORDER_DONE;
}

static int on_order(void *arg, const struct ol_coord_state *state)
{
	struct order *order = arg;
	uint64_t now_ns = ol_clock_ns();
	int rc = order_is_done(order, state);

	order->wanted = state->view.wanted;
	if (rc == 0 && now_ns - order->told_ns >= PROGRESS_MS * OL_NS_PER_MS) {
		fprintf(stderr, "outlast chain: shard %u: %s %s, epoch %u, %.0f s\n", order->shard,
			order->addr, order->verb, state->view.epoch,
			(double)(now_ns - order->begun_ns) / 1e9);
		order->told_ns = now_ns;
	}
	return rc;
}

static void order_tell(const struct chain *chain, const struct order *order)
{
	double seconds = (double)(ol_clock_ns() - order->begun_ns) / 1e9;
	bool joins = order->order.join != 0;

	if (chain->set.json) {
		json_t *json =
			json_pack("{s:s, s:i, s:s, s:i, s:f}", "order", joins ? "add" : "remove",
				  "shard", (int)order->shard, "server", order->addr, "wanted",
				  (int)order->wanted, "seconds", seconds);

		(void)json_dumpf(json, stdout, JSON_COMPACT);
		(void)putchar('\n');
		json_decref(json);
	} else {
		printf("shard %u: %s %s after %.1f s; the chain wants %u\n", order->shard,
		       order->addr, joins ? "is a full replica" : "has left", seconds,
		       order->wanted);
	}
	(void)fflush(stdout);
}

static int order_failed(const struct order *order, int rc, bool stands, const char *err)
{
	switch (rc) {
	case -ETIME:
		return fail(OL_EXIT_FAILED, err, order->addr,
			    stands ? "the order stands; outlast stat --views shows how far it is"
				   : "it is not known to be in force: outlast stat --views");
	case -ESTALE:
	case -EALREADY:
		return fail(OL_EXIT_FAILED, err, order->addr, NULL);
	case -EACCES:
	case -EBUSY:
	case -EPERM:
	case -EINVAL:
		return fail(OL_EXIT_REFUSED, err, order->addr, NULL);
	default:
		return fail(ol_cmd_exit_of_coord(rc), err, order->addr, NULL);
	}
}

/* 0, or an exit code after a line; *ret_rc: the code behind that */
static int order_carry_out(const struct chain *chain, struct order *order, int *ret_rc)
{
	char err[256] = "";
	bool stands;

	order->begun_ns = order->told_ns = ol_clock_ns();
	order->verb = order->order.join != 0 ? "joins" : "leaves";
	if (getrandom(&order->order.number, sizeof(order->order.number), 0) !=
	    (ssize_t)sizeof(order->order.number))
		return fail(OL_EXIT_RESOURCES, "no random bytes", NULL, strerror(errno));
	order->order.number |= 1;
	*ret_rc = ol_coordinator_order(&chain->coordinator, chain->shards[0].view.shard_count,
				       order->shard, &order->order, chain->set.wait_s * 1000,
				       on_order, order, &stands, err, sizeof(err));
	if (*ret_rc == 0)
		order_tell(chain, order);
	if (*ret_rc == 0 || *ret_rc == -EPIPE)
		return 0;
	return order_failed(order, *ret_rc, stands, err);
}

static struct order order_of(const struct ol_kept *kept, const struct ol_member *member)
{
	struct order order = { .shard = kept->shard };

	snprintf(order.addr, sizeof(order.addr), "%s", member->addr);
	return order;
}

/* As many are wanted as before, where one that was to join is gone */
static int join_undo(const struct chain *chain, const struct order *joined)
{
	struct order order = *joined;
	int rc = 0, exit_code;

	order.order = (struct ol_view_order){ .leave = joined->order.join };
	exit_code = order_carry_out(chain, &order, &rc);
	if (exit_code != 0)
		return exit_code;
	return fail(OL_EXIT_FAILED, "it ended, or could not be reached, before it was full",
		    joined->addr, "the chain wants as many as before");
}

static int join_order(const struct chain *chain, const struct ol_kept *kept,
		      const struct ol_member *member)
{
	struct order order = order_of(kept, member);
	int rc = 0, exit_code;

	if (kept->view.wanted == OL_REPLICAS_MAX || kept->view.count == OL_REPLICAS_MAX)
		return fail(OL_EXIT_REFUSED, "a chain has 8 replicas at most", member->addr,
			    "remove one before");
	order.order = (struct ol_view_order){ .join = member->id };
	exit_code = order_carry_out(chain, &order, &rc);
	return rc == -EPIPE ? join_undo(chain, &order) : exit_code;
}

/* May it leave? The head of a periodic chain has what no other replica has yet. */
static int leave_check(const struct ol_kept *kept, const struct ol_member *member)
{
	if (kept->view.every == 0 || member->id != kept->view.replicas[0].id)
		return 0;
	return fail(OL_EXIT_REFUSED,
		    "it is the head of a chain that replicates every N steps: up to N would be "
		    "lost, as if it had died",
		    member->addr, "end its process, if that may be");
}

static int leave_order(const struct chain *chain, const struct ol_kept *kept,
		       const struct ol_member *member)
{
	struct order order = order_of(kept, member);
	int rc;

	order.order = (struct ol_view_order){ .leave = member->id };
	return order_carry_out(chain, &order, &rc);
}

/* ---- actions ---- */

/* Is this the shard that --shard and the server ask for? */
static bool add_is_to(const struct chain *chain, const struct ol_kept *kept)
{
	const bool has_shard = chain->set.shard[0] != '\0', has_server = chain->set.to[0] != '\0';
	char number[16];

	snprintf(number, sizeof(number), "%" PRIu32, kept->shard);
	if (has_shard && strcmp(chain->set.shard, number) != 0)
		return false;
	if (has_server)
		return spare_find(chain, kept, NULL) != NULL;
	return has_shard || chain->shard_count == 1;
}

static int add(const struct chain *chain)
{
	const struct ol_kept *kept = NULL;
	const struct ol_member *member;
	char object[64];

	for (uint32_t s = 0; s < chain->shard_count && kept == NULL; s++)
		kept = add_is_to(chain, &chain->shards[s]) ? &chain->shards[s] : NULL;
	if (kept == NULL && chain->set.to[0] != '\0')
		return fail(OL_EXIT_SERVER,
			    chain->set.shard[0] != '\0' ? "no such server waits for that shard"
							: "no such server waits",
			    chain->set.to, "outlast stat --views shows those that wait");
	if (kept == NULL)
		return fail(OL_EXIT_USAGE,
			    chain->set.shard[0] != '\0' ? "the job has no such shard"
							: "the job has several shards",
			    chain->set.shard[0] != '\0' ? chain->set.shard : NULL,
			    "give --shard, or the server");
	member = spare_find(chain, kept, NULL);
	snprintf(object, sizeof(object), "shard %u", kept->shard);
	if (member == NULL)
		return fail(OL_EXIT_SERVER, "no server waits", object,
			    "start one with the line of the others, and say this again");
	return join_order(chain, kept, member);
}

static int no_spare(const struct ol_kept *kept)
{
	char object[64];

	snprintf(object, sizeof(object), "shard %u", kept->shard);
	return fail(OL_EXIT_SERVER, "no server waits elsewhere", object,
		    "start one with the line of the others on another host, and say this again");
}

static int move(const struct chain *chain, const struct ol_kept *kept,
		const struct ol_member *member)
{
	const struct ol_member *spare = spare_find(chain, kept, member->addr);
	int rc;

	if (spare == NULL)
		return no_spare(kept);
	rc = leave_check(kept, member);
	if (rc == 0)
		rc = join_order(chain, kept, spare);
	return rc != 0 ? rc : leave_order(chain, kept, member);
}

/* One less */
static int drop(const struct chain *chain, const struct ol_kept *kept,
		const struct ol_member *member)
{
	bool is_full = ol_view_find(&kept->view, member->id) < (int)kept->view.count;
	int rc = leave_check(kept, member);

	if (rc == 0 && is_full && kept->view.count == 1)
		rc = fail(OL_EXIT_REFUSED, "it is the only replica of its shard", member->addr,
			  "outlast chain move has another take its place");
	return rc != 0 ? rc : leave_order(chain, kept, member);
}

/* Is there for each replica on the host a server that can take its place, or may it leave without? */
static int drain_check(const struct chain *chain, uint32_t *ret_count)
{
	*ret_count = 0;
	for (uint32_t s = 0; s < chain->shard_count; s++) {
		const struct ol_kept *kept = &chain->shards[s];
		uint32_t leave = 0, spares = 0;

		for (uint32_t i = 0; i < kept->view.count + kept->view.joining; i++)
			leave += is_on(kept->view.replicas[i].addr, chain->what);
		for (uint32_t i = 0; i < kept->member_count; i++)
			spares += !is_on(kept->members[i].addr, chain->what) &&
				  spare_worth(chain, kept, &kept->members[i], NULL) > 0;
		*ret_count += leave;
		if (leave > spares && !chain->set.fewer)
			return no_spare(kept);
	}
	if (*ret_count > 1 && chain->set.to[0] != '\0')
		return fail(OL_EXIT_USAGE,
			    "--to is for one replica, and there are more on the host", chain->what,
			    NULL);
	return 0;
}

/* The first replica that is still on the host; NULL: none */
static const struct ol_member *drain_next(const struct chain *chain,
					  const struct ol_kept **ret_kept)
{
	for (uint32_t s = 0; s < chain->shard_count; s++) {
		const struct ol_kept *kept = &chain->shards[s];

		for (uint32_t i = 0; i < kept->view.count + kept->view.joining; i++) {
			*ret_kept = kept;
			if (is_on(kept->view.replicas[i].addr, chain->what))
				return &kept->view.replicas[i];
		}
	}
	return NULL;
}

static uint32_t drain_waiting(const struct chain *chain)
{
	uint32_t count = 0;

	for (uint32_t s = 0; s < chain->shard_count; s++) {
		const struct ol_kept *kept = &chain->shards[s];

		for (uint32_t i = 0; i < kept->member_count; i++)
			count += is_on(kept->members[i].addr, chain->what) &&
				 ol_view_find(&kept->view, kept->members[i].id) < 0;
	}
	return count;
}

static int drain(struct chain *chain)
{
	const struct ol_member *member;
	const struct ol_kept *kept;
	uint32_t count;
	int rc = drain_check(chain, &count);

	if (rc != 0)
		return rc;
	if (count == 0 && drain_waiting(chain) == 0)
		return fail(
			OL_EXIT_SERVER, "no server of the job is on that host", chain->what,
			"the host is what stands before the port; outlast stat --views shows all");
	while ((member = drain_next(chain, &kept)) != NULL) {
		if (spare_find(chain, kept, member->addr) != NULL)
			rc = move(chain, kept, member);
		else if (chain->set.fewer)
			rc = drop(chain, kept, member);
		else
			rc = no_spare(kept);
		if (rc == 0)
			rc = shards_read(chain);
		if (rc != 0)
			return rc;
	}
	count = drain_waiting(chain);
	if (count > 0)
		fprintf(stderr,
			"outlast chain: %u servers wait on %s, and may join later: end them, too\n",
			count, chain->what);
	return OL_EXIT_OK;
}

static int act(struct chain *chain)
{
	const struct ol_member *member;
	const struct ol_kept *kept;

	if (chain->action == ACTION_ADD)
		return add(chain);
	if (chain->action == ACTION_DRAIN)
		return drain(chain);
	member = replica_find(chain, chain->what, &kept);
	if (member == NULL)
		return fail(OL_EXIT_SERVER, "no replica of the job has this address", chain->what,
			    "outlast stat --views shows all");
	if (chain->action == ACTION_MOVE)
		return move(chain, kept, member);
	return drop(chain, kept, member);
}

static int chain_run(struct chain *chain)
{
	char key[OL_JOB_KEY_MAX];
	int rc;

	if (chain->set.coord.coordinator == NULL)
		return fail(OL_EXIT_USAGE, "give --coordinator", NULL, NULL);
	if (actions[chain->action].needs_what && chain->what == NULL)
		return fail(OL_EXIT_USAGE,
			    chain->action == ACTION_DRAIN ? "give a host" : "give a server",
			    actions[chain->action].name,
			    "outlast stat --views shows their addresses");
	if (chain->action == ACTION_ADD && chain->what != NULL)
		chain->set.to = chain->what;
	rc = ol_job_key_read("chain", &chain->set.key, key);
	if (rc != 0)
		return rc;
	chain->coordinator = (struct ol_coordinator){ .addr = chain->set.coord.coordinator,
						      .job = chain->set.coord.job,
						      .job_key = key,
						      .timeout_ms = chain->set.timeout_ms };
	chain->shards = calloc(SHARDS_MAX, sizeof(*chain->shards));
	rc = chain->shards == NULL ? fail(OL_EXIT_RESOURCES, "no memory", NULL, NULL)
				   : shards_read(chain);
	if (rc == 0)
		rc = act(chain);
	free(chain->shards);
	explicit_bzero(key, sizeof(key));
	return rc;
}

/* The action, and what it is for: the words that are no options. 0 or an exit code after a line */
static int words_take(struct chain *chain, const struct ol_conf *conf)
{
	const char *name = ol_conf_argument(conf, 0);

	while (chain->action < ACTIONS &&
	       (name == NULL || strcmp(actions[chain->action].name, name) != 0))
		chain->action++;
	if (chain->action == ACTIONS)
		return fail(OL_EXIT_USAGE, "say add, remove, move or drain", name,
			    "outlast chain --help");
	chain->what = ol_conf_argument(conf, 1);
	return 0;
}

int cmd_chain(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "chain",
		.spec = { .program = "outlast chain",
			  .purpose =
				  "Changes a shard's chain while training goes on: add [SERVER] has a server that "
				  "waits join, and the chain wants one replica more; remove SERVER has a replica "
				  "leave, and it wants one less; move SERVER has another join before this one "
				  "leaves; drain HOST moves all replicas of the job away from a host. A server "
				  "that leaves ends with status 0. Each returns when it is done.",
			  .arguments = "add|remove|move|drain [SERVER|HOST]",
			  .arguments_max = 2,
			  .examples =
				  "  outlast chain add --coordinator zk:10.0.0.9:2181 --job cnn7\n"
				  "  outlast chain move 10.0.0.3:7471 --coordinator zk:10.0.0.9:2181 --job cnn7\n"
				  "  outlast chain drain 10.0.0.3 --coordinator zk:10.0.0.9:2181 --job cnn7\n" }
	};
	struct chain chain = { .action = ACTION_ADD };
	int rc;

	ol_settings_add(&settings, ol_rows_coord, offsetof(struct chain_set, coord));
	ol_settings_add(&settings, (struct ol_rows)OL_ROWS(fields), 0);
	ol_settings_add(&settings, ol_rows_key, offsetof(struct chain_set, key));
	if (ol_settings_load(&settings, &chain.set, argc, argv, &rc)) {
		rc = words_take(&chain, settings.conf);
		if (rc == 0)
			rc = chain_run(&chain);
	}
	ol_settings_fini(&settings);
	return rc;
}
