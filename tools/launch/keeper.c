/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * keeper.c -- `outlast launch-zookeeper`: one server of the job's own ZooKeeper ensemble, on one host
 *
 * It makes a folder, has java run ZooKeeper in it, says on --ready-fd's descriptor that it serves, and runs it again with the same
 * data when it dies. When it is asked to end it ends ZooKeeper and removes the folder. The words behind its name:
 *
 *	INDEX TAG AGAIN CLASSPATH (HOST CLIENT PEER ELECTION)...	of all servers; AGAIN: 1, if it was started before
 *
 * A server that was started before, and whose folder is gone, does not begin anew: with empty hands it might help to
 * elect a server that lacks what it had confirmed itself. The others go on without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "launch/parts.h"

enum {
	WORDS = 5, /* before those of the servers */
	PORTS_WORDS = 4, /* of a server */
	LOOK_MS = 100, /* until it serves */
	END_MS = 3000, /* from SIGTERM to SIGKILL */
	ANSWER_S = 2
};

struct keeper {
	unsigned index;
	bool is_again;
	const char *tag, *classpath;
	char **servers; /* words: HOST CLIENT PEER ELECTION of each */
	unsigned server_count;
	struct ol_folder folder;
	int signal_fd;
	pid_t java; /* 0: it does not run */
	struct launch_life life;
	bool is_over; /* was asked to end, or gives up */
};

static const char *word_of(const struct keeper *keeper, unsigned server, unsigned word)
{
	return keeper->servers[PORTS_WORDS * server + word];
}

/* --- its folder ---------------------------------------------------------------------------------------------- */

/* Locked, so that no launch takes it for one that was left behind */
static bool folder_take(struct keeper *keeper, const char *base)
{
	struct ol_folder *folder = &keeper->folder;
	struct stat st;
	int bytes;

	if (base == NULL || base[0] != '/')
		return false;
	bytes = snprintf(folder->path, sizeof(folder->path), "%s/" LAUNCH_FOLDER "zk-%s-%u", base,
			 keeper->tag, keeper->index);
	if (bytes < 0 || (size_t)bytes >= sizeof(folder->path) ||
	    (!keeper->is_again && mkdir(folder->path, 0700) != 0))
		goto err_path;
	folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder->fd >= 0 && fstat(folder->fd, &st) == 0 && st.st_uid == geteuid() &&
	    flock(folder->fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	if (folder->fd >= 0)
		close(folder->fd);
	folder->fd = -1;
err_path:
	folder->path[0] = '\0';
	return false;
}

static int folder_find(struct keeper *keeper)
{
	const char *const bases[] = { getenv("XDG_RUNTIME_DIR"), "/dev/shm", getenv("TMPDIR"),
				      "/tmp" };
	struct ol_folder left;

	/* what jobs whose host was lost have left is removed as one more is made */
	if (ol_folder_make(&left, LAUNCH_FOLDER) == 0)
		ol_folder_drop(&left);
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (folder_take(keeper, bases[i]))
			return 0;
	}
	return ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper",
			    keeper->is_again ? "the data of this ZooKeeper server is gone"
					     : "cannot make a folder for ZooKeeper",
			    NULL,
			    keeper->is_again ? "the others go on without it" : strerror(errno));
}

/* Sessions are of the length that servers ask for (--lease-ms), in steps of a tick */
static int files_write(const struct keeper *keeper)
{
	char path[OL_FOLDER_MAX + 8];
	FILE *out;
	bool good;

	snprintf(path, sizeof(path), "%s/myid", keeper->folder.path);
	out = fopen(path, "we");
	good = out != NULL && fprintf(out, "%u\n", keeper->index + 1) > 0;
	if (out != NULL && fclose(out) != 0)
		good = false;
	snprintf(path, sizeof(path), "%s/cfg", keeper->folder.path);
	out = good ? fopen(path, "we") : NULL;
	good = out != NULL &&
	       fprintf(out,
		       "dataDir=%s\nclientPortAddress=%s\nclientPort=%s\ntickTime=200\n"
		       "initLimit=150\nsyncLimit=50\nminSessionTimeout=200\n"
		       "maxSessionTimeout=86400000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
		       "4lw.commands.whitelist=srvr\nautopurge.purgeInterval=1\n",
		       keeper->folder.path, word_of(keeper, keeper->index, 0),
		       word_of(keeper, keeper->index, 1)) > 0;
	for (unsigned i = 0; good && keeper->server_count > 1 && i < keeper->server_count; i++)
		good = fprintf(out, "server.%u=%s:%s:%s\n", i + 1, word_of(keeper, i, 0),
			       word_of(keeper, i, 2), word_of(keeper, i, 3)) > 0;
	if (out != NULL && fclose(out) != 0)
		good = false;
	if (good)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper", "cannot write", path,
			    strerror(errno));
}

/* --- ZooKeeper ----------------------------------------------------------------------------------------------- */

/* Each part of the class path is there: java would say no more than which class is not */
static int classpath_check(const char *classpath)
{
	char *copy = strdup(classpath), *rest = copy, *part;
	int rc = copy != NULL ? 0 : OL_EXIT_RESOURCES;

	while (rc == 0 && (part = strsep(&rest, ":")) != NULL) {
		if (part[0] != '\0' && strchr(part, '*') == NULL && access(part, R_OK) != 0)
			rc = ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper",
					  "there is no ZooKeeper on this host", part,
					  "install it (Debian: apt-get install zookeeper), or say "
					  "where it is with --ensemble-classpath");
	}
	free(copy);
	return rc;
}

/* In the child; does not return */
static void java_exec(const struct keeper *keeper, pid_t parent)
{
	char config[OL_FOLDER_MAX + 8];
	sigset_t none;

	snprintf(config, sizeof(config), "%s/cfg", keeper->folder.path);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execlp("java", "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		     "-XX:-UsePerfData", "-Dzookeeper.root.logger=ERROR,CONSOLE",
		     "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		     "-Dzookeeper.preAllocSize=1024", "-cp", keeper->classpath,
		     "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
	(void)ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper", "cannot start java", NULL,
			   "install it (Debian: apt-get install default-jre-headless)");
	_exit(127);
}

static void java_start(struct keeper *keeper)
{
	pid_t self = getpid();

	launch_life_begin(&keeper->life, ol_clock_ns());
	keeper->java = fork();
	if (keeper->java == 0)
		java_exec(keeper, self);
	if (keeper->java < 0) {
		keeper->java = 0;
		keeper->life.state = LAUNCH_FAILED;
	}
}

/* It answers, and sees a quorum */
static bool java_serves(const struct keeper *keeper)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct timeval bound = { .tv_sec = ANSWER_S };
	struct addrinfo *list = NULL;
	char text[1024] = "";
	size_t got = 0;
	ssize_t more;
	int fd;

	if (getaddrinfo(word_of(keeper, keeper->index, 0), word_of(keeper, keeper->index, 1),
			&hints, &list) != 0)
		return false;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
	}
	if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
	    write(fd, "srvr", 4) == 4) {
		while (got < sizeof(text) - 1 &&
		       (more = read(fd, text + got, sizeof(text) - 1 - got)) > 0)
			got += (size_t)more;
	}
	if (fd >= 0)
		close(fd);
	freeaddrinfo(list);
	return strstr(text, "Mode: ") != NULL;
}

static void java_end(struct keeper *keeper)
{
	uint64_t bound_ns = ol_clock_ns() + END_MS * OL_NS_PER_MS;

	if (keeper->java == 0)
		return;
	(void)kill(keeper->java, SIGTERM);
	while (waitpid(keeper->java, NULL, WNOHANG) == 0) {
		if (ol_clock_ns() > bound_ns)
			(void)kill(keeper->java, SIGKILL);
		(void)poll(NULL, 0, LOOK_MS / 5);
	}
	keeper->java = 0;
}

/* --- from start to end --------------------------------------------------------------------------------------- */

static int java_ended(struct keeper *keeper, int status)
{
	const struct launch_policy policy = { .restarts = 20,
					      .pause_ns = 200 * OL_NS_PER_MS,
					      .pause_max_ns = 5 * OL_NS_PER_S,
					      .calm_ns = 60 * OL_NS_PER_S };
	char text[64];

	keeper->java = 0;
	launch_life_end(&keeper->life, &policy, LAUNCH_AGENT, status, ol_clock_ns());
	launch_status_text(status, text, sizeof(text));
	if ((keeper->life.has_run || keeper->is_again) && keeper->life.state == LAUNCH_WAITS) {
		fprintf(stderr, "ZooKeeper %s; it is started again with its data\n", text);
		return 0;
	}
	return ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper", "ZooKeeper does not stay", NULL,
			    text);
}

static int signals_take(struct keeper *keeper)
{
	struct signalfd_siginfo info;
	int status, rc = 0;

	while (read(keeper->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		keeper->is_over = keeper->is_over || info.ssi_signo != SIGCHLD;
	if (!keeper->is_over && keeper->java != 0 &&
	    waitpid(keeper->java, &status, WNOHANG) == keeper->java)
		rc = java_ended(keeper, status);
	return rc;
}

static void ready_say(const struct keeper *keeper)
{
	char line[LAUNCH_NAME_MAX + 16];
	int bytes = snprintf(line, sizeof(line), "%s:%s\n", word_of(keeper, keeper->index, 0),
			     word_of(keeper, keeper->index, 1));

	if (bytes > 0 && (size_t)bytes < sizeof(line))
		(void)!write(LAUNCH_READY_FD, line, (size_t)bytes);
}

static int keeper_run(struct keeper *keeper)
{
	int rc = 0;

	while (rc == 0 && !keeper->is_over) {
		struct pollfd fds[] = { { .fd = keeper->signal_fd, .events = POLLIN },
					{ .fd = LAUNCH_LIFE_FD, .events = POLLIN } };
		bool is_quiet = keeper->life.state == LAUNCH_RUNS;

		if (launch_life_is_due(&keeper->life, ol_clock_ns()))
			java_start(keeper);
		(void)poll(fds, 2, is_quiet ? -1 : LOOK_MS);
		keeper->is_over = fds[1].revents != 0;
		rc = signals_take(keeper);
		if (keeper->life.state == LAUNCH_FAILED && rc == 0)
			rc = ol_cmd_error(OL_EXIT_RESOURCES, "launch-zookeeper",
					  "cannot start a process", NULL, NULL);
		if (rc == 0 && keeper->life.state == LAUNCH_STARTS && java_serves(keeper)) {
			if (!keeper->life.has_run)
				ready_say(keeper);
			launch_life_runs(&keeper->life);
		}
	}
	java_end(keeper);
	return rc;
}

int cmd_launch_zookeeper(int argc, char **argv)
{
	struct keeper keeper = { .folder = { .fd = -1 }, .signal_fd = -1 };
	int rc;

	if (argc < WORDS + PORTS_WORDS || (argc - WORDS) % PORTS_WORDS != 0)
		return OL_EXIT_USAGE;
	keeper.index = (unsigned)strtoul(argv[1], NULL, 10);
	keeper.tag = argv[2];
	keeper.is_again = strcmp(argv[3], "0") != 0;
	keeper.classpath = argv[4];
	keeper.servers = argv + WORDS;
	keeper.server_count = (unsigned)(argc - WORDS) / PORTS_WORDS;
	if (keeper.index >= keeper.server_count)
		return OL_EXIT_USAGE;
	(void)fcntl(LAUNCH_READY_FD, F_SETFD, FD_CLOEXEC);
	(void)fcntl(LAUNCH_LIFE_FD, F_SETFD, FD_CLOEXEC);
	rc = classpath_check(keeper.classpath);
	if (rc == 0)
		rc = ol_cmd_signals("launch-zookeeper", &keeper.signal_fd);
	if (rc == 0)
		rc = folder_find(&keeper);
	if (rc == 0)
		rc = files_write(&keeper);
	if (rc == 0)
		rc = keeper_run(&keeper);
	ol_folder_drop(&keeper.folder);
	if (keeper.signal_fd >= 0)
		close(keeper.signal_fd);
	return rc;
}
