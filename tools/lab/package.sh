# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# package.sh -- packages of the guest's kernel: fetched, checked, not installed (sourced by image and siw)
#
# $cache is the caller's.
# shellcheck disable=SC2154

cannot() {
	echo "lab: $1" >&2
	exit 77
}

# package_fetch FOLDER NAME[=VERSION]... -- leaves the packages, verified, and nothing else in FOLDER
package_fetch() {
	local folder=$1 name tmp want have file

	shift
	tmp=$(mktemp -d "$cache/fetch.XXXXXX")
	for name; do
		echo "lab: fetching $name" >&2
		mkdir "$tmp/one"
		if ! (cd "$tmp/one" && apt-get -q -o APT::Sandbox::User="$(id -un)" download "$name" >../log 2>&1); then
			sed 's/^/lab: /' "$tmp/log" >&2
			rm -rf "$tmp"
			cannot "cannot fetch $name: run apt-get update, or put the .deb into $folder"
		fi
		for file in "$tmp"/one/*.deb; do
			have=$(sha256sum <"$file" | cut -d ' ' -f 1)
			want=$(apt-cache show "$name" | sed -n 's/^SHA256: //p')
			if ! grep -qx "$have" <<<"$want"; then
				rm -rf "$tmp"
				cannot "$name is not what the package index promises (sha256 $have)"
			fi
			mv "$file" "$tmp/"
		done
		rmdir "$tmp/one"
	done
	rm -f "$tmp/log"
	rm -rf "$folder"
	mv "$tmp" "$folder"
}
