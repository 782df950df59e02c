/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * probe.h -- USDT probes of the way of a gradient, for bpftrace, perf and SystemTap (tools/trace)
 *
 * A probe is a nop, and a note in the program that says where it is and where its arguments lie: in registers, or in
 * memory that a register leads to. It costs the nop, and what it takes to have that register. So give values at hand,
 * and none with an effect.
 * Each process has those of its part; the number of a push, or of an entry, says what belongs together.
 *
 *	push_posted	shard, worker, seq, base	a worker is about to post a push's last write
 *	push_known	shard, worker, seq, status	… and knows what became of it
 *	push_landed	shard, worker, seq, base	a server has seen a push that it did not know
 *	push_ordered	shard, worker, seq, version	a head has put it into the entry of this version
 *	push_applied	shard, worker, seq, version, role	it is in the weights of this version, at this server
 *	push_committed	shard, worker, seq, version	the server that acknowledges it is about to
 *	push_dropped	shard, worker, seq, status	it is in none
 *	entry_forwarded	shard, version, successor, bytes	a replica has posted an entry to its successor
 *	entry_landed	shard, version			it is there, and right
 *	entry_applied	shard, version			the entry is in this replica's weights
 *	entry_committed	shard, version			the tail has applied it and tells; a server alone: its step
 *	view_adopted	shard, epoch, role, replicas, received, committed
 *							a replica goes by a view; enum ol_chain_role
 *
 * Built without <sys/sdt.h>, or with OUTLAST_PROBES off, they are nothing. Kernels of Linux stop the process at a
 * probe that somebody looks at: some microseconds each.
 */
#ifndef OL_BASE_PROBE_H
#define OL_BASE_PROBE_H

#ifdef OL_PROBES
#include <sys/sdt.h>

#ifdef __clang__ /* the macros of sys/sdt.h */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define ol_probe2(name, a, b)             DTRACE_PROBE2(outlast, name, a, b)
#define ol_probe3(name, a, b, c)          DTRACE_PROBE3(outlast, name, a, b, c)
#define ol_probe4(name, a, b, c, d)       DTRACE_PROBE4(outlast, name, a, b, c, d)
#define ol_probe5(name, a, b, c, d, e)    DTRACE_PROBE5(outlast, name, a, b, c, d, e)
#define ol_probe6(name, a, b, c, d, e, f) DTRACE_PROBE6(outlast, name, a, b, c, d, e, f)
#else
static inline void ol_probe_none(void)
{
}

#define ol_probe2(name, a, b)             ol_probe_none()
#define ol_probe3(name, a, b, c)          ol_probe_none()
#define ol_probe4(name, a, b, c, d)       ol_probe_none()
#define ol_probe5(name, a, b, c, d, e)    ol_probe_none()
#define ol_probe6(name, a, b, c, d, e, f) ol_probe_none()
#endif

#endif /* OL_BASE_PROBE_H */
