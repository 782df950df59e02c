/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kill_test.c -- if a process that writes a checkpoint is killed before or after any of its system
 * calls, or any of them fails, the newest whole checkpoint is the old one or the new one. The same
 * for a running checkpoint: the restored state is a whole turn.
 *
 * The writer is a forked process under ptrace; without that (a container may refuse it) the tests
 * are skipped.
 *
 * not under tsan: one thread; writer_test.c and running_test.c have the threads
 */
#include "running_util.h"

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

/* At a call for memory: a sanitizer's runtime makes one more or one less from run to run. */
static bool is_of_memory(pid_t pid)
{
	struct user_regs_struct regs;
	long call;

	check_ok(ptrace(PTRACE_GETREGS, pid, NULL, &regs));
	call = (long)regs.orig_rax;
	return call == SYS_mmap || call == SYS_munmap || call == SYS_mprotect ||
	       call == SYS_madvise || call == SYS_brk;
}

/* False: it ended by itself before the k-th stop. */
static bool killed_at(const char *dir, act_fn act, unsigned k)
{
	pid_t pid = start_traced(dir, act);
	int status;

	for (unsigned i = 0; i < k; i++) {
		if (!next_stop(pid, &status)) {
			check(WIFEXITED(status) && WEXITSTATUS(status) == WROTE);
			return false;
		}
		if (is_of_memory(pid))
			i--;
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
	for (k = 1; killed_at(*state, act_write, k); k++) {
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
	/* header, table and ten blocks, sync, rename, sync: at least so many calls, two stops
	 * each */
	assert_in_range(old, 2 * 12, STOPS_MAX);
	assert_in_range(new, 4, STOPS_MAX);
	assert_in_range(leftovers, 2 * 11, STOPS_MAX);
	print_message("killed at %u stops: the old one %u times, the new one %u times, %u "
		      "temporary files\n",
		      k - 1, old, new, leftovers);
}

/* A running checkpoint of epoch 1; epoch 2 makes its own (version NEW), and two turns in place. */
static const uint32_t turn_blocks[2][2] = { { 0, 2 }, { 2, 3 } };

static void prepare_running(const char *dir)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { 0 };
	struct ol_running *running;
	char path[CKPT_PATH];

	running_path(dir, &meta, path);
	check(unlink(path) == 0 || errno == ENOENT);
	meta.epoch = 1;
	running = running_of(dir, &meta, &blocks, &choice);
	check_ok(turn(running, &meta.geo, OLD, 1, false).status);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
}

/* Turns that fail are followed by the others, as in a server. */
static int act_run(const char *dir)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 2 };
	struct ol_running *running = running_of(dir, &meta, &blocks, &choice);
	unsigned failures = turn(running, &meta.geo, NEW, 2, false).status != 0;

	for (unsigned i = 0; i < 2; i++) {
		memcpy(choice.blocks, turn_blocks[i], sizeof(turn_blocks[i]));
		failures += turn(running, &meta.geo, NEW + 1 + i, 2, false).status != 0;
	}
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
	return failures == 0 ? WROTE : DID_NOT_WRITE;
}

/* What is restored is one of the turns, bit for bit; which? anew: turns may have been made so */
static uint64_t check_turns(const char *dir, bool anew)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	uint64_t bytes = ol_layout_content_bytes(&meta.geo);
	uint8_t *content = malloc(bytes), *expect = content_clean(&meta.geo, NEW);

	check(content != NULL);
	log_forget();
	check_ok(restored(dir, &blocks, &meta, content));
	check_eq(logged.lines, 0);
	check(meta.version >= OLD && meta.version <= NEW + 2);
	check_eq(meta.epoch, meta.version == OLD ? 1 : 2);
	for (unsigned i = 0; i < 2 && NEW + 1 + i <= meta.version; i++) {
		struct choice choice = { .count = 2 };
		uint8_t *from = content_clean(&meta.geo, NEW + 1 + i);

		memcpy(choice.blocks, turn_blocks[i], sizeof(turn_blocks[i]));
		mix(&meta, &blocks, &choice, from, expect);
		free(from);
	}
	if (anew && memcmp(content, expect, bytes) != 0) {
		/* a file that failed, or could not be examined, was made anew: all of one
		   version, or that and the last turn's */
		free(expect);
		expect = content_clean(&meta.geo, meta.version);
		if (memcmp(content, expect, bytes) != 0) {
			struct choice last = { .count = 2 };
			uint8_t *from = content_clean(&meta.geo, NEW + 2);

			free(expect);
			expect = content_clean(&meta.geo, NEW + 1);
			memcpy(last.blocks, turn_blocks[1], sizeof(turn_blocks[1]));
			mix(&meta, &blocks, &last, from, expect);
			free(from);
		}
	} else if (meta.version == OLD) {
		free(expect);
		expect = content_clean(&meta.geo, OLD);
	}
	check(memcmp(content, expect, bytes) == 0);
	free(content);
	free(expect);
	ol_ckpt_blocks_fini(&blocks);
	return meta.version;
}

static void killed_at_any_system_call_a_running_checkpoint_is_at_a_turn(void **state)
{
	unsigned seen[NEW + 3] = { 0 };
	uint64_t last = OLD;
	unsigned k;

	prepare_running(*state);
	for (k = 1; killed_at(*state, act_run, k); k++) {
		uint64_t version = check_turns(*state, false);

		assert_true(k < STOPS_MAX && version >= last); /* later kills, later turns */
		last = version;
		seen[version]++;
		prepare_running(*state);
	}
	/* header, four blocks, table, both syncs, rename, sync; then two blocks, table, syncs */
	assert_in_range(seen[OLD], 2 * 10, STOPS_MAX);
	assert_in_range(seen[NEW], 2 * 4, STOPS_MAX);
	assert_in_range(seen[NEW + 1], 2 * 4, STOPS_MAX);
	assert_in_range(seen[NEW + 2], 2, STOPS_MAX);
	print_message("killed at %u stops: the old file %u times, turns 0 to 2 %u, %u and %u "
		      "times\n",
		      k - 1, seen[OLD], seen[NEW], seen[NEW + 1], seen[NEW + 2]);
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
		return call == SYS_openat || call == SYS_write || call == SYS_pwrite64 ||
		       call == SYS_fallocate || call == SYS_fsync || call == SYS_fdatasync ||
		       call == SYS_close || call == SYS_renameat || call == SYS_renameat2 ||
		       call == SYS_rename || call == SYS_unlinkat || call == SYS_getdents64 ||
		       call == SYS_pread64 || call == SYS_fstat || call == SYS_newfstatat ||
		       call == SYS_fchmod;
	case HARM_EINTR:
		return call == SYS_write || call == SYS_pwrite64 || call == SYS_fallocate ||
		       call == SYS_fsync || call == SYS_fdatasync || call == SYS_pread64;
	case HARM_SHORT:
		return call == SYS_write || call == SYS_pwrite64 || call == SYS_pread64;
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
		/* the first stop may be the end of the call that stopped it: then rax is no
		 * -ENOSYS */
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

	/* header, ten blocks, folder and whose it is, file and its mode, its old name, close, both
	   syncs, rename */
	assert_int_equal(failures, 20);
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

/* Every call of a running checkpoint made to fail: the other turns go on, from a new file. */
static void a_turn_that_fails_leaves_the_one_before_and_the_next_is_tried(void **state)
{
	unsigned k, failures = 0;
	int end;

	prepare_running(*state);
	for (k = 1; harmed_at(*state, act_run, HARM_EIO, k, &end); k++) {
		uint64_t version = check_turns(*state, true);

		check(k < STOPS_MAX);
		failures += end != WROTE;
		/* only a failure of the last turn leaves the one before */
		check(version == NEW + 2 || (version == NEW + 1 && end != WROTE));
		prepare_running(*state);
	}
	/* folder and whose it is, old name, file and its mode, room, header, four blocks, table,
	   both syncs, rename, sync; and twice two blocks, table, both syncs */
	assert_int_equal(failures, 16 + 2 * 5);
	print_message("%u calls made to fail, %u of them the turns' own\n", k - 1, failures);
	for (k = 1; harmed_at(*state, act_run, HARM_EINTR, k, &end); k++) {
		assert_int_equal(end, WROTE);
		assert_int_equal(check_turns(*state, false), NEW + 2);
		prepare_running(*state);
	}
	assert_int_equal(k - 1, 10 + 2 * 5);
	for (k = 1; harmed_at(*state, act_run, HARM_SHORT, k, &end); k++) {
		assert_int_equal(end, WROTE);
		assert_int_equal(check_turns(*state, false), NEW + 2);
		prepare_running(*state);
	}
	assert_int_equal(k - 1, 6 + 2 * 3);
}

static int act_read(const char *dir)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	if (newest(dir, &meta) != 0) /* it checks that nothing was written, or the content whole */
		return DID_NOT_READ;
	return meta.version == NEW ? READ_NEW : READ_OLD;
}

static int act_restore(const char *dir)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	uint8_t *content = malloc(ol_layout_content_bytes(&meta.geo));
	int rc;

	check(content != NULL);
	rc = restored(dir, &blocks, &meta, content);
	free(content);
	ol_ckpt_blocks_fini(&blocks);
	if (rc != 0)
		return DID_NOT_READ;
	return meta.version == NEW + 2 ? READ_NEW : READ_OLD;
}

/* How often harming a call led to each end of reading. */
static void harm_each_of_read(const char *dir, act_fn act, enum harm harm, unsigned ret_ends[3])
{
	int end;

	for (unsigned i = 0; i < 3; i++)
		ret_ends[i] = 0;
	for (unsigned k = 1; harmed_at(dir, act, harm, k, &end); k++) {
		check(k < STOPS_MAX && end >= READ_NEW);
		ret_ends[end - READ_NEW]++;
	}
}

/* What cannot be read may be whole: an older one is not taken for it. */
static void a_call_that_fails_is_no_reason_to_go_back(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, NEW);
	unsigned ends[3];

	prepare(*state);
	put(*state, &meta, 100);
	harm_each_of_read(*state, act_read, HARM_EIO, ends);
	assert_int_equal(ends[READ_OLD - READ_NEW], 0);
	/* the folder; opened, examined, header, table, ten blocks */
	assert_in_range(ends[DID_NOT_READ - READ_NEW], 3 + 14, STOPS_MAX);
	assert_in_range(ends[0], 3, STOPS_MAX); /* what is closed */
	harm_each_of_read(*state, act_read, HARM_EINTR, ends);
	assert_int_equal(ends[0], 12);
	assert_int_equal(ends[1] + ends[2], 0);
	harm_each_of_read(*state, act_read, HARM_SHORT, ends);
	assert_int_equal(ends[0], 12);
	assert_int_equal(ends[1] + ends[2], 0);
}

/* Nor of a running one to an older turn, or an older copy of a block. */
static void a_call_that_fails_is_no_reason_to_go_back_a_turn(void **state)
{
	unsigned ends[3];

	prepare_running(*state);
	assert_int_equal(act_run(*state), WROTE);
	harm_each_of_read(*state, act_restore, HARM_EIO, ends);
	assert_int_equal(ends[READ_OLD - READ_NEW], 0);
	/* the folder; opened, examined, header, both copies of the table and of four blocks */
	assert_in_range(ends[DID_NOT_READ - READ_NEW], 3 + 13, STOPS_MAX);
	harm_each_of_read(*state, act_restore, HARM_SHORT, ends);
	assert_int_equal(ends[0], 11);
	assert_int_equal(ends[1] + ends[2], 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(killed_at_any_system_call_it_leaves_the_old_or_the_new_one),
		ckpt_test(killed_at_any_system_call_a_running_checkpoint_is_at_a_turn),
#if defined(__x86_64__) /* registers are harmed */
		ckpt_test(a_turn_that_fails_leaves_the_one_before_and_the_next_is_tried),
		ckpt_test(any_call_that_fails_is_told_and_leaves_no_temporary_file),
		ckpt_test(calls_that_are_interrupted_or_cut_short_are_taken_up_again),
		ckpt_test(a_call_that_fails_is_no_reason_to_go_back),
		ckpt_test(a_call_that_fails_is_no_reason_to_go_back_a_turn),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
