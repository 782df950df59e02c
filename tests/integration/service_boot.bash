#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# service_boot.bash FOLDER STAGE -- becomes a systemd of its own, of this machine's files and what is staged, as process 1 of
# new namespaces: service.sh starts it by unshare
#
# What it writes lies in memory and ends with it. Devices are those that every program has, and those of RDMA if the network
# is this machine's. Prints "no: WHY" where the machine
# does not allow this.
set -eu

folder=$1 stage=$2
root=$folder/root
no() {
	echo "no: $*"
	exit 77
}

mount --make-rprivate / || no "no mounts of its own"
mount -t tmpfs -o mode=755 tmpfs "$folder" || no "no file system in memory"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$root" || no "no overlay of /"
cp -a "$stage/." "$root/"
mount -t proc proc "$root/proc" && mount --bind "$root/proc/sys" "$root/proc/sys" &&
	mount -o remount,bind,ro "$root/proc/sys" || no "no /proc of its own"
mount -t sysfs -o ro sysfs "$root/sys" || no "no /sys of its own"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" || no "no control groups of version 2"
mkdir "$root/sys/fs/cgroup/probe" 2>/dev/null && rmdir "$root/sys/fs/cgroup/probe" || no "control groups cannot be made"
for place in run tmp var/tmp var/lib var/log etc/systemd/system; do
	mkdir -p "$root/$place"
	mount -t tmpfs -o mode=755 tmpfs "$root/$place"
done
chmod 1777 "$root/tmp" "$root/var/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device" || no "/dev/$device cannot be bound"
done
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/infiniband"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" && ln -s pts/ptmx "$root/dev/ptmx" || no "no terminals"
if [ /proc/1/ns/net -ef /proc/self/ns/net ]; then
	mount --bind /dev/infiniband "$root/dev/infiniband" || no "no RDMA devices"
else
	mknod -m 666 "$root/dev/infiniband/uverbs0" c 231 192 || no "no device can be made"
fi
mkdir -p "$root/var/log/journal"
cat >"$root/etc/systemd/system/bare.target" <<'END'
[Unit]
Requires=systemd-journald.socket systemd-journald.service
After=systemd-journald.service
DefaultDependencies=no
END
ln -s /dev/null "$root/etc/systemd/system/systemd-udevd.service"
for unit in systemd-udevd-kernel.socket systemd-udevd-control.socket network-online.target sysinit.target basic.target; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# services want these two, and need nothing of what they bring here
for unit in sysinit basic; do
	printf '[Unit]\nDefaultDependencies=no\n' >"$folder/$unit.target"
	rm "$root/etc/systemd/system/$unit.target"
	cp "$folder/$unit.target" "$root/etc/systemd/system/"
done
echo yes
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd --system --unit=bare.target \
	--log-target=journal --show-status=0
