#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# soak.sh -- one job a mode, whose servers and workers are killed again and again, has each gradient once
#
# not under asan, tsan: long.list has a thousand kills, of processes as they are released
. "$(dirname "$0")/train_lib.bash"

python3 "$(dirname "$0")/soak.py" "$OUTLAST_BIN" --kills "${OL_KILLS:-4}" || fail "$tmp: see above"
verdict
