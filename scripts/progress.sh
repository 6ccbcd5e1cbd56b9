#!/usr/bin/env bash
# progress.sh LABEL PATTERN COMMAND [ARG...] runs COMMAND and shows that it goes on.
# Output lines that match the extended regular expression PATTERN count as steps:
# a terminal gets one line that is rewritten, anything else a line every 10 s.
# All other lines are printed as they are. The exit code is COMMAND's.
set -uo pipefail
label=$1 pattern=$2
shift 2

steps=0 last='' shown=$SECONDS begin=$SECONDS
terminal=
[ -t 2 ] && terminal=1

# show prints the state: LABEL, seconds, steps, and the last step.
show() {
	local text="$label: $((SECONDS - begin)) s, $steps steps${last:+, $last}"
	if [ -n "$terminal" ]; then
		local width
		width=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2)
		printf '\r\033[K%s' "${text:0:$((${width:-80} - 1))}" >&2
	elif ((SECONDS - shown >= 10)); then
		shown=$SECONDS
		printf '%s\n' "$text" >&2
	fi
}

"$@" 2>&1 </dev/null | while :; do
	if IFS= read -r -t 2 line; then
		if [[ $line =~ $pattern ]]; then
			steps=$((steps + 1)) last=$line
		else
			[ -z "$terminal" ] || printf '\r\033[K' >&2
			printf '%s\n' "$line" >&2
		fi
	elif (($? <= 128)); then # the end of the output; above 128 the 2 s are over
		[ -z "$terminal" ] || printf '\r\033[K' >&2
		break
	fi
	show
done
exit "${PIPESTATUS[0]}"
