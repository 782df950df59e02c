/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * queues_spread.c -- processes spread their completion queues over the device's completion vectors,
 * and use none that it does not have
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/wrap.h"
#include "support/xport_pair.h"

enum {
	PROCESSES = 8
};

/* Of each process */
static struct {
	int vector;
	int vectors;
} * used;

static unsigned self;

WRAP(struct ibv_cq *, ibv_create_cq, struct ibv_context *ctx, int cqe, void *arg,
     struct ibv_comp_channel *channel, int vector)
{
	if (channel != NULL) {
		used[self].vector = vector;
		used[self].vectors = ctx->num_comp_vectors;
	}
	return __real_ibv_create_cq(ctx, cqe, arg, channel, vector);
}

static void open_once(unsigned i)
{
	struct xp_end end;

	self = i;
	xp_end_open(&end, NULL);
	xp_end_close(&end);
	_exit(0);
}

static void spread(void)
{
	unsigned others = 0;

	used = mmap(NULL, PROCESSES * sizeof(*used), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(used != MAP_FAILED);
	for (unsigned i = 0; i < PROCESSES; i++) {
		const pid_t pid = fork();
		int status;

		check(pid >= 0);
		if (pid == 0)
			open_once(i);
		check_eq(waitpid(pid, &status, 0), pid);
		check_eq(status, 0);
		check(used[i].vectors > 0);
		check(used[i].vector >= 0 && used[i].vector < used[i].vectors);
		others += used[i].vector != used[0].vector;
	}
	xp_note("%d vectors; %u of %d processes use another than the first one's", used[0].vectors,
		others, PROCESSES);
	check(others > 0 || used[0].vectors == 1);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	if (xp_is_shm()) {
		printf("skip: shm has no completion queues\n");
		return CHECK_SKIP;
	}
	xp_run1("completion queues are spread over the device's vectors", spread);
	return xp_result();
}
