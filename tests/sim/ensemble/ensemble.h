/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ensemble.h -- a simulated ZooKeeper: three servers, and the calls of its C client on top of them
 *
 * The leader decides each write and adds it to one log. Every other server applies the log later,
 * in order, and answers reads from its applied state. So a read may be old, but never older than
 * one before it in the same session. Requests of a session are answered in their order. Each server
 * reports every half tick to the leader which sessions it has heard from; only the leader ends a
 * session. While there is no leader no server answers.
 *
 *	client.c    the library: zoo_*() and zookeeper_*(), a callback thread for each handle
 *	server.c    connections, reads, watches
 *	leader.c    the log, the tree that it makes, sessions, changes of the leader
 *	wrong.c     rules of the back end that are left out, by calls that the linker redirects
 */
#ifndef OL_TESTS_SIM_ENSEMBLE_ENSEMBLE_H
#define OL_TESTS_SIM_ENSEMBLE_ENSEMBLE_H

#define THREADED /* which half of zookeeper.h */
#include <zookeeper/zookeeper.h>

#include "sim/world/sim.h"

enum {
	ENS_SERVERS = 3,
	ENS_NODES_MAX = 96,
	ENS_PATH_MAX = 96,
	ENS_BYTES_MAX = 4096,
};

enum ens_op {
	ENS_CREATE,
	ENS_SET,
	ENS_DELETE,
	ENS_BEGIN, /* a session */
	ENS_END,
	ENS_GET, /* from here on reads */
	ENS_EXISTS,
	ENS_CHILDREN,
	ENS_ACL,
	ENS_SYNC, /* asks the leader, changes nothing */
	ENS_PING,
	ENS_WATCHES, /* those of an earlier connection */
};

struct ens_session {
	struct ens_session *next;
	int64_t id;
	struct sim_process *process; /* whose it is, for checks */
	uint64_t timeout_ns;
	uint64_t expires_ns;
	const struct ens_conn *owner; /* where it is; others may not write */
	bool begun, over; /* as the log has it */
	bool touched[ENS_SERVERS]; /* not yet told to the leader */
};

struct ens_entry {
	int64_t zxid;
	enum ens_op op;
	struct ens_session *session;
	char path[ENS_PATH_MAX];
	const char *data;
	int bytes;
	bool ephemeral;
	bool secret;
};

struct ens_node {
	char path[ENS_PATH_MAX];
	const char *data;
	int bytes;
	int64_t created, changed, children; /* zxids */
	int version;
	int64_t owner;
	bool secret;
};

struct ens_tree {
	struct ens_node nodes[ENS_NODES_MAX];
	unsigned count;
	int64_t zxid;
};

/* A watch. In the library with whom it tells, at a server without */
enum ens_watched {
	ENS_DATA,
	ENS_ABSENT,
	ENS_CHILD
};
struct ens_watch {
	struct ens_watch *next;
	enum ens_watched what;
	char path[ENS_PATH_MAX];
	watcher_fn fn;
	void *arg;
};

/* A request and, when it comes back, its answer */
struct ens_request {
	struct ens_request *next; /* in the library: until it is answered */
	struct ens_request *then; /* at the server: until it is begun */
	enum ens_op op;
	struct ens_conn *conn;
	char path[ENS_PATH_MAX];
	char *data;
	int bytes;
	int expected; /* version; -1: any */
	bool ephemeral, secret;
	bool watches;
	enum ens_watched what;
	struct ens_watch *again; /* of ENS_WATCHES */
	int64_t seen; /* zxid, of ENS_WATCHES */
	watcher_fn fn;
	void *fn_arg;
	union {
		void_completion_t done;
		stat_completion_t stat;
		data_completion_t data;
		strings_completion_t names;
		string_completion_t text;
		acl_completion_t acl;
	} tell;
	const void *arg;
	uint64_t sent_ns;
	uint64_t epoch; /* of the leader that was asked */
	size_t upto; /* entries that its server applies first */
	/* the answer */
	int rc;
	int64_t zxid; /* what its server had applied */
	struct Stat stat;
	bool only_ours; /* of ENS_ACL */
	char (*names)[ENS_PATH_MAX];
	int name_count;
	bool answered; /* by the leader */
	bool sent;
};

struct ens_conn {
	struct ens_conn *next; /* of its server */
	zhandle_t *zh;
	unsigned server;
	bool client_open, server_open;
	bool accepted; /* has a session */
	struct ens_session *session;
	struct ens_request *first; /* to be done; the first may be under way */
	bool busy;
	uint64_t up_ns, down_ns; /* when the last thing arrives, each way */
	uint64_t delay_ns;
	struct ens_watch *watches;
};

struct ens_server {
	bool up;
	struct ens_tree tree;
	size_t applied; /* entries of the log */
	uint64_t apply_ns; /* when the last is */
	uint64_t lag_ns; /* entries come so late, at most */
	uint64_t lead_ns; /* when the last word to the leader arrives */
	struct ens_conn *conns;
};

struct ens {
	struct ens_server servers[ENS_SERVERS];
	int leader; /* -1: there is none */
	uint64_t epoch;
	int64_t counter; /* of zxids */
	struct ens_entry *log;
	size_t count;
	struct ens_tree tree; /* all of the log */
	struct ens_session *sessions;
	int64_t ids;
	bool calm;
	unsigned losses; /* of what was committed */
};
extern struct ens ens;

struct ens_nature {
	uint64_t tick_ns;
	uint64_t net_ns; /* a usual delay, at most */
	uint32_t slow_ppm; /* one is as late as slow_ns */
	uint64_t slow_ns;
	bool early; /* a session is granted before its server has applied all that was before */
	uint64_t notice_ns; /* until the end of a connection is noticed, at most */
};
extern struct ens_nature ens_nature;

/* Rules of the back end, left out */
enum ens_wrong {
	ENS_RIGHT,
	ENS_LEASE_FROM_ANSWER, /* the lease counts from when a sign of life is answered */
	ENS_LEASE_OF_SIGN, /* … from the sign that is answered, not from the one before */
	ENS_SIGNS_TOGETHER, /* the next sign goes out as soon as a late one is answered */
	ENS_WATCH_ONCE, /* what was watched once is not watched again */
	ENS_STALE_IS_NEW, /* what is read is news, however old it is */
	ENS_LOSS_UNSEEN, /* what is lost is not noticed */
	ENS_NO_COMPARE, /* a view replaces any other */
	ENS_TWICE, /* a proposal whose answer was lost is made again, on what is there */
	ENS_STAYS, /* a member's node outlives its session */
	ENS_ZXID_ALONE, /* a view with a newer zxid is later, whatever its version */
	ENS_JOINS_ONCE, /* a new session does not register again */
	ENS_EXPIRY_UNSEEN, /* that a session has ended is not counted */
	ENS_WRONGS
};
extern enum ens_wrong ens_wrong;
extern const char *const ens_wrong_names[ENS_WRONGS];

/* leader.c */
void ens_begin(void);
/* ens_write -- by the leader: the library's code; the answer is whatever the server has behind
 * ret_upto entries. The session is alive. */
int ens_write(const struct ens_request *request, struct ens_session *session, size_t *ret_upto);
/* ens_touch -- the leader hears of it */
void ens_touch(struct ens_session *session);
struct ens_node *ens_find(struct ens_tree *tree, const char *path);
bool ens_is_child(const char *path, const char *of);
/* ens_server_fails, _returns, ens_elect -- the last: another leader, soon; forgets: so many of the
 * last entries are lost */
void ens_server_fails(unsigned server);
void ens_server_returns(unsigned server);
void ens_elect(unsigned forgets);

/* server.c */
uint64_t ens_delay(uint64_t most_ns);
/* ens_to_leader -- until what a server sends to the leader now arrives there: in order */
uint64_t ens_to_leader(unsigned server);
void ens_arrives(struct ens_request *request);
void ens_conns_break(unsigned server);
/* ens_applied -- a server has applied an entry: watches, and who waits for it */
void ens_applied(unsigned server, const struct ens_entry *entry);
/* ens_trigger -- a server has applied a change that watches may be about */
void ens_trigger(unsigned server, int type, const char *path);
void ens_welcome(struct ens_conn *conn, bool good);
void ens_serve(struct ens_conn *conn);

/* client.c: what arrives from a server */
struct ens_session *ens_handle_session(const zhandle_t *zh);
struct sim_process *ens_handle_process(const zhandle_t *zh);
int64_t ens_handle_seen(const zhandle_t *zh);
uint64_t ens_handle_timeout_ns(const zhandle_t *zh);
void ens_handle_accepted(struct ens_conn *conn);
void ens_handle_expired(struct ens_conn *conn);
void ens_handle_answer(struct ens_request *request);
void ens_handle_watch(struct ens_conn *conn, int type, const char *path);
/* ens_handle_lost -- the library notices that a connection is gone */
void ens_handle_lost(struct ens_conn *conn);
void ens_watch_keep(struct ens_watch **list, const struct ens_request *request);
void ens_clients_begin(void);
/* ens_clients_calm -- who is away is back */
void ens_clients_calm(void);
/* ens_handle_of -- the one that is open; NULL: none */
const zhandle_t *ens_handle_of(const struct sim_process *process);
/*
 * ens_cut -- a process loses its connection, and reaches nobody for a while
 *
 * What it has sent may arrive all the same, or not. silent: it is not told.
 */
void ens_cut(struct sim_process *process, uint64_t away_ns, bool silent);

/* paths.c: of "…/shardN/view", of "…/shardN/members/ID": N; else -1 */
int ens_view_shard(const char *path);
int ens_member_shard(const char *path, uint64_t *ret_id);

/* the test's: an entry is in force, a session is at its end */
void check_entry(const struct ens_entry *entry);
void check_expiry(const struct ens_session *session);
void check_lost(void);

#endif /* OL_TESTS_SIM_ENSEMBLE_ENSEMBLE_H */
