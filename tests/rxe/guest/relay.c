/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relay.c -- measures a message that goes round several nodes of one machine by bare verbs
 *
 *	relay ADDRESS PORT NODES BYTES COUNT
 *
 * Each node writes the message into the memory of the next; the first one times whole rounds. The
 * first is a process on processor 0, the others are threads of a second process on processor 1, and
 * waiting nodes yield: as a worker and the servers of its chain in `outlast bench commit --threads`,
 * but without our code. So it is the baseline of a commit whose nodes share processors, unlike a
 * latency between two processes. Prints "minimum median p99" of a round in microseconds.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	NODES_MAX = 9,
	INLINE_MAX = 220,
	DEPTH = 32, /* writes between two that say they are done */
	POLLS = 16, /* looks at the memory between two yields, as in a server */
	WARMUP = 200,
	TRIES = 500,
	TRY_MS = 10,
	PAGE = 4096
};

/* What the one that is written to tells the one that writes */
struct place {
	uint64_t addr;
	uint32_t rkey;
};

struct node {
	unsigned index;
	uint8_t *in; /* the one before writes here … */
	uint8_t *out; /* … and from here this one writes */
	struct rdma_cm_id *listener;
	struct rdma_cm_id *before;
	struct rdma_cm_id *next;
	struct ibv_mr *in_region;
	struct ibv_mr *out_region;
	struct place place; /* of the next */
	uint64_t posted;
};

static const char *address;
static unsigned port, nodes, count;
static size_t bytes;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct rdma_cm_id *endpoint(unsigned index, int passive)
{
	struct rdma_addrinfo hints = { .ai_flags = passive ? RAI_PASSIVE : 0,
				       .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 2 * DEPTH,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = INLINE_MAX },
					 .qp_type = IBV_QPT_RC };
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id;
	char service[16];

	snprintf(service, sizeof(service), "%u", port + index);
	must(rdma_getaddrinfo(address, service, &hints, &found) == 0, address);
	must(rdma_create_ep(&id, found, NULL, &attr) == 0, "no endpoint");
	rdma_freeaddrinfo(found);
	return id;
}

static void before_accept(struct node *node)
{
	struct place place = { .addr = (uintptr_t)node->in };
	struct rdma_conn_param param = { .private_data = &place,
					 .private_data_len = sizeof(place) };

	must(rdma_get_request(node->listener, &node->before) == 0, "nobody connects");
	node->in_region = rdma_reg_write(node->before, node->in, bytes);
	must(node->in_region != NULL, "cannot register");
	place.rkey = node->in_region->rkey;
	must(rdma_accept(node->before, &param) == 0, "cannot accept");
}

/* The next may not listen yet */
static void next_connect(struct node *node)
{
	struct rdma_conn_param param = { .retry_count = 6, .rnr_retry_count = 6 };
	int tries = 0;

	for (;;) {
		node->next = endpoint((node->index + 1) % nodes, 0);
		if (rdma_connect(node->next, &param) == 0)
			break;
		must(++tries < TRIES, "the next does not answer");
		rdma_destroy_ep(node->next);
		poll(NULL, 0, TRY_MS);
	}
	memcpy(&node->place, node->next->event->param.conn.private_data, sizeof(node->place));
	node->out_region = rdma_reg_msgs(node->next, node->out, bytes);
	must(node->out_region != NULL, "cannot register");
}

static void pass_on(struct node *node, uint64_t turn)
{
	int flags = bytes <= INLINE_MAX ? IBV_SEND_INLINE : 0;
	struct ibv_wc done;

	memcpy(node->out + bytes - sizeof(turn), &turn, sizeof(turn));
	if (++node->posted % DEPTH == 0)
		flags |= IBV_SEND_SIGNALED;
	must(rdma_post_write(node->next, NULL, node->out, bytes, node->out_region, flags,
			     node->place.addr, node->place.rkey) == 0,
	     "cannot write");
	while (node->posted % DEPTH == DEPTH / 2 && node->posted > DEPTH &&
	       ibv_poll_cq(node->next->send_cq, 1, &done) == 0)
		sched_yield();
}

/* The last word of a message is the turn, as in perftest: soft-RoCE writes in order */
static void await(const struct node *node, uint64_t turn)
{
	const _Atomic uint64_t *word = (const void *)(node->in + bytes - sizeof(turn));

	for (unsigned polls = 1; *word != turn; polls++) {
		if (polls % POLLS == 0)
			sched_yield();
	}
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int order(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void rounds_time(struct node *node)
{
	double *times = calloc(count, sizeof(*times));

	must(times != NULL, "no memory");
	for (uint64_t turn = 1; turn <= WARMUP + count; turn++) {
		double start = now_us();

		pass_on(node, turn);
		await(node, turn);
		if (turn > WARMUP)
			times[turn - WARMUP - 1] = now_us() - start;
	}
	qsort(times, count, sizeof(*times), order);
	printf("%.2f %.2f %.2f\n", times[0], times[count / 2], times[(size_t)count * 99 / 100]);
	free(times);
}

static void pin(unsigned index)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(index == 0 ? 0 : 1, &set);
	must(sched_setaffinity(0, sizeof(set), &set) == 0, "cannot pin");
}

static void run(unsigned index)
{
	struct node node = { .index = index };
	size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE;

	pin(index);
	node.in = aligned_alloc(PAGE, mapped);
	node.out = aligned_alloc(PAGE, mapped);
	must(node.in != NULL && node.out != NULL, "no memory");
	memset(node.in, 0, mapped);
	memset(node.out, 1, mapped);
	node.listener = endpoint(index, 1);
	must(rdma_listen(node.listener, 1) == 0, "cannot listen");
	if (index == 0)
		next_connect(&node);
	before_accept(&node);
	if (index != 0)
		next_connect(&node);
	if (index == 0) {
		rounds_time(&node);
		return;
	}
	for (uint64_t turn = 1; turn <= WARMUP + count; turn++) {
		await(&node, turn);
		pass_on(&node, turn);
	}
}

static void *thread_run(void *arg)
{
	run(*(const unsigned *)arg);
	return NULL;
}

/* All nodes but the first, until that has ended */
static void others_run(void)
{
	static unsigned indices[NODES_MAX];
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 1; i < nodes; i++) {
		indices[i] = i;
		must(pthread_create(&thread, NULL, thread_run, &indices[i]) == 0, "no thread");
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	pid_t pid;

	errno = EINVAL;
	must(argc == 6, "usage: relay ADDRESS PORT NODES BYTES COUNT");
	address = argv[1];
	port = (unsigned)strtoul(argv[2], NULL, 10);
	nodes = (unsigned)strtoul(argv[3], NULL, 10);
	bytes = strtoul(argv[4], NULL, 10);
	count = (unsigned)strtoul(argv[5], NULL, 10);
	must(nodes >= 2 && nodes <= NODES_MAX && bytes >= 8 && bytes % 8 == 0 && count > 0,
	     "2 to 9 nodes, bytes in multiples of 8");
	pid = fork();
	must(pid >= 0, "cannot fork");
	if (pid == 0)
		others_run();
	run(0);
	kill(pid, SIGKILL);
	return 0;
}
