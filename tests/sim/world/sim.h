/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sim.h -- a world with virtual time: events, processes and random numbers, all from one seed
 *
 * A simulated process is a coroutine that runs the product's own blocking code. The linker sends
 * its system calls (clock, random bytes, waiting, memory) to wrap.c. One event happens at a time, in
 * the order of times that are drawn from the seed: so a seed is a history.
 *
 *	net.c       the transport "sim": the promises of rdma/transport.h, and no more
 *	coord.c     the coordinator, in place of replication/coord.c
 *	disk.c      a host's disk; disk_power.c: its power losses
 *	cluster.c   servers, workers and their supervisor
 *	fault.c     faults; rival.c: two servers in one place
 *	check.c     promises that must hold all the same
 *	mutate.c    faults of the product itself, to see whether they are found
 */
#ifndef OL_TESTS_SIM_WORLD_SIM_H
#define OL_TESTS_SIM_WORLD_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SIM_NAME_MAX = 24,
	SIM_TEXT_MAX = 512,
	SIM_PLACES_MAX = 256, /* hosts */
	SIM_DISKS_MAX = 80, /* the first of them have folders */
};

#define SIM_US UINT64_C(1000) /* of virtual nanoseconds */
#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

/* ---- one run ---- */

/* sim_begin -- nothing has happened yet; trace: say what happens */
void sim_begin(uint64_t seed, bool trace);
/* sim_end -- forget everything */
void sim_end(void);
/* sim_step -- the next event. False: there is none, or the run has failed */
bool sim_step(void);
bool sim_active(void);
/* sim_is_slow -- a sanitizer watches */
bool sim_is_slow(void);

/* sim_now -- virtual nanoseconds; looking at it takes no time */
uint64_t sim_now(void);
/* sim_clock_leap -- the clock of a host goes so much ahead, or, negative, stands still so long */
void sim_clock_leap(uint32_t place, int64_t ns);
/* sim_clock_of -- what a moment of the world's is on the clock of a host */
uint64_t sim_clock_of(uint32_t place, uint64_t at_ns);
/* sim_process_plenty -- memory does not fail this process, or it may again */
void sim_process_plenty(bool plenty);
bool sim_process_has_plenty(void);
/* sim_no_memory -- chance says that there is none now, or what else is short */
bool sim_no_memory(void);
/* sim_memory_fails -- what there was no memory for, so far */
uint64_t sim_memory_fails(void);

/* Chance: below(n) is 0 … n - 1; ppm(p) true p times in a million */
uint64_t sim_random(void);
uint32_t sim_below(uint32_t limit);
uint64_t sim_between(uint64_t low, uint64_t high);
bool sim_ppm(uint32_t parts);

/* sim_at -- call fn after delay_ns, in no process */
typedef void sim_event_fn(void *arg, uint64_t tag);
void sim_at(uint64_t delay_ns, sim_event_fn *fn, void *arg, uint64_t tag);

/* sim_alloc -- zeroed memory of the world's own, until sim_end() */
void *sim_alloc(size_t bytes);

/* sim_fail -- a promise is broken: what, and how. The run ends; in a process it does not return */
void sim_fail(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* sim_failure -- "check: text" of the first; NULL: none */
const char *sim_failure(void);
/* sim_failed_check -- its name alone */
const char *sim_failed_check(void);

void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool sim_tracing(void);
/* sim_trace_to -- where lines of the trace go */
void sim_trace_to(void (*line)(const char *text));

/* ---- processes ---- */

struct sim_process;
typedef void sim_main_fn(void *arg);

/* sim_process_start -- a process on host `place`; main runs as soon as it gets its turn */
struct sim_process *sim_process_start(const char *name, uint32_t place, sim_main_fn *main,
				      void *arg);
/* sim_process_self -- whose code runs now, also in a thread of it; NULL: the world's */
struct sim_process *sim_process_self(void);
const char *sim_process_name(const struct sim_process *process);
int sim_process_id(const struct sim_process *process);
uint32_t sim_process_place(const struct sim_process *process);
bool sim_process_alive(const struct sim_process *process);
bool sim_process_stopped(const struct sim_process *process);
/* sim_process_kill -- never runs again; its memory is gone. Not from itself. */
void sim_process_kill(struct sim_process *process);
/* sim_process_stop -- does not run until continued */
void sim_process_stop(struct sim_process *process);
void sim_process_continue(struct sim_process *process);
/* sim_process_drag -- every turn of it comes so much later, and looking at the clock takes
 * longer */
void sim_process_drag(struct sim_process *process, uint64_t drag_ns);
/* sim_process_bytes -- memory it holds, blocks and slabs */
size_t sim_process_bytes(const struct sim_process *process);
size_t sim_process_blocks(const struct sim_process *process);

/* sim_thread_start -- a thread of the process that runs, which shares all that is its own */
struct sim_process *sim_thread_start(sim_main_fn *main, void *arg);
/* sim_thread_join -- wait until it has ended; once for each */
void sim_thread_join(struct sim_process *thread);

/* For the process that runs: let others run. */
void sim_pause(uint64_t ns);
/* sim_preempt -- with a chance of `ppm`, for a while */
void sim_preempt(uint32_t ppm);

/* Descriptors that a process may wait on */
int sim_fd_open(void);
void sim_fd_close(int fd);
bool sim_fd_is(int fd);
uint64_t *sim_fd_count(int fd);
/* sim_fd_file -- what disk.c knows of it */
void **sim_fd_file(int fd);
/* sim_fd_wake -- it is readable now: who waits on it goes on */
void sim_fd_wake(int fd);
/* sim_wait -- until one of the descriptors is readable, or timeout_ns; true: one is */
bool sim_wait(const int *fds, unsigned count, uint64_t timeout_ns);

/* Blocks of memory: of the process that runs */
void *sim_block_get(size_t bytes);
void sim_block_put(void *block);
size_t sim_block_bytes(const void *block);

/* What the world is like in this run. Set after sim_begin(). */
struct sim_nature {
	uint32_t preempt_ppm; /* a look at the clock, a post, a poll ends the turn */
	uint32_t kernel_ppm; /* so does an update in the middle */
	uint64_t net_ns; /* a usual delay of a message */
	uint32_t net_slow_ppm; /* one takes much longer */
	uint32_t apply_again_ppm; /* an entry cannot be applied now, as if snapshots were held */
	uint32_t stuck_ppm; /* one, and all behind it on its connection, is stuck somewhere … */
	uint64_t stuck_ns; /* … for up to so long */
	uint32_t again_ppm; /* a post answers -EAGAIN for no reason */
	uint32_t torn_ppm; /* a write lands, a read is served, in pieces */
	uint32_t early_ppm; /* a write is reported done before it has landed */
	uint32_t late_down_ppm; /* the end of a connection is noticed late */
	uint64_t late_down_ns; /* … by up to so much */
	bool fence_keeps;
	uint64_t coord_ns; /* a usual delay between a client and the coordinator */
	uint64_t disk_ns; /* the most that a call of a disk usually takes */
	uint32_t disk_full_ppm; /* -ENOSPC */
	uint32_t disk_write_ppm; /* -EIO of what changes a file or a name … */
	uint32_t disk_sync_ppm; /* … of fsync(), done or not … */
	uint32_t disk_read_ppm; /* … of what reads */
	uint32_t disk_short_ppm; /* a call does less than it was asked for, or is interrupted */
	uint32_t disk_page_ppm; /* at a power loss: a page is there or not, as a whole */
	uint32_t disk_rot_ppm; /* at a power loss: a file that was durable is damaged */
	uint32_t disk_lost_ppm; /* a write is said to be done, and never arrives … */
	uint32_t disk_astray_ppm; /* … or arrives in another place */
	uint32_t memory_ppm; /* there is none */
	uint64_t touch_ns; /* what it takes at most to touch a server's slots or ring, and to give
			      them back */
	uint32_t post_ppm; /* the connection of a post breaks in it */
	uint32_t mute_ppm; /* completions of its connection never come from now on */
	/* What a byte takes, in ps: of a write or a read on its connection; of a gradient that is summed
	 * up, and that is applied */
	uint32_t link_ps;
	uint32_t gather_ps;
	uint32_t update_ps;
};
extern struct sim_nature sim_nature;

/* Called by the scheduler */
struct sim_hooks {
	void (*after_turn)(struct sim_process *process); /* it has given way */
	void (*on_death)(struct sim_process *process); /* killed: before its memory goes */
	void (*on_exit)(struct sim_process *process); /* main has returned */
	void (*on_continue)(struct sim_process *process);
};
void sim_hooks_set(const struct sim_hooks *hooks);

/* Between engine.c and process.c */
void sim_processes_begin(void);
void sim_processes_end(void);
void sim_process_leave(void);
void sim_clock_move(uint64_t ns);

#endif /* OL_TESTS_SIM_WORLD_SIM_H */
