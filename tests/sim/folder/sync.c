/* SPDX-License-Identifier: BSD-3-Clause */

/* sync.c -- mutexes and conditions of simulated threads */

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "sim/folder/folder.h"
#include "sim/world/wrap.h"

WRAP(int, pthread_mutex_init, pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
WRAP(int, pthread_mutex_destroy, pthread_mutex_t *mutex);
WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex);
WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex);
WRAP(int, pthread_cond_init, pthread_cond_t *cond, const pthread_condattr_t *attr);
WRAP(int, pthread_cond_destroy, pthread_cond_t *cond);
WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex);
WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex,
     const struct timespec *until);
WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond);
WRAP(int, pthread_cond_signal, pthread_cond_t *cond);

enum {
	WAITERS_MAX = 256,
	LOCK_PREEMPT_PPM = 50000,
};

static struct waiter {
	const struct sim_process *process; /* NULL: free */
	const pthread_cond_t *cond;
	int fd;
} waiters[WAITERS_MAX];

void folder_sync_begin(void)
{
	memset(waiters, 0, sizeof(waiters));
}

void folder_sync_gone(const struct sim_process *process)
{
	for (unsigned i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].process == process)
			waiters[i].process = NULL;
	}
}

/* A mutex is a byte: it is held, or not */
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	if (sim_process_self() == NULL)
		return __real_pthread_mutex_init(mutex, attr);
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	return sim_process_self() != NULL ? 0 : __real_pthread_mutex_destroy(mutex);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	uint8_t *held = (uint8_t *)mutex;

	if (sim_process_self() == NULL)
		return __real_pthread_mutex_lock(mutex);
	sim_preempt(LOCK_PREEMPT_PPM);
	while (*held != 0)
		sim_pause(SIM_US);
	*held = 1;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	if (sim_process_self() == NULL)
		return __real_pthread_mutex_unlock(mutex);
	*(uint8_t *)mutex = 0;
	return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	return sim_process_self() != NULL ? 0 : __real_pthread_cond_init(cond, attr);
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	return sim_process_self() != NULL ? 0 : __real_pthread_cond_destroy(cond);
}

static int wait_for(const pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t timeout_ns)
{
	struct waiter *waiter = waiters;
	bool told;

	while (waiter->process != NULL)
		waiter++;
	*waiter =
		(struct waiter){ .process = sim_process_self(), .cond = cond, .fd = sim_fd_open() };
	__wrap_pthread_mutex_unlock(mutex);
	told = sim_wait(&waiter->fd, 1, timeout_ns);
	sim_fd_close(waiter->fd);
	waiter->process = NULL;
	__wrap_pthread_mutex_lock(mutex);
	return told ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (sim_process_self() == NULL)
		return __real_pthread_cond_wait(cond, mutex);
	wait_for(cond, mutex, SIM_S); /* and is woken for nothing, which may happen */
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	uint64_t until_ns, now_ns;

	if (sim_process_self() == NULL)
		return __real_pthread_cond_timedwait(cond, mutex, until);
	until_ns = (uint64_t)until->tv_sec * SIM_S + (uint64_t)until->tv_nsec;
	now_ns = sim_clock_of(sim_process_place(sim_process_self()), sim_now());
	return wait_for(cond, mutex, until_ns > now_ns ? until_ns - now_ns : 0);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (sim_process_self() == NULL)
		return __real_pthread_cond_broadcast(cond);
	for (unsigned i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].process != sim_process_self() || waiters[i].cond != cond)
			continue;
		*sim_fd_count(waiters[i].fd) = 1;
		sim_fd_wake(waiters[i].fd);
	}
	return 0;
}

/* More may wake up than need to */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	return sim_process_self() != NULL ? __wrap_pthread_cond_broadcast(cond)
					  : __real_pthread_cond_signal(cond);
}
