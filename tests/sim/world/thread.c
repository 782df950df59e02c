/* SPDX-License-Identifier: BSD-3-Clause */

/* thread.c -- threads and semaphores of a simulated process, for the writer of checkpoints */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/sim.h"
#include "sim/world/wrap.h"

WRAP(int, pthread_create, pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg);
WRAP(int, pthread_join, pthread_t thread, void **ret_value);
WRAP(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *ret_old);
WRAP(int, sem_init, sem_t *sem, int shared, unsigned value);
WRAP(int, sem_destroy, sem_t *sem);
WRAP(int, sem_post, sem_t *sem);
WRAP(int, sem_wait, sem_t *sem);
WRAP(int, sem_trywait, sem_t *sem);

struct start {
	void *(*run)(void *);
	void *arg;
};

static void begin(void *arg)
{
	const struct start *start = arg;

	start->run(start->arg);
}

int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	struct sim_process *thread;
	struct start *start;

	if (sim_process_self() == NULL)
		return __real_pthread_create(ret_thread, attr, run, arg);
	if (sim_no_memory())
		return EAGAIN;
	start = sim_alloc(sizeof(*start));
	*start = (struct start){ .run = run, .arg = arg };
	thread = sim_thread_start(begin, start);
	*ret_thread = (pthread_t)(uintptr_t)thread;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
	if (sim_process_self() == NULL)
		return __real_pthread_join(thread, ret_value);
	sim_thread_join((struct sim_process *)(uintptr_t)thread);
	return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_old)
{
	return sim_process_self() != NULL ? 0 : __real_pthread_sigmask(how, set, ret_old);
}

/* A semaphore is a descriptor that is readable while it can be taken */
static int fd_of(const sem_t *sem)
{
	int fd;

	memcpy(&fd, sem, sizeof(fd));
	return fd;
}

int __wrap_sem_init(sem_t *sem, int shared, unsigned value)
{
	int fd;

	if (sim_process_self() == NULL)
		return __real_sem_init(sem, shared, value);
	fd = sim_fd_open();
	*sim_fd_count(fd) = value;
	memcpy(sem, &fd, sizeof(fd));
	return 0;
}

int __wrap_sem_destroy(sem_t *sem)
{
	if (sim_process_self() == NULL)
		return __real_sem_destroy(sem);
	sim_fd_close(fd_of(sem));
	return 0;
}

int __wrap_sem_post(sem_t *sem)
{
	if (sim_process_self() == NULL)
		return __real_sem_post(sem);
	(*sim_fd_count(fd_of(sem)))++;
	sim_fd_wake(fd_of(sem));
	return 0;
}

int __wrap_sem_trywait(sem_t *sem)
{
	uint64_t *count;

	if (sim_process_self() == NULL)
		return __real_sem_trywait(sem);
	count = sim_fd_count(fd_of(sem));
	if (*count == 0) {
		errno = EAGAIN;
		return -1;
	}
	(*count)--;
	return 0;
}

int __wrap_sem_wait(sem_t *sem)
{
	int fd;

	if (sim_process_self() == NULL)
		return __real_sem_wait(sem);
	fd = fd_of(sem);
	if (sim_ppm(sim_nature.disk_short_ppm)) {
		errno = EINTR;
		return -1;
	}
	if (!sim_wait(&fd, 1, SIM_S)) {
		errno = EINTR;
		return -1;
	}
	(*sim_fd_count(fd))--;
	return 0;
}
