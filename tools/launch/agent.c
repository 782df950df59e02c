/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * agent.c -- `outlast launch-agent`: starts, watches and ends processes on one host, as told
 *
 * Orders are lines of JSON on stdin, what happens is lines of JSON on stdout (parts.h). When stdin ends, however that
 * comes, every process is asked to end, and killed if it does not: nothing outlives the launcher. If the agent itself is
 * killed its processes are, too, by the kernel; servers end by --life-fd.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "launch/parts.h"
#include "outlast.h"

extern char **environ;

enum {
	CHILDREN_MAX = 2048,
	CHILD_READY_FD = LAUNCH_READY_FD, /* in a server */
	CHILD_LIFE_FD = LAUNCH_LIFE_FD,
	FIRST_FD = 16, /* above what a child gets by number */
	LAST_PIECES = 256, /* more than the pipe of a child that has ended holds */
	END_MS = 8000, /* from the end of stdin until what still runs is killed */
	OWN_FDS = 2,
	PIECES = 8 /* read of a child's stream before it is another's turn */
};

struct child {
	json_int_t index, start; /* as the launcher calls it */
	pid_t pid;
	bool ended;
	struct launch_lines out, err, ready;
};

struct agent {
	struct launch_lines orders;
	int signal_fd;
	int life[2]; /* servers have [0]; [1] is closed with this process */
	struct child *children[CHILDREN_MAX];
	unsigned count;
	uint64_t kill_ns; /* what is left then is killed; 0: nobody was asked to end yet */
	bool killed;
};

static void say(json_t *object)
{
	(void)launch_say(STDOUT_FILENO,
			 object); /* if nobody reads any more, stdin has ended, too */
}

/* --- a child's environment ----------------------------------------------------------------------------------- */

static bool name_is(const char *variable, const char *name)
{
	size_t len = strlen(name);

	return strncmp(variable, name, len) == 0 && variable[len] == '=';
}

/*
 * A server's settings are all words. A worker has this process's variables but those that it is given anew, and those
 * that are settings of the launcher alone: a worker's OUTLAST_JOB says where the job is, its credential is its key.
 */
static bool variable_is_kept(const char *variable, json_t *given, bool is_server)
{
	/* what mpirun tells the one process that it has started, which is this one */
	static const char *const mpis[] = { "OMPI_", "PMIX_", "PRTE_" };
	static const char *const launchers[] = { "OUTLAST_COORDINATOR", "OUTLAST_JOB",
						 "OUTLAST_JOB_NAME",    "OUTLAST_JOB_KEY_FILE",
						 "OUTLAST_JSON",        "OUTLAST_CONFIG" };
	const char *name;
	json_t *value;

	if (is_server && strncmp(variable, "OUTLAST_", 8) == 0)
		return false;
	if (strcmp(variable, LAUNCH_BLAS_VARIABLE) == 0)
		return is_server;
	for (size_t i = 0;
	     getenv("OMPI_COMM_WORLD_RANK") != NULL && i < sizeof(mpis) / sizeof(mpis[0]); i++) {
		if (strncmp(variable, mpis[i], strlen(mpis[i])) == 0)
			return false;
	}
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (name_is(variable, launchers[i]))
			return false;
	}
	json_object_foreach(given, name, value)
	{
		if (name_is(variable, name))
			return false;
	}
	return true;
}

/* From *ret_own on its variables are its own, the others this process's; NULL: no memory */
static char **environment(json_t *given, bool is_server, size_t *ret_own)
{
	size_t count = 0, kept = 0;
	const char *name;
	json_t *value;
	char **env;

	while (environ[count] != NULL)
		count++;
	env = calloc(count + json_object_size(given) + 1, sizeof(*env));
	if (env == NULL)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (variable_is_kept(environ[i], given, is_server))
			env[kept++] = environ[i];
	}
	*ret_own = kept;
	json_object_foreach(given, name, value)
	{
		if (asprintf(&env[kept++], "%s=%s", name, json_string_value(value)) < 0)
			env[kept - 1] = NULL;
	}
	return env;
}

/* Its own variables are wiped: one of them is the key. */
static void environment_free(char **env, size_t own)
{
	for (size_t i = own; env[i] != NULL; i++) {
		explicit_bzero(env[i], strlen(env[i]));
		free(env[i]);
	}
	free(env);
}

/* --- starting one -------------------------------------------------------------------------------------------- */

static void signals_settle(bool is_keeper)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2 };
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	sigset_t blocked;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)sigaction(signals[i], &usual, NULL);
	sigemptyset(&blocked);
	if (is_keeper)
		sigaddset(&blocked, SIGTERM);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* In the child; does not return */
static void child_exec(char **words, char **env, const int fds[3], int life_fd, pid_t agent,
		       bool is_keeper)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent)
		_exit(1);
	signals_settle(is_keeper);
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(fds[0], STDOUT_FILENO);
	(void)dup2(fds[1], STDERR_FILENO);
	if (fds[2] >= 0) {
		(void)dup2(fds[2], CHILD_READY_FD);
		(void)dup2(life_fd, CHILD_LIFE_FD);
	}
	environ = env;
	(void)execvp(words[0], words);
	fprintf(stderr, "outlast launch: cannot start: %s: %s\n", words[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void fds_close(int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* A pipe whose ends no child gets by number; false: none, and both are -1 */
static bool pipe_make(int ret_fds[2])
{
	int fds[2];

	ret_fds[0] = ret_fds[1] = -1;
	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		ret_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FD);
		close(fds[i]);
	}
	if (ret_fds[0] >= 0 && ret_fds[1] >= 0)
		return true;
	fds_close(ret_fds, 2);
	return false;
}

static void child_free(struct child *child)
{
	launch_lines_fini(&child->out);
	launch_lines_fini(&child->err);
	launch_lines_fini(&child->ready);
	free(child);
}

/* A child that was not started yet, and what it writes to; NULL: no descriptors or no memory, and nothing is left */
static struct child *child_create(bool is_server, int ret_writes[3])
{
	struct child *child = calloc(1, sizeof(*child));
	struct launch_lines *lines[3];
	bool made = child != NULL;
	int fds[2];

	for (unsigned i = 0; i < 3; i++)
		ret_writes[i] = -1;
	if (child == NULL)
		return NULL;
	lines[0] = &child->out;
	lines[1] = &child->err;
	lines[2] = &child->ready;
	for (unsigned i = 0; i < 3; i++)
		lines[i]->fd = -1;
	for (unsigned i = 0; made && i < (is_server ? 3 : 2); i++) {
		made = pipe_make(fds);
		if (!made)
			break;
		ret_writes[i] = fds[1];
		made = launch_lines_init(lines[i], fds[0], LAUNCH_SAID_MAX) == 0;
		lines[i]->breaks_at_cr = true;
	}
	if (made)
		return child;
	child_free(child);
	fds_close(ret_writes, 3);
	return NULL;
}

/* The words of an order; NULL: it is none. The strings are the order's. */
static char **words_of(json_t *order)
{
	json_t *list = json_object_get(order, "words");
	size_t count = json_array_size(list);
	char **words = count > 0 ? calloc(count + 1, sizeof(*words)) : NULL;

	for (size_t i = 0; words != NULL && i < count; i++) {
		const char *word = json_string_value(json_array_get(list, i));

		words[i] = word != NULL ? strdup(word) : NULL;
	}
	return words;
}

static void words_free(char **words)
{
	for (size_t i = 0; words != NULL && words[i] != NULL; i++)
		free(words[i]);
	free(words);
}

static void ended_say(const struct child *child, int status)
{
	say(json_pack("{s:s, s:I, s:I, s:i}", "at", "ended", "index", child->index, "start",
		      child->start, "status", status));
}

static void child_start(struct agent *agent, json_t *order)
{
	bool is_server = json_is_true(json_object_get(order, "server"));
	struct child failed = {
		.index = json_integer_value(json_object_get(order, "index")),
		.start = json_integer_value(json_object_get(order, "start")),
	};
	char **words = words_of(order), **env;
	struct child *child = NULL;
	pid_t self = getpid();
	int writes[3];
	size_t own;

	if (words != NULL && agent->count < CHILDREN_MAX)
		child = child_create(is_server, writes);
	env = child != NULL ? environment(json_object_get(order, "env"), is_server, &own) : NULL;
	if (env == NULL) {
		if (child != NULL) {
			child_free(child);
			fds_close(writes, 3);
		}
		words_free(words);
		ended_say(&failed, OL_EXIT_RESOURCES << 8);
		return;
	}
	child->index = failed.index;
	child->start = failed.start;
	child->pid = fork();
	if (child->pid == 0)
		child_exec(words, env, writes, agent->life[0], self,
			   json_is_true(json_object_get(order, "keeper")));
	fds_close(writes, 3);
	environment_free(env, own);
	words_free(words);
	agent->children[agent->count++] = child;
	if (child->pid < 0) {
		child->ended = true;
		ended_say(child, OL_EXIT_RESOURCES << 8);
		return;
	}
	(void)setpgid(child->pid, child->pid); /* here as well: a signal may come before it runs */
	say(json_pack("{s:s, s:I, s:I, s:i}", "at", "started", "index", child->index, "start",
		      child->start, "pid", (int)child->pid));
}

/* --- what children say, and their ends ----------------------------------------------------------------------- */

static void lines_tell(const struct child *child, struct launch_lines *lines, bool is_error)
{
	char *line;

	while ((line = launch_lines_take(lines)) != NULL) {
		if (line[0] != '\0' || !lines->breaks_at_cr)
			say(json_pack("{s:s, s:I, s:b, s:o}", "at", "line", "index", child->index,
				      "err", is_error, "text", launch_text(line)));
	}
}

/* At most so many pieces of each stream, so that nobody who talks without end keeps orders away */
static void child_read(struct child *child, unsigned pieces)
{
	char *line;

	for (unsigned i = 0; i < pieces && launch_lines_read(&child->out); i++)
		lines_tell(child, &child->out, false);
	for (unsigned i = 0; i < pieces && launch_lines_read(&child->err); i++)
		lines_tell(child, &child->err, true);
	while (launch_lines_read(&child->ready)) {
		while ((line = launch_lines_take(&child->ready)) != NULL)
			say(json_pack("{s:s, s:I, s:I, s:o}", "at", "ready", "index", child->index,
				      "start", child->start, "address", launch_text(line)));
	}
}

static void child_kill(const struct child *child, int signo)
{
	if (!child->ended && child->pid > 0)
		(void)kill(-child->pid, signo);
}

/* What it started ends with it: its group, before its number can be another's */
static void child_reap(struct child *child)
{
	siginfo_t info = { 0 };
	int status;

	if (child->ended ||
	    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid != child->pid)
		return;
	child_kill(child, SIGKILL);
	if (waitpid(child->pid, &status, 0) != child->pid)
		return;
	child->ended = true;
	child_read(child, LAST_PIECES); /* what else comes, by turns */
	ended_say(child, status);
}

static void children_kill(const struct agent *agent, int signo)
{
	for (unsigned i = 0; i < agent->count; i++) {
		child_kill(agent->children[i], signo);
		if (signo == SIGTERM) /* a stopped one cannot end */
			child_kill(agent->children[i], SIGCONT);
	}
}

static bool child_is_over(const struct child *child)
{
	return child->ended && child->out.fd < 0 && child->err.fd < 0 && child->ready.fd < 0;
}

static void children_sweep(struct agent *agent)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < agent->count; i++) {
		if (child_is_over(agent->children[i]))
			child_free(agent->children[i]);
		else
			agent->children[kept++] = agent->children[i];
	}
	agent->count = kept;
}

static bool any_lives(const struct agent *agent)
{
	for (unsigned i = 0; i < agent->count; i++) {
		if (!agent->children[i]->ended)
			return true;
	}
	return false;
}

/* --- orders -------------------------------------------------------------------------------------------------- */

static void hello(json_t *order)
{
	const char *folder = json_string_value(json_object_get(order, "chdir"));

	if (folder != NULL && chdir(folder) != 0) {
		say(json_pack("{s:s, s:s, s:s}", "at", "cannot", "what", strerror(errno), "object",
			      folder));
		return;
	}
	say(json_pack("{s:s, s:s}", "at", "here", "version", ol_version(NULL)));
}

static void order_take(struct agent *agent, const char *line)
{
	json_t *order = json_loads(line, 0, NULL);
	const char *what = json_string_value(json_object_get(order, "do"));
	json_int_t index = json_integer_value(json_object_get(order, "index"));
	json_int_t signo = json_integer_value(json_object_get(order, "signal"));

	if (what != NULL && strcmp(what, "hello") == 0)
		hello(order);
	else if (what != NULL && strcmp(what, "start") == 0 && agent->kill_ns == 0)
		child_start(agent, order);
	for (unsigned i = 0; what != NULL && strcmp(what, "signal") == 0 && i < agent->count; i++) {
		if (agent->children[i]->index != index)
			continue;
		child_kill(agent->children[i], (int)signo);
		if (signo == SIGTERM)
			child_kill(agent->children[i], SIGCONT);
	}
	json_decref(order);
}

static void end_begin(struct agent *agent)
{
	if (agent->kill_ns != 0)
		return;
	agent->kill_ns = ol_clock_ns() + END_MS * OL_NS_PER_MS;
	children_kill(agent, SIGTERM);
}

static void signals_take(struct agent *agent)
{
	struct signalfd_siginfo info;

	while (read(agent->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			end_begin(agent);
	}
	for (unsigned i = 0; i < agent->count; i++)
		child_reap(agent->children[i]);
}

static void turn(struct agent *agent, struct pollfd *fds)
{
	nfds_t count = OWN_FDS;
	char *line;

	fds[0] = (struct pollfd){ .fd = agent->signal_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = agent->orders.fd, .events = POLLIN };
	for (unsigned i = 0; i < agent->count; i++) {
		const struct child *child = agent->children[i];

		fds[count++] = (struct pollfd){ .fd = child->out.fd, .events = POLLIN };
		fds[count++] = (struct pollfd){ .fd = child->err.fd, .events = POLLIN };
		fds[count++] = (struct pollfd){ .fd = child->ready.fd, .events = POLLIN };
	}
	(void)poll(fds, count, agent->kill_ns != 0 ? 100 : -1);
	signals_take(agent);
	for (unsigned i = 0; i < agent->count; i++)
		child_read(agent->children[i], PIECES);
	children_sweep(agent);
	while (launch_lines_read(&agent->orders)) {
		while ((line = launch_lines_take(&agent->orders)) != NULL) {
			order_take(agent, line);
			explicit_bzero(line, strlen(line)); /* it may have the key */
		}
	}
	if (agent->orders.fd < 0)
		end_begin(agent);
	if (agent->kill_ns != 0 && ol_clock_ns() >= agent->kill_ns)
		children_kill(agent, SIGKILL);
}

int cmd_launch_agent(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct agent *agent = calloc(1, sizeof(*agent));
	struct pollfd *fds = calloc(OWN_FDS + 3 * CHILDREN_MAX, sizeof(*fds));
	int orders = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST_FD);

	(void)argc;
	(void)argv;
	if (agent == NULL || fds == NULL || orders < 0 || !pipe_make(agent->life) ||
	    launch_lines_init(&agent->orders, orders, LAUNCH_MESSAGE_MAX) != 0 ||
	    ol_cmd_signals("launch-agent", &agent->signal_fd) != 0) {
		free(fds);
		free(agent);
		return OL_EXIT_RESOURCES;
	}
	/* Slurm may send them to all of a job; the launcher has its own, and says what comes of it */
	(void)sigaction(SIGUSR1, &ignore, NULL);
	(void)sigaction(SIGUSR2, &ignore, NULL);
	while (agent->kill_ns == 0 || any_lives(agent))
		turn(agent, fds);
	for (unsigned i = 0; i < agent->count; i++)
		child_free(agent->children[i]);
	launch_lines_fini(&agent->orders);
	free(fds);
	free(agent);
	return OL_EXIT_OK;
}
