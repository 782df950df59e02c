#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# selftest.sh ROOT -- each lint finds what it is there to find, and passes a clean tree
set -eu
root=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bad=0
head='/* SPDX-License-Identifier: BSD-3-Clause */'

fresh() {
	rm -rf "${tree:?}"/*
	mkdir -p "$tree/tests" "$tree/src/base" "$tree/src/include" "$tree/rdma/shm" "$tree/src/store"
	cp -r "$root/tests/lint" "$tree/tests/"
	cp "$root/.clang-format" "$tree/"
	printf '%s\n/* good.h -- nothing */\n#include <stddef.h>\n\nsize_t good(void);\n' "$head" \
		>"$tree/src/base/good.h"
}

# put FILE LINE... -- a file with a correct head and these lines
put() {
	file=$1
	shift
	printf '%s\n/* %s -- a trap */\n' "$head" "${file##*/}" >"$tree/$file"
	printf '%s\n' "$@" >>"$tree/$file"
}

# expect STATUS LINT [TEXT] -- with a failure, a line that holds TEXT
expect() {
	rc=0
	said=$(bash "$tree/tests/lint/$2.sh" "$tree" "$tree/liboutlast.so" 2>&1) || rc=$?
	[ $rc -eq 77 ] && return
	case $said in
	*"${3-}"*) ;;
	*) rc="$rc without \"$3\"" ;;
	esac
	if [ "$rc" != "$1" ]; then
		echo "$2 on $4: exit $rc, not $1: $said"
		bad=1
	fi
}

fresh
for lint in layers headers forbidden length format spdx scripts python; do
	expect 0 $lint '' 'a clean tree'
done

for path in wire/wire.h rdma/transport.h outlast.h log.h ../base/log.h; do
	fresh
	put rdma/slab.c "#include \"$path\""
	put src/base/log.c "#include \"$path\""
	case $path in
	rdma/*) expect 1 layers 'src/base/log.c:3' "$path" ;;
	outlast.h) expect 1 layers 'rdma/slab.c:3' "$path" ;;
	*) expect 1 layers 'src/base/log.c:3' "$path" ;;
	esac
done
fresh
put src/store/a.c '#include "rdma/transport.h"'
expect 1 layers 'sees of rdma only rdma/order.h' 'a header that is no interface'
fresh
put src/store/a.c '#  include <infiniband/verbs.h>'
expect 1 layers 'only rdma speaks' 'verbs outside rdma'
fresh
mkdir -p "$tree/src/attic"
put src/attic/a.c 'int a;'
expect 1 layers 'not in the table' 'an unknown room'

fresh
put src/base/bad.h 'size_t bad(void);'
expect 1 headers 'src/base/bad.h' 'a header that needs another'
fresh
put src/include/outlast.h 'int class(void);' 'int *new(int template);'
expect 1 headers 'src/include/outlast.h' 'a public header that C++ refuses'

for word in 'strcpy(a, b)' 'x = atoi (s)' 'usleep(5)' 'volatile int x' 'y(); // note' 'signal(2, f)'; do
	fresh
	put src/base/a.c "$word;"
	expect 1 forbidden 'src/base/a.c:3' "$word"
done
fresh
put src/base/a.c '/* strcpy(a, b) and' ' * sleep(1) */ const char *s = "atoi(\"1\") // \\";' \
	'void f(void) { ol_signal(1); x.signal(2); __asm__ volatile("pause"); char c = '"'\"'"'; }'
expect 0 forbidden '' 'comments, strings and look-alikes'

fresh
put src/base/a.c 'int f(void)' '{' "$(seq -f '	/* %g */' 68)" '}'
expect 0 length '' 'a function of 70 lines'
put src/base/a.c 'int f(void)' '{' "$(seq -f '	/* %g */' 69)" '}'
expect 1 length 'function of 71 lines: int f(void)' 'a function of 71 lines'
fresh
put src/base/a.c "$(seq -f '/* %g */' 799)"
expect 1 length 'src/base/a.c: more than 800' 'a file of 801 lines'

fresh
put src/base/a.c 'int  f( void );'
expect 1 format 'src/base/a.c:3' 'blanks'

fresh
echo 'int a;' >"$tree/src/base/a.c"
expect 1 spdx 'src/base/a.c: no SPDX' 'no licence line'
expect 1 spdx 'src/base/a.c: does not begin' 'no purpose'
: >"$tree/src/base/a.c"
expect 1 spdx 'src/base/a.c: is empty' 'an empty file'

fresh
printf '#!/bin/sh\nif true; then\n' >"$tree/tests/run"
chmod +x "$tree/tests/run"
expect 1 scripts 'tests/run' 'a script that does not parse'
printf '#!/bin/sh\ntrue\n' >"$tree/tests/run"
chmod -x "$tree/tests/run"
expect 1 scripts 'not executable' 'a script without its bit'

fresh
printf 'x = 1\nif x:\n' >"$tree/tests/a.py"
expect 1 python 'tests/a.py' 'Python that does not parse'
printf 'x = "\\d"\n' >"$tree/tests/a.py"
expect 1 python 'tests/a.py' 'Python that warns'

# analyze_put LINE... -- a file with these lines, as a build would compile it
analyze_put() {
	put src/base/a.c "$@"
	printf '[{"directory": "%s", "file": "%s/src/base/a.c", "command": "cc -o a.o -c %s/src/base/a.c"}]' "$tree" "$tree" \
		"$tree" \
		>"$tree/compile_commands.json"
}
fresh
: >"$tree/tests/lint/analyze.known"
analyze_put '#include <stdlib.h>' 'int f(void);' 'int f(void)' '{' '	int *a = malloc(4);' '	if (a == NULL)' \
	'		return 1;' '	*a = 2;' '	return *a;' '}'
expect 1 analyze 'src/base/a.c -Wanalyzer-malloc-leak f' 'memory that is lost'
echo 'gcc src/base/a.c -Wanalyzer-malloc-leak f: a trap' >"$tree/tests/lint/analyze.known"
expect 0 analyze '' 'a report that is known'
analyze_put '#include <stdlib.h>' 'int f(int n);' 'int f(int n)' '{' '	int *a = malloc(4);' '	*a = n;' '	n = *a;' \
	'	free(a);' '	return n;' '}'
expect 1 analyze 'src/base/a.c -Wanalyzer-possible-null-dereference f' 'a pointer that may be NULL'
expect 1 analyze 'is not reported any more' 'a known report that is gone'
analyze_put 'int f(unsigned n);' 'int f(unsigned n)' '{' '	return n == n;' '}'
expect 1 clang 'src/base/a.c:6' 'what only clang warns of'
analyze_put 'int f(int n);' 'int f(int n)' '{' '	return n;' '}'
expect 0 clang '' 'what it does not warn of'

# abi_build LINE... -- a library whose public header has these lines
abi_build() {
	put src/include/outlast.h "$@"
	printf '#include "src/include/outlast.h"\nint ol_a(struct ol_s *s) { return s->b; }\n' >"$tree/a.c"
	(cd "$tree" && cc -g -shared -fPIC -o liboutlast.so a.c)
}
fresh
abi_build 'struct ol_s { int a, b; };' 'int ol_a(struct ol_s *s);'
if bash "$tree/tests/lint/abi.sh" "$tree" "$tree/liboutlast.so" --renew >/dev/null; then
	expect 0 abi '' 'the interface that is described'
	abi_build 'struct ol_s { int a, more, b; };' 'int ol_a(struct ol_s *s);'
	expect 1 abi "'int b' offset changed" 'a field in the middle'
	abi_build 'struct ol_s { int a, b, more; };' 'int ol_a(struct ol_s *s);'
	expect 1 abi '--renew' 'a field at the end'
	abi_build 'struct ol_s { int a, b; };' 'int ol_a(struct ol_s *s);' 'int ol_b(void);' 'int ol_b(void) { return 0; }'
	expect 1 abi '--renew' 'a new function'
fi

exit $bad
