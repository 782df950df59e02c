/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * process.c -- simulated processes: coroutines with memory and descriptors of their own
 *
 * A turn ends when a process waits, or is preempted. A killed process gets no turn any more: its
 * stack is dropped as it is, and all its memory is freed.
 *
 * A thread is one more coroutine of its process. It lives, stops and dies with the process, which
 * owns its resources.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim/world/sim.h"
#include "sim/world/wrap.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_TSAN 1
#endif
#endif

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
	STACK_BYTES = 512 << 10,
	STACKS_MAX = 64,
	FD_BASE = 1 << 20,
	FDS_MAX = 4096,
	WAIT_MAX = 4,
	WAKE_MIN_NS = 500,
	WAKE_MAX_NS = 20000,
};

enum turn {
	TURN_RUNS, /* or is about to: an event is under way */
	TURN_WAITS, /* for a descriptor or a time */
	TURN_OWED, /* would run, but is stopped */
	TURN_OVER, /* has ended, or was killed */
};

struct block {
	struct block *prev;
	struct block *next;
	struct sim_process *process;
	size_t bytes;
	uint64_t magic;
	uint64_t reserved[3];
};

#define BLOCK_MAGIC UINT64_C(0x5ac1b10c5ac1b10c)

struct sim_process {
	struct sim_process *next; /* of all */
	struct sim_process *owner; /* of a thread: its process; NULL: it is one */
	int over_fd; /* of a thread: readable when it has ended */
	char name[SIM_NAME_MAX];
	int id; /* as the system has it: of a process, from 1 */
	uint32_t place;
	bool alive;
	bool stopped;
	bool plenty; /* memory does not fail it */
	uint64_t drag_ns;
	enum turn turn;
	uint64_t turns; /* which wait this is: timers of an older one mean nothing */
	int fds[WAIT_MAX];
	unsigned fd_count;
	struct block *blocks;
	size_t block_bytes;
	size_t block_count;
	sim_main_fn *main;
	void *arg;
	ucontext_t context;
	void *stack;
#ifdef SIM_TSAN
	void *fiber;
#endif
};

struct fd {
	bool open;
	struct sim_process *process;
	struct sim_process *waiter; /* who waited last: a process or a thread of it */
	uint64_t count; /* readable if it is not 0 */
	void *file; /* disk.c's; NULL: it is none */
};

static struct {
	struct sim_process *all;
	struct sim_process *self;
	int last_id;
	struct sim_hooks hooks;
	ucontext_t context;
	struct fd fds[FDS_MAX];
	unsigned fd_next;
	void *stacks[STACKS_MAX];
	unsigned stack_count;
	const void *bottom; /* of the world's own stack */
	size_t bottom_bytes;
#ifdef SIM_TSAN
	void *fiber;
#endif
} world;

bool sim_is_slow(void)
{
#if defined(SIM_ASAN) || defined(SIM_TSAN)
	return true;
#else
	return false;
#endif
}

void sim_hooks_set(const struct sim_hooks *hooks)
{
	world.hooks = *hooks;
}

void sim_processes_begin(void)
{
	world.all = NULL;
	world.self = NULL;
	world.last_id = 0;
	memset(world.fds, 0, sizeof(world.fds));
	world.fd_next = 0;
#ifdef SIM_TSAN
	world.fiber = __tsan_get_current_fiber();
#endif
}

static struct sim_process *home(struct sim_process *process)
{
	return process == NULL || process->owner == NULL ? process : process->owner;
}

static void *stack_get(void)
{
	void *stack;

	if (world.stack_count > 0)
		return world.stacks[--world.stack_count];
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		abort();
	return stack;
}

static void stack_put(struct sim_process *process)
{
	if (process->stack == NULL)
		return;
#ifdef SIM_ASAN
	ASAN_UNPOISON_MEMORY_REGION(process->stack, STACK_BYTES);
#endif
#ifdef SIM_TSAN
	__tsan_destroy_fiber(process->fiber);
#endif
	if (world.stack_count < STACKS_MAX)
		world.stacks[world.stack_count++] = process->stack;
	else
		munmap(process->stack, STACK_BYTES);
	process->stack = NULL;
}

/* ---- memory ---- */

static void block_unlink(struct block *block)
{
	struct sim_process *process = block->process;

	if (block->prev != NULL)
		block->prev->next = block->next;
	else if (process != NULL)
		process->blocks = block->next;
	if (block->next != NULL)
		block->next->prev = block->prev;
	if (process == NULL)
		return;
	process->block_bytes -= block->bytes;
	process->block_count--;
}

void *sim_block_get(size_t bytes)
{
	struct block *block = __real_calloc(1, sizeof(*block) + bytes);
	struct sim_process *process = home(world.self);

	if (block == NULL)
		return NULL;
	block->magic = BLOCK_MAGIC;
	block->bytes = bytes;
	block->process = process;
	if (process != NULL) {
		block->next = process->blocks;
		if (block->next != NULL)
			block->next->prev = block;
		process->blocks = block;
		process->block_bytes += bytes;
		process->block_count++;
	}
	return block + 1;
}

void sim_block_put(void *at)
{
	struct block *block = (struct block *)at - 1;

	if (block->magic != BLOCK_MAGIC)
		abort();
	block_unlink(block);
	block->magic = 0;
	__real_free(block);
}

size_t sim_block_bytes(const void *at)
{
	return ((const struct block *)at - 1)->bytes;
}

size_t sim_process_bytes(const struct sim_process *process)
{
	return process->block_bytes;
}

size_t sim_process_blocks(const struct sim_process *process)
{
	return process->block_count;
}

static void blocks_free(struct sim_process *process)
{
	while (process->blocks != NULL)
		sim_block_put(process->blocks + 1);
}

static void fds_close(const struct sim_process *process)
{
	for (unsigned i = 0; i < world.fd_next; i++) {
		if (world.fds[i].process == process)
			world.fds[i] = (struct fd){ 0 };
	}
}

/* ---- turns ---- */

static void to_world(bool for_good)
{
	struct sim_process *process = world.self;
	int own_errno = errno; /* others leave theirs */
	void *fake = NULL;

#ifdef SIM_ASAN
	__sanitizer_start_switch_fiber(for_good ? NULL : &fake, world.bottom, world.bottom_bytes);
#endif
#ifdef SIM_TSAN
	__tsan_switch_to_fiber(world.fiber, 0);
#endif
	(void)for_good;
	swapcontext(&process->context, &world.context);
#ifdef SIM_ASAN
	__sanitizer_finish_switch_fiber(fake, &world.bottom, &world.bottom_bytes);
#endif
	(void)fake;
	errno = own_errno;
}

static void trampoline(void)
{
	struct sim_process *process = world.self;

#ifdef SIM_ASAN
	__sanitizer_finish_switch_fiber(NULL, &world.bottom, &world.bottom_bytes);
#endif
	process->main(process->arg);
	process->turn = TURN_OVER;
	to_world(true);
	abort(); /* nobody comes back here */
}

static bool has_threads(const struct sim_process *process)
{
	const struct sim_process *other = world.all;

	while (other != NULL && (other->owner != process || other->turn == TURN_OVER))
		other = other->next;
	return other != NULL;
}

static void process_end(struct sim_process *process)
{
	process->alive = false;
	process->turn = TURN_OVER;
	for (struct sim_process *other = world.all; other != NULL; other = other->next) {
		if (other->owner != process)
			continue;
		other->turn = TURN_OVER;
		stack_put(other);
	}
	fds_close(process);
	blocks_free(process);
	stack_put(process);
}

static void thread_end(struct sim_process *thread)
{
	stack_put(thread);
	*sim_fd_count(thread->over_fd) = 1;
	sim_fd_wake(thread->over_fd);
}

static void turn_ended(struct sim_process *process)
{
	bool over = process->turn == TURN_OVER;

	if (over && process->owner == NULL) {
		if (has_threads(process))
			sim_fail("check_leaks", "%s ends before its threads do", process->name);
		if (world.hooks.on_exit != NULL)
			world.hooks.on_exit(process);
		process_end(process);
		return;
	}
	if (over)
		thread_end(process);
	if (world.hooks.after_turn != NULL)
		world.hooks.after_turn(home(process));
}

static void turn(void *arg, uint64_t turns)
{
	struct sim_process *process = arg;
	void *fake = NULL;

	if (process->turn == TURN_OVER || process->turns != turns)
		return;
	if (home(process)->stopped) {
		process->turn = TURN_OWED;
		return;
	}
	process->turn = TURN_RUNS;
	process->fd_count = 0;
	world.self = process;
#ifdef SIM_ASAN
	__sanitizer_start_switch_fiber(&fake, process->stack, STACK_BYTES);
#endif
#ifdef SIM_TSAN
	__tsan_switch_to_fiber(process->fiber, 0);
#endif
	swapcontext(&world.context, &process->context);
#ifdef SIM_ASAN
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
	(void)fake;
	world.self = NULL;
	if (sim_failure() == NULL)
		turn_ended(process);
}

/* The next turn, after so long; whatever was to wake it before does not any more */
static void turn_after(struct sim_process *process, uint64_t delay_ns)
{
	process->turns++;
	sim_at(delay_ns, turn, process, process->turns);
}

static uint64_t wake_ns(struct sim_process *process)
{
	uint64_t most_ns = 2 * home(process)->drag_ns;
	uint64_t drag_ns = most_ns != 0 ? sim_between(0, most_ns) : 0;

	return sim_between(WAKE_MIN_NS, WAKE_MAX_NS) + drag_ns;
}

static struct sim_process *coroutine_start(struct sim_process *process, sim_main_fn *main,
					   void *arg)
{
	process->main = main;
	process->arg = arg;
	process->stack = stack_get();
	getcontext(&process->context);
	process->context.uc_stack.ss_sp = process->stack;
	process->context.uc_stack.ss_size = STACK_BYTES;
	process->context.uc_link = NULL;
	makecontext(&process->context, trampoline, 0);
#ifdef SIM_TSAN
	process->fiber = __tsan_create_fiber(0);
#endif
	process->next = world.all;
	world.all = process;
	turn_after(process, wake_ns(process));
	return process;
}

struct sim_process *sim_process_start(const char *name, uint32_t place, sim_main_fn *main,
				      void *arg)
{
	struct sim_process *process = sim_alloc(sizeof(*process));

	snprintf(process->name, sizeof(process->name), "%s", name);
	process->id = ++world.last_id;
	process->place = place;
	process->alive = true;
	return coroutine_start(process, main, arg);
}

struct sim_process *sim_thread_start(sim_main_fn *main, void *arg)
{
	struct sim_process *thread = sim_alloc(sizeof(*thread));

	thread->owner = home(world.self);
	thread->place = thread->owner->place;
	thread->over_fd = sim_fd_open();
	return coroutine_start(thread, main, arg);
}

void sim_thread_join(struct sim_process *thread)
{
	while (!sim_wait(&thread->over_fd, 1, SIM_S))
		;
	sim_fd_close(thread->over_fd);
}

void sim_process_leave(void)
{
	world.self->turn = TURN_WAITS;
	world.self->turns++;
	to_world(false);
	abort(); /* a run that has failed is not gone on with */
}

struct sim_process *sim_process_self(void)
{
	return home(world.self);
}

const char *sim_process_name(const struct sim_process *process)
{
	return process->name;
}

int sim_process_id(const struct sim_process *process)
{
	return process->id;
}

uint32_t sim_process_place(const struct sim_process *process)
{
	return process->place;
}

bool sim_process_alive(const struct sim_process *process)
{
	return process != NULL && process->alive;
}

bool sim_process_stopped(const struct sim_process *process)
{
	return process->stopped;
}

void sim_process_kill(struct sim_process *process)
{
	if (!process->alive)
		return;
	process->alive = false;
	process->turn = TURN_OVER;
	if (world.hooks.on_death != NULL)
		world.hooks.on_death(process);
	process_end(process);
}

void sim_process_stop(struct sim_process *process)
{
	process->stopped = true;
}

void sim_process_continue(struct sim_process *process)
{
	if (!process->stopped)
		return;
	process->stopped = false;
	for (struct sim_process *own = world.all; own != NULL; own = own->next) {
		if (home(own) != process || own->turn != TURN_OWED)
			continue;
		own->turn = TURN_RUNS;
		turn_after(own, wake_ns(own));
	}
	if (process->alive && world.hooks.on_continue != NULL)
		world.hooks.on_continue(process);
}

void sim_process_plenty(bool plenty)
{
	home(world.self)->plenty = plenty;
}

bool sim_process_has_plenty(void)
{
	return home(world.self)->plenty;
}

void sim_process_drag(struct sim_process *process, uint64_t drag_ns)
{
	process->drag_ns = drag_ns;
}

void sim_pause(uint64_t ns)
{
	struct sim_process *process = world.self;

	process->turn = TURN_RUNS;
	turn_after(process, ns + wake_ns(process));
	to_world(false);
}

void sim_preempt(uint32_t ppm)
{
	if (world.self == NULL)
		return;
	if (home(world.self)->drag_ns != 0)
		ppm *= 4;
	if (sim_ppm(ppm))
		sim_pause(sim_ppm(50000) ? sim_between(0, 3 * SIM_MS)
					 : sim_between(0, 100 * SIM_US));
}

/* ---- descriptors ---- */

static struct fd *fd_of(int fd)
{
	return &world.fds[fd - FD_BASE];
}

int sim_fd_open(void)
{
	for (unsigned i = 0; i < FDS_MAX; i++) {
		if (world.fds[i].open)
			continue;
		world.fds[i] = (struct fd){ .open = true, .process = home(world.self) };
		if (i >= world.fd_next)
			world.fd_next = i + 1;
		return FD_BASE + (int)i;
	}
	abort();
}

bool sim_fd_is(int fd)
{
	return fd >= FD_BASE && fd < FD_BASE + FDS_MAX;
}

void sim_fd_close(int fd)
{
	if (!fd_of(fd)->open)
		sim_fail("check_misuse", "a descriptor that is not open is closed");
	*fd_of(fd) = (struct fd){ 0 };
}

uint64_t *sim_fd_count(int fd)
{
	return &fd_of(fd)->count;
}

void **sim_fd_file(int fd)
{
	return &fd_of(fd)->file;
}

void sim_fd_wake(int fd)
{
	struct sim_process *process = fd_of(fd)->waiter;

	if (process == NULL || process->turn != TURN_WAITS)
		return;
	for (unsigned i = 0; i < process->fd_count; i++) {
		if (process->fds[i] != fd)
			continue;
		process->turn = TURN_RUNS;
		turn_after(process, wake_ns(process));
		return;
	}
}

static bool readable(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (fd_of(fds[i])->count != 0)
			return true;
	}
	return false;
}

bool sim_wait(const int *fds, unsigned count, uint64_t timeout_ns)
{
	struct sim_process *process = world.self;

	if (count > WAIT_MAX)
		abort();
	if (readable(fds, count))
		return true;
	for (unsigned i = 0; i < count; i++)
		fd_of(fds[i])->waiter = process;
	memcpy(process->fds, fds, count * sizeof(*fds));
	process->fd_count = count;
	process->turn = TURN_WAITS;
	turn_after(process, timeout_ns + wake_ns(process));
	to_world(false);
	return readable(fds, count);
}

void sim_processes_end(void)
{
	for (struct sim_process *process = world.all; process != NULL; process = process->next) {
		process->alive = false;
		blocks_free(process);
		stack_put(process);
	}
	world.all = NULL;
	world.self = NULL;
}
