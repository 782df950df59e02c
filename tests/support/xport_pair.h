/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * xport_pair.h -- two ends of a transport for a test: in one process, or in a process each
 *
 * A test program is a list of scenarios. The first process never opens a transport (processes fork
 * before they open one); each scenario runs in one forked process that holds both ends (xp_run1),
 * or in two, one an end (xp_run2). A scenario that fails is reported and the next one runs.
 *
 * A wait polls every end that this process has open until the condition holds, or a deadline passes,
 * which fails the scenario.
 *
 * Every event is checked: it has a connection of that transport, and none comes after CONN_DOWN or
 * conn_free().
 */
#ifndef OL_TESTS_SUPPORT_XPORT_PAIR_H
#define OL_TESTS_SUPPORT_XPORT_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rdma/slab.h"
#include "rdma/transport.h"

enum {
	XP_DEADLINE_S = 240, /* of a whole program, which may run beside others */
	XP_WAIT_MS = 60000, /* of one wait */
	XP_QUEUE_MAX = 512, /* events that nobody has asked for yet, one end */
	XP_DOWN_MAX = 256, /* connections that are down and not freed, one end */
	XP_GUARD = 0xa5, /* what memory around a target is filled with */
};

struct xp_event {
	struct ol_xport_event ev; /* its priv points at priv below */
	uint8_t priv[256];
};

/* One open transport and the events it has given and nobody has taken yet. */
struct xp_end {
	const struct ol_xport_ops *ops;
	struct ol_xport *xport;
	struct ol_xport_caps caps;
	char addr[OL_XPORT_ADDR_MAX]; /* after xp_end_listen(): what to connect to */
	unsigned log_lines;
	struct xp_event queue[XP_QUEUE_MAX];
	unsigned queue_count;
	struct ol_xport_conn *down[XP_DOWN_MAX];
	unsigned down_count;
	struct xp_end *next; /* all that this process has open */
};

/* A slab with one region over the whole of it; key is for the connection given at open. */
struct xp_mem {
	const struct ol_xport_ops *ops;
	struct ol_slab *slab;
	struct ol_xport_region *region;
	struct ol_xport_rkey key;
	uint8_t *p;
};

/* One process of xp_run2(): an end, its connection, a line to the other process. */
struct xp_side {
	struct xp_end end;
	struct ol_xport_conn *conn;
	int fd;
	pid_t other; /* only for the side that started second: the first one's process */
};

/* Both ends and a connection between them, in one process. */
struct xp_pair {
	struct xp_end a; /* listened and accepted */
	struct xp_end b; /* connected */
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn;
};

/* Program */

/* xp_init -- argument 1: shm or verbs; exits with 77 and the reason where it cannot be opened */
void xp_init(int argc, char **argv);
const struct ol_xport_ops *xp_ops(void);
bool xp_is_shm(void);
/* xp_rounds -- full scaled by OL_TEST_SCALE (default 1 on shm, 0.1 on verbs), at least 1 */
unsigned xp_rounds(unsigned full);
void xp_run1(const char *name, void (*scenario)(void));
/*
 * xp_run2 -- b's process is started first, and its id is a's side->other. b_killed: a kills it,
 * and that is not a failure.
 */
void xp_run2(const char *name, void (*a)(struct xp_side *side), void (*b)(struct xp_side *side),
	     bool b_killed);
/* xp_step -- what the scenario is at, printed if it fails */
void xp_step(const char *name);
/* xp_note -- a line of information, not a verdict */
void xp_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
int xp_result(void);

/* Ends */

/* xp_opts -- defaults, the device from OL_DEVICE, log lines to standard error if OL_TEST_VERBOSE */
struct ol_xport_opts xp_opts(void);
void xp_end_open(struct xp_end *end, const struct ol_xport_opts *opts); /* opts NULL: xp_opts() */
/* xp_listen_addr -- an address nobody else uses: verbs OL_ADDR with port 0, shm an abstract name */
void xp_listen_addr(char addr[OL_XPORT_ADDR_MAX]);
void xp_end_listen(struct xp_end *end);
void xp_end_close(struct xp_end *end);

/* Connections */

/* xp_connect -- b to a, in one process, both up at return */
void xp_connect(struct xp_end *a, struct xp_end *b, struct ol_xport_conn **ret_a,
		struct ol_xport_conn **ret_b);
/* xp_conn_free -- conn_free(), which must end its events: those not taken yet are dropped */
void xp_conn_free(struct xp_end *end, struct ol_xport_conn *conn);
/* xp_reject -- reject(), which frees as well */
void xp_reject(struct xp_end *end, struct ol_xport_conn *conn, const void *priv, uint32_t priv_len);
void xp_pair_open(struct xp_pair *pair, const struct ol_xport_opts *opts);
/* xp_pair_close -- frees what is still connected, closes both ends */
void xp_pair_close(struct xp_pair *pair);
/* xp_side_a_open, xp_side_b_open -- a listens, b connects; both up at return */
void xp_side_a_open(struct xp_side *side, const struct ol_xport_opts *opts);
void xp_side_b_open(struct xp_side *side, const struct ol_xport_opts *opts);
/* xp_side_close -- waits for the other side to come here too, then frees and closes */
void xp_side_close(struct xp_side *side);

/* Events */

/* xp_progress -- poll every open end once; true if anything happened */
bool xp_progress(void);
bool xp_progress_end(struct xp_end *end);
/* xp_take -- the first event of type (and of conn, unless NULL) that is there, after a poll */
bool xp_take(struct xp_end *end, enum ol_xport_event_type type, const struct ol_xport_conn *conn,
	     struct xp_event *ret_event);
/* xp_wait -- as xp_take, waiting for it; a connection that goes down instead fails the scenario */
struct xp_event xp_wait(struct xp_end *end, enum ol_xport_event_type type,
			const struct ol_xport_conn *conn);
/* xp_wait_done -- DONE of cookie with status 0 */
void xp_wait_done(struct xp_end *end, const struct ol_xport_conn *conn, uint64_t cookie);
/* xp_wait_bell -- DOORBELL_RUNG with imm */
void xp_wait_bell(struct xp_end *end, const struct ol_xport_conn *conn, uint32_t imm);
/* xp_wait_down -- CONN_DOWN; returns its status */
int xp_wait_down(struct xp_end *end, const struct ol_xport_conn *conn);
/* xp_quiet -- for ms no event of conn (NULL: of any) comes, and none is waiting */
void xp_quiet(struct xp_end *end, const struct ol_xport_conn *conn, unsigned ms);

/* Memory and posts */

/* xp_mem_open -- conn NULL: for every connection; key is then the one of connections made here */
void xp_mem_open(struct xp_mem *mem, struct xp_end *end, struct ol_xport_conn *conn, size_t bytes,
		 unsigned access);
/* xp_key -- what the peer of conn needs */
struct ol_xport_rkey xp_key(const struct xp_mem *mem, const struct ol_xport_conn *conn);
void xp_mem_close(struct xp_mem *mem);
/* xp_write, xp_read -- one segment, no flags */
struct ol_xport_write xp_write(const struct xp_mem *src, uint64_t src_off, uint32_t bytes,
			       struct ol_xport_rkey dst, uint64_t dst_off);
struct ol_xport_read xp_read(const struct xp_mem *dst, uint64_t dst_off, uint32_t bytes,
			     struct ol_xport_rkey src, uint64_t src_off);
/* xp_post_write, xp_post_read -- post, polling as long as it answers -EAGAIN; must succeed */
void xp_post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write);
void xp_post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read);
/* xp_bell -- a doorbell and no data */
void xp_bell(struct ol_xport_conn *conn, uint32_t imm);

/* Between the processes of xp_run2(); receiving polls meanwhile */

void xp_send(struct xp_side *side, const void *data, size_t bytes);
void xp_recv(struct xp_side *side, void *data, size_t bytes);
void xp_sync(struct xp_side *side); /* both are here */

/* Contents: every 8 bytes depend on seed and position */

void xp_fill(void *p, size_t bytes, uint64_t seed);
/* xp_check_fill -- p holds what xp_fill(seed) of this many bytes writes, or the scenario fails */
void xp_check_fill(const void *p, size_t bytes, uint64_t seed, const char *what);
void xp_check_bytes(const void *p, size_t bytes, uint8_t value, const char *what);
uint64_t xp_mix(uint64_t x); /* a hash, for random choices from a seed */

uint64_t xp_now_ms(void);
void xp_relax(void); /* in a spin loop: lets the other process run on a small machine */
void xp_pause(void); /* in a loop that hunts no race: leaves an emulated processor to the adapter */

#endif /* OL_TESTS_SUPPORT_XPORT_PAIR_H */
