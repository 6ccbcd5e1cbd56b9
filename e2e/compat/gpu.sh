#!/usr/bin/env bash
# Runs every program of programs/ under torchrun and under gorun, as its header says,
# and compares what both print, their reports and exit codes: one line "ok", "DIFFERS"
# or "skip" a case. It ends with 1 if something differs. It takes less than 9 minutes
# and needs no network.
#
#   GORUN=path/to/gorun e2e/compat/gpu.sh [PROGRAM...]
#
# PYTHON (python3) has torch; TORCHRUN (that Python's torch.distributed.run) is its
# torchrun. Where the node has GPUs, the programs that can use them run on all of them,
# too. JOBS (8) cases run at the same time. COMPAT_TEST, a binary of `go test -c
# ./e2e/compat`, adds the cases of that package; the Python then needs a torchrun beside
# it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export GORUN=$(realpath "${GORUN:-$here/../../bin/gorun}")
export PYTHON=$(command -v "${PYTHON:-python3}")
export PYTHON_EXEC=$PYTHON TORCHRUN=${TORCHRUN:-$PYTHON -m torch.distributed.run}
export PYTHONUNBUFFERED=1 GLOO_SOCKET_IFNAME=lo PYTHONDONTWRITEBYTECODE=1
unset OMP_NUM_THREADS CUDA_VISIBLE_DEVICES
export tmp=$(mktemp -d /tmp/gorun-compat.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
# In seconds: one program under one launcher, when the last program starts, and the
# cases of the package. Together they are less than 9 minutes.
readonly case_limit=50 last_start=200 suite_limit=200

# free_port prints a TCP port that no program has.
free_port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# launch NAME LAUNCHER: runs $line with a launcher in torchrun's place; leaves NAME.out,
# NAME.err and NAME.code.
launch() {
  L=$2 PORT=$(free_port) timeout -k 10 $case_limit \
    bash -c 'torchrun() { $L "$@"; }; eval "$line"' >"$1.out" 2>"$1.err" </dev/null
  echo $? >"$1.code"
}

# seen NAME: prints what must be the same under both launchers.
seen() {
  sort "$1.out"
  # The report names the first failure. Since 2.x torchrun also lists the workers that
  # it has ended itself.
  sed -n '/^Root Cause/,$p' "$1.err" | grep -E '^  (rank|exitcode) +: ' | sed 's/ (pid: .*//'
  [ "$(cat "$1.code")" = 0 ] && echo "ends with 0" || echo "ends with an error"
}

# compare PROGRAM N LINE: runs one case under both launchers and prints its verdict.
compare() {
  export N=$2 line=$3
  local dir=$tmp/$BASHPID wants=0 start=$SECONDS
  [ $(($(date +%s) - begin)) -lt $last_start ] || { echo "DIFFERS $1 N=$N: no time is left: $line"; return; }
  mkdir "$dir"
  cd "$here/programs" || return
  launch "$dir/torchrun" "$TORCHRUN"
  launch "$dir/gorun" "$GORUN"
  seen "$dir/torchrun" >"$dir/want"
  seen "$dir/gorun" >"$dir/got"
  grep -q '^# ends: 1' "$1.py" && wants=1
  if [ "$(cat "$dir/torchrun.code")" != $wants ]; then
    printf '%s\n' "DIFFERS $1 N=$N: torchrun itself ends with $(cat "$dir/torchrun.code"), gorun with $(cat "$dir/gorun.code"): $line
$(grep -E '(Error|Exception)\b' "$dir/torchrun.err" | head -n 8 | cut -c1-300 | sed 's/^/  | /')"
  elif cmp -s "$dir/want" "$dir/got"; then
    echo "ok      $1 N=$N ($((SECONDS - start)) s): $line"
  else
    printf '%s\n' "DIFFERS $1 N=$N: $line
$(diff -U1 --label torchrun --label gorun "$dir/want" "$dir/got" | cut -c1-300 | sed 's/^/  | /')
$(tail -n 15 "$dir/gorun.err" | cut -c1-300 | sed 's/^/  gorun: /')"
  fi
}

# list prints the cases, one a line: program, number of ranks and command line.
list() {
  local gpus program line sizes
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
  for program in "${@:-}"; do
    if ! timeout 30 "$PYTHON" -c "$(sed -n 's/^# needs: //p' "$program.py")" 2>"$tmp/needs"; then
      echo "skip    $program: $(tail -n 1 "$tmp/needs")" >>"$tmp/verdicts"
      continue
    fi
    sizes=2
    grep -q '^# devices: any' "$program.py" && [ "$gpus" != 0 ] && [ "$gpus" != 2 ] && sizes="2 $gpus"
    for n in $sizes; do
      sed -n 's/^# \$ //p' "$program.py" | while read -r line; do
        printf '%s\0%s\0%s\0' "$program" "$n" "$line"
      done
    done
  done
}

cd "$here/programs" || exit 2
"$GORUN" --version || exit 2
"$PYTHON" -c 'import torch; print("torch", torch.__version__, "with", torch.cuda.device_count(), "GPUs")' || exit 2
: >"$tmp/verdicts"
begin=$(date +%s)
export here begin case_limit last_start
export -f compare launch seen free_port
[ $# -gt 0 ] || set -- $(grep -l '^# \$ ' -- *.py | sed 's/\.py$//')
list "$@" >"$tmp/cases"
xargs -0 -n 3 -P "${JOBS:-8}" bash -c 'compare "$@"' compare <"$tmp/cases" | tee -a "$tmp/verdicts"
grep '^skip' "$tmp/verdicts"
if [ -n "${COMPAT_TEST:-}" ]; then
  echo "=== the cases of e2e/compat [$SECONDS s]"
  (cd "$here" && E2E_GORUN=$GORUN COMPAT_TORCHRUN=${PYTHON%/*}/torchrun timeout -k 10 $suite_limit \
    "$COMPAT_TEST" -test.run TestLive -test.parallel 12) >"$tmp/suite" 2>&1
  # A line of a difference is "case | what | torchrun | gorun".
  sed -n "/ | .* | .* | /s/^/DIFFERS /p" "$tmp/suite" | tee -a "$tmp/verdicts"
  grep -E '^[0-9]+ cases, ' "$tmp/suite" ||
    { echo "DIFFERS the cases of e2e/compat did not end:"; tail -n 30 "$tmp/suite"; } | tee -a "$tmp/verdicts"
fi
ok=$(grep -c '^ok ' "$tmp/verdicts") differs=$(grep -c '^DIFFERS' "$tmp/verdicts")
echo "$ok ok, $differs DIFFERS, $(grep -c '^skip' "$tmp/verdicts") skipped [$SECONDS s]"
[ "$differs" = 0 ] && [ "$ok" != 0 ]
