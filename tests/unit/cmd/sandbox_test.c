/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sandbox_test.c -- a process in the sandbox cannot start programs, look into others or change files that
 * are not its own; and goes on with all that a server does
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/sandbox.h"

static char inside[] = "/tmp/ol-sandbox-in-XXXXXX";
static char outside[] = "/tmp/ol-sandbox-out-XXXXXX";
static struct ol_sandbox sandbox;

static int setup(void **unused)
{
	(void)unused;
	return mkdtemp(inside) == NULL || mkdtemp(outside) == NULL;
}

static int teardown(void **unused)
{
	char path[64];

	(void)unused;
	snprintf(path, sizeof(path), "%s/file", inside); /* a folder by then */
	(void)rmdir(path);
	(void)unlink(path);
	return rmdir(inside) != 0 || rmdir(outside) != 0;
}

/* fn's result in a process of its own that has entered; 0: all is as it should be */
static int in_sandbox(int (*fn)(void))
{
	const char *folders[OL_SANDBOX_FOLDERS] = { inside, "/nowhere/at/all" };
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(ol_sandbox_enter(folders, &sandbox) != 0 || !sandbox.calls ? 100 : fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int refused(long rc)
{
	return rc == -1 && errno == EPERM ? 0 : 1;
}

static int calls(void)
{
	static char name[] = "true";
	char *const words[] = { name, NULL };
	char byte;
	struct iovec here = { &byte, 1 };

	if (refused(execve("/bin/true", words, NULL)) != 0)
		return 1;
	if (refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) != 0)
		return 2;
	if (refused(process_vm_readv(getppid(), &here, 1, &here, 1, 0)) != 0)
		return 3;
	if (refused(mount("none", inside, "tmpfs", 0, NULL)) != 0)
		return 4;
	if (refused(unshare(CLONE_NEWUSER)) != 0)
		return 5;
	if (refused(setuid(getuid())) != 0)
		return 6;
	if (refused(chown(inside, getuid(), getgid())) != 0)
		return 7;
	if (refused(syscall(SYS_bpf, 0, NULL, 0)) != 0)
		return 8;
	if (refused(syscall(SYS_userfaultfd, 0)) != 0)
		return 9;
	if (refused(syscall(SYS_io_uring_setup, 1, NULL)) != 0)
		return 10;
	return 0;
}

static void calls_are_refused(void **state)
{
	(void)state;
	assert_int_equal(in_sandbox(calls), 0);
}

static void *execs(void *arg)
{
	static char name[] = "true";
	char *const words[] = { name, NULL };

	while (!atomic_load((atomic_bool *)arg))
		sched_yield();
	return (void *)(intptr_t)refused(execve("/bin/true", words, NULL));
}

/* Threads that were there before */
static void of_all_threads(void **state)
{
	const char *folders[OL_SANDBOX_FOLDERS] = { inside };
	const pid_t pid = fork();
	atomic_bool go = false;
	pthread_t thread;
	void *result;
	int status;

	(void)state;
	if (pid == 0) {
		if (pthread_create(&thread, NULL, execs, &go) != 0 ||
		    ol_sandbox_enter(folders, &sandbox) != 0)
			_exit(100);
		atomic_store(&go, true);
		_exit(pthread_join(thread, &result) != 0 ? 101 : (int)(intptr_t)result);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int file_of(const char *folder)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/file", folder);
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static int files(void)
{
	char from[64], to[64];

	if (sandbox.landlock == 0)
		return 77;
	if (file_of(inside) < 0)
		return 1;
	snprintf(from, sizeof(from), "%s/file", inside);
	snprintf(to, sizeof(to), "%s/other", inside);
	if (rename(from, to) != 0 || mkdir(from, 0700) != 0 || unlink(to) != 0)
		return 2;
	/* as a view is put in its place: from one folder to another */
	snprintf(to, sizeof(to), "%s/file/there", inside);
	snprintf(from, sizeof(from), "%s/own", inside);
	if (close(open(from, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != 0 || link(from, to) != 0 ||
	    unlink(from) != 0 || rename(to, from) != 0 || unlink(from) != 0)
		return 8;
	if (file_of(outside) >= 0 || errno != EACCES)
		return 3;
	if (mkdir("/tmp/ol-sandbox-made", 0700) == 0 || errno != EACCES)
		return 4;
	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0)
		return 5;
	if (open("/etc/passwd", O_WRONLY | O_CLOEXEC) >= 0)
		return 6;
	return open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 ? 7 : 0;
}

static void files_are_written_in_the_folders_alone(void **state)
{
	int rc = in_sandbox(files);

	(void)state;
	if (rc == 77)
		skip(); /* a kernel without landlock */
	assert_int_equal(rc, 0);
}

static char kept[64]; /* a file outside */

static int cuts(void)
{
	char own[64];

	snprintf(own, sizeof(own), "%s/own", inside);
	/* of landlock's third version */
	if (sandbox.landlock < 3)
		return 77;
	if (truncate(kept, 0) == 0 || errno != EACCES)
		return 1;
	if (open(kept, O_RDONLY | O_TRUNC | O_CLOEXEC) >= 0 || errno != EACCES)
		return 2;
	if (open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) < 0 ||
	    truncate(own, 0) != 0 || unlink(own) != 0)
		return 3;
	return open("/dev/null", O_WRONLY | O_TRUNC | O_CLOEXEC) < 0 ? 4 : 0;
}

static void no_file_outside_is_cut_off(void **state)
{
	int fd, rc;

	(void)state;
	snprintf(kept, sizeof(kept), "%s/kept", outside);
	fd = open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	rc = in_sandbox(cuts);
	assert_int_equal(unlink(kept), 0);
	if (rc == 77)
		skip();
	assert_int_equal(rc, 0);
}

/* What a server does goes on: memory, sockets, threads, random bytes. */
static int serves(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	atomic_bool go = true;
	pthread_t thread;
	void *result;

	if (fd < 0 || ftruncate(fd, 4096) != 0 ||
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		return 1;
	if (socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) < 0 ||
	    socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0)
		return 2;
	if (pthread_create(&thread, NULL, execs, &go) != 0 || pthread_join(thread, &result) != 0)
		return 3;
	return (int)(intptr_t)result;
}

static void a_server_goes_on(void **state)
{
	(void)state;
	assert_int_equal(in_sandbox(serves), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_refused),
		cmocka_unit_test(of_all_threads),
		cmocka_unit_test(files_are_written_in_the_folders_alone),
		cmocka_unit_test(no_file_outside_is_cut_off),
		cmocka_unit_test(a_server_goes_on),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
