/* SPDX-License-Identifier: BSD-3-Clause */

/* ensemble.c -- ZooKeeper servers: a folder, a configuration and a Java process each */

#include "support/ensemble.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/check.h"

#define JAR "/usr/share/java/zookeeper.jar"

enum {
	WAIT_S = 60, /* until a server serves */
	LOOK_MS = 20, /* between two looks at one that does not yet */
	ANSWER_MS = 1000, /* to "srvr" */
	PORT_MIN =
		10000, /* below those that the kernel gives to clients: one that tries again and */
	PORT_COUNT = 20000, /* again to reach a server that is gone must not meet itself there */
};

/*
 * For ThreadSanitizer: the client library's format_endpoint_info() writes addresses of servers into
 * one buffer, whichever handle they are of; it shows them in its log only. We never call sprintf().
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
	return "race:__sprintf_chk\n";
}

/* Nobody listens there now, and we did not give it away before */
static uint16_t port_free(void)
{
	static unsigned next;

	if (next == 0)
		next = (unsigned)getpid() * 37u;
	for (unsigned tries = 0; tries < PORT_COUNT; tries++) {
		uint16_t port = (uint16_t)(PORT_MIN + next++ % PORT_COUNT);
		struct sockaddr_in addr = { .sin_family = AF_INET,
					    .sin_port = htons(port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int rc;

		check(fd >= 0);
		rc = bind(fd, (const struct sockaddr *)&addr, sizeof(addr));
		close(fd);
		if (rc == 0)
			return port;
	}
	check_die(__FILE__, __LINE__, "no free port");
}

static void skip_unless_installed(void)
{
	if (access(JAR, R_OK) != 0) {
		printf("skip: no " JAR ": install zookeeper\n");
		exit(CHECK_SKIP);
	}
	if (access("/usr/bin/java", X_OK) != 0) {
		printf("skip: no /usr/bin/java: install default-jre-headless\n");
		exit(CHECK_SKIP);
	}
}

static FILE *file_open(const struct ensemble *ensemble, unsigned index, const char *name)
{
	char path[192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u/%s", ensemble->dir, index, name);
	file = fopen(path, "we");
	check(file != NULL);
	return file;
}

static void server_configure(const struct ensemble *ensemble, unsigned index)
{
	char path[192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u", ensemble->dir, index);
	check_ok(mkdir(path, 0700));
	file = file_open(ensemble, index, "myid");
	fprintf(file, "%u\n", index + 1);
	check_ok(fclose(file));
	file = file_open(ensemble, index, "cfg");
	fprintf(file,
		"tickTime=50\ninitLimit=100\nsyncLimit=40\n"
		"minSessionTimeout=%d\nmaxSessionTimeout=60000\n"
		"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n"
		"dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%u\n",
		ENSEMBLE_SESSION_MIN_MS, path, ensemble->servers[index].port);
	for (unsigned i = 0; i < ensemble->count; i++)
		fprintf(file, "server.%u=127.0.0.1:%u:%u\n", i + 1,
			ensemble->servers[i].peer_ports[0], ensemble->servers[i].peer_ports[1]);
	check_ok(fclose(file));
}

/* A child that becomes a server. Its output: file "log" of its folder */
static _Noreturn void server_exec(const struct ensemble *ensemble, unsigned index)
{
	char path[192];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/%u/log", ensemble->dir, index);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(1);
	snprintf(path, sizeof(path), "%s/%u/cfg", ensemble->dir, index);
	execl("/usr/bin/java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
	      "-XX:-UsePerfData", "-Dzookeeper.root.logger=WARN,CONSOLE",
	      "-Dzookeeper.preAllocSize=1024", "-cp", "/etc/zookeeper/conf:" JAR,
	      "org.apache.zookeeper.server.quorum.QuorumPeerMain", path, NULL);
	_exit(1);
}

void ensemble_restart(struct ensemble *ensemble, unsigned index)
{
	check(ensemble->servers[index].pid == 0);
	fflush(NULL);
	ensemble->servers[index].pid = fork();
	check(ensemble->servers[index].pid >= 0);
	if (ensemble->servers[index].pid == 0)
		server_exec(ensemble, index);
}

void ensemble_start(struct ensemble *ensemble, unsigned count)
{
	const char *tmp = getenv("TMPDIR");
	size_t at;

	skip_unless_installed();
	check(count > 0 && count <= ENSEMBLE_MAX);
	memset(ensemble, 0, sizeof(*ensemble));
	ensemble->count = count;
	snprintf(ensemble->dir, sizeof(ensemble->dir), "%s/outlast-ensemble.XXXXXX",
		 tmp != NULL ? tmp : "/tmp");
	check(mkdtemp(ensemble->dir) != NULL);
	at = (size_t)snprintf(ensemble->addr, sizeof(ensemble->addr), "zk:");
	for (unsigned i = 0; i < count; i++) {
		ensemble->servers[i].port = port_free();
		ensemble->servers[i].peer_ports[0] = port_free();
		ensemble->servers[i].peer_ports[1] = port_free();
		at += (size_t)snprintf(ensemble->addr + at, sizeof(ensemble->addr) - at,
				       "%s127.0.0.1:%u", i == 0 ? "" : ",",
				       ensemble->servers[i].port);
	}
	for (unsigned i = 0; i < count; i++) {
		server_configure(ensemble, i);
		ensemble_restart(ensemble, i);
	}
	for (unsigned i = 0; i < count; i++)
		ensemble_wait(ensemble, i);
}

void ensemble_kill(struct ensemble *ensemble, unsigned index)
{
	pid_t *pid = &ensemble->servers[index].pid;
	int status;

	check(*pid > 0);
	kill(*pid, SIGKILL);
	while (waitpid(*pid, &status, 0) < 0)
		check(errno == EINTR);
	*pid = 0;
}

void ensemble_stop(struct ensemble *ensemble)
{
	pid_t pid;
	int status = 0;

	for (unsigned i = 0; i < ensemble->count; i++)
		if (ensemble->servers[i].pid > 0)
			ensemble_kill(ensemble, i);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", ensemble->dir, NULL);
		_exit(1);
	}
	while (waitpid(pid, &status, 0) < 0)
		check(errno == EINTR);
	check_eq(status, 0);
}

void ensemble_pause(struct ensemble *ensemble, unsigned index)
{
	int status = 0;

	kill(ensemble->servers[index].pid, SIGSTOP);
	while (waitpid(ensemble->servers[index].pid, &status, WUNTRACED) < 0)
		check(errno == EINTR);
	check(WIFSTOPPED(status));
}

void ensemble_resume(struct ensemble *ensemble, unsigned index)
{
	kill(ensemble->servers[index].pid, SIGCONT);
}

/* What it says to "srvr", as far as it fits; empty: nothing */
static void server_ask(const struct ensemble *ensemble, unsigned index, char *text, size_t bytes)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(ensemble->servers[index].port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t at = 0;

	check(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0 &&
	    send(fd, "srvr", 4, MSG_NOSIGNAL) == 4) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		while (at + 1 < bytes && poll(&pfd, 1, ANSWER_MS) == 1) {
			ssize_t got = recv(fd, text + at, bytes - 1 - at, 0);

			if (got <= 0)
				break;
			at += (size_t)got;
		}
	}
	close(fd);
	text[at] = '\0';
}

bool ensemble_serves(const struct ensemble *ensemble, unsigned index)
{
	char text[1024];

	server_ask(ensemble, index, text, sizeof(text));
	return strstr(text, "Mode: ") != NULL;
}

unsigned ensemble_connections(const struct ensemble *ensemble, unsigned index)
{
	static const char word[] = "Connections: ";
	char text[1024];
	const char *at;

	server_ask(ensemble, index, text, sizeof(text));
	at = strstr(text, word);
	check(at != NULL);
	return (unsigned)strtoul(at + sizeof(word) - 1, NULL, 10) - 1; /* not this one */
}

/* Its process has ended: show why */
static _Noreturn void server_died(const struct ensemble *ensemble, unsigned index)
{
	char path[192], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u/log", ensemble->dir, index);
	file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		fputs(line, stderr);
	check_die(__FILE__, __LINE__, "a ZooKeeper server has ended by itself");
}

void ensemble_wait(const struct ensemble *ensemble, unsigned index)
{
	struct timespec now;
	time_t until;

	clock_gettime(CLOCK_MONOTONIC, &now);
	until = now.tv_sec + WAIT_S;
	while (!ensemble_serves(ensemble, index)) {
		int status;

		if (waitpid(ensemble->servers[index].pid, &status, WNOHANG) != 0)
			server_died(ensemble, index);
		clock_gettime(CLOCK_MONOTONIC, &now);
		check_msg(now.tv_sec < until, "server %u of %s does not serve", index,
			  ensemble->dir);
		poll(NULL, 0, LOOK_MS);
	}
}
