/* SPDX-License-Identifier: BSD-3-Clause */

/* leader.c -- the log of an ensemble, the trees that it makes, sessions, and the leader */

#include <stdio.h>
#include <string.h>

#include "sim/ensemble/ensemble.h"

enum {
	LOG_MAX = 16384,
};

struct ens ens;
struct ens_nature ens_nature;
static struct ens_entry entries[LOG_MAX];

/* ---- a tree ---- */

struct ens_node *ens_find(struct ens_tree *tree, const char *path)
{
	for (unsigned i = 0; i < tree->count; i++) {
		if (strcmp(tree->nodes[i].path, path) == 0)
			return &tree->nodes[i];
	}
	return NULL;
}

bool ens_is_child(const char *path, const char *of)
{
	size_t bytes = strlen(of);

	return strncmp(path, of, bytes) == 0 && path[bytes] == '/' &&
	       strchr(path + bytes + 1, '/') == NULL;
}

static void parent_of(const char *path, char parent[ENS_PATH_MAX])
{
	const char *end = strrchr(path, '/');

	snprintf(parent, ENS_PATH_MAX, "%.*s", (int)(end - path), path);
}

/* server -1: the leader's own, of which nobody is told */
static void children_changed(struct ens_tree *tree, int server, const char *path, int64_t zxid)
{
	char parent[ENS_PATH_MAX];
	struct ens_node *node;

	parent_of(path, parent);
	node = ens_find(tree, parent);
	if (node != NULL)
		node->children = zxid;
	if (server >= 0)
		ens_trigger((unsigned)server, ZOO_CHILD_EVENT, parent);
}

static void node_gone(struct ens_tree *tree, int server, struct ens_node *node, int64_t zxid)
{
	char path[ENS_PATH_MAX];

	snprintf(path, sizeof(path), "%s", node->path);
	*node = tree->nodes[--tree->count];
	if (server >= 0)
		ens_trigger((unsigned)server, ZOO_DELETED_EVENT, path);
	children_changed(tree, server, path, zxid);
}

static void node_made(struct ens_tree *tree, int server, const struct ens_entry *entry)
{
	struct ens_node *node = &tree->nodes[tree->count];

	if (tree->count == ENS_NODES_MAX) {
		sim_fail("check_bounded", "an ensemble of more than %d nodes", ENS_NODES_MAX);
		return;
	}
	tree->count++;
	*node = (struct ens_node){ .data = entry->data,
				   .bytes = entry->bytes,
				   .created = entry->zxid,
				   .changed = entry->zxid,
				   .children = entry->zxid,
				   .owner = entry->ephemeral ? entry->session->id : 0,
				   .secret = entry->secret };
	snprintf(node->path, sizeof(node->path), "%s", entry->path);
	if (server >= 0)
		ens_trigger((unsigned)server, ZOO_CREATED_EVENT, entry->path);
	children_changed(tree, server, entry->path, entry->zxid);
}

static void apply(struct ens_tree *tree, int server, const struct ens_entry *entry)
{
	struct ens_node *node = ens_find(tree, entry->path);

	tree->zxid = entry->zxid;
	if (entry->op == ENS_CREATE) {
		node_made(tree, server, entry);
	} else if (entry->op == ENS_DELETE) {
		node_gone(tree, server, node, entry->zxid);
	} else if (entry->op == ENS_SET) {
		node->data = entry->data;
		node->bytes = entry->bytes;
		node->changed = entry->zxid;
		node->version++;
		if (server >= 0)
			ens_trigger((unsigned)server, ZOO_CHANGED_EVENT, entry->path);
	} else if (entry->op == ENS_END) {
		for (unsigned i = tree->count; i-- > 0;) {
			if (tree->nodes[i].owner == entry->session->id)
				node_gone(tree, server, &tree->nodes[i], entry->zxid);
		}
	}
}

/* ---- the log ---- */

static void server_applies(struct ens_server *server, unsigned index)
{
	const struct ens_entry *entry = &ens.log[server->applied++];

	apply(&server->tree, (int)index, entry);
	ens_applied(index, entry);
}

static void comes(void *arg, uint64_t tag)
{
	struct ens_server *server = arg;

	(void)tag;
	if (server->up && server->applied < ens.count)
		server_applies(server, (unsigned)(server - ens.servers));
}

static void catch_up(unsigned index)
{
	while (ens.servers[index].applied < ens.count)
		server_applies(&ens.servers[index], index);
}

static size_t append(struct ens_entry *entry)
{
	if (ens.count == LOG_MAX) {
		sim_fail("check_bounded", "a log of more than %d entries", LOG_MAX);
		return ens.count;
	}
	entry->zxid = (int64_t)(ens.epoch << 32) + ++ens.counter;
	ens.log[ens.count++] = *entry;
	if (entry->op == ENS_BEGIN)
		entry->session->begun = true;
	if (entry->op == ENS_END)
		entry->session->over = true;
	apply(&ens.tree, -1, entry);
	check_entry(entry);
	for (unsigned i = 0; i < ENS_SERVERS; i++) {
		struct ens_server *server = &ens.servers[i];
		uint64_t at_ns =
			sim_now() + ens_delay(ens_nature.net_ns) + sim_between(0, server->lag_ns);

		if ((int)i == ens.leader) {
			catch_up(i);
			continue;
		}
		server->apply_ns = at_ns > server->apply_ns ? at_ns : server->apply_ns;
		sim_at(server->apply_ns - sim_now(), comes, server, 0);
	}
	return ens.count;
}

static int write_fault(const struct ens_request *request)
{
	struct ens_node *node = ens_find(&ens.tree, request->path);
	char parent[ENS_PATH_MAX];

	if (request->op == ENS_CREATE) {
		parent_of(request->path, parent);
		if (parent[0] != '\0' && ens_find(&ens.tree, parent) == NULL)
			return ZNONODE;
		return node != NULL ? ZNODEEXISTS : ZOK;
	}
	if (node == NULL)
		return ZNONODE;
	return request->expected != -1 && request->expected != node->version ? ZBADVERSION : ZOK;
}

int ens_write(const struct ens_request *request, struct ens_session *session, size_t *ret_upto)
{
	struct ens_entry entry = { .op = request->op,
				   .session = session,
				   .data = request->data,
				   .bytes = request->bytes,
				   .ephemeral = request->ephemeral,
				   .secret = request->secret };
	int rc = request->op == ENS_BEGIN || request->op == ENS_END ? ZOK : write_fault(request);

	snprintf(entry.path, sizeof(entry.path), "%s", request->path);
	*ret_upto = rc == ZOK ? append(&entry) : ens.count;
	return rc;
}

/* ---- sessions ---- */

void ens_touch(struct ens_session *session)
{
	uint64_t tick_ns = ens_nature.tick_ns;
	uint64_t at_ns = ((sim_now() + session->timeout_ns) / tick_ns + 1) * tick_ns;

	if (at_ns > session->expires_ns)
		session->expires_ns = at_ns;
}

static void leader_hears(void *arg, uint64_t epoch)
{
	if (epoch == ens.epoch && ens.leader >= 0)
		ens_touch(arg);
}

/* A server tells of the sessions that it has heard of, every half tick */
static void tells(void *arg, uint64_t tag)
{
	struct ens_server *server = arg;
	unsigned index = (unsigned)(server - ens.servers);

	(void)tag;
	for (struct ens_session *session = ens.sessions; session != NULL; session = session->next) {
		if (!session->touched[index])
			continue;
		session->touched[index] = false;
		if (server->up)
			sim_at(ens_to_leader(index), leader_hears, session, ens.epoch);
	}
	sim_at(ens_nature.tick_ns / 2, tells, server, 0);
}

static void ticks(void *arg, uint64_t tag)
{
	(void)arg;
	(void)tag;
	for (struct ens_session *session = ens.sessions; session != NULL && ens.leader >= 0;
	     session = session->next) {
		struct ens_entry entry = { .op = ENS_END, .session = session };

		if (!session->begun || session->over || session->expires_ns > sim_now())
			continue;
		check_expiry(session);
		append(&entry);
	}
	sim_at(ens_nature.tick_ns - sim_now() % ens_nature.tick_ns, ticks, NULL, 0);
}

/* ---- who leads ---- */

static unsigned ups(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ENS_SERVERS; i++)
		count += ens.servers[i].up;
	return count;
}

/* What is left makes the trees anew */
static void forget(unsigned entries_lost)
{
	sim_say("the ensemble loses what it committed last: %u entries", entries_lost);
	ens.losses++;
	ens.count -= entries_lost < ens.count ? entries_lost : ens.count;
	ens.tree.count = 0;
	for (unsigned i = 0; i < ENS_SERVERS; i++) {
		ens.servers[i].tree.count = 0;
		ens.servers[i].applied = 0;
	}
	for (struct ens_session *session = ens.sessions; session != NULL; session = session->next)
		session->begun = session->over = false;
	for (size_t i = 0; i < ens.count; i++) {
		const struct ens_entry *entry = &ens.log[i];

		entry->session->begun = true;
		entry->session->over = entry->session->over || entry->op == ENS_END;
		apply(&ens.tree, -1, entry);
	}
	check_lost();
}

static unsigned to_forget;

static void elected(void *arg, uint64_t epoch)
{
	(void)arg;
	if (epoch != ens.epoch || ens.leader >= 0 || ups() < 2)
		return;
	ens.epoch++;
	ens.counter = 0;
	if (to_forget > 0)
		forget(to_forget);
	to_forget = 0;
	do
		ens.leader = (int)sim_below(ENS_SERVERS);
	while (!ens.servers[ens.leader].up);
	for (unsigned i = 0; i < ENS_SERVERS; i++) {
		if (ens.servers[i].up)
			catch_up(i);
	}
	for (struct ens_session *session = ens.sessions; session != NULL; session = session->next) {
		memset(session->touched, 0, sizeof(session->touched));
		session->expires_ns = 0;
		ens_touch(session);
	}
	sim_say("server %d leads, epoch %u", ens.leader, (unsigned)ens.epoch);
}

void ens_elect(unsigned forgets)
{
	sim_say("the ensemble has no leader");
	ens.leader = -1;
	ens.epoch++;
	to_forget += forgets;
	for (unsigned i = 0; i < ENS_SERVERS; i++)
		ens_conns_break(i);
	sim_at(sim_between(50 * SIM_MS, 800 * SIM_MS), elected, NULL, ens.epoch);
}

void ens_server_fails(unsigned index)
{
	struct ens_server *server = &ens.servers[index];

	if (!server->up)
		return;
	sim_say("server %u of the ensemble fails", index);
	server->up = false;
	ens_conns_break(index);
	if (ens.leader >= 0 && (ens.leader == (int)index || ups() < 2))
		ens_elect(0);
}

void ens_server_returns(unsigned index)
{
	if (ens.servers[index].up)
		return;
	sim_say("server %u of the ensemble is back", index);
	ens.servers[index].up = true;
	if (ens.leader >= 0)
		catch_up(index);
	else
		sim_at(sim_between(50 * SIM_MS, 800 * SIM_MS), elected, NULL, ens.epoch);
}

void ens_begin(void)
{
	memset(&ens, 0, sizeof(ens));
	ens.log = entries;
	ens.epoch = 1;
	to_forget = 0;
	for (unsigned i = 0; i < ENS_SERVERS; i++) {
		ens.servers[i].up = true;
		ens.servers[i].lag_ns = ens_nature.net_ns;
		sim_at(sim_between(0, ens_nature.tick_ns / 2), tells, &ens.servers[i], 0);
	}
	ens.leader = (int)sim_below(ENS_SERVERS);
	sim_at(ens_nature.tick_ns - sim_now() % ens_nature.tick_ns, ticks, NULL, 0);
}
