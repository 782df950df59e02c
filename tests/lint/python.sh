#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# python.sh ROOT -- every Python file compiles without a warning; nothing is run, and nothing is written
set -eu
cd "$1"
. tests/lint/files
python=/usr/bin/python3
[ -x "$python" ] || python=python3
list_files '*.py' | "$python" -W error -c '
import sys

bad = False
for name in sys.stdin.read().splitlines():
    try:
        with open(name, "rb") as file:
            compile(file.read(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        print(f"{name}: {error}")
        bad = True
sys.exit(bad)
'
