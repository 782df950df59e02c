# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# service_lib.bash -- sourced by tests of the units: a systemd of its own, process 1 of new namespaces, with what is installed
#
# Source train_lib.bash before it. OUTLAST_BUILD is the build that is installed.

service_here=$(dirname "${BASH_SOURCE[0]}")
service_init=''
service_group=''
service_spaces=(--mount --pid --cgroup --ipc --uts --net)

service_skip() {
	[ "$failures" = 0 ] || exit 1
	echo "skip: no systemd of its own: $*"
	exit 77
}

# service_needs -- exit 77 and the reason where this machine does not allow it
service_needs() {
	local tool groups

	[ "$(id -u)" = 0 ] || service_skip "this takes root"
	for tool in unshare nsenter setpriv systemctl systemd-sysusers systemd-tmpfiles; do
		command -v $tool >/dev/null || service_skip "$tool is missing"
	done
	[ -x /lib/systemd/systemd ] || service_skip "systemd is missing"
	groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$groups" ] || service_skip "no control groups of version 2"
	service_group=$groups$(sed -n 's/^0:://p' /proc/self/cgroup)/outlast-test-$$
	mkdir "$service_group" 2>/dev/null || { service_group=''; service_skip "control groups cannot be made"; }
	trap service_end EXIT
}

service_groups_gone() {
	find "$service_group" -depth -type d -exec rmdir {} \; 2>/dev/null
	[ ! -d "$service_group" ]
}
# shellcheck disable=SC2317  # called by the trap
service_end() {
	[ -z "$service_init" ] || kill -9 "$service_init" 2>/dev/null
	[ -z "$service_group" ] || until_true service_groups_gone
	cleanup
}

service_said() {
	grep -qE '^(yes|no: )' "$tmp/boot.log" || gone "$1"
}
service_up() {
	# before its root is in place systemctl finds itself in a chroot, does nothing, and that with status 0
	[ "$(inside systemctl is-active bare.target 2>/dev/null)" = active ]
}

# service_start -- what is installed lies in it, as it is once packages are unpacked; RDMA devices are this machine's in a
# test that has taken --net out of service_spaces, else there is one that cannot be opened
service_start() {
	local outer

	service_needs
	mkdir "$tmp/stage" "$tmp/boot"
	DESTDIR=$tmp/stage cmake --install "$OUTLAST_BUILD" --component tools >"$tmp/installed" 2>&1 ||
		fail "installing: $(cat "$tmp/installed")"
	(
		echo $BASHPID >"$service_group/cgroup.procs" || exit 1
		exec unshare "${service_spaces[@]}" --fork --kill-child bash "$service_here/service_boot.bash" "$tmp/boot" "$tmp/stage"
	) >"$tmp/boot.log" 2>&1 </dev/null &
	outer=$!
	background_pids+=("$outer")
	until_true service_said "$outer"
	grep -q '^yes' "$tmp/boot.log" || service_skip "$(tail -n 3 "$tmp/boot.log" | tr '\n' ' ')"
	service_init=$(pgrep -P "$outer")
	until_true service_up || { fail "systemd does not come up: $(cat "$tmp/boot.log")"; verdict; }
	inside systemd-sysusers outlast.conf >"$tmp/said" 2>&1 || fail "sysusers: $(cat "$tmp/said")"
	inside systemd-tmpfiles --create outlast.conf >"$tmp/said" 2>&1 || fail "tmpfiles: $(cat "$tmp/said")"
}

# inside WORD... -- run there
inside() {
	nsenter -t "$service_init" "${service_spaces[@]}" --root --wd=/ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
}

# shows UNIT PROPERTY -- its value
shows() {
	inside systemctl show -P "$2" "$1"
}
# is UNIT PROPERTY PATTERN
is() {
	[[ $(shows "$1" "$2") =~ $3 ]]
}
# becomes UNIT PROPERTY PATTERN -- a look takes a while of a processor: there are not as many as until_true takes
becomes() {
	local end=$((SECONDS + DEADLINE_S))

	until is "$@"; do
		[ "$SECONDS" -lt "$end" ] || {
			fail "$1: $2 is \"$(shows "$1" "$2")\", not like \"$3\"; $(inside journalctl -u "$1" -n 20 --no-pager)"
			return
		}
		read -r -t 0.3 <>"$tmp/never" || :
	done
}
# journal WORD... -- messages with such fields
journal() {
	inside journalctl -o cat --no-pager "$@"
}
# put FILE -- there, of stdin
put() {
	inside tee "$1" >/dev/null
}
