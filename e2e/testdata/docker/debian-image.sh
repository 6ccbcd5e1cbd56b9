#!/usr/bin/env bash
# debian-image.sh PROGRAM... prints the root folder of a small Debian with these
# programs as a tar archive for `docker import`: files that packages of this machine
# installed, and the libraries that the loader says they need. With python3 it has
# Debian's Python, and PyTorch where that is installed.
set -euo pipefail

programs=("${@/#//usr/bin/}")
folders=()
if [[ " $* " = *" python3 "* ]]; then
	modules=/usr/lib/python3/dist-packages
	for folder in /usr/lib/python3.* $modules/{torch,numpy,typing_extensions.py}; do
		[ ! -e "$folder" ] || folders+=("$folder")
	done
fi
objects=("${programs[@]}")
if [ ${#folders[@]} -gt 0 ]; then
	mapfile -t -O ${#objects[@]} objects < <(find "${folders[@]}" -name '*.so*' -not -name 'libcaffe2*')
fi

list=$(mktemp)
trap 'rm -f "$list"' EXIT
# ldd fails for what is no ELF file. A path counts with all that it links to; folders
# such as /lib are links, too.
libraries=$(ldd "${objects[@]}" /usr/bin/true 2>/dev/null | grep -oP '(=> |\t)\K/[^ ]+' | sort -u || true)
for path in $libraries "${objects[@]}"; do
	while path=$(readlink -f "${path%/*}")/${path##*/}; echo "$path"; [ -L "$path" ]; do
		path=$(cd "${path%/*}" && realpath -s "$(readlink "$path")")
	done
done | grep -v "^/usr/lib/python3" | sort -u >"$list"

cd /
# tar ends with 1 where a file changed while it read it: another test's Python writes its
# caches.
tar -cf - --exclude='*/torch/bin/*[Tt]est*' --exclude='*/torch/include' --exclude='*/torch/test' \
	--exclude='*/tests' --exclude='config-3.*' --exclude='libcaffe2*' \
	--no-recursion bin lib lib64 tmp -T <(sed 's|^/||' "$list") --recursion etc/passwd etc/group "${folders[@]#/}" || [ $? = 1 ]
