#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# install.sh -- what is installed, staged with DESTDIR and moved to another place, builds and runs programs of others by
# pkg-config and by find_package(), and is found by Python; manual pages and completions know every call and option
#
# not under asan, tsan: a program of others is not linked with a sanitizer's runtime
set -u
umask 022

build=${OUTLAST_BUILD:?is the build that is installed}
root=${OUTLAST_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/outlast-install.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
unset DESTDIR OUTLAST_LIBRARY OUTLAST_BIN PYTHONPATH LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR CMAKE_PREFIX_PATH
failures=0

fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
}

# must WHAT COMMAND... -- it succeeds; what it said is shown if not
must() {
	local what=$1

	shift
	"$@" >"$tmp/said" 2>&1 </dev/null && return
	fail "$what: $* failed"
	tail -n 20 "$tmp/said"
	return 1
}

# there FILE... -- in the installed tree
there() {
	local file

	for file; do
		[ -s "$tree/$file" ] || fail "$file is not installed"
	done
}

# same WHAT IS WANT
same() {
	[ "$2" = "$3" ] || fail "$1 is $2, not $3"
}

# The name of the library's target is not taken for the file of the program.
if grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' "$build/CMakeCache.txt"; then
	ninja -C "$build" -t query outlast 2>/dev/null | grep -q '^    liboutlast\.so$' ||
		fail "the target outlast does not build the library"
fi

must "a whole installation" env DESTDIR="$tmp/stage" cmake --install "$build" --prefix /opt/first || exit 1
mv "$tmp/stage/opt/first" "$tmp/second" || exit 1
[ -z "$(find "$tmp/stage" ! -type d)" ] || fail "files outside the prefix: $(find "$tmp/stage" ! -type d)"
tree=$tmp/second
config=$(find "$tree" -name outlastConfig.cmake)
lib=${config%/cmake/outlast/outlastConfig.cmake}
lib=${lib#"$tree"/}
there include/outlast.h include/outlast_{rule,span,tensor,server,policy}.h "$lib/liboutlast.so.1" \
	bin/outlast share/outlast/drill/__main__.py share/outlast/report share/outlast/metrics/alerts.yml share/outlast/trace/path.bt share/man/man1/outlast.1 \
	share/fish/vendor_completions.d/outlast.fish
if grep -rlF -e "$build" -e "$tmp/stage" -e /opt/first "$tree" --include='*.pc' --include='*.cmake' --include='*.py'; then
	fail "these files name the folder of the build or the first prefix"
fi

# A C program by pkg-config
export PKG_CONFIG_PATH=$tree/$lib/pkgconfig
hello=$root/tools/examples/01-hello/hello.c
same "libdir of outlast.pc" "$(realpath "$(pkg-config --variable=libdir outlast)")" "$(realpath "$tree/$lib")"
same "includedir of outlast.pc" "$(realpath "$(pkg-config --variable=includedir outlast)")" "$(realpath "$tree/include")"
# shellcheck disable=SC2046  # lists of words
must "a program with pkg-config" "${CC:-cc}" -o "$tmp/hello" "$hello" $(pkg-config --cflags --libs outlast) -lm &&
	must "a program with pkg-config" env LD_LIBRARY_PATH="$tree/$lib" "$tmp/hello"

# By find_package(), with all components; a version that is not there is refused
mkdir "$tmp/user"
cat >"$tmp/user/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(outlast \${WANT} REQUIRED COMPONENTS library tools python)
add_executable(hello "$hello")
target_link_libraries(hello outlast::outlast m)
add_custom_command(OUTPUT version.txt COMMAND outlast::program --version >version.txt)
add_custom_target(version ALL DEPENDS version.txt)
file(WRITE "\${CMAKE_BINARY_DIR}/python.txt" "\${outlast_PYTHON_DIR}")
END
version=$(pkg-config --modversion outlast)
user=(cmake -S "$tmp/user" -B "$tmp/user/build" -DCMAKE_PREFIX_PATH="$tree")
must "find_package(outlast)" "${user[@]}" -DWANT="$version" &&
	must "a program with find_package()" cmake --build "$tmp/user/build" &&
	must "a program with find_package()" "$tmp/user/build/hello" &&
	same "outlast::program" "$(cat "$tmp/user/build/version.txt")" "outlast $version"
"${user[@]}" -DWANT=99 >/dev/null 2>&1 && fail "find_package(outlast 99) found $version"

# The Python package loads the library beside it.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if "$python" -c 'import cffi, numpy' 2>/dev/null; then
	loaded=$(PYTHONPATH=$(cat "$tmp/user/build/python.txt") "$python" -B -c \
		'import outlast; print(outlast._library.path)' 2>&1)
	same "the library of the Python package" "$(realpath "$loaded" 2>&1)" "$(realpath "$tree/$lib/liboutlast.so.1")"
else
	echo "no cffi or numpy: the Python package was not loaded"
fi

# Manual pages: of each call and each command, with all that --help lists, and without a warning
pages=$tree/share/man
# shellcheck disable=SC2013  # words are wanted
for call in $(sed -n 's/^\t\t\(ol_[a-z0-9_]*\);$/\1/p' "$root/src/liboutlast.map"); do
	there "share/man/man3/$call.3"
done
# shellcheck disable=SC2013  # likewise
for target in $(sed -n 's/^\.so //p' "$pages"/man3/*); do
	there "share/man/$target"
done
commands=$("$tree/bin/outlast" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
	page=$(sed 's/\\-/-/g' "$pages/man1/outlast-$command.1")
	[ "$command" = bench ] && command='bench push'
	# shellcheck disable=SC2086  # words
	for option in $("$tree/bin/outlast" $command --help | grep -oE '^  --[a-z0-9-]+'); do
		grep -qE -e "^\.B[IR]? $option( |\$)" <<<"$page" ||
			{ [ "$command" = doctor ] && grep -qF -e "$option" <<<"$page"; } || fail "outlast-$command.1 lacks $option"
	done
done
if command -v groff >/dev/null; then
	for page in "$pages"/man?/*; do
		(cd "$pages" && groff -man -Tutf8 -ww -z "$page" 2>&1)
	done >"$tmp/said"
	[ ! -s "$tmp/said" ] || fail "pages have warnings: $(head -n 5 "$tmp/said")"
fi

# Completions: they parse, and know commands, options and values
completion=$tree/share/bash-completion/completions/outlast
must "the completion for bash" bash -n "$completion"
zsh=$(find "$tree/share/zsh" -name _outlast)
[ -s "$zsh" ] || fail "the completion for zsh is not installed"
! command -v zsh >/dev/null || must "the completion for zsh" zsh -n "$zsh"
! command -v fish >/dev/null || must "the completion for fish" fish -n "$tree/share/fish/vendor_completions.d/outlast.fish"
# completed WORD... -- what the last word can become
completed() {
	(
		# shellcheck disable=SC1090  # it was installed just now
		. "$completion"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		_outlast
		echo "${COMPREPLY[*]}"
	)
}
same "outlast " "$(completed outlast '')" "$(xargs <<<"$commands") --help --version"
same "outlast serve --opt" "$(completed outlast serve --opt)" --optimizer
same "outlast serve --transport v" "$(completed outlast serve --transport v)" verbs
same "outlast serve --transport=s" "$(completed outlast serve --transport = s)" shm
same "outlast bench push --mode " "$(completed outlast bench push --mode '')" "lat bw"
same "outlast work --json " "$(completed outlast work --json '')" ''

# Each part alone; all of them are the whole.
for part in runtime development tools python; do
	must "part $part" env DESTDIR="$tmp/$part" cmake --install "$build" --prefix /opt/first --component $part
done
(cd "$tmp/runtime/opt/first" && find . ! -type d) | grep -v "/$lib/liboutlast\.so\.1" &&
	fail "the part runtime has more than the library"
[ -L "$tmp/development/opt/first/$lib/liboutlast.so" ] || fail "the part development has no liboutlast.so"
parts=$(cd "$tmp" && for part in runtime development tools python; do
	(cd "$part/opt/first" && find . ! -type d)
done | LC_ALL=C sort)
same "the sum of all parts" "$parts" "$(cd "$tree" && find . ! -type d ! -path '*/__pycache__/*' | LC_ALL=C sort)"

# An absolute folder: outlast.pc is right, and another prefix is refused.
must "a configuration with an absolute folder" cmake -S "$root" -B "$tmp/absolute" -G Ninja -DOUTLAST_TOOLS=OFF \
	-DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/opt/third -DCMAKE_INSTALL_LIBDIR=/srv/lib64
export PKG_CONFIG_PATH=$tmp/third/srv/lib64/pkgconfig
mkdir -p "$PKG_CONFIG_PATH"
cp "$tmp/absolute/outlast.pc" "$PKG_CONFIG_PATH/"
same "an absolute libdir" "$(realpath -m "$(pkg-config --variable=libdir outlast)")" "$tmp/third/srv/lib64"
same "includedir beside it" "$(realpath -m "$(pkg-config --variable=includedir outlast)")" "$tmp/third/opt/third/include"
DESTDIR="$tmp/refused" cmake --install "$tmp/absolute" --prefix /usr --component python >"$tmp/said" 2>&1 &&
	fail "another prefix was taken, though CMAKE_INSTALL_LIBDIR is absolute"
grep -q 'CMAKE_INSTALL_LIBDIR: absolute' "$tmp/said" || fail "the refusal of another prefix says: $(cat "$tmp/said")"

[ $failures -eq 0 ]
