/* SPDX-License-Identifier: BSD-3-Clause */

/* server.c -- one server of an ensemble: connections, their requests in order, watches */

#include <stdio.h>
#include <string.h>

#include "sim/ensemble/ensemble.h"

uint64_t ens_delay(uint64_t most_ns)
{
	if (!ens.calm && sim_ppm(ens_nature.slow_ppm))
		return sim_between(most_ns, ens_nature.slow_ns);
	return sim_between(most_ns / 10, most_ns);
}

uint64_t ens_to_leader(unsigned index)
{
	struct ens_server *server = &ens.servers[index];
	uint64_t at_ns = sim_now() + ens_delay(ens_nature.net_ns);

	if ((int)index == ens.leader)
		return 0;
	server->lead_ns = at_ns > server->lead_ns ? at_ns : server->lead_ns;
	return server->lead_ns - sim_now();
}

/* ---- to the client ---- */

static uint64_t down(struct ens_conn *conn)
{
	uint64_t at_ns = sim_now() + ens_delay(conn->delay_ns);

	conn->down_ns = at_ns > conn->down_ns ? at_ns : conn->down_ns;
	return conn->down_ns - sim_now();
}

static void answer_arrives(void *arg, uint64_t tag)
{
	(void)tag;
	ens_handle_answer(arg);
}

static void reply(struct ens_request *request)
{
	request->zxid = ens.servers[request->conn->server].tree.zxid;
	sim_at(down(request->conn), answer_arrives, request, 0);
}

struct word {
	struct ens_conn *conn;
	char path[ENS_PATH_MAX];
};

static void watch_arrives(void *arg, uint64_t type)
{
	const struct word *word = arg;

	ens_handle_watch(word->conn, (int)type, word->path);
}

static void fire(struct ens_conn *conn, int type, const char *path)
{
	struct word *word = sim_alloc(sizeof(*word));

	word->conn = conn;
	snprintf(word->path, sizeof(word->path), "%s", path);
	sim_at(down(conn), watch_arrives, word, (uint64_t)type);
}

static bool concerns(int type, enum ens_watched what)
{
	if (type == ZOO_CREATED_EVENT)
		return what == ENS_ABSENT;
	if (type == ZOO_CHANGED_EVENT)
		return what != ENS_CHILD;
	return type == ZOO_CHILD_EVENT ? what == ENS_CHILD : true;
}

void ens_trigger(unsigned server, int type, const char *path)
{
	for (struct ens_conn *conn = ens.servers[server].conns; conn != NULL; conn = conn->next) {
		bool told = false;

		for (struct ens_watch **at = &conn->watches; *at != NULL && conn->server_open;) {
			if (!concerns(type, (*at)->what) || strcmp((*at)->path, path) != 0) {
				at = &(*at)->next;
				continue;
			}
			told = true;
			*at = (*at)->next;
		}
		if (told)
			fire(conn, type, path);
	}
}

/* ---- reads ---- */

static void watch_set(struct ens_conn *conn, enum ens_watched what, const char *path)
{
	struct ens_watch *watch = sim_alloc(sizeof(*watch));

	watch->what = what;
	snprintf(watch->path, sizeof(watch->path), "%s", path);
	watch->next = conn->watches;
	conn->watches = watch;
}

/* What happened while there was no connection is told now */
static void watches_again(struct ens_request *request)
{
	struct ens_conn *conn = request->conn;
	struct ens_tree *tree = &ens.servers[conn->server].tree;

	for (const struct ens_watch *watch = request->again; watch != NULL; watch = watch->next) {
		const struct ens_node *node = ens_find(tree, watch->path);

		if (watch->what == ENS_ABSENT && node != NULL)
			fire(conn, ZOO_CREATED_EVENT, watch->path);
		else if (watch->what != ENS_ABSENT && node == NULL)
			fire(conn, ZOO_DELETED_EVENT, watch->path);
		else if (watch->what == ENS_DATA && node->changed > request->seen)
			fire(conn, ZOO_CHANGED_EVENT, watch->path);
		else if (watch->what == ENS_CHILD && node->children > request->seen)
			fire(conn, ZOO_CHILD_EVENT, watch->path);
		else
			watch_set(conn, watch->what, watch->path);
	}
}

static void stat_of(const struct ens_node *node, struct Stat *ret_stat)
{
	*ret_stat = (struct Stat){ .czxid = node->created,
				   .mzxid = node->changed,
				   .pzxid = node->children,
				   .version = node->version,
				   .ephemeralOwner = node->owner,
				   .dataLength = node->bytes };
}

static void names_of(struct ens_tree *tree, struct ens_request *request)
{
	request->names = sim_alloc(ENS_NODES_MAX * sizeof(*request->names));
	for (unsigned i = 0; i < tree->count; i++) {
		const char *path = tree->nodes[i].path;

		if (ens_is_child(path, request->path))
			snprintf(request->names[request->name_count++], ENS_PATH_MAX, "%s",
				 path + strlen(request->path) + 1);
	}
}

static void read_now(struct ens_request *request)
{
	struct ens_tree *tree = &ens.servers[request->conn->server].tree;
	const struct ens_node *node = ens_find(tree, request->path);

	request->rc = node != NULL ? ZOK : ZNONODE;
	if (node != NULL) {
		stat_of(node, &request->stat);
		request->only_ours = node->secret;
		if (request->op == ENS_GET) {
			request->data = sim_alloc((size_t)node->bytes + 1);
			memcpy(request->data, node->data, (size_t)node->bytes);
			request->bytes = node->bytes;
		}
		if (request->op == ENS_CHILDREN)
			names_of(tree, request);
	}
	if (request->fn != NULL && node != NULL)
		request->what = request->op == ENS_CHILDREN ? ENS_CHILD : ENS_DATA;
	if (request->fn != NULL && (node != NULL || request->op == ENS_EXISTS))
		watch_set(request->conn, request->what, request->path);
}

/* ---- what the leader is asked ---- */

static void finish(struct ens_conn *conn)
{
	struct ens_request *request = conn->first;
	const struct ens_node *node;

	conn->first = request->then;
	conn->busy = false;
	if (request->op == ENS_BEGIN) {
		ens_welcome(conn, request->rc == ZOK);
		return;
	}
	node = ens_find(&ens.servers[conn->server].tree, request->path);
	if (request->rc == ZOK && request->op == ENS_SET && node != NULL)
		stat_of(node, &request->stat);
	reply(request);
	if (request->op == ENS_END)
		conn->server_open = false;
}

static bool may_finish(const struct ens_conn *conn)
{
	return conn->server_open && conn->busy && conn->first->answered &&
	       (ens.servers[conn->server].applied >= conn->first->upto ||
		(conn->first->op == ENS_BEGIN && ens_nature.early));
}

static void answered(void *arg, uint64_t epoch)
{
	struct ens_request *request = arg;
	struct ens_conn *conn = request->conn;

	if (epoch != ens.epoch || !conn->server_open)
		return;
	request->answered = true;
	if (may_finish(conn)) {
		finish(conn);
		ens_serve(conn);
	}
}

static void leader_begins(struct ens_request *request)
{
	struct ens_conn *conn = request->conn;
	struct ens_session *session = ens_handle_session(conn->zh);

	if (session == NULL) {
		session = sim_alloc(sizeof(*session));
		session->id = (int64_t)0x1000000 + ++ens.ids;
		session->process = ens_handle_process(conn->zh);
		session->timeout_ns = ens_handle_timeout_ns(conn->zh);
		session->next = ens.sessions;
		ens.sessions = session;
		request->rc = ens_write(request, session, &request->upto);
	} else {
		request->rc = session->begun && !session->over ? ZOK : ZSESSIONEXPIRED;
	}
	session->owner = conn;
	conn->session = session;
	ens_touch(session);
}

static void leader_gets(void *arg, uint64_t epoch)
{
	struct ens_request *request = arg;
	struct ens_conn *conn = request->conn;
	struct ens_session *session = conn->session;

	if (epoch != ens.epoch || ens.leader < 0)
		return;
	if (request->op == ENS_BEGIN)
		leader_begins(request);
	else if (session->over || !session->begun)
		request->rc = ZSESSIONEXPIRED;
	else if (session->owner != conn)
		return; /* it has moved: its connection is about to end */
	else if (request->op != ENS_SYNC)
		request->rc = ens_write(request, session, &request->upto);
	else
		request->upto = ens.count;
	sim_at((int)conn->server == ens.leader ? 0 : ens_delay(ens_nature.net_ns), answered,
	       request, epoch);
}

/* ---- a connection ---- */

void ens_serve(struct ens_conn *conn)
{
	while (conn->server_open && !conn->busy && conn->first != NULL) {
		struct ens_request *request = conn->first;

		if (request->op <= ENS_END || request->op == ENS_SYNC) {
			conn->busy = true;
			sim_at(ens_to_leader(conn->server), leader_gets, request, ens.epoch);
			return;
		}
		conn->first = request->then;
		if (request->op == ENS_WATCHES)
			watches_again(request);
		else if (request->op != ENS_PING)
			read_now(request);
		reply(request);
	}
}

/* Who has seen more than this server has is sent away */
static bool is_behind(const struct ens_conn *conn)
{
	return ens_handle_seen(conn->zh) > ens.servers[conn->server].tree.zxid;
}

static void conn_enters(struct ens_server *server, struct ens_conn *conn)
{
	struct ens_conn **at = &server->conns;

	while (*at != NULL) { /* those that are over leave */
		if ((*at)->server_open)
			at = &(*at)->next;
		else
			*at = (*at)->next;
	}
	conn->server_open = true;
	*at = conn;
}

void ens_arrives(struct ens_request *request)
{
	struct ens_conn *conn = request->conn;
	struct ens_server *server = &ens.servers[conn->server];
	struct ens_request **at = &conn->first;

	if (request->op == ENS_BEGIN) {
		if (!server->up || ens.leader < 0 || is_behind(conn))
			return;
		conn_enters(server, conn);
	}
	if (!conn->server_open)
		return;
	if (conn->session != NULL && (int)conn->server == ens.leader)
		ens_touch(conn->session);
	else if (conn->session != NULL)
		conn->session->touched[conn->server] = true;
	while (*at != NULL)
		at = &(*at)->then;
	*at = request;
	ens_serve(conn);
}

static void welcome_arrives(void *arg, uint64_t good)
{
	if (good != 0)
		ens_handle_accepted(arg);
	else
		ens_handle_expired(arg);
}

void ens_welcome(struct ens_conn *conn, bool good)
{
	sim_at(down(conn), welcome_arrives, conn, good);
}

static void lost(void *arg, uint64_t tag)
{
	(void)tag;
	ens_handle_lost(arg);
}

static void close_by_server(struct ens_conn *conn)
{
	conn->server_open = false;
	sim_at(sim_between(0, ens_nature.notice_ns), lost, conn, 0);
}

void ens_conns_break(unsigned index)
{
	struct ens_server *server = &ens.servers[index];

	for (struct ens_conn *conn = server->conns; conn != NULL; conn = conn->next) {
		if (conn->server_open)
			close_by_server(conn);
	}
	server->conns = NULL;
}

void ens_applied(unsigned index, const struct ens_entry *entry)
{
	struct ens_conn *next;

	for (struct ens_conn *conn = ens.servers[index].conns; conn != NULL; conn = next) {
		next = conn->next;
		if (entry->op == ENS_END && conn->session == entry->session && conn->server_open &&
		    (!conn->busy || conn->first->op != ENS_END))
			close_by_server(conn);
		if (may_finish(conn)) {
			finish(conn);
			ens_serve(conn);
		}
	}
}
