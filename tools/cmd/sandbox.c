/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sandbox.c -- seccomp by libseccomp, landlock by its three system calls
 *
 * Calls are refused by name, and all others pass: libraries change what they call from version to version,
 * and a server that stops for a harmless call loses more than it guards. What is on the list serves to
 * start programs, to reach other processes and the kernel's own means, and to leave the folder tree.
 */
#include "cmd/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of landlock's second version, newer than the headers may be: to link or rename from one folder to
 * another. The first one refuses that everywhere, and a view is put in its place so: without it there is no
 * landlock here */
#define REFER     (UINT64_C(1) << 13)
#define REFER_ABI 2

/* Of the third: to cut a file off. Where the kernel does not have it, a file outside can be emptied by who
 * may write it */
#define TRUNCATE     (UINT64_C(1) << 14)
#define TRUNCATE_ABI 3

/* Every right to change something, of landlock's first version; and to execute */
static const uint64_t changes =
	LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
	LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
	LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
	LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

/* In a folder of the server's: files, folders and sockets, nothing to execute, no devices */
static const uint64_t allowed = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
				LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
				LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK;

/* Written to though they are no folder of anybody's: devices that libraries open late */
static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/infiniband", NULL };

static const int refused[] = {
	/* other programs and processes */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(userfaultfd),
	/* calls by another way, which no filter sees */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	/* the kernel, and its clock */
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(acct),
	SCMP_SYS(syslog),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	SCMP_SYS(quotactl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(personality),
	/* another view of files, users and names */
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsmount),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(capset),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
	SCMP_SYS(chown),
	SCMP_SYS(fchown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchownat),
};

static int folder_allow(int ruleset, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = rights,
		.parent_fd = open(path, O_PATH | O_CLOEXEC),
	};
	int rc;

	if (rule.parent_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	rc = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	rc = rc == 0 ? 0 : -errno;
	close(rule.parent_fd);
	return rc;
}

/* The version that holds; 0: the kernel does not have it */
static int files_bound(const char *const folders[])
{
	const long abi =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	const uint64_t cuts = abi >= TRUNCATE_ABI ? TRUNCATE : 0;
	const struct landlock_ruleset_attr attr = { .handled_access_fs = changes | REFER | cuts };
	int ruleset, rc = 0;

	if (abi < REFER_ABI)
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	for (unsigned i = 0; rc == 0 && i < OL_SANDBOX_FOLDERS && folders[i] != NULL; i++)
		rc = folder_allow(ruleset, folders[i], allowed | REFER | cuts);
	/* of a file a rule may only have the rights of files */
	for (unsigned i = 0; rc == 0 && devices[i] != NULL; i++)
		rc = folder_allow(ruleset, devices[i], LANDLOCK_ACCESS_FS_WRITE_FILE | cuts);
	if (rc == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
		rc = -errno;
	close(ruleset);
	return rc == 0 ? (int)abi : rc;
}

static int calls_refuse(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (filter == NULL)
		return -ENOMEM;
	rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc == 0) /* a call of another architecture would end its thread alone */
		rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* a call that this architecture, or libseccomp, does not know is none that can be made */
	for (size_t i = 0; rc == 0 && i < sizeof(refused) / sizeof(refused[0]); i++)
		rc = refused[i] < 0
			     ? 0
			     : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

int ol_sandbox_enter(const char *const folders[OL_SANDBOX_FOLDERS], struct ol_sandbox *ret_sandbox)
{
	int rc;

	*ret_sandbox = (struct ol_sandbox){ .calls = false };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -errno;
	rc = files_bound(folders);
	if (rc < 0)
		return rc;
	ret_sandbox->landlock = rc;
	rc = calls_refuse();
	ret_sandbox->calls = rc == 0;
	return rc;
}
