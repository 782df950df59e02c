# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# vm.sh -- the virtual machines of one run: start, collect, judge (sourced by run)
#
# The variables it does not set are run's.
# shellcheck disable=SC2154,SC2054  # commas are qemu's

worst=0

# commas_double TEXT -- as an option's value, the way qemu wants it
commas_double() {
	echo "${1//,/,,}"
}

# vm_serve HOST -- hand on what host's requests for ctl ask; see guest_ask in ctl
vm_serve() {
	local verb host id answer

	while read -r verb host id; do
		[[ $id =~ ^[0-9.]+$ ]] || continue
		answer=$("$here/ctl" "$out" "$verb" "$host" 2>&1 >/dev/null | head -n 1)
		answer=${answer#lab: }
		echo "${answer:-ok}" >"$out/.lab/new.$id"
		mv "$out/.lab/new.$id" "$out/.lab/done.$id"
	done
}

# vm_pipes HOST -- three pipes from the guest, each with its reader: output, errors, requests
vm_pipes() {
	local host=$1 prefix=cat

	mkfifo "$work/$host.1" "$work/$host.2" "$work/$host.3"
	[ "$hosts" = 1 ] || prefix="sed -u s/^/host$host:\ /"
	eval "$prefix" <"$work/$host.1" &
	readers+=($!)
	eval "$prefix" <"$work/$host.2" >&2 &
	readers+=($!)
	vm_serve <"$work/$host.3" &
	readers+=($!)
}

# vm_start HOST -- in a process group of its own, and killed by the kernel when this shell dies
vm_start() {
	local host=$1 port args within=()

	vm_pipes "$host"
	args=(
		-M q35 "${accel[@]}" -smp "$cpus" -m "$mem" -nodefaults -no-user-config -display none -no-reboot
		-kernel "$image/kernel" -initrd "$image/initrd"
		-append "console=ttyS0 quiet panic=-1 mitigations=off nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable tsc_early_khz=$tsc_khz cryptomgr.notests ol_host=$host"
		-chardev "file,id=console,path=$(commas_double "$out")/host$host.console" -serial chardev:console
		-fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
		-device virtio-9p-pci,fsdev=root,mount_tag=root
		-fsdev "local,id=out,path=$(commas_double "$out"),security_model=none"
		-device virtio-9p-pci,fsdev=out,mount_tag=out
		-device virtio-serial-pci
	)
	for port in 1 2 3; do
		args+=(-chardev "file,id=p$port,path=$(commas_double "$work")/$host.$port")
		args+=(-device "virtserialport,chardev=p$port,nr=$port")
	done
	if [ -n "$ns" ]; then
		within=(ip netns exec "$ns")
		args+=(-netdev "tap,id=net,ifname=tap$host,script=no,downscript=no")
		args+=(-device "virtio-net-pci,netdev=net,romfile=,host_mtu=4200,mac=52:54:00:4f:4c:$(printf %02x "$host")")
	fi
	setsid "${within[@]}" setpriv --pdeathsig KILL qemu-system-x86_64 "${args[@]}" \
		</dev/null 2>"$work/$host.qemu" >&2 &
	vm_host[$!]=$host
	echo "$!" >"$out/.lab/host$host.pid"
}

vms_kill() {
	local pid

	for pid in "${!vm_host[@]}"; do
		kill -9 -- "-$pid" "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	vm_host=()
}

# vm_judge HOST STATUS -- what became of a VM whose process has ended with STATUS
vm_judge() {
	local host=$1 lab=$out/.lab status why

	rm -f "$lab/host$host.pid"
	if read -r status 2>/dev/null <"$lab/status.$host"; then
		[ "$status" -le "$worst" ] || worst=$status
		[ "$hosts" = 1 ] || [ "$status" = 0 ] || say "host $host: status $status"
		return
	fi
	if [ -e "$lab/off.$host" ]; then
		say "host $host was powered off by request; its status does not count"
		return
	fi
	why=$(grep -ahoE 'Kernel panic.*|lab init: .*' "$out/host$host.console" 2>/dev/null | head -n 1)
	why=${why:-$(head -n 1 "$work/$host.qemu")}
	say "host $host ended without a status: ${why:-qemu exited with $2}"
	[ -n "$out_is_ours" ] || say "its console is in $out/host$host.console"
	worst=125
	vms_kill
}

# Sets worst. A machine that ends without a status, and the deadline, end all the others.
vms_wait() {
	local pid rc

	setpriv --pdeathsig KILL sleep "$deadline" &
	timer=$!
	while [ "${#vm_host[@]}" -gt 0 ]; do
		pid=
		# bash would tell of a machine that was killed; vm_judge tells it better.
		wait -n -p pid "${!vm_host[@]}" "$timer" 2>/dev/null
		rc=$?
		if [ "$pid" = "$timer" ]; then
			timer=
			say "the deadline of $deadline s passed; still running: host ${vm_host[*]}"
			worst=124
			vms_kill
		elif [ -n "$pid" ]; then
			host=${vm_host[$pid]}
			unset "vm_host[$pid]"
			vm_judge "$host" "$rc"
		fi
	done
	readers_end
}

# A reader has the end of its pipe once the writer is gone; one whose writer never came is let go by ours.
readers_end() {
	local pid fifo

	for fifo in "$work"/*.[123]; do
		: <>"$fifo"
	done
	for pid in "${readers[@]}"; do
		wait "$pid"
	done
	readers=()
}

# A kernel that complains is a failure even of a command that succeeded.
kernel_logs_check() {
	local log bad=0

	for log in "$out"/host*.dmesg "$out"/host*.console; do
		[ -e "$log" ] || continue
		grep -aE '\b(BUG|WARNING|Oops)\b|general protection' "$log" >"$work/bad" || continue
		bad=1
		sed "s/^/lab: kernel log, $(basename "$log"): /" "$work/bad" | head -n 20 >&2
	done
	[ "$bad" = 0 ] || [ "$kernel_warnings" = allow ] || [ "$worst" != 0 ] || worst=70
}
