/* SPDX-License-Identifier: BSD-3-Clause */

/* xport_pair.c -- two ends of a transport for a test: in one process, or in a process each */
#include "support/xport_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/check.h"

enum {
	STEP_BYTES = 128
};

/* This process's part of the program; the scenario processes inherit it. */
static struct {
	const struct ol_xport_ops *ops;
	const char *scenario;
	struct xp_end *ends;
	unsigned addr_count;
	int failed;
	char *step; /* shared with the scenario processes: what they were at */
} xp;

uint64_t xp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void xp_relax(void)
{
	sched_yield();
}

void xp_pause(void)
{
	static const struct timespec some = { .tv_nsec = 100000 };

	if (xp_is_shm())
		sched_yield();
	else
		ppoll(NULL, 0, &some, NULL); /* the caller looks again */
}

/* ---- program ---- */

static void deadline_passed(int sig)
{
	static const char text[] = "deadline of the program passed in scenario: ";
	ssize_t ignored;

	(void)sig;
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	if (xp.scenario != NULL)
		ignored = write(STDERR_FILENO, xp.scenario, strlen(xp.scenario));
	ignored = write(STDERR_FILENO, "\n", 1);
	(void)ignored;
	_exit(1);
}

static void skip(const char *why)
{
	printf("skip: %s\n", why);
	exit(CHECK_SKIP);
}

/* The probe opens a device, so it runs in a process of its own. */
static void probe(const char *name)
{
	char why[256] = "";
	int fds[2];
	int status = 0;
	pid_t pid;
	ssize_t got;

	check_ok(pipe2(fds, O_CLOEXEC));
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		int rc = ol_xport_present(name, getenv("OL_DEVICE"), why, sizeof(why));

		if (rc != 0 && write(fds[1], why, strnlen(why, sizeof(why))) < 0)
			_exit(1);
		_exit(rc == 0 ? 0 : CHECK_SKIP);
	}
	close(fds[1]);
	check_eq(waitpid(pid, &status, 0), pid);
	got = read(fds[0], why, sizeof(why) - 1);
	close(fds[0]);
	why[got > 0 ? got : 0] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIP)
		skip(why[0] != '\0' ? why : "the transport is not present and did not say why");
	check_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		  "ol_xport_present(%s) ended with wait status %#x", name, (unsigned)status);
}

void xp_init(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = deadline_passed };

	if (argc != 2) {
		fprintf(stderr, "usage: %s shm|verbs\n", argv[0]);
		exit(64);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(argv[1], "shm") != 0 && strcmp(argv[1], "verbs") != 0) {
		fprintf(stderr, "%s: \"%s\" is no transport: shm or verbs\n", argv[0], argv[1]);
		exit(64);
	}
	xp.ops = ol_xport_find(argv[1]);
	if (xp.ops == NULL)
		skip("no such transport in this build");
	check_eq(xp.ops->size, sizeof(*xp.ops));
	check_msg(strcmp(xp.ops->name, argv[1]) == 0, "the table of %s is called %s", argv[1],
		  xp.ops->name);
	xp.step = mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(xp.step != MAP_FAILED);
	check_ok(sigaction(SIGALRM, &sa, NULL));
	alarm(XP_DEADLINE_S);
	if (!xp_is_shm() && getenv("OL_ADDR") == NULL)
		skip("OL_ADDR does not name the address of an RDMA device: OL_ADDR=10.0.0.1 "
		     "OL_DEVICE=mlx5_0");
	probe(argv[1]);
}

void xp_step(const char *name)
{
	snprintf(xp.step, STEP_BYTES, ", at: %s", name);
}

const struct ol_xport_ops *xp_ops(void)
{
	return xp.ops;
}

bool xp_is_shm(void)
{
	return strcmp(xp.ops->name, "shm") == 0;
}

unsigned xp_rounds(unsigned full)
{
	const char *text = getenv("OL_TEST_SCALE");
	double scale = text != NULL ? strtod(text, NULL) : xp_is_shm() ? 1.0 : 0.1;
	double rounds = full * scale;

	return rounds >= 1 ? (unsigned)rounds : 1;
}

void xp_note(const char *format, ...)
{
	va_list args;

	printf("  note: %s: ", xp.scenario != NULL ? xp.scenario : "program");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

int xp_result(void)
{
	return xp.failed != 0 ? 1 : 0;
}

static bool ended_well(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void verdict(const char *name, const char *side, int status)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "  scenario %s%s%s: killed by signal %d\n", name, side, xp.step,
			WTERMSIG(status));
	else
		fprintf(stderr, "  scenario %s%s%s: exit status %d\n", name, side, xp.step,
			WEXITSTATUS(status));
	xp.failed++;
}

static pid_t fork_scenario(void)
{
	pid_t pid;

	xp.step[0] = '\0';
	fflush(stdout);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(XP_DEADLINE_S);
	}
	return pid;
}

void xp_run1(const char *name, void (*scenario)(void))
{
	int status = 0;
	pid_t pid;

	xp.scenario = name;
	pid = fork_scenario();
	if (pid == 0) {
		scenario();
		check(xp.ends == NULL);
		exit(0);
	}
	check_eq(waitpid(pid, &status, 0), pid);
	if (!ended_well(status))
		verdict(name, "", status);
}

static pid_t side_start(void (*run)(struct xp_side *), int fd, int fd_unused, pid_t other)
{
	struct xp_side *side;
	pid_t pid = fork_scenario();

	if (pid != 0)
		return pid;
	close(fd_unused);
	side = calloc(1, sizeof(*side));
	check(side != NULL);
	side->fd = fd;
	side->other = other;
	run(side);
	check(xp.ends == NULL);
	close(fd);
	free(side);
	exit(0);
}

void xp_run2(const char *name, void (*a)(struct xp_side *side), void (*b)(struct xp_side *side),
	     bool b_killed)
{
	bool failed = false;
	int fds[2];
	pid_t pids[2];
	int left = 2;

	xp.scenario = name;
	check_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	pids[1] = side_start(b, fds[1], fds[0], 0);
	pids[0] = side_start(a, fds[0], fds[1], pids[1]);
	close(fds[0]);
	close(fds[1]);
	while (left > 0) {
		int status = 0;
		pid_t pid = waitpid(-1, &status, 0);
		bool is_b = pid == pids[1];

		check(pid == pids[0] || pid == pids[1]);
		left--;
		if (ended_well(status) || failed)
			continue;
		if (b_killed && is_b && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue;
		failed = true;
		verdict(name, is_b ? ", connecting side" : ", listening side", status);
		if (left > 0)
			kill(pids[is_b ? 0 : 1], SIGKILL); /* it would wait for its peer in vain */
	}
}

/* ---- ends ---- */

static void log_line(void *log_arg, enum ol_xport_log_level level, const char *text)
{
	struct xp_end *end = log_arg;

	if (end != NULL)
		end->log_lines++;
	if (getenv("OL_TEST_VERBOSE") != NULL)
		fprintf(stderr, "  log %d: %s\n", (int)level, text);
}

struct ol_xport_opts xp_opts(void)
{
	struct ol_xport_opts opts;

	ol_xport_opts_init(&opts);
	opts.device = getenv("OL_DEVICE");
	opts.log = log_line;
	return opts;
}

void xp_end_open(struct xp_end *end, const struct ol_xport_opts *opts)
{
	struct ol_xport_opts own = opts != NULL ? *opts : xp_opts();

	memset(end, 0, sizeof(*end));
	own.log_arg = end;
	end->ops = xp.ops;
	check_ok(xp.ops->open(&own, &end->xport));
	check(end->xport != NULL);
	xp.ops->query(end->xport, &end->caps);
	check(end->caps.write_max > 0);
	check(end->caps.inflight_max > 0);
	end->next = xp.ends;
	xp.ends = end;
}

void xp_listen_addr(char addr[OL_XPORT_ADDR_MAX])
{
	if (xp_is_shm())
		snprintf(addr, OL_XPORT_ADDR_MAX, "@outlast-test-%d-%u", (int)getpid(),
			 ++xp.addr_count);
	else
		snprintf(addr, OL_XPORT_ADDR_MAX, "%s:0", getenv("OL_ADDR"));
}

void xp_end_listen(struct xp_end *end)
{
	char addr[OL_XPORT_ADDR_MAX];

	xp_listen_addr(addr);
	check_ok(end->ops->listen(end->xport, addr, end->addr));
	check(memchr(end->addr, '\0', sizeof(end->addr)) != NULL);
}

void xp_end_close(struct xp_end *end)
{
	struct xp_end **at = &xp.ends;

	while (*at != end)
		at = &(*at)->next;
	*at = end->next;
	end->ops->close(end->xport);
	end->xport = NULL;
}

/* ---- events ---- */

static void event_check(const struct xp_end *end, const struct ol_xport_event *ev)
{
	check(ev->conn != NULL);
	check(ev->conn->xport == end->xport);
	check((unsigned)ev->type <= OL_XPORT_CONN_DOWN);
	check(ev->status <= 0);
	if (ev->type != OL_XPORT_DONE && ev->type != OL_XPORT_CONN_DOWN)
		check_eq(ev->status, 0);
	check(ev->priv_len <= sizeof(((struct xp_event *)NULL)->priv));
	for (unsigned i = 0; i < end->down_count; i++)
		check_msg(end->down[i] != ev->conn,
			  "event of type %d, status %d, after CONN_DOWN of its connection",
			  (int)ev->type, ev->status);
}

static void event_keep(struct xp_end *end, const struct ol_xport_event *ev)
{
	struct xp_event *kept;

	event_check(end, ev);
	check(end->queue_count < XP_QUEUE_MAX);
	kept = &end->queue[end->queue_count++];
	kept->ev = *ev;
	if (ev->priv_len > 0) {
		check(ev->priv != NULL);
		memcpy(kept->priv, ev->priv, ev->priv_len);
	}
	if (ev->type == OL_XPORT_CONN_DOWN) {
		check(end->down_count < XP_DOWN_MAX);
		end->down[end->down_count++] = ev->conn;
	}
}

bool xp_progress_end(struct xp_end *end)
{
	struct ol_xport_event events[16];
	int max = 16;
	int got;

	if (XP_QUEUE_MAX - end->queue_count < 16)
		max = (int)(XP_QUEUE_MAX - end->queue_count);
	if (max == 0)
		return false;
	got = end->ops->poll(end->xport, events, max);
	check_msg(got >= 0 && got <= max, "poll of %d events returned %d", max, got);
	for (int i = 0; i < got; i++)
		event_keep(end, &events[i]);
	return got > 0;
}

bool xp_progress(void)
{
	bool any = false;

	for (struct xp_end *end = xp.ends; end != NULL; end = end->next)
		any = xp_progress_end(end) || any;
	return any;
}

static bool queue_take(struct xp_end *end, enum ol_xport_event_type type,
		       const struct ol_xport_conn *conn, struct xp_event *ret_event)
{
	for (unsigned i = 0; i < end->queue_count; i++) {
		struct xp_event *kept = &end->queue[i];

		if (kept->ev.type != type || (conn != NULL && kept->ev.conn != conn))
			continue;
		*ret_event = *kept;
		ret_event->ev.priv = ret_event->priv;
		end->queue_count--;
		memmove(kept, kept + 1, (end->queue_count - i) * sizeof(*kept));
		return true;
	}
	return false;
}

bool xp_take(struct xp_end *end, enum ol_xport_event_type type, const struct ol_xport_conn *conn,
	     struct xp_event *ret_event)
{
	if (queue_take(end, type, conn, ret_event))
		return true;
	xp_progress();
	return queue_take(end, type, conn, ret_event);
}

static void queue_print(const struct xp_end *end)
{
	for (unsigned i = 0; i < end->queue_count; i++)
		fprintf(stderr, "  waiting: type %d status %d imm %u cookie %ju\n",
			(int)end->queue[i].ev.type, end->queue[i].ev.status, end->queue[i].ev.imm,
			(uintmax_t)end->queue[i].ev.cookie);
}

static void wait_is_vain(const struct xp_end *end, enum ol_xport_event_type type,
			 const struct ol_xport_conn *conn)
{
	for (unsigned i = 0; i < end->queue_count; i++) {
		const struct ol_xport_event *ev = &end->queue[i].ev;

		if (ev->type != OL_XPORT_CONN_DOWN || (conn != NULL && ev->conn != conn))
			continue;
		check_msg(false, "waited for an event of type %d, connection is down, status %d",
			  (int)type, ev->status);
	}
}

struct xp_event xp_wait(struct xp_end *end, enum ol_xport_event_type type,
			const struct ol_xport_conn *conn)
{
	uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	struct xp_event event;

	while (!xp_take(end, type, conn, &event)) {
		if (conn != NULL)
			wait_is_vain(end, type, conn);
		if (xp_now_ms() > deadline) {
			queue_print(end);
			check_msg(false, "no event of type %d within %d ms", (int)type, XP_WAIT_MS);
		}
		xp_pause();
	}
	return event;
}

void xp_wait_done(struct xp_end *end, const struct ol_xport_conn *conn, uint64_t cookie)
{
	struct xp_event event = xp_wait(end, OL_XPORT_DONE, conn);

	check_eq(event.ev.status, 0);
	check_eq(event.ev.cookie, cookie);
}

void xp_wait_bell(struct xp_end *end, const struct ol_xport_conn *conn, uint32_t imm)
{
	struct xp_event event = xp_wait(end, OL_XPORT_DOORBELL_RUNG, conn);

	check_eq(event.ev.imm, imm);
}

int xp_wait_down(struct xp_end *end, const struct ol_xport_conn *conn)
{
	return xp_wait(end, OL_XPORT_CONN_DOWN, conn).ev.status;
}

void xp_quiet(struct xp_end *end, const struct ol_xport_conn *conn, unsigned ms)
{
	uint64_t until = xp_now_ms() + ms;

	do {
		xp_progress();
		for (unsigned i = 0; i < end->queue_count; i++) {
			const struct ol_xport_event *ev = &end->queue[i].ev;

			check_msg(conn != NULL && ev->conn != conn,
				  "an event nobody expects: type %d status %d cookie %ju",
				  (int)ev->type, ev->status, (uintmax_t)ev->cookie);
		}
		xp_pause();
	} while (xp_now_ms() < until);
}

/* ---- connections ---- */

void xp_connect(struct xp_end *a, struct xp_end *b, struct ol_xport_conn **ret_a,
		struct ol_xport_conn **ret_b)
{
	struct ol_xport_conn *a_conn;
	struct ol_xport_conn *b_conn = NULL;

	check_ok(b->ops->connect(b->xport, a->addr, NULL, 0, NULL, &b_conn));
	check(b_conn != NULL);
	a_conn = xp_wait(a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(a->ops->accept(a_conn, NULL, 0));
	xp_wait(a, OL_XPORT_CONN_UP, a_conn);
	xp_wait(b, OL_XPORT_CONN_UP, b_conn);
	*ret_a = a_conn;
	*ret_b = b_conn;
}

/* forget -- conn is gone: what is left of it goes, and its address may come back */
static void forget(struct xp_end *end, const struct ol_xport_conn *conn)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < end->queue_count; i++)
		if (end->queue[i].ev.conn != conn)
			end->queue[kept++] = end->queue[i];
	end->queue_count = kept;
	for (unsigned i = 0; i < end->down_count; i++)
		if (end->down[i] == conn)
			end->down[i--] = end->down[--end->down_count];
}

void xp_conn_free(struct xp_end *end, struct ol_xport_conn *conn)
{
	end->ops->conn_free(conn);
	forget(end, conn);
}

void xp_reject(struct xp_end *end, struct ol_xport_conn *conn, const void *priv, uint32_t priv_len)
{
	end->ops->reject(conn, priv, priv_len);
	forget(end, conn);
}

void xp_pair_open(struct xp_pair *pair, const struct ol_xport_opts *opts)
{
	xp_end_open(&pair->a, opts);
	xp_end_open(&pair->b, opts);
	xp_end_listen(&pair->a);
	xp_connect(&pair->a, &pair->b, &pair->a_conn, &pair->b_conn);
}

void xp_pair_close(struct xp_pair *pair)
{
	if (pair->b_conn != NULL)
		xp_conn_free(&pair->b, pair->b_conn);
	if (pair->a_conn != NULL)
		xp_conn_free(&pair->a, pair->a_conn);
	xp_end_close(&pair->b);
	xp_end_close(&pair->a);
}

void xp_side_a_open(struct xp_side *side, const struct ol_xport_opts *opts)
{
	struct xp_end *end = &side->end;

	xp_end_open(end, opts);
	xp_end_listen(end);
	xp_send(side, end->addr, sizeof(end->addr));
	side->conn = xp_wait(end, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(end->ops->accept(side->conn, NULL, 0));
	xp_wait(end, OL_XPORT_CONN_UP, side->conn);
}

void xp_side_b_open(struct xp_side *side, const struct ol_xport_opts *opts)
{
	struct xp_end *end = &side->end;

	xp_end_open(end, opts);
	xp_recv(side, end->addr, sizeof(end->addr));
	check_ok(end->ops->connect(end->xport, end->addr, NULL, 0, NULL, &side->conn));
	xp_wait(end, OL_XPORT_CONN_UP, side->conn);
}

void xp_side_close(struct xp_side *side)
{
	xp_sync(side);
	if (side->conn != NULL)
		xp_conn_free(&side->end, side->conn);
	xp_end_close(&side->end);
}

/* ---- memory and posts ---- */

void xp_mem_open(struct xp_mem *mem, struct xp_end *end, struct ol_xport_conn *conn, size_t bytes,
		 unsigned access)
{
	memset(mem, 0, sizeof(*mem));
	mem->ops = end->ops;
	check_ok(ol_slab_create(bytes, OL_SLAB_NODE_ANY, false, &mem->slab));
	check(mem->slab->bytes >= bytes);
	check_ok(end->ops->reg(end->xport, conn, mem->slab, 0, bytes, access, &mem->region));
	mem->key = end->ops->rkey(mem->region, conn);
	check_eq(mem->key.bytes, bytes);
	mem->p = mem->slab->addr;
}

struct ol_xport_rkey xp_key(const struct xp_mem *mem, const struct ol_xport_conn *conn)
{
	return mem->ops->rkey(mem->region, conn);
}

void xp_mem_close(struct xp_mem *mem)
{
	if (mem->region != NULL)
		mem->ops->dereg(mem->region);
	ol_slab_destroy(mem->slab);
	memset(mem, 0, sizeof(*mem));
}

struct ol_xport_write xp_write(const struct xp_mem *src, uint64_t src_off, uint32_t bytes,
			       struct ol_xport_rkey dst, uint64_t dst_off)
{
	return (struct ol_xport_write){
		.segs = { { .region = src->region, .off = src_off, .bytes = bytes } },
		.seg_count = 1,
		.dst = dst,
		.dst_off = dst_off,
	};
}

struct ol_xport_read xp_read(const struct xp_mem *dst, uint64_t dst_off, uint32_t bytes,
			     struct ol_xport_rkey src, uint64_t src_off)
{
	return (struct ol_xport_read){
		.segs = { { .region = dst->region, .off = dst_off, .bytes = bytes } },
		.seg_count = 1,
		.src = src,
		.src_off = src_off,
	};
}

/* again -- true to post once more; fails on any error but -EAGAIN, and on that after a while */
static bool again(int rc, uint64_t *deadline)
{
	if (rc == 0)
		return false;
	if (rc != -EAGAIN) {
		for (const struct xp_end *end = xp.ends; end != NULL; end = end->next)
			queue_print(end);
		check_msg(false, "a post returned %d", rc);
	}
	if (*deadline == 0)
		*deadline = xp_now_ms() + XP_WAIT_MS;
	check_msg(xp_now_ms() < *deadline, "a post answers -EAGAIN for %d ms of polling",
		  XP_WAIT_MS);
	if (!xp_progress())
		xp_pause();
	return true;
}

void xp_post_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	uint64_t deadline = 0;

	while (again(xp.ops->post_write(conn, write), &deadline))
		;
}

void xp_post_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	uint64_t deadline = 0;

	while (again(xp.ops->post_read(conn, read), &deadline))
		;
}

void xp_bell(struct ol_xport_conn *conn, uint32_t imm)
{
	struct ol_xport_write write = { .flags = OL_XPORT_DOORBELL, .imm = imm };

	xp_post_write(conn, &write);
}

/* ---- between processes ---- */

void xp_send(struct xp_side *side, const void *data, size_t bytes)
{
	check_eq(send(side->fd, data, bytes, MSG_NOSIGNAL), bytes);
}

void xp_recv(struct xp_side *side, void *data, size_t bytes)
{
	uint64_t deadline = xp_now_ms() + 2 * XP_WAIT_MS;
	uint8_t *at = data;

	while (bytes > 0) {
		ssize_t got = recv(side->fd, at, bytes, MSG_DONTWAIT);

		if (got > 0) {
			at += got;
			bytes -= (size_t)got;
			continue;
		}
		check_msg(got < 0 && (errno == EAGAIN || errno == EINTR),
			  "the other process is gone: %s",
			  got < 0 ? strerror(errno) : "end of file");
		check_msg(xp_now_ms() < deadline, "no word from the other process");
		if (!xp_progress())
			xp_pause();
	}
}

void xp_sync(struct xp_side *side)
{
	uint8_t byte = 1;

	xp_send(side, &byte, 1);
	xp_recv(side, &byte, 1);
}

/* ---- contents ---- */

uint64_t xp_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

void xp_fill(void *p, size_t bytes, uint64_t seed)
{
	uint8_t *at = p;

	for (size_t off = 0; off < bytes; off += 8) {
		uint64_t word = xp_mix(seed * 0x100000001b3 + off);

		memcpy(at + off, &word, bytes - off < 8 ? bytes - off : 8);
	}
}

void xp_check_fill(const void *p, size_t bytes, uint64_t seed, const char *what)
{
	const uint8_t *at = p;

	for (size_t off = 0; off < bytes; off += 8) {
		uint64_t word = xp_mix(seed * 0x100000001b3 + off);
		size_t part = bytes - off < 8 ? bytes - off : 8;

		check_msg(memcmp(at + off, &word, part) == 0,
			  "%s: wrong contents at offset %zu of %zu", what, off, bytes);
	}
}

void xp_check_bytes(const void *p, size_t bytes, uint8_t value, const char *what)
{
	const uint8_t *at = p;

	for (size_t off = 0; off < bytes; off++)
		check_msg(at[off] == value, "%s: byte %zu of %zu is %#x, not %#x", what, off, bytes,
			  at[off], value);
}
