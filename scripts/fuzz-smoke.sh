#!/bin/sh
# Runs every Fuzz function of the module for the given time (default 10s each).
set -eu
go=${GO:-go}
time=${1:-10s}

# `go test -list` prints a package's functions and then "ok <package> <time>".
list=$("$go" test -list '^Fuzz' ./...)
targets=$(printf '%s\n' "$list" | awk '
	/^Fuzz/    { names[++n] = $1 }
	$1 == "ok" { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }')
if [ -z "$targets" ]; then
	echo "no Fuzz functions" >&2
	exit 1
fi

printf '%s\n' "$targets" | while read -r pkg name; do
	echo "== $pkg $name"
	# Ten runs are enough to shorten an interesting input: the default, a
	# minute, is longer than the whole time of a target.
	"$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "$pkg" </dev/null
done
