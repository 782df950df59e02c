/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * proc.c -- the processes of `outlast train`
 */
#include "cmd/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/key.h"

extern char **environ;

static char blas_variable[] = "OPENBLAS_NUM_THREADS=1";

enum {
	ORDER_MAX = 512,
	OWN_VARIABLES = 2
};

/*
 * The environment of a child: ours without settings (OUTLAST_...: the command line has them all),
 * with the job key, and with a BLAS that starts no threads. The caller frees *ret_own too.
 */
static char **environment(const char *job_key, char **ret_own)
{
	size_t count = 0, kept = 0;
	char **env;
	char *own;

	while (environ[count] != NULL)
		count++;
	env = calloc(count + OWN_VARIABLES + 1, sizeof(*env));
	if (env == NULL || asprintf(&own, OL_JOB_KEY_VARIABLE "=%s", job_key) < 0) {
		free(env);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		if (strncmp(environ[i], "OUTLAST_", strlen("OUTLAST_")) != 0 &&
		    strncmp(environ[i], "OPENBLAS_NUM_THREADS=", 21) != 0)
			env[kept++] = environ[i];
	}
	env[kept++] = own;
	env[kept] = blas_variable;
	*ret_own = own;
	return env;
}

/* The child has no stdin; only the parent writes to stdout. */
static int actions_init(posix_spawn_file_actions_t *actions, int fd)
{
	int rc = posix_spawn_file_actions_init(actions);

	if (rc != 0)
		return -rc;
	rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(actions, fd, OL_PROC_FD);
	if (rc != 0)
		posix_spawn_file_actions_destroy(actions);
	return -rc;
}

/*
 * A signal to the whole process group (Ctrl-C, a service manager's SIGTERM) is for the parent to
 * act on: each child is in a group of its own.
 */
static int attr_init(posix_spawnattr_t *attr)
{
	sigset_t mask;
	int rc = posix_spawnattr_init(attr);

	if (rc != 0)
		return -rc;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	rc = posix_spawnattr_setsigmask(attr, &mask);
	if (rc == 0)
		rc = posix_spawnattr_setpgroup(attr, 0);
	if (rc == 0)
		rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	if (rc != 0)
		posix_spawnattr_destroy(attr);
	return -rc;
}

static int spawn(pid_t *ret_pid, int fd, char *const words[], const char *job_key)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char *own = NULL;
	char **env = environment(job_key, &own);
	int rc;

	if (env == NULL)
		return -ENOMEM;
	rc = actions_init(&actions, fd);
	if (rc != 0)
		goto err_env;
	rc = attr_init(&attr);
	if (rc != 0)
		goto err_actions;
	rc = -posix_spawn(ret_pid, "/proc/self/exe", &actions, &attr, words, env);
	posix_spawnattr_destroy(&attr);
err_actions:
	posix_spawn_file_actions_destroy(&actions);
err_env:
	explicit_bzero(own, strlen(own));
	free(own);
	free(env);
	return rc;
}

int ol_proc_spawn(struct ol_proc *proc, const char *name, struct ol_args *args, const char *job_key)
{
	int fds[2];
	int rc;

	if (args->failed)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	rc = spawn(&proc->pid, fds[1], args->words, job_key);
	close(fds[1]);
	if (rc != 0) {
		proc->pid = 0;
		close(fds[0]);
		return rc;
	}
	proc->fd = fds[0];
	proc->ended = false;
	proc->line_len = 0;
	snprintf(proc->name, sizeof(proc->name), "%s", name);
	return 0;
}

/* Take the first whole line out of the buffer; lines that are not JSON are skipped. */
static json_t *line_take(struct ol_proc *proc)
{
	json_t *object = NULL;
	char *end;

	while (object == NULL && (end = memchr(proc->line, '\n', proc->line_len)) != NULL) {
		size_t bytes = (size_t)(end - proc->line) + 1;

		object = json_loadb(proc->line, bytes, 0, NULL);
		proc->line_len -= bytes;
		memmove(proc->line, proc->line + bytes, proc->line_len);
	}
	return object;
}

json_t *ol_proc_read(struct ol_proc *proc)
{
	json_t *object = line_take(proc);

	while (object == NULL && proc->fd >= 0) {
		ssize_t got = recv(proc->fd, proc->line + proc->line_len,
				   sizeof(proc->line) - proc->line_len, MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return NULL;
		if (got <= 0) { /* also if a line is too long */
			close(proc->fd);
			proc->fd = -1;
			return NULL;
		}
		proc->line_len += (size_t)got;
		object = line_take(proc);
	}
	return object;
}

void ol_proc_order(struct ol_proc *proc, const char *format, ...)
{
	char order[ORDER_MAX];
	va_list list;
	int len;

	va_start(list, format);
	len = vsnprintf(order, sizeof(order) - 1, format, list);
	va_end(list);
	if (proc->fd < 0 || len < 0 || len >= ORDER_MAX - 1)
		return;
	order[len++] = '\n';
	/* orders are short and the socket is empty: they are sent whole, or the child is gone */
	(void)!send(proc->fd, order, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool ol_proc_reap(struct ol_proc *proc)
{
	if (proc->pid == 0 || proc->ended || waitpid(proc->pid, &proc->wait_status, WNOHANG) <= 0)
		return false;
	proc->ended = true;
	return true;
}

bool ol_proc_stopped(const struct ol_proc *proc)
{
	siginfo_t info = { 0 };

	return proc->pid != 0 && !proc->ended &&
	       waitid(P_PID, (id_t)proc->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == proc->pid;
}

void ol_proc_kill(const struct ol_proc *proc, int signo)
{
	if (proc->pid != 0 && !proc->ended)
		kill(proc->pid, signo);
}

void ol_proc_wait(struct ol_proc *proc)
{
	while (proc->pid != 0 && !proc->ended) {
		pid_t got = waitpid(proc->pid, &proc->wait_status, 0);

		proc->ended = got == proc->pid || (got < 0 && errno != EINTR);
	}
}

void ol_proc_fini(struct ol_proc *proc)
{
	if (proc->pid == 0)
		return;
	ol_proc_kill(proc, SIGKILL);
	ol_proc_wait(proc);
	if (proc->fd >= 0)
		close(proc->fd);
	*proc = (struct ol_proc){ .fd = -1 };
}

void ol_proc_exit_text(const struct ol_proc *proc, char *text, size_t text_bytes)
{
	if (WIFSIGNALED(proc->wait_status))
		snprintf(text, text_bytes, "was killed by signal %d", WTERMSIG(proc->wait_status));
	else
		snprintf(text, text_bytes, "ended with exit status %d",
			 WEXITSTATUS(proc->wait_status));
}

int ol_proc_exit_code(const struct ol_proc *proc)
{
	return WIFEXITED(proc->wait_status) ? WEXITSTATUS(proc->wait_status) : -1;
}

bool ol_proc_failed(const struct ol_proc *proc)
{
	return proc->ended && ol_proc_exit_code(proc) != 0;
}

int ol_usage_read(pid_t pid, struct ol_usage *ret_usage)
{
	struct timespec time;
	uint64_t size, resident;
	clockid_t clock;
	char path[64];
	FILE *in;
	int got;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	in = fopen(path, "re");
	if (in == NULL)
		return -errno;
	got = fscanf(in, "%" SCNu64 " %" SCNu64, &size, &resident);
	fclose(in);
	if (got != 2)
		return -ESRCH;
	*ret_usage = (struct ol_usage){
		.cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec,
		.rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE),
	};
	return 0;
}
