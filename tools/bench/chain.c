/* SPDX-License-Identifier: BSD-3-Clause */

/* chain.c -- server processes on this machine: a single one, or a chain and where its views are */

#include "bench/chain.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/pin.h"

enum {
	OPEN_MS = 10000, /* until a coordinator counts as not there */
	WHOLE_MS = 60000, /* until a chain counts as not coming together */
	LOOK_MS = 1
};

enum what {
	START = 1,
	REAP,
	GONE,
	STAT
};

struct request {
	enum what what;
	uint32_t index;
	uint32_t replicas;
	uint32_t window;
	uint64_t bytes;
	uint32_t threads; /* servers that follow in the same process */
	unsigned generation; /* makes an address that nobody had before */
	char coordinator[BENCH_ADDR_MAX];
	char job[BENCH_JOB_MAX];
};

struct answer {
	int rc;
	pid_t pid;
	char addr[BENCH_ADDR_MAX];
	char err[BENCH_ERR_MAX];
	struct ol_server_stat stat;
};

/* In the keeper: a server of its own. */
struct child {
	pid_t pid; /* 0: none */
	int fd;
	bool single; /* no replica: it ends in order */
	bool ended; /* has been waited for */
};

struct keeper {
	const struct bench_peer_opts *opts;
	const int *cpus; /* NULL: that of opts */
	int fd;
	struct child children[OL_CHAIN_MAX];
};

/* A new process that dies with this one; what fork() gives, its end of a socket in *ret_fd */
static pid_t spawn(int *ret_fd)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		*ret_fd = fds[1];
		return 0;
	}
	close(fds[1]);
	if (pid > 0)
		*ret_fd = fds[0];
	else
		close(fds[0]);
	return pid;
}

struct watch {
	struct ol_server *server;
	int fd;
};

/* A server's thread that answers for it; anything but a question for its counters is the end */
static void *watch_run(void *arg)
{
	const struct watch *watch = arg;
	struct answer answer = { 0 };
	char word;

	while (recv(watch->fd, &word, 1, 0) == 1 && word == 's') {
		ol_server_get_stat(watch->server, &answer.stat);
		(void)!send(watch->fd, &answer, sizeof(answer), MSG_NOSIGNAL);
	}
	ol_server_stop(watch->server);
	return NULL;
}

static int listen_make(const struct bench_peer_opts *opts, const struct request *request,
		       char listen[BENCH_ADDR_MAX])
{
	bool plain = request->replicas == 0 || strcmp(opts->transport, "verbs") == 0;
	int bytes = plain ? snprintf(listen, BENCH_ADDR_MAX, "%s", opts->listen)
			  : snprintf(listen, BENCH_ADDR_MAX, "%s-%u-%u", opts->listen,
				     request->index, request->generation);

	return bytes < BENCH_ADDR_MAX ? 0 : -ENAMETOOLONG;
}

/* Pin this thread, open the server of a request */
static int server_open(const struct keeper *keeper, const struct request *request,
		       struct ol_server **ret_server, char err[BENCH_ERR_MAX])
{
	struct bench_peer_opts opts = *keeper->opts;
	char listen[BENCH_ADDR_MAX];
	int rc = listen_make(keeper->opts, request, listen);

	opts.listen = listen;
	opts.coordinator = request->replicas > 0 ? request->coordinator : NULL;
	opts.job = request->job;
	opts.replicas = request->replicas;
	opts.rank = request->index;
	if (rc == 0)
		rc = bench_pin(keeper->cpus != NULL ? keeper->cpus[request->index] : opts.cpu);
	return rc != 0 ? rc
		       : bench_server_open(&opts, request->bytes, request->window, ret_server, err);
}

/* A server that shares its process: what ends it ends all */
struct sharer {
	const struct keeper *keeper;
	struct request request;
};

static void *sharer_run(void *arg)
{
	const struct sharer *sharer = arg;
	char err[BENCH_ERR_MAX] = "";
	struct ol_server *server;
	int rc = server_open(sharer->keeper, &sharer->request, &server, err);

	if (rc == 0)
		rc = ol_server_run(server);
	fprintf(stderr, "server %u: %s\n", sharer->request.index,
		err[0] != '\0' ? err : ol_strerror(rc));
	_exit(1);
}

static int sharers_start(const struct keeper *keeper, const struct request *request)
{
	static struct sharer sharers[OL_CHAIN_MAX];

	for (uint32_t i = 0; i < request->threads; i++) {
		pthread_t thread;

		sharers[i] = (struct sharer){ .keeper = keeper, .request = *request };
		sharers[i].request.index = request->index + 1 + i;
		if (pthread_create(&thread, NULL, sharer_run, &sharers[i]) != 0)
			return -EAGAIN;
	}
	return 0;
}

/* The process of a server, until it ends */
static int server_run(const struct keeper *keeper, const struct request *request, int fd)
{
	struct answer answer = { .pid = getpid() };
	struct watch watch = { .fd = fd };
	pthread_t thread;
	int rc;

	answer.rc = server_open(keeper, request, &watch.server, answer.err);
	if (answer.rc == 0)
		answer.rc = sharers_start(keeper, request);
	if (answer.rc == 0)
		snprintf(answer.addr, sizeof(answer.addr), "%s", ol_server_addr(watch.server));
	if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer) ||
	    answer.rc != 0 || pthread_create(&thread, NULL, watch_run, &watch) != 0)
		return 1;
	rc = ol_server_run(watch.server);
	if (rc != 0)
		return 1; /* the thread waits for a word: it ends with the process */
	pthread_join(thread, NULL);
	ol_server_close(watch.server);
	return 0;
}

static void start(struct keeper *keeper, const struct request *request, struct answer *answer)
{
	struct child *child = &keeper->children[request->index];
	int fd;

	child->pid = spawn(&fd);
	if (child->pid == 0) {
		for (uint32_t i = 0; i < OL_CHAIN_MAX; i++) {
			if (keeper->children[i].pid > 0)
				close(keeper->children[i].fd);
		}
		close(keeper->fd);
		_exit(server_run(keeper, request, fd));
	}
	if (child->pid < 0) {
		child->pid = 0;
		answer->rc = -EAGAIN;
		return;
	}
	child->fd = fd;
	child->single = request->replicas == 0;
	child->ended = false;
	if (recv(fd, answer, sizeof(*answer), 0) == (ssize_t)sizeof(*answer))
		return;
	answer->rc = OL_E_NO_SERVER;
	snprintf(answer->err, sizeof(answer->err), "a server process ended unexpectedly");
}

static bool gone(struct child *child)
{
	if (child->pid > 0 && !child->ended && waitpid(child->pid, NULL, WNOHANG) == child->pid)
		child->ended = true;
	return child->pid == 0 || child->ended;
}

/* SIGKILL to a replica, so that one that is stopped ends too */
static void reap(struct child *child)
{
	if (child->pid == 0)
		return;
	if (!gone(child)) {
		if (!child->single || send(child->fd, "x", 1, MSG_NOSIGNAL) != 1)
			kill(child->pid, SIGKILL);
		while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(child->fd);
	*child = (struct child){ 0 };
}

static void ask(struct child *child, struct answer *answer)
{
	if (gone(child) || send(child->fd, "s", 1, MSG_NOSIGNAL) != 1 ||
	    recv(child->fd, answer, sizeof(*answer), 0) != (ssize_t)sizeof(*answer))
		answer->rc = OL_E_NO_SERVER;
}

static void keeper_run(struct keeper *keeper)
{
	struct request request;

	while (recv(keeper->fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
		struct child *child = &keeper->children[request.index];
		struct answer answer = { 0 };

		switch (request.what) {
		case START:
			start(keeper, &request, &answer);
			break;
		case REAP:
			reap(child);
			break;
		case GONE:
			answer.rc = gone(child);
			break;
		case STAT:
			ask(child, &answer);
			break;
		}
		if (send(keeper->fd, &answer, sizeof(answer), MSG_NOSIGNAL) !=
		    (ssize_t)sizeof(answer))
			break;
	}
	for (uint32_t i = 0; i < OL_CHAIN_MAX; i++)
		reap(&keeper->children[i]);
}

/* coordinator_place -- that of the caller, or a folder of our own; none for a single server */
static int coordinator_place(const struct bench_peer_opts *opts, struct bench_chain *chain,
			     char err[BENCH_ERR_MAX])
{
	int rc = 0;

	if (opts->coordinator != NULL) {
		snprintf(chain->coordinator, sizeof(chain->coordinator), "%s", opts->coordinator);
		return 0;
	}
	rc = ol_folder_make(&chain->folder, "outlast-bench-");
	if (rc != 0)
		snprintf(err, BENCH_ERR_MAX, "cannot make a folder for views of chains");
	snprintf(chain->coordinator, sizeof(chain->coordinator), "dir:%s", chain->folder.path);
	return rc;
}

int bench_chain_start(const struct bench_peer_opts *opts, const int cpus[OL_CHAIN_MAX],
		      struct bench_chain *ret_chain, char err[BENCH_ERR_MAX])
{
	struct keeper keeper = { .opts = opts, .cpus = cpus };
	struct answer answer = { 0 };
	int rc;

	*ret_chain = (struct bench_chain){ .opts = *opts, .folder = { .fd = -1 } };
	rc = cpus != NULL ? coordinator_place(opts, ret_chain, err) : 0;
	if (rc != 0)
		return rc;
	ret_chain->keeper = spawn(&ret_chain->fd);
	if (ret_chain->keeper < 0) {
		rc = -errno;
		ol_folder_drop(&ret_chain->folder);
		return rc;
	}
	if (ret_chain->keeper == 0) {
		keeper.fd = ret_chain->fd;
		if (send(keeper.fd, &answer, sizeof(answer), MSG_NOSIGNAL) ==
		    (ssize_t)sizeof(answer))
			keeper_run(&keeper);
		_exit(0);
	}
	if (recv(ret_chain->fd, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer))
		answer.rc = OL_E_NO_SERVER;
	if (answer.rc != 0) {
		snprintf(err, BENCH_ERR_MAX, "%s", answer.err);
		bench_chain_stop(ret_chain);
	}
	return answer.rc;
}

void bench_chain_stop(struct bench_chain *chain)
{
	if (chain->keeper <= 0)
		return;
	ol_chains_close(chain->views);
	close(chain->fd); /* ends whatever it does */
	while (waitpid(chain->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	ol_folder_drop(&chain->folder);
	*chain = (struct bench_chain){ 0 };
}

struct bench_peer_opts bench_chain_opts(const struct bench_chain *chain)
{
	struct bench_peer_opts opts = chain->opts;

	opts.coordinator = chain->opts.replicas > 0 ? chain->coordinator : NULL;
	opts.job = chain->job;
	return opts;
}

/* What a keeper that is gone does not answer shows as no server */
static int tell(struct bench_chain *chain, enum what what, uint32_t index, struct answer *answer)
{
	struct request request = { .what = what,
				   .index = index,
				   .replicas = chain->opts.replicas,
				   .threads = chain->threads ? chain->opts.replicas - 1 : 0,
				   .window = chain->window,
				   .bytes = chain->bytes,
				   .generation = chain->generation };

	memcpy(request.coordinator, chain->coordinator, sizeof(request.coordinator));
	memcpy(request.job, chain->job, sizeof(request.job));
	(void)!send(chain->fd, &request, sizeof(request), MSG_NOSIGNAL);
	if (recv(chain->fd, answer, sizeof(*answer), 0) != (ssize_t)sizeof(*answer))
		return OL_E_NO_SERVER;
	return answer->rc;
}

int bench_chain_server_start(struct bench_chain *chain, uint32_t index, char err[BENCH_ERR_MAX])
{
	struct answer answer;
	int rc;

	chain->generation++;
	rc = tell(chain, START, index, &answer);
	if (rc != 0) {
		snprintf(err, BENCH_ERR_MAX, "%s", answer.err);
		return rc;
	}
	chain->servers[index].pid = answer.pid;
	memcpy(chain->servers[index].addr, answer.addr, sizeof(answer.addr));
	return 0;
}

int bench_chain_server_reap(struct bench_chain *chain, uint32_t index)
{
	struct answer answer;

	chain->servers[index].pid = 0;
	return tell(chain, REAP, index, &answer);
}

bool bench_chain_server_gone(struct bench_chain *chain, uint32_t index)
{
	struct answer answer;

	return tell(chain, GONE, index, &answer) != 0;
}

int bench_chain_server_stat(struct bench_chain *chain, uint32_t index,
			    struct ol_server_stat *ret_stat)
{
	struct answer answer;
	int rc = tell(chain, STAT, index, &answer);

	if (rc == 0)
		*ret_stat = answer.stat;
	return rc;
}

struct ol_chain_info bench_chain_info(const struct bench_chain *chain)
{
	struct ol_chain_info info = { 0 };

	(void)ol_chains_get(chain->views, 0, &info);
	return info;
}

bool bench_chain_whole(const struct bench_chain *chain)
{
	struct ol_chain_info info = bench_chain_info(chain);

	return info.epoch != 0 && info.count == chain->opts.replicas && info.joining == 0;
}

int bench_chain_at(const struct bench_chain *chain, const struct ol_chain_info *info,
		   uint32_t place)
{
	for (int i = 0; i < OL_CHAIN_MAX; i++) {
		if (chain->servers[i].pid != 0 &&
		    strcmp(chain->servers[i].addr, info->addrs[place]) == 0)
			return i;
	}
	return -1;
}

int bench_chain_open(struct bench_chain *chain, uint32_t replicas, uint64_t bytes, uint32_t window,
		     char err[BENCH_ERR_MAX])
{
	uint64_t bound_ns;
	int rc = 0;

	chain->opts.replicas = replicas;
	chain->bytes = bytes;
	chain->window = window;
	snprintf(chain->job, sizeof(chain->job), "bench-%d-%u", (int)getpid(), chain->jobs++);
	for (uint32_t i = 0; i < (chain->threads || replicas == 0 ? 1 : replicas) && rc == 0; i++)
		rc = bench_chain_server_start(chain, i, err);
	if (replicas == 0)
		return rc;
	if (rc == 0)
		rc = ol_chains_open(chain->coordinator, chain->job, chain->opts.job_key, 1, OPEN_MS,
				    &chain->views, err, BENCH_ERR_MAX);
	bound_ns = ol_clock_ns() + WHOLE_MS * OL_NS_PER_MS;
	while (rc == 0 && !bench_chain_whole(chain)) {
		if (ol_clock_ns() >= bound_ns) {
			snprintf(err, BENCH_ERR_MAX,
				 "the chain of %u servers did not come together "
				 "within %d s",
				 replicas, WHOLE_MS / 1000);
			rc = OL_E_NO_SERVER;
		}
		if (bench_chain_server_gone(chain, 0)) {
			snprintf(err, BENCH_ERR_MAX, "a server ended unexpectedly");
			rc = OL_E_NO_SERVER;
		}
		poll(NULL, 0, LOOK_MS);
	}
	if (rc != 0)
		bench_chain_close(chain);
	return rc;
}

void bench_chain_close(struct bench_chain *chain)
{
	ol_chains_close(chain->views);
	chain->views = NULL;
	for (uint32_t i = 0; i < OL_CHAIN_MAX; i++)
		(void)bench_chain_server_reap(chain, i);
}
