/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * invented.c -- lies that are within bounds one by one: two honest workers train beside a liar that
 * has worker 2's credential, and their gradients are in the weights bit for bit
 *
 *	mirror       a server comes back empty, and is offered the liar's mirror: its table names
 *	             pushes that worker 0 never made, as many gradients as can be counted, or its
 *	             hello the largest epoch. No server vouches for it: nobody is shut out, and the
 *	             job can be restored once more
 *	checkpoint   one finite gradient makes the optimizer's state infinite: the checkpoints that
 *	             can be read are kept. Where the lock file was is a pipe: the server does not wait
 *	live         doorbells and records of a worker and of an observer that no worker sends, and
 *	             deaths in the middle of one
 *
 * shm: a false mirror is the same bytes on any transport.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/peer.h"

enum {
	LEN = 32, /* floats: a gradient and its header are written inline */
	PUSHES = 10,
	HONEST = 2,
	LIAR = 2,
	WORKERS = 3,
	TAG = 9, /* of the liar's process */
	STORM = 2000,
	WAIT_MS = 10000,
	DEADLINE_S = 60,
	MIRROR_OFF = OL_PAGE_BYTES + OL_PAGE_BYTES / 2, /* in the peer's memory, behind acks */
	MIRROR_BYTES = OL_PAGE_BYTES / 2
};

#define LR     0.125f
#define FIRST  100.0f
#define SPIKE  1e20f /* finite; its square is not */
#define UNITS  100000 /* of a part: beyond any gradient */
#define AFTER1 (FIRST - LR * HONEST * PUSHES)
#define AFTER2 (FIRST - LR * HONEST * PUSHES * 2)

enum lie {
	LIE_NONE,
	LIE_SEQ_NEXT, /* a few pushes more than worker 0 has made */
	LIE_SEQ_MANY, /* and as many versions */
	LIE_GRADS, /* of worker 0, as many as can be counted */
	LIE_EPOCH, /* the liar knows the largest */
	LIES
};

/* What processes tell each other */
static struct board {
	atomic_int ready; /* honest workers that are in … */
	atomic_int trained; /* … and have pushed all they were to push so far */
	atomic_int restarted; /* the server is back, empty */
	atomic_int saw; /* the liar has read what it forges */
	atomic_int begin, leave;
} * board;

static void until(const atomic_int *word, int want)
{
	const uint64_t end_ns = ol_clock_ns() + WAIT_MS * OL_NS_PER_MS;

	while (atomic_load(word) < want) {
		check(ol_clock_ns() < end_ns);
		poll(NULL, 0, 1);
	}
}

static void train(struct ol_worker *worker)
{
	for (unsigned i = 0; i < PUSHES; i++) {
		check_ok(job_pull(worker, OL_PULL_NEWEST));
		check_ok(job_push(worker, 1.0f));
	}
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	atomic_fetch_add(&board->trained, 1);
}

/* Poll until the server that came back has welcomed it */
static void meet_again(struct ol_worker *worker)
{
	const uint64_t end_ns = ol_clock_ns() + WAIT_MS * OL_NS_PER_MS;
	struct ol_link_stat stat;

	do {
		check(ol_clock_ns() < end_ns && ol_worker_poll(worker) >= 0);
		poll(NULL, 0, 1);
		check_ok(ol_link_get_stat(worker, 0, &stat));
	} while (atomic_load(&board->restarted) == 0 || stat.down != 0 || stat.outages == 0);
}

static void all_counted(struct ol_worker *worker, uint64_t applied)
{
	struct ol_link_stat stat;

	check_ok(ol_link_get_stat(worker, 0, &stat));
	check_eq(stat.applied, applied);
	check_eq(stat.late + stat.lost + stat.pending, 0);
}

static int honest(const struct job *job, long id)
{
	struct ol_worker_opts opts;
	struct ol_worker *worker;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.op_timeout_ms = WAIT_MS;
	worker = job_worker_with(job, (int)id, opts);
	atomic_fetch_add(&board->ready, 1);
	until(&board->begin, 1);
	train(worker);
	all_counted(worker, PUSHES);
	if (job->opts.restore == OL_RESTORE_MIRROR) {
		meet_again(worker);
		train(worker);
		all_counted(worker, 2 * PUSHES);
	}
	until(&board->leave, 1);
	ol_worker_close(worker);
	return 0;
}

static struct ol_server_opts opts_make(void)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = LEN;
	opts.workers_max = WORKERS;
	opts.rule.lr = LR;
	opts.lease_ms = JOB_LEASE_MS;
	return opts;
}

static void start(struct job *job, struct ol_server_opts opts, pid_t pids[HONEST])
{
	memset(board, 0, sizeof(*board));
	job_start(job, opts, FIRST);
	for (long i = 0; i < HONEST; i++)
		pids[i] = job_fork(honest, job, i);
	until(&board->ready, HONEST);
}

/* What an observer sees: the weights, bit for bit */
static struct ol_server_stat look(const struct job *job, float want)
{
	struct ol_worker *worker = job_worker(job, -1);
	struct ol_server_stat stat;
	const float *weights;

	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(ol_stat(worker, 0, &stat));
	weights = ol_weights(worker, NULL);
	for (unsigned i = 0; i < LEN; i++)
		check_msg(weights[i] == want, "weight %u is %.9g, not %.9g", i, (double)weights[i],
			  (double)want);
	ol_worker_close(worker);
	return stat;
}

static void enter(struct peer *peer, const struct job *job, enum ol_wire_role role, uint32_t id)
{
	peer_open(peer, "", role, id);
	peer_join(peer, job);
}

static void say(struct peer *peer, struct ol_hello hello)
{
	ol_record_seal(&hello);
	peer_write(peer, &hello, sizeof(hello), OL_HELLO_OFF, ol_bell_make(OL_BELL_HELLO, 0));
}

/* What the liar forges: all of the server's content, as it is now */
struct forged {
	uint8_t content[MIRROR_BYTES];
	uint64_t version, history;
	struct ol_geometry geo;
};

static void content_read(const struct job *job, struct forged *forged)
{
	struct ol_version_line line;
	struct peer peer;

	enter(&peer, job, OL_ROLE_WORKER, LIAR);
	say(&peer, peer_hello(&peer));
	peer_welcome(&peer);
	forged->geo = peer.accept.geo;
	forged->history = peer.accept.incarnation;
	check(ol_layout_content_bytes(&forged->geo) <= sizeof(forged->content));
	memcpy(&line, peer_read(&peer, OL_BOARD_LINE_OFF, sizeof(line)), sizeof(line));
	forged->version = ol_published_version(line.published);
	memcpy(forged->content,
	       peer_read(
		       &peer,
		       ol_layout_snapshot_off(&forged->geo, ol_published_snapshot(line.published)),
		       (uint32_t)ol_layout_content_bytes(&forged->geo)),
	       ol_layout_content_bytes(&forged->geo));
	peer_close(&peer);
}

/* Newer by one push of the liar's own than all honest mirrors, and with the lie */
static struct ol_hello hello_forge(struct forged *forged, enum lie lie)
{
	struct ol_applied *table =
		(void *)(forged->content + sizeof(struct ol_snapshot_head)); /* aligned: 64 */
	struct ol_hello hello = {
		.weights_off = ol_layout_table_bytes(&forged->geo),
		.state_off = OL_MIRROR_NO_STATE,
		.mirror_version = forged->version + 1,
		.mirror_history = forged->history,
		.mirror_epoch = 1,
		.epoch = lie == LIE_EPOCH ? OL_EPOCH_MAX - 1 : 1,
	};

	table[LIAR] = (struct ol_applied){ .seq = ol_seq_make(TAG, 1), .grads = 1 };
	if (lie == LIE_SEQ_NEXT)
		table[0].seq += PUSHES / 2;
	if (lie == LIE_SEQ_MANY) {
		table[0].seq += STORM;
		table[0].grads += STORM;
		hello.mirror_version += STORM;
	}
	if (lie == LIE_GRADS)
		table[0].grads = OL_GRADS_MAX;
	return hello;
}

static int mirror_liar(const struct job *job, long lie)
{
	struct forged forged;
	struct ol_xport_region *region;
	struct ol_xport_rkey key;
	struct ol_hello hello, own;
	struct peer peer;

	content_read(job, &forged);
	atomic_store(&board->saw, 1);
	until(&board->restarted, 1);
	hello = hello_forge(&forged, (enum lie)lie);
	enter(&peer, job, OL_ROLE_WORKER, LIAR);
	own = peer_hello(&peer);
	memcpy((uint8_t *)peer.memory->addr + MIRROR_OFF, forged.content, MIRROR_BYTES);
	check_ok(peer.ops->reg(peer.xport, peer.conn, peer.memory, MIRROR_OFF, MIRROR_BYTES,
			       OL_XPORT_ACCESS_PEER_READ, &region));
	key = peer.ops->rkey(region, peer.conn);
	hello.magic = own.magic;
	hello.acks = own.acks;
	hello.mirror =
		(struct ol_wire_rkey){ .addr = key.addr, .bytes = key.bytes, .rkey = key.rkey };
	say(&peer, hello);
	peer_welcome(&peer);
	until(&board->leave, 1);
	peer.ops->dereg(region);
	peer_close(&peer);
	return 0;
}

/* A worker of the next process, after one more restore */
static void restore_again(struct job *job)
{
	struct ol_worker *worker;

	job_stop(job);
	job->opts.restore = OL_RESTORE_CHECKPOINT;
	job_restart(job, 0, false);
	worker = job_worker(job, 0);
	check_ok(job_pull(worker, OL_PULL_NEWEST));
	check_ok(job_push(worker, 1.0f));
	ol_worker_close(worker);
	look(job, AFTER2 - LR);
	job_stop(job);
}

static void mirror_lies(enum lie lie)
{
	struct ol_server_opts opts = opts_make();
	char dir[] = "/tmp/ol-invented-XXXXXX";
	struct ol_server_stat stat;
	pid_t pids[HONEST], liar;
	struct job job;

	check(mkdtemp(dir) != NULL);
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	opts.restore = OL_RESTORE_MIRROR;
	opts.restore_workers = WORKERS;
	opts.restore_wait_ms = 1; /* of the first server, before the liar is there */
	start(&job, opts, pids);
	atomic_store(&board->begin, 1);
	until(&board->trained, HONEST);
	look(&job, AFTER1);
	liar = job_fork(mirror_liar, &job, lie);
	until(&board->saw, 1);
	job_kill(&job, 0);
	job.opts.restore_wait_ms = WAIT_MS;
	job_restart(&job, 0, false);
	atomic_store(&board->restarted, 1);
	until(&board->trained, 2 * HONEST);
	stat = look(&job, AFTER2);
	check_eq(stat.restored_from, OL_RESTORE_MIRROR);
	check_eq(stat.duplicates + stat.dropped_late, 0);
	check_eq(stat.violations, 1);
	check_eq(stat.epoch, 2);
	atomic_store(&board->leave, 1);
	for (unsigned i = 0; i < HONEST; i++)
		job_join(pids[i]);
	job_join(liar);
	restore_again(&job);
	check_ok(folder_drop(dir));
}

/* One finite gradient, and then honest ones: moment 2 of Adam is infinite from then on */
static void good_checkpoints_stay(enum ol_selection selection)
{
	struct ol_server_opts opts = opts_make();
	char dir[] = "/tmp/ol-invented-XXXXXX";
	struct ol_worker *worker, *liar;
	struct ol_server_stat stat;
	struct job job;

	check(mkdtemp(dir) != NULL);
	opts.rule.optimizer = OL_OPTIMIZER_ADAM;
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	opts.selection = selection;
	job_start(&job, opts, FIRST);
	worker = job_worker(&job, 0);
	train(worker);
	do { /* the last version is saved, or skipped */
		poll(NULL, 0, 1);
		check_ok(ol_stat(worker, 0, &stat));
	} while (stat.checkpoints == 0);
	liar = job_worker(&job, LIAR);
	check_ok(job_pull(liar, 0));
	check_ok(job_push(liar, SPIKE));
	ol_worker_close(liar);
	do {
		train(worker);
		check_ok(ol_stat(worker, 0, &stat));
	} while (stat.checkpoints_failed == 0);
	check(stat.checkpoint_version <= PUSHES);
	ol_worker_close(worker);
	job_stop(&job);
	job.opts.restore = OL_RESTORE_CHECKPOINT;
	job_restart(&job, 0, false);
	worker = job_worker(&job, 0);
	check_ok(ol_stat(worker, 0, &stat));
	check(stat.restored_from == OL_RESTORE_CHECKPOINT && stat.restored_version <= PUSHES);
	train(worker);
	ol_worker_close(worker);
	job_stop(&job);
	check_ok(folder_drop(dir));
}

static void lock_name(const char *dir, char name[96])
{
	snprintf(name, 96, "%s/.lock-ckpt-%016x-s0", dir, 0);
}

/* The lock file's place is taken by a pipe that nobody writes */
static void a_pipe_is_no_lock(void)
{
	struct ol_server_opts opts = opts_make();
	char dir[] = "/tmp/ol-invented-XXXXXX", name[96];
	struct job job;

	check(mkdtemp(dir) != NULL);
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	lock_name(dir, name);
	check_ok(mkfifo(name, 0600));
	job_start(&job, opts, FIRST);
	look(&job, FIRST);
	job_stop(&job);
	check_ok(folder_drop(dir));
}

static int lock_holder(const struct job *job, long unused)
{
	char name[96];
	int fd;

	(void)unused;
	lock_name(job->opts.checkpoint_dir, name);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	check(fd >= 0);
	check_ok(flock(fd, LOCK_EX));
	atomic_store(&board->saw, 1);
	raise(SIGSTOP);
	return 0;
}

/* A server that was to take this one's place stands still with its lock: checkpoints fail and are
 * counted, gradients are taken, and the server can be ended */
static void a_stopped_holder_stops_nobody(void)
{
	struct ol_server_opts opts = opts_make();
	char dir[] = "/tmp/ol-invented-XXXXXX";
	struct ol_worker *worker;
	struct ol_server_stat stat;
	struct job job;
	pid_t holder;
	int status;

	memset(board, 0, sizeof(*board));
	check(mkdtemp(dir) != NULL);
	opts.checkpoint_dir = dir;
	opts.checkpoint_steps = 1;
	job_start(&job, opts, FIRST);
	holder = job_fork(lock_holder, &job, 0);
	until(&board->saw, 1);
	worker = job_worker(&job, 0);
	train(worker);
	do {
		poll(NULL, 0, 1);
		check_ok(ol_stat(worker, 0, &stat));
	} while (stat.checkpoints_failed == 0);
	ol_worker_close(worker);
	kill(job.servers[0], SIGTERM); /* it says that its last checkpoint could not be written */
	check(waitpid(job.servers[0], &status, 0) == job.servers[0] && WIFEXITED(status));
	kill(holder, SIGKILL);
	check(waitpid(holder, &status, 0) == holder);
	check_ok(folder_drop(dir));
}

static struct ol_push_hdr hdr_make(const struct peer *peer, uint32_t epoch)
{
	return (struct ol_push_hdr){
		.seq = ol_seq_make(TAG, 1),
		.payload_bytes = ol_layout_vector_bytes(&peer->accept.geo),
		.epoch = epoch,
		.samples = UINT32_MAX,
		.grads = 1,
		.weight = 1.0f,
	};
}

/* A gradient of zeros */
static void push(struct peer *peer, uint32_t slot, struct ol_push_hdr hdr)
{
	struct {
		float grad[LEN];
		struct ol_push_hdr hdr;
	} landing = { .hdr = hdr };

	ol_record_seal(&landing.hdr);
	peer_write(peer, &landing, sizeof(landing), ol_layout_slot_off(&peer->accept.geo, slot),
		   ol_bell_make(OL_BELL_PUSH, slot));
}

static void ring(struct peer *peer, uint32_t imm)
{
	const struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL,
					      .imm = imm,
					      .dst = peer->landing };

	while (peer->ops->post_write(peer->conn, &write) == -EAGAIN)
		(void)peer->ops->poll(peer->xport, &(struct ol_xport_event){ 0 }, 0);
}

/* The server ends the connection */
static void dropped(struct peer *peer)
{
	uint8_t priv[8];

	peer_wait(peer, OL_XPORT_CONN_DOWN, priv, sizeof(priv));
	peer_close(peer);
}

static uint32_t in(struct peer *peer, const struct job *job)
{
	enter(peer, job, OL_ROLE_WORKER, LIAR);
	say(peer, peer_hello(peer));
	return peer_welcome(peer).epoch;
}

/* Each ends its connection, and is counted: this many */
static unsigned worker_drops(const struct job *job)
{
	static const uint32_t bells[] = {
		OL_BELL_PUSH << 24 | 0xffffff, /* no such slot */
		OL_BELL_PUSH << 24 | 1, /* nothing has landed there */
		OL_BELL_PART << 24 | 63u << 18, /* nor may it write there */
		OL_BELL_HELLO << 24,
		OL_BELL_ENTRY << 24,
		OL_BELL_ACK << 24,
		UINT32_MAX,
	};
	const unsigned count = sizeof(bells) / sizeof(*bells);
	struct ol_push_hdr hdr;
	struct peer peer;
	uint32_t epoch;

	for (unsigned i = 0; i < count; i++) {
		in(&peer, job);
		ring(&peer, bells[i]);
		dropped(&peer);
	}
	epoch = in(&peer, job);
	hdr = hdr_make(&peer, epoch);
	hdr.base_version = UINT64_MAX;
	push(&peer, 0, hdr);
	dropped(&peer);
	in(&peer, job);
	hdr.base_version = 0;
	hdr.grads = 0;
	push(&peer, 0, hdr);
	dropped(&peer);
	return count + 2;
}

static unsigned observer_drops(const struct job *job)
{
	const enum ol_bell bells[] = { OL_BELL_HELLO, OL_BELL_PUSH, OL_BELL_PART, OL_BELL_WITHDRAW,
				       OL_BELL_ENTRY };
	const unsigned count = sizeof(bells) / sizeof(*bells);
	struct peer peer;

	for (unsigned i = 0; i < count; i++) {
		peer_observe(&peer, job);
		ring(&peer, ol_bell_make(bells[i], 0));
		dropped(&peer);
	}
	return count;
}

/* Storms, a pin of a version that never was, an ack that cannot be written, parts that never end; then
 * it stands still between the announcement of a push and the push */
static int storm_liar(const struct job *job, long unused)
{
	struct peer peer;
	uint64_t pin = UINT64_MAX;
	uint32_t epoch;

	(void)unused;
	epoch = in(&peer, job);
	peer.ops->dereg(peer.region);
	peer.region = NULL;
	push(&peer, 0, hdr_make(&peer, epoch));
	dropped(&peer);
	in(&peer, job);
	peer_write(&peer, &pin, sizeof(pin), OL_PIN_OFF, ol_bell_make(OL_BELL_PIN, 0));
	for (unsigned i = 0; i < STORM; i++) {
		ring(&peer, ol_bell_make(OL_BELL_WITHDRAW, 0));
		ring(&peer, ol_bell_make(OL_BELL_PIN, 0));
	}
	ring(&peer, ol_bell_make(OL_BELL_PART, ol_part_make(0, UNITS)));
	ring(&peer, ol_bell_make(OL_BELL_PART, ol_part_make(0, 0) | OL_PART_FOLLOWS));
	raise(SIGSTOP);
	return 0;
}

static void live_lies(void)
{
	struct ol_server_stat stat;
	pid_t pids[HONEST], liar;
	struct job job;
	unsigned drops;
	int status;

	start(&job, opts_make(), pids);
	drops = worker_drops(&job);
	drops += observer_drops(&job);
	liar = job_fork(storm_liar, &job, 0);
	atomic_store(&board->begin, 1);
	check(waitpid(liar, &status, WUNTRACED) == liar && WIFSTOPPED(status));
	until(&board->trained, HONEST);
	stat = look(&job, AFTER1);
	check_eq(stat.violations, drops);
	check_eq(stat.applied, HONEST * PUSHES + 1); /* with one of zeros */
	atomic_store(&board->leave, 1);
	for (unsigned i = 0; i < HONEST; i++)
		job_join(pids[i]);
	kill(liar, SIGKILL);
	check(waitpid(liar, &status, 0) == liar);
	job_stop(&job);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(DEADLINE_S);
	if (strcmp(job_transport(), "shm") != 0)
		return CHECK_SKIP;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	check(board != MAP_FAILED);
	for (enum lie lie = LIE_NONE; lie < LIES; lie++)
		mirror_lies(lie);
	good_checkpoints_stay(OL_SELECT_FULL);
	good_checkpoints_stay(OL_SELECT_PRIORITY);
	a_pipe_is_no_lock();
	a_stopped_holder_stops_nobody();
	live_lies();
	return 0;
}
