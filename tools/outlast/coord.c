/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.c -- `outlast coord`: the coordinator of a few hosts without ZooKeeper
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "outlast/cmd.h"
#include "outlast/settings.h"
#include "outlast_server.h"

struct coord_set {
	const char *listen;
	uint32_t ready_fd;
	int log_level; /* enum ol_log_level */
	struct ol_set_key key;
};

static const struct ol_conf_choice log_levels[] = {
	{ "error", OL_LOG_ERROR },
	{ "warn", OL_LOG_WARN },
	{ "info", OL_LOG_INFO },
	{ "debug", OL_LOG_DEBUG },
	{ NULL, 0 },
};

static const struct ol_conf_field coord_fields[] = {
	{ .name = "listen",
	  .dflt = "@outlast-coord",
	  .help = "HOST:PORT (port 0: any), or @NAME for this machine alone",
	  .offset = offsetof(struct coord_set, listen),
	  .type = OL_CONF_STR },
	{ .name = "ready_fd",
	  .dflt = "0",
	  .help = "descriptor that gets the address and a newline once it listens; 0: none",
	  .offset = offsetof(struct coord_set, ready_fd),
	  .type = OL_CONF_U32,
	  .max = 65535 },
	{ .name = "log",
	  .dflt = "warn",
	  .help = "least important messages that are shown",
	  .offset = offsetof(struct coord_set, log_level),
	  .type = OL_CONF_CHOICE,
	  .choices = log_levels },
};

static const struct ol_rows coord_rows = { coord_fields,
					   sizeof(coord_fields) / sizeof(coord_fields[0]) };

static const char examples[] =
	"  outlast coord --listen 10.0.0.9:7470\n"
	"  outlast serve --coordinator 10.0.0.9:7470 --listen 10.0.0.1:7471 --replicas 3\n"
	"  outlast work --coordinator 10.0.0.9:7470 --id 0\n";

struct coord {
	struct ol_coordinator *coordinator;
	int signal_fd;
	int end_fd[2]; /* closed at one end when the loop has ended */
	int signal; /* that ended it; 0: none did */
};

/* A signal ends the loop; the loop's own end ends this. */
static void *watch(void *arg)
{
	struct coord *coord = arg;
	struct pollfd fds[2] = { { .fd = coord->signal_fd, .events = POLLIN },
				 { .fd = coord->end_fd[0], .events = POLLIN } };

	for (;;) {
		struct signalfd_siginfo info;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents != 0)
			return NULL;
		if (read(coord->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info) ||
		    info.ssi_signo == SIGCHLD)
			continue;
		coord->signal = (int)info.ssi_signo;
		ol_coordinator_stop(coord->coordinator);
		return NULL;
	}
}

static int coord_run(struct coord *coord)
{
	pthread_t watcher;
	int rc;

	if (pipe(coord->end_fd) != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "coord", "cannot make a pipe", NULL,
				    ol_cmd_remedy(-EMFILE));
	rc = pthread_create(&watcher, NULL, watch, coord);
	if (rc != 0) {
		rc = ol_cmd_error(OL_EXIT_RESOURCES, "coord", "cannot start a thread", NULL,
				  strerror(rc));
		goto out;
	}
	rc = ol_coordinator_run(coord->coordinator);
	close(coord->end_fd[1]);
	coord->end_fd[1] = -1;
	pthread_join(watcher, NULL);
	if (rc != 0)
		rc = ol_cmd_error(ol_cmd_exit_of(rc), "coord", "the coordinator failed",
				  ol_strerror(rc), NULL);
out:
	close(coord->end_fd[0]);
	if (coord->end_fd[1] >= 0)
		close(coord->end_fd[1]);
	return rc;
}

/* The address, for people and scripts */
static int ready_say(const struct coord *coord, const struct coord_set *set)
{
	const char *addr = ol_coordinator_addr(coord->coordinator);

	printf("coordinator at %s\n", addr);
	if (fflush(stdout) != 0)
		return ol_cmd_error(OL_EXIT_FAILED, "coord", "cannot write the address", NULL,
				    strerror(errno));
	if (set->ready_fd == 0)
		return 0;
	if (dprintf((int)set->ready_fd, "%s\n", addr) < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "coord", "cannot write to --ready-fd", NULL,
				    strerror(errno));
	close((int)set->ready_fd);
	return 0;
}

static int coord_start(struct coord *coord, const struct coord_set *set)
{
	char key[OL_JOB_KEY_BYTES], err[256] = "";
	int rc;

	ol_log_level_set((enum ol_log_level)set->log_level);
	rc = ol_job_key_read("coord", set->key.job_key_file, key);
	if (rc == 0)
		rc = ol_cmd_signals("coord", &coord->signal_fd);
	if (rc != 0)
		return rc;
	rc = ol_coordinator_open(set->listen, key[0] != '\0' ? key : NULL, &coord->coordinator, err,
				 sizeof(err));
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "coord", err, NULL, NULL);
	if (key[0] == '\0')
		fprintf(stderr,
			"outlast coord: no job key: anyone who can reach %s can change views; give "
			"--job-key-file or OUTLAST_JOB_KEY\n",
			ol_coordinator_addr(coord->coordinator));
	rc = ready_say(coord, set);
	return rc != 0 ? rc : coord_run(coord);
}

int cmd_coord(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "coord",
		.spec = { .program = "outlast coord",
			  .purpose = "Holds the views of chains: who is in them, in which order. "
				     "One process in memory, and so a single point of failure: "
				     "while it is gone training goes on, but no chain can change, "
				     "and a server that is lost is not replaced. For one machine "
				     "and for trials; where that is not enough, ZooKeeper does the "
				     "same on several machines (--coordinator zk:HOST:PORT,...). "
				     "Ends with SIGTERM or SIGINT.",
			  .examples = examples },
	};
	struct coord coord = { .signal_fd = -1, .end_fd = { -1, -1 } };
	struct coord_set set;
	int rc;

	ol_settings_add(&settings, coord_rows, 0);
	ol_settings_add(&settings, ol_rows_key, offsetof(struct coord_set, key));
	if (ol_settings_load(&settings, &set, argc, argv, &rc))
		rc = coord_start(&coord, &set);
	ol_coordinator_close(coord.coordinator);
	if (coord.signal_fd >= 0)
		close(coord.signal_fd);
	ol_settings_fini(&settings);
	return rc;
}
