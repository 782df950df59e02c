/* SPDX-License-Identifier: BSD-3-Clause */

/* peers.c -- two processes that wait for an order */

#include "nth/frame/peers.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nth/frame/run.h"
#include "support/check.h"

static struct {
	pid_t pid;
	int fd; /* to it */
	bool told;
} peers[2];
static void (*stop)(void);

static void on_child(int number)
{
	(void)number;
	stop();
}

/* "-": there is no server */
static int peer_main(peers_fn *fn, int fd, unsigned attempt)
{
	char addr[PEERS_ADDR_MAX];
	ssize_t got = read(fd, addr, sizeof(addr) - 1);

	if (got <= 0 || addr[0] == '-')
		return 0;
	addr[got] = '\0';
	return fn(addr, attempt) != 0;
}

void peers_start(peers_fn *fn, void (*on_end)(void))
{
	struct sigaction action = { .sa_handler = on_child };
	int fds[2];

	stop = on_end;
	for (unsigned i = 0; i < 2; i++) {
		check_ok(pipe(fds));
		peers[i].fd = fds[1];
		peers[i].told = false;
		peers[i].pid = fork();
		check(peers[i].pid >= 0);
		if (peers[i].pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(peer_main(fn, fds[0], i));
		}
		close(fds[0]);
	}
	check_ok(sigaction(SIGCHLD, &action, NULL));
}

void peers_tell(unsigned attempt, const char *addr)
{
	peers[attempt].told = true;
	dprintf(peers[attempt].fd, "%s", addr);
}

void peers_wait(unsigned attempt)
{
	int status = 0;

	if (!peers[attempt].told)
		peers_tell(attempt, "-");
	while (waitpid(peers[attempt].pid, &status, 0) < 0)
		check(errno == EINTR);
	if (!WIFEXITED(status))
		run_wrong("the peer of attempt %u died of signal %d", attempt, WTERMSIG(status));
	else if (attempt == 1 && WEXITSTATUS(status) != 0)
		run_wrong("the second peer was not served");
}
