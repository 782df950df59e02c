/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * client.c -- the ZooKeeper client library, as far as the back end uses it
 *
 * One thread a handle calls back: answers, watches and session events, in the order in which they
 * came. When a connection is lost, the session event comes first, then ZCONNECTIONLOSS for each
 * unanswered request, whether it took effect or not. Requests made meanwhile wait for the next
 * connection, and fail if the next attempt fails. The library sets watches again.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/ensemble/ensemble.h"

enum {
	TICKS_MIN = 2, /* of a session, as an ensemble has them by itself */
	TICKS_MAX = 20,
};

struct delivery {
	struct delivery *next;
	struct ens_request *answer; /* or: */
	watcher_fn fn;
	void *arg;
	int type, state;
};

struct _zhandle {
	struct _zhandle *next;
	struct sim_process *process, *thread;
	int fd;
	bool over, closing;
	watcher_fn fn;
	void *arg;
	uint64_t timeout_ns;
	struct ens_session *session;
	clientid_t id;
	int64_t seen; /* zxid */
	struct ens_conn *conn;
	bool up, expired;
	uint64_t away_ns; /* until then nobody is reached */
	uint64_t heard_ns, sent_ns;
	struct ens_request *requests; /* without an answer, oldest first */
	struct ens_watch *watches;
	struct ens_watch *once; /* for ENS_WATCH_ONCE */
	struct delivery *deliveries;
};

static zhandle_t *handles;
static char users[2][128]; /* of the job's one secret, as its access lists name them */

void ens_clients_begin(void)
{
	handles = NULL;
}

struct ens_session *ens_handle_session(const zhandle_t *zh)
{
	return zh->session;
}

struct sim_process *ens_handle_process(const zhandle_t *zh)
{
	return zh->process;
}

int64_t ens_handle_seen(const zhandle_t *zh)
{
	return zh->seen;
}

uint64_t ens_handle_timeout_ns(const zhandle_t *zh)
{
	return zh->timeout_ns;
}

const zhandle_t *ens_handle_of(const struct sim_process *process)
{
	const zhandle_t *zh = handles;

	while (zh != NULL && (zh->process != process || zh->over))
		zh = zh->next;
	return zh;
}

/* ---- calling back ---- */

static struct delivery *deliver(zhandle_t *zh)
{
	struct delivery *delivery = sim_alloc(sizeof(*delivery)), **at = &zh->deliveries;

	while (*at != NULL)
		at = &(*at)->next;
	*at = delivery;
	if (!zh->over && sim_process_alive(zh->process)) {
		*sim_fd_count(zh->fd) = 1;
		sim_fd_wake(zh->fd);
	}
	return delivery;
}

static void deliver_state(zhandle_t *zh, int state)
{
	struct delivery *delivery = deliver(zh);

	delivery->fn = zh->fn;
	delivery->arg = zh->arg;
	delivery->type = ZOO_SESSION_EVENT;
	delivery->state = state;
}

static void tell_names(const struct ens_request *request)
{
	char *names[ENS_NODES_MAX];
	struct String_vector list = { .count = request->name_count, .data = names };

	for (int i = 0; i < request->name_count; i++)
		names[i] = request->names[i];
	request->tell.names(request->rc, &list, request->arg);
}

static void tell_acl(const struct ens_request *request)
{
	static char digest[] = "digest", world[] = "world", anyone[] = "anyone";
	struct ACL ours[2] = { { .perms = ZOO_PERM_ALL, .id = { digest, users[0] } },
			       { .perms = ZOO_PERM_READ, .id = { digest, users[1] } } };
	struct ACL all = { .perms = ZOO_PERM_ALL, .id = { world, anyone } };
	struct ACL_vector list = { .count = request->only_ours ? 2 : 1,
				   .data = request->only_ours ? ours : &all };
	struct Stat stat = request->stat;

	request->tell.acl(request->rc, &list, &stat, request->arg);
}

static void tell(const struct ens_request *request)
{
	int rc = request->rc;

	if (request->op == ENS_CREATE || request->op == ENS_SYNC)
		request->tell.text(rc, rc == ZOK ? request->path : NULL, request->arg);
	else if (request->op == ENS_SET || request->op == ENS_EXISTS)
		request->tell.stat(rc, rc == ZOK ? &request->stat : NULL, request->arg);
	else if (request->op == ENS_DELETE)
		request->tell.done(rc, request->arg);
	else if (request->op == ENS_GET)
		request->tell.data(rc, request->data, request->bytes, &request->stat, request->arg);
	else if (request->op == ENS_CHILDREN)
		tell_names(request);
	else if (request->op == ENS_ACL)
		tell_acl(request);
}

static void calls_back(void *arg)
{
	zhandle_t *zh = arg;

	while (!zh->closing) {
		struct delivery *delivery = zh->deliveries;

		if (delivery == NULL) {
			*sim_fd_count(zh->fd) = 0;
			sim_wait(&zh->fd, 1, SIM_S);
			continue;
		}
		zh->deliveries = delivery->next;
		if (delivery->answer != NULL)
			tell(delivery->answer);
		else
			delivery->fn(zh, delivery->type, delivery->state, "", delivery->arg);
		sim_preempt(20000);
	}
}

/* ---- requests ---- */

static void arrives(void *arg, uint64_t tag)
{
	(void)tag;
	ens_arrives(arg);
}

static void send_up(zhandle_t *zh, struct ens_request *request)
{
	struct ens_conn *conn = zh->conn;
	uint64_t at_ns = sim_now() + ens_delay(conn->delay_ns);

	request->conn = conn;
	request->sent = true;
	zh->sent_ns = sim_now();
	conn->up_ns = at_ns > conn->up_ns ? at_ns : conn->up_ns;
	sim_at(conn->up_ns - sim_now(), arrives, request, 0);
}

static struct ens_request *request_make(enum ens_op op, const char *path)
{
	struct ens_request *request = sim_alloc(sizeof(*request));

	request->op = op;
	request->expected = -1;
	snprintf(request->path, sizeof(request->path), "%s", path);
	return request;
}

static int request_send(zhandle_t *zh, struct ens_request *request, const void *arg)
{
	struct ens_request **at = &zh->requests;

	if (zh->expired)
		return ZINVALIDSTATE;
	request->arg = arg;
	while (*at != NULL)
		at = &(*at)->next;
	*at = request;
	if (zh->up)
		send_up(zh, request);
	return ZOK;
}

static bool is_library(enum ens_op op)
{
	return op == ENS_BEGIN || op == ENS_END || op == ENS_PING || op == ENS_WATCHES;
}

static void requests_fail(zhandle_t *zh, int rc)
{
	struct ens_request *request = zh->requests, *next, *kept = NULL;

	zh->requests = NULL;
	for (; request != NULL; request = next) {
		struct ens_request *again = request;

		next = request->next;
		if (ens_wrong == ENS_TWICE && request->op == ENS_SET && rc == ZCONNECTIONLOSS) {
			again = sim_alloc(sizeof(*again));
			*again = *request;
			again->expected = -1;
			again->sent = again->answered = false;
			again->then = again->next = NULL;
			kept = again;
			continue;
		}
		request = sim_alloc(sizeof(*request));
		*request = *again;
		request->rc = rc;
		deliver(zh)->answer = request;
	}
	zh->requests = kept;
}

void ens_handle_answer(struct ens_request *request)
{
	struct ens_conn *conn = request->conn;
	zhandle_t *zh = conn->zh;
	struct ens_request **at = &zh->requests;

	if (!conn->client_open)
		return;
	zh->heard_ns = sim_now();
	if (request->zxid > zh->seen)
		zh->seen = request->zxid;
	if (is_library(request->op))
		return;
	while (*at != NULL && *at != request)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = request->next;
	if (request->fn != NULL &&
	    (request->rc == ZOK || (request->rc == ZNONODE && request->op == ENS_EXISTS)))
		ens_watch_keep(&zh->watches, request);
	deliver(zh)->answer = request;
}

/* ---- watches ---- */

void ens_watch_keep(struct ens_watch **list, const struct ens_request *request)
{
	struct ens_watch *watch = *list;

	while (watch != NULL &&
	       (watch->fn != request->fn || watch->arg != request->fn_arg ||
		watch->what != request->what || strcmp(watch->path, request->path) != 0))
		watch = watch->next;
	if (watch != NULL)
		return;
	watch = sim_alloc(sizeof(*watch));
	*watch = (struct ens_watch){
		.next = *list, .what = request->what, .fn = request->fn, .arg = request->fn_arg
	};
	snprintf(watch->path, sizeof(watch->path), "%s", request->path);
	*list = watch;
}

static bool concerns(int type, enum ens_watched what)
{
	if (type == ZOO_CREATED_EVENT || type == ZOO_CHANGED_EVENT)
		return what != ENS_CHILD;
	return type == ZOO_CHILD_EVENT ? what == ENS_CHILD : true;
}

void ens_handle_watch(struct ens_conn *conn, int type, const char *path)
{
	zhandle_t *zh = conn->zh;

	if (!conn->client_open)
		return;
	zh->heard_ns = sim_now();
	for (struct ens_watch **at = &zh->watches; *at != NULL;) {
		struct ens_watch *watch = *at;
		struct delivery *delivery;

		if (!concerns(type, watch->what) || strcmp(watch->path, path) != 0) {
			at = &watch->next;
			continue;
		}
		*at = watch->next;
		delivery = deliver(zh);
		delivery->fn = watch->fn;
		delivery->arg = watch->arg;
		delivery->type = type;
		delivery->state = ZOO_CONNECTED_STATE;
	}
}

static void watches_send(zhandle_t *zh)
{
	struct ens_request *request = request_make(ENS_WATCHES, "");

	for (const struct ens_watch *watch = zh->watches; watch != NULL; watch = watch->next) {
		struct ens_watch *copy = sim_alloc(sizeof(*copy));

		*copy = *watch;
		copy->next = request->again;
		request->again = copy;
	}
	request->seen = zh->seen;
	if (request->again != NULL)
		send_up(zh, request);
}

/* ---- a connection ---- */

static void knocks(void *arg, uint64_t tag);

static void closed_at_server(void *arg, uint64_t tag)
{
	struct ens_conn *conn = arg;

	(void)tag;
	conn->server_open = false;
}

static void conn_ends(zhandle_t *zh)
{
	struct ens_conn *conn = zh->conn;

	conn->client_open = false;
	sim_at(sim_between(0, ens_nature.notice_ns), closed_at_server, conn, 0);
	zh->conn = NULL;
	zh->up = false;
}

void ens_handle_lost(struct ens_conn *conn)
{
	zhandle_t *zh = conn->zh;

	if (!conn->client_open || zh->over)
		return;
	sim_say("%s: connection to server %u lost", sim_process_name(zh->process), conn->server);
	if (zh->up)
		deliver_state(zh, ZOO_CONNECTING_STATE);
	conn_ends(zh);
	requests_fail(zh, ZCONNECTIONLOSS);
	sim_at(sim_between(0, 50 * SIM_MS), knocks, zh, 0);
}

static void gives_up(void *arg, uint64_t tag)
{
	struct ens_conn *conn = arg;

	(void)tag;
	if (!conn->accepted)
		ens_handle_lost(conn);
}

static void knocks(void *arg, uint64_t tag)
{
	zhandle_t *zh = arg;
	struct ens_conn *conn;

	(void)tag;
	if (zh->over || zh->conn != NULL || !sim_process_alive(zh->process))
		return;
	if (sim_process_stopped(zh->process)) {
		sim_at(10 * SIM_MS, knocks, zh, 0);
		return;
	}
	conn = sim_alloc(sizeof(*conn));
	*conn = (struct ens_conn){ .zh = zh,
				   .server = sim_below(ENS_SERVERS),
				   .client_open = true,
				   .delay_ns =
					   sim_between(ens_nature.net_ns / 4, ens_nature.net_ns) };
	zh->conn = conn;
	if (sim_now() >= zh->away_ns)
		send_up(zh, request_make(ENS_BEGIN, ""));
	sim_at(zh->timeout_ns / 3, gives_up, conn, 0);
}

void ens_handle_accepted(struct ens_conn *conn)
{
	zhandle_t *zh = conn->zh;

	if (!conn->client_open || zh->over)
		return;
	conn->accepted = zh->up = true;
	zh->session = conn->session;
	zh->id.client_id = zh->session->id;
	zh->heard_ns = sim_now();
	sim_say("%s: session %d at server %u", sim_process_name(zh->process), (int)zh->session->id,
		conn->server);
	deliver_state(zh, ZOO_CONNECTED_STATE);
	watches_send(zh);
	for (struct ens_request *request = zh->requests; request != NULL; request = request->next)
		send_up(zh, request);
}

void ens_handle_expired(struct ens_conn *conn)
{
	zhandle_t *zh = conn->zh;

	if (!conn->client_open || zh->over)
		return;
	sim_say("%s: the session is over", sim_process_name(zh->process));
	zh->expired = true;
	conn->accepted = true;
	deliver_state(zh, ZOO_EXPIRED_SESSION_STATE);
	conn_ends(zh);
	requests_fail(zh, ZSESSIONEXPIRED);
}

/* Signs of life between requests; who hears nothing for too long gives a connection up */
static void looks(void *arg, uint64_t tag)
{
	zhandle_t *zh = arg;

	(void)tag;
	if (zh->over || !sim_process_alive(zh->process))
		return;
	if (zh->up && !sim_process_stopped(zh->process)) {
		if (sim_now() > zh->heard_ns + zh->timeout_ns / 3 * 2)
			ens_handle_lost(zh->conn);
		else if (sim_now() > zh->sent_ns + zh->timeout_ns / 3)
			send_up(zh, request_make(ENS_PING, ""));
	}
	sim_at(zh->timeout_ns / 6, looks, zh, 0);
}

void ens_cut(struct sim_process *process, uint64_t away_ns, bool silent)
{
	for (zhandle_t *zh = handles; zh != NULL; zh = zh->next) {
		if (zh->process != process || zh->over)
			continue;
		zh->away_ns = sim_now() + away_ns;
		if (zh->conn != NULL && silent)
			zh->conn->server_open = false;
		else if (zh->conn != NULL)
			ens_handle_lost(zh->conn);
	}
}

void ens_clients_calm(void)
{
	for (zhandle_t *zh = handles; zh != NULL; zh = zh->next)
		zh->away_ns = 0;
}

/* ---- the calls ---- */

zhandle_t *zookeeper_init(const char *host, watcher_fn fn, int recv_timeout,
			  const clientid_t *clientid, void *context, int flags)
{
	uint64_t tick_ns = ens_nature.tick_ns, timeout_ns = (uint64_t)recv_timeout * SIM_MS;
	zhandle_t *zh;

	(void)host;
	(void)clientid;
	(void)flags;
	if (!ens.calm && sim_ppm(20000)) {
		errno = EAGAIN; /* a name is not found */
		return NULL;
	}
	if (timeout_ns < TICKS_MIN * tick_ns)
		timeout_ns = TICKS_MIN * tick_ns;
	if (timeout_ns > TICKS_MAX * tick_ns)
		timeout_ns = TICKS_MAX * tick_ns;
	zh = sim_alloc(sizeof(*zh));
	*zh = (zhandle_t){ .next = handles,
			   .process = sim_process_self(),
			   .fd = sim_fd_open(),
			   .fn = fn,
			   .arg = context,
			   .timeout_ns = timeout_ns };
	handles = zh;
	zh->thread = sim_thread_start(calls_back, zh);
	sim_at(0, knocks, zh, 0);
	sim_at(timeout_ns / 6, looks, zh, 0);
	return zh;
}

/* A connection that is up takes the end of the session along, usually; then no callback comes */
int zookeeper_close(zhandle_t *zh)
{
	if (zh->up && !sim_ppm(100000))
		send_up(zh, request_make(ENS_END, ""));
	zh->closing = true;
	*sim_fd_count(zh->fd) = 1;
	sim_fd_wake(zh->fd);
	sim_thread_join(zh->thread);
	zh->over = true;
	if (zh->conn != NULL)
		conn_ends(zh);
	sim_fd_close(zh->fd);
	while (zh->requests != NULL) {
		struct ens_request request = *zh->requests;

		zh->requests = request.next;
		request.rc = ZCLOSING;
		tell(&request);
	}
	return ZOK;
}

int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms)
{
	(void)zh;
	(void)delay_ms;
	return ZOK;
}

void zoo_set_debug_level(ZooLogLevel level)
{
	(void)level;
}

const clientid_t *zoo_client_id(zhandle_t *zh)
{
	return &zh->id;
}

int zoo_recv_timeout(zhandle_t *zh)
{
	return (int)(zh->timeout_ns / SIM_MS);
}

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int bytes,
		 void_completion_t completion, const void *data)
{
	(void)scheme;
	(void)cert;
	(void)bytes;
	(void)completion;
	(void)data;
	return zh->expired ? ZINVALIDSTATE : ZOK;
}

static void data_take(struct ens_request *request, const char *value, int bytes)
{
	request->data = sim_alloc((size_t)bytes + 1);
	memcpy(request->data, value, (size_t)bytes);
	request->bytes = bytes;
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int bytes,
		const struct ACL_vector *acl, int mode, string_completion_t completion,
		const void *data)
{
	struct ens_request *request = request_make(ENS_CREATE, path);

	data_take(request, value, bytes);
	request->ephemeral = mode == ZOO_EPHEMERAL && ens_wrong != ENS_STAYS;
	request->secret = strcmp(acl->data[0].id.scheme, "digest") == 0;
	for (int i = 0; request->secret && i < acl->count && i < 2; i++)
		snprintf(users[i], sizeof(users[i]), "%s", acl->data[i].id.id);
	request->tell.text = completion;
	return request_send(zh, request, data);
}

int zoo_aset(zhandle_t *zh, const char *path, const char *value, int bytes, int version,
	     stat_completion_t completion, const void *data)
{
	struct ens_request *request = request_make(ENS_SET, path);

	data_take(request, value, bytes);
	request->expected = ens_wrong == ENS_NO_COMPARE ? -1 : version;
	request->tell.stat = completion;
	return request_send(zh, request, data);
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
		const void *data)
{
	struct ens_request *request = request_make(ENS_DELETE, path);

	request->expected = version;
	request->tell.done = completion;
	return request_send(zh, request, data);
}

/* The request of a read, and its watch */
static struct ens_request *watching(zhandle_t *zh, enum ens_op op, const char *path, watcher_fn fn,
				    void *arg, enum ens_watched what)
{
	struct ens_request *request = request_make(op, path);
	const struct ens_watch *before = zh->once;

	request->fn = fn;
	request->fn_arg = arg;
	request->what = what;
	if (ens_wrong != ENS_WATCH_ONCE || fn == NULL)
		return request;
	ens_watch_keep(&zh->once, request);
	if (before == zh->once)
		request->fn = NULL;
	return request;
}

int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t completion,
		const void *data)
{
	struct ens_request *request = request_make(ENS_EXISTS, path);

	(void)watch;
	request->tell.stat = completion;
	return request_send(zh, request, data);
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
		 stat_completion_t completion, const void *data)
{
	struct ens_request *request =
		watching(zh, ENS_EXISTS, path, watcher, watcher_arg, ENS_ABSENT);

	request->tell.stat = completion;
	return request_send(zh, request, data);
}

int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t completion,
	     const void *data)
{
	struct ens_request *request = request_make(ENS_GET, path);

	(void)watch;
	request->tell.data = completion;
	return request_send(zh, request, data);
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
	      data_completion_t completion, const void *data)
{
	struct ens_request *request = watching(zh, ENS_GET, path, watcher, watcher_arg, ENS_DATA);

	request->tell.data = completion;
	return request_send(zh, request, data);
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_arg,
		       strings_completion_t completion, const void *data)
{
	struct ens_request *request =
		watching(zh, ENS_CHILDREN, path, watcher, watcher_arg, ENS_CHILD);

	request->tell.names = completion;
	return request_send(zh, request, data);
}

int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data)
{
	struct ens_request *request = request_make(ENS_ACL, path);

	request->tell.acl = completion;
	return request_send(zh, request, data);
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
	struct ens_request *request = request_make(ENS_SYNC, path);

	request->tell.text = completion;
	return request_send(zh, request, data);
}
