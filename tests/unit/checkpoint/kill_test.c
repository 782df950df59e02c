/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kill_test.c -- a process that writes a checkpoint is killed before and after every one of its
 * system calls, and every one of them is made to fail: the newest whole checkpoint is then the old
 * one or the new one, whole
 *
 * The writer is a forked process under ptrace; without that (a container may refuse it) the tests
 * are skipped.
 */
#include "ckpt_util.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

enum {
	STOPS_MAX = 2000, /* of one write; some hundred under a sanitizer */
	TRAP = SIGTRAP | 0x80, /* a stop at a system call */
	OLDEST = 9, /* versions: before the write there are the first two, */
	OLD = 10,
	NEW = 11, /* and it writes this one and drops the first */
};

static void prepare(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, NEW);
	char path[CKPT_PATH];

	path_of(dir, &meta, path);
	check(unlink(path) == 0 || errno == ENOENT);
	for (meta.version = OLDEST; meta.version <= OLD; meta.version++)
		put(dir, &meta, 100);
}

static bool there(const char *dir, uint64_t version)
{
	struct ol_ckpt_meta meta = meta_of(1, version);

	return is_there(dir, &meta);
}

/* What the traced process does; its exit status. check() in it ends it with 1. */
typedef int (*act_fn)(const char *dir);

enum {
	WROTE = 10,
	DID_NOT_WRITE,
	READ_NEW,
	READ_OLD,
	DID_NOT_READ,
};

static int act_write(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(1, NEW);
	uint8_t *content = content_of(&meta.geo, NEW);
	char err[CKPT_ERR];
	int rc = ol_ckpt_write(dir, &meta, content, 2, err, sizeof(err));

	free(content);
	return rc == 0 ? WROTE : DID_NOT_WRITE;
}

/* A process that stands before its act; skips where that may not be. */
static pid_t start_traced(const char *dir, act_fn act)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(CHECK_SKIP);
		raise(SIGSTOP);
		_exit(act(dir));
	}
	check_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIP) {
		print_message("skip: ptrace is refused here\n");
		skip();
	}
	check(WIFSTOPPED(status));
	check_ok(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	return pid;
}

/* On to the next stop at a system call; false: it ended instead, with this status. */
static bool next_stop(pid_t pid, int *ret_status)
{
	int status, pass = 0;

	for (;;) {
		check_ok(ptrace(PTRACE_SYSCALL, pid, NULL, pass));
		check_eq(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status)) {
			*ret_status = status;
			return false;
		}
		if (WSTOPSIG(status) == TRAP)
			return true;
		pass = WSTOPSIG(status);
	}
}

/* False: it ended by itself before the k-th stop. */
static bool killed_at(const char *dir, unsigned k)
{
	pid_t pid = start_traced(dir, act_write);
	int status;

	for (unsigned i = 0; i < k; i++) {
		if (!next_stop(pid, &status)) {
			check(WIFEXITED(status) && WEXITSTATUS(status) == WROTE);
			return false;
		}
	}
	check_ok(kill(pid, SIGKILL));
	check_eq(waitpid(pid, &status, 0), pid);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return true;
}

static void killed_at_any_system_call_it_leaves_the_old_or_the_new_one(void **state)
{
	unsigned old = 0, new = 0, leftovers = 0, dotted, k;
	struct ol_ckpt_writer *writer;
	char err[CKPT_ERR];

	prepare(*state);
	for (k = 1; killed_at(*state, k); k++) {
		struct ol_ckpt_meta meta = meta_of(0, 0);

		assert_true(k < STOPS_MAX);
		log_forget();
		check_ok(newest(*state, &meta)); /* checks the content */
		check_eq(logged.lines, 0); /* what is there under its name is whole */
		check(meta.version == OLD || meta.version == NEW);
		check(there(*state, OLD));
		check(there(*state, OLDEST) || meta.version == NEW);
		check(meta.version == NEW || new == 0); /* once named it stays */
		old += meta.version == OLD;
		new += meta.version == NEW;
		files_in(*state, &dotted);
		leftovers += dotted;
		/* the next to start clears away */
		check_ok(ol_ckpt_writer_start(*state, &meta, 2, &writer, err, sizeof(err)));
		ol_ckpt_writer_stop(writer);
		files_in(*state, &dotted);
		check_eq(dotted, 0);
		prepare(*state);
	}
	/* header, table and ten blocks, sync, rename, sync: at least so many calls, two stops each
	 */
	assert_in_range(old, 2 * 12, STOPS_MAX);
	assert_in_range(new, 4, STOPS_MAX);
	assert_in_range(leftovers, 2 * 11, STOPS_MAX);
	print_message("killed at %u stops: the old one %u times, the new one %u times, %u "
		      "temporary files\n",
		      k - 1, old, new, leftovers);
}

#if defined(__x86_64__)

/* What is done to one system call. */
enum harm {
	HARM_EIO, /* it fails, and does nothing */
	HARM_EINTR, /* it is interrupted before it did anything */
	HARM_SHORT, /* a part only is written or read */
};

/* Calls on files that may fail that way; the rest belongs to allocators and sanitizers. */
static bool can_be_harmed(long call, enum harm harm)
{
	switch (harm) {
	case HARM_EIO:
		return call == SYS_openat || call == SYS_write || call == SYS_fsync ||
		       call == SYS_close || call == SYS_renameat || call == SYS_renameat2 ||
		       call == SYS_rename || call == SYS_unlinkat || call == SYS_getdents64 ||
		       call == SYS_pread64 || call == SYS_fstat || call == SYS_newfstatat;
	case HARM_EINTR:
		return call == SYS_write || call == SYS_fsync || call == SYS_pread64;
	case HARM_SHORT:
		return call == SYS_write || call == SYS_pread64;
	}
	return false;
}

/* At the entry of the call; then on to its end. */
static void do_harm(pid_t pid, enum harm harm)
{
	struct user_regs_struct regs;
	int status;

	check_ok(ptrace(PTRACE_GETREGS, pid, NULL, &regs));
	if (harm == HARM_SHORT)
		regs.rdx = regs.rdx / 3 + 1;
	else
		regs.orig_rax = (unsigned long long)-1; /* no call */
	check_ok(ptrace(PTRACE_SETREGS, pid, NULL, &regs));
	check(next_stop(pid, &status));
	if (harm == HARM_SHORT)
		return;
	check_ok(ptrace(PTRACE_GETREGS, pid, NULL, &regs));
	regs.rax = (unsigned long long)(harm == HARM_EIO ? -EIO : -EINTR);
	check_ok(ptrace(PTRACE_SETREGS, pid, NULL, &regs));
}

/* Harm the k-th call that can be; false: there were fewer. ret_end: the act's exit status. */
static bool harmed_at(const char *dir, act_fn act, enum harm harm, unsigned k, int *ret_end)
{
	pid_t pid = start_traced(dir, act);
	struct user_regs_struct regs;
	bool entry = false, done = false;
	unsigned count = 0;
	int status;

	while (next_stop(pid, &status)) {
		entry = !entry;
		check_ok(ptrace(PTRACE_GETREGS, pid, NULL, &regs));
		/* the first stop may be the end of the call that stopped it: then rax is no -ENOSYS
		 */
		if (entry && (long)regs.rax != -ENOSYS)
			entry = false;
		if (!entry || done || !can_be_harmed((long)regs.orig_rax, harm))
			continue;
		if (++count < k)
			continue;
		do_harm(pid, harm);
		entry = false;
		done = true;
	}
	check(WIFEXITED(status) && WEXITSTATUS(status) >= WROTE);
	*ret_end = WEXITSTATUS(status);
	return done;
}

static unsigned harm_each_of_write(const char *dir, enum harm harm, unsigned *ret_failures)
{
	unsigned k, failures = 0, dotted;
	int end;

	prepare(dir);
	for (k = 1; harmed_at(dir, act_write, harm, k, &end); k++) {
		struct ol_ckpt_meta meta = meta_of(0, 0);

		check(k < STOPS_MAX);
		log_forget();
		check_ok(newest(dir, &meta));
		check_eq(logged.lines, 0);
		files_in(dir, &dotted);
		check_eq(dotted, 0);
		check(there(dir, OLD));
		if (end == DID_NOT_WRITE) {
			failures++;
			check(there(dir, OLDEST)); /* nothing is dropped for a write that failed */
		} else {
			check_eq(meta.version, NEW);
		}
		prepare(dir);
	}
	*ret_failures = failures;
	return k - 1;
}

static void any_call_that_fails_is_told_and_leaves_no_temporary_file(void **state)
{
	unsigned failures, calls = harm_each_of_write(*state, HARM_EIO, &failures);

	/* header, ten blocks, folder, file, its old name, close, both syncs, rename */
	assert_int_equal(failures, 18);
	assert_in_range(calls, failures + 3, STOPS_MAX); /* what only drops the old ones */
	print_message("%u calls made to fail, %u of them the write's own\n", calls, failures);
}

static void calls_that_are_interrupted_or_cut_short_are_taken_up_again(void **state)
{
	unsigned failures;

	assert_in_range(harm_each_of_write(*state, HARM_EINTR, &failures), 13, STOPS_MAX);
	assert_int_equal(failures, 0);
	assert_in_range(harm_each_of_write(*state, HARM_SHORT, &failures), 11, STOPS_MAX);
	assert_int_equal(failures, 0);
}

static int act_read(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	if (newest(dir, &meta) != 0) /* it checks that nothing was written, or the content whole */
		return DID_NOT_READ;
	return meta.version == NEW ? READ_NEW : READ_OLD;
}

/* How often harming a call led to each end of reading. */
static void harm_each_of_read(const char *dir, enum harm harm, unsigned ret_ends[3])
{
	int end;

	for (unsigned i = 0; i < 3; i++)
		ret_ends[i] = 0;
	for (unsigned k = 1; harmed_at(dir, act_read, harm, k, &end); k++) {
		check(k < STOPS_MAX && end >= READ_NEW);
		ret_ends[end - READ_NEW]++;
	}
}

static void a_file_that_cannot_be_read_is_passed_over(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, NEW);
	unsigned ends[3];

	prepare(*state);
	put(*state, &meta, 100);
	harm_each_of_read(*state, HARM_EIO, ends);
	/* opened, examined, header, table, ten blocks */
	assert_int_equal(ends[READ_OLD - READ_NEW], 14);
	assert_in_range(ends[DID_NOT_READ - READ_NEW], 3, STOPS_MAX); /* the folder */
	assert_in_range(ends[0], 3, STOPS_MAX); /* what is closed */
	harm_each_of_read(*state, HARM_EINTR, ends);
	assert_int_equal(ends[0], 12);
	assert_int_equal(ends[1] + ends[2], 0);
	harm_each_of_read(*state, HARM_SHORT, ends);
	assert_int_equal(ends[0], 12);
	assert_int_equal(ends[1] + ends[2], 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(killed_at_any_system_call_it_leaves_the_old_or_the_new_one),
#if defined(__x86_64__) /* registers are harmed */
		ckpt_test(any_call_that_fails_is_told_and_leaves_no_temporary_file),
		ckpt_test(calls_that_are_interrupted_or_cut_short_are_taken_up_again),
		ckpt_test(a_file_that_cannot_be_read_is_passed_over),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
