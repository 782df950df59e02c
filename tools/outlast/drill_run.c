/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_run.c -- one run: a process of `outlast train`, watched until it ends
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "outlast/cmd.h"
#include "outlast/drill.h"

extern char **environ;

enum {
	TICK_MS = 250,
	LATE_S = 180, /* that a run may take beyond twice its time: reading data, evaluations */
	END_S = 30 /* for it to report once it has been told to end */
};

static const double start_guess_s = 3.0; /* of each run: processes up, data read */

struct child {
	pid_t pid;
	uint64_t begin_ns;
	uint64_t told_ns; /* SIGTERM sent; 0: not yet */
	bool late; /* because it took too long */
	bool ended;
	int wait_status;
};

static const char *path_of(const struct drill *drill, const char *name, const char *end,
			   char path[DRILL_PATH_MAX])
{
	snprintf(path, DRILL_PATH_MAX, "%.800s/runs/%.100s.%s", drill->out, name, end);
	return path;
}

/* stdin is nobody's; what it says goes to the run's log. */
static int actions_init(posix_spawn_file_actions_t *actions, const char *log)
{
	int rc = posix_spawn_file_actions_init(actions);

	if (rc != 0)
		return rc;
	rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(
			actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
	if (rc != 0)
		posix_spawn_file_actions_destroy(actions);
	return rc;
}

/* A group of its own: Ctrl-C reaches the drill only, which passes it on once. */
static int attr_init(posix_spawnattr_t *attr)
{
	sigset_t none;
	int rc = posix_spawnattr_init(attr);

	if (rc != 0)
		return rc;
	sigemptyset(&none);
	rc = posix_spawnattr_setsigmask(attr, &none);
	if (rc == 0)
		rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	if (rc != 0)
		posix_spawnattr_destroy(attr);
	return rc;
}

static int child_start(struct child *child, struct ol_args *args, const char *log)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int rc;

	if (args->failed)
		return ENOMEM;
	rc = actions_init(&actions, log);
	if (rc != 0)
		return rc;
	rc = attr_init(&attr);
	if (rc == 0) {
		rc = posix_spawn(&child->pid, "/proc/self/exe", &actions, &attr, args->words,
				 environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	child->begin_ns = ol_clock_ns();
	return rc;
}

static double since_s(uint64_t ns)
{
	return (double)(ol_clock_ns() - ns) / 1e9;
}

void drill_duration(double seconds, char *text, size_t bytes)
{
	unsigned s = (unsigned)fmax(0.0, round(seconds));

	if (s >= 3600)
		snprintf(text, bytes, "%u h %02u min", s / 3600, s / 60 % 60);
	else if (s >= 60)
		snprintf(text, bytes, "%u min %02u s", s / 60, s % 60);
	else
		snprintf(text, bytes, "%u s", s);
}

double drill_left_s(const struct drill *drill, size_t index, double gone_s)
{
	double each = drill->set.seconds + start_guess_s;

	if (drill->ran > 0)
		each = drill->busy_s / (double)drill->ran;
	return fmax(each - gone_s, 0.0) + (double)(drill->plan.run_count - index - 1) * each;
}

void drill_say(const struct drill *drill, bool stays, const char *format, ...)
{
	struct winsize size = { .ws_col = 80 };
	char line[256];
	va_list list;
	int max;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (!drill->tty) {
		if (stays)
			fprintf(stderr, "%s\n", line);
		return;
	}
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
		size.ws_col = 80;
	max = stays ? (int)sizeof(line) : size.ws_col - 1;
	fprintf(stderr, "\r\033[K%.*s%s", max, line, stays ? "\n" : "");
}

static void progress_show(const struct drill *drill, const struct drill_run *run, size_t index,
			  const struct child *child)
{
	double gone_s = since_s(child->begin_ns);
	char left[64];

	drill_duration(drill_left_s(drill, index, gone_s), left, sizeof(left));
	drill_say(drill, false, "run %zu of %zu, %s: %.0f s of %.0f; about %s left", index + 1,
		  drill->plan.run_count, run->name, gone_s, drill->set.seconds, left);
}

static void signals_read(struct drill *drill, struct child *child)
{
	struct signalfd_siginfo info;

	while (read(drill->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		drill->signal = (int)info.ssi_signo;
		kill(child->pid, SIGTERM);
		child->told_ns = ol_clock_ns();
	}
	if (waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid)
		child->ended = true;
}

static void limits_keep(const struct drill *drill, struct child *child)
{
	if (child->told_ns == 0 && since_s(child->begin_ns) > 2.0 * drill->set.seconds + LATE_S) {
		kill(child->pid, SIGTERM);
		child->told_ns = ol_clock_ns();
		child->late = true;
	}
	if (child->told_ns != 0 && since_s(child->told_ns) > END_S)
		kill(child->pid, SIGKILL);
}

static void child_watch(struct drill *drill, const struct drill_run *run, size_t index,
			struct child *child)
{
	struct pollfd fd = { .fd = drill->signal_fd, .events = POLLIN };

	while (!child->ended) {
		progress_show(drill, run, index, child);
		poll(&fd, 1, TICK_MS);
		signals_read(drill, child);
		if (!child->ended)
			limits_keep(drill, child);
	}
}

/* The last line of train's own errors, or else the last that says anything */
static void log_last(const char *log, char *line, size_t bytes)
{
	static const char own[] = "outlast train: ";
	FILE *in = fopen(log, "re");
	char *text = NULL;
	size_t room = 0;
	bool found = false;

	line[0] = '\0';
	if (in == NULL)
		return;
	while (getline(&text, &room, in) > 0) {
		bool is_own = strncmp(text, own, sizeof(own) - 1) == 0;

		text[strcspn(text, "\r\n")] = '\0';
		if (text[0] == '\0' || (found && !is_own))
			continue;
		snprintf(line, bytes, "%s", text);
		found = found || is_own;
	}
	free(text);
	fclose(in);
}

static void failure_note(struct drill_run *run, const struct child *child, const char *log)
{
	char last[DRILL_ERR_MAX - 64];

	run->status = DRILL_FAILED;
	log_last(log, last, sizeof(last));
	if (child->late)
		snprintf(run->error, sizeof(run->error), "did not end in its time; %s", last);
	else if (WIFSIGNALED(child->wait_status))
		snprintf(run->error, sizeof(run->error), "killed by signal %d; %s",
			 WTERMSIG(child->wait_status), last);
	else
		snprintf(run->error, sizeof(run->error), "exit status %d; %s",
			 WEXITSTATUS(child->wait_status), last);
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* An empty folder for the checkpoints of a run; nothing of the run before may be restored. */
static bool checkpoints_reset(const struct drill *drill, bool make)
{
	char path[DRILL_PATH_MAX];

	snprintf(path, sizeof(path), "%.900s/checkpoints", drill->out);
	nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
	return !make || mkdir(path, 0755) == 0;
}

static size_t outages_count(const json_t *list)
{
	size_t count = 0, i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		/* workers can be killed too; a drill is about servers */
		const char *target = json_string_value(json_object_get(one, "target"));

		count += target == NULL || strncmp(target, "worker", 6) != 0;
	}
	return count;
}

/* DONE, or FAILED with the reason: the report says that the run came to its end, with all kills */
static void report_check(struct drill_run *run, const char *path)
{
	json_error_t error;
	json_t *json = json_load_file(path, 0, &error);
	const char *ended = json_string_value(json_object_get(json, "ended"));
	const json_t *accuracy = json_object_get(json, "test_accuracy");
	size_t outages = outages_count(json_object_get(json, "outages"));

	run->status = DRILL_FAILED;
	run->accuracy = json_is_number(accuracy) ? json_number_value(accuracy) : (double)NAN;
	if (json == NULL)
		snprintf(run->error, sizeof(run->error), "%.150s: %.90s", path, error.text);
	else if (ended == NULL || strcmp(ended, "done") != 0)
		snprintf(run->error, sizeof(run->error), "%.150s: the run ended: %.60s", path,
			 ended != NULL ? ended : "unknown");
	else if (outages < run->of->kills)
		snprintf(run->error, sizeof(run->error),
			 "%.150s: %zu outages of a server, not %u: was it over too soon?", path,
			 outages, run->of->kills);
	else
		run->status = DRILL_DONE;
	json_decref(json);
}

static void outcome_note(const struct drill *drill, struct drill_run *run)
{
	char path[DRILL_PATH_MAX];

	if (drill->signal == 0 && run->status != DRILL_FAILED) /* cut short: no run at all */
		report_check(run, path_of(drill, run->name, "json", path));
}

bool drill_run_resume(const struct drill *drill, struct drill_run *run)
{
	char path[DRILL_PATH_MAX];

	if (access(path_of(drill, run->name, "csv", path), R_OK) != 0)
		return false;
	report_check(run, path_of(drill, run->name, "json", path));
	if (run->status == DRILL_DONE)
		return true;
	run->status = DRILL_WAITING;
	return false;
}

int drill_child_go(struct drill *drill, struct drill_run *run, size_t index, struct ol_args *args)
{
	char log[DRILL_PATH_MAX];
	struct child child = { 0 };
	int rc = child_start(&child, args, path_of(drill, run->name, "log", log));

	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "cannot start a run", run->name,
				    strerror(rc));
	child_watch(drill, run, index, &child);
	drill->busy_s += since_s(child.begin_ns);
	drill->ran++;
	if (drill->signal == 0 &&
	    (!WIFEXITED(child.wait_status) || WEXITSTATUS(child.wait_status) != 0))
		failure_note(run, &child, log);
	return 0;
}

int drill_run_go(struct drill *drill, struct drill_run *run, size_t index)
{
	struct ol_args args = { 0 };
	char left[64];
	int rc;

	ol_args_add(&args, "outlast");
	ol_args_add(&args, "train");
	for (size_t i = 0; i < drill->word_count; i++)
		ol_args_add(&args, "%s", drill->words[i]);
	drill_args(&drill->set, run, drill->out, &args);
	if (checkpoints_reset(drill, true))
		rc = drill_child_go(drill, run, index, &args);
	else
		rc = ol_cmd_error(OL_EXIT_RESOURCES, "drill", "cannot start a run", run->name,
				  strerror(errno));
	ol_args_free(&args);
	if (rc != 0)
		return rc;
	checkpoints_reset(drill, false);
	outcome_note(drill, run);
	if (drill->signal != 0)
		return 0;
	drill_duration(drill_left_s(drill, index, INFINITY), left, sizeof(left));
	if (run->status == DRILL_DONE)
		drill_say(drill, true, "run %zu of %zu, %s: accuracy %.4f; about %s left",
			  index + 1, drill->plan.run_count, run->name, run->accuracy, left);
	else
		drill_say(drill, true, "run %zu of %zu, %s: FAILED: %s", index + 1,
			  drill->plan.run_count, run->name, run->error);
	return 0;
}
