#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# clang.sh ROOT LIBRARY -- clang has no warning either: each file as the build of LIBRARY compiles it, tests among them
set -u -o pipefail
root=$(cd "$1" && pwd) || exit 2
build=$(cd "$(dirname "$2")" && pwd) || exit 2
command -v clang >/dev/null || { echo 'skip: clang is missing'; exit 77; }
[ -f "$build/compile_commands.json" ] || { echo "skip: $build has no compile_commands.json"; exit 77; }

# one FOLDER COMMAND -- without code: clang's warnings come before that
one() {
	(cd "$1" && eval "clang ${2#* } -fsyntax-only -Werror -Wno-unknown-warning-option") 2>&1 || exit 1
}
export -f one

python3 - "$root" "$build" <<'END' |
import json
import os
import re
import sys

root, build = sys.argv[1:]
seen = set()
for unit in json.load(open(build + "/compile_commands.json")):
    path = os.path.relpath(os.path.join(unit["directory"], unit["file"]), root)
    if path in seen:
        continue
    seen.add(path)
    command = re.sub(r" -M[DTF]\b( \S+\.o(\.d)?)?", "", re.sub(r" -o \S+", "", unit["command"]))
    sys.stdout.write("\0".join((unit["directory"], command)) + "\0")
assert seen, "no file to compile"
END
	xargs -0 -r -n 2 -P "$(nproc)" bash -c 'one "$@"' one || exit 1
