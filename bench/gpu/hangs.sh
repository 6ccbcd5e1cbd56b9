#!/usr/bin/env bash
# Makes jobs of PyTorch hang on a machine with GPUs, and judges what gorun says of each:
# the rank, and the line of the program. Then it measures what the flight recorder costs.
#
#   GORUN=path/to/gorun bench/gpu/hangs.sh [SHAPE:FAULT...]
#
# PYTHON (python3) has torch with CUDA. One GPU is enough: the 4 ranks of a job share it.
# KEEP=folder keeps the dumps and the answers. It takes about 6 minutes.
set -u
here=$(cd "$(dirname "$0")" && pwd)/hangs
GORUN=$(realpath "${GORUN:-$here/../../../bin/gorun}")
PYTHON=$(command -v "${PYTHON:-python3}")
tmp=$(mktemp -d /tmp/gorun-hangs.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$tmp"' EXIT
export PYTHON_EXEC=$PYTHON PYTHONUNBUFFERED=1 FAULT_RANK=2
cases=("$@")
[ $# -gt 0 ] || cases=(ddp:{skip,ahead,other,size,sleep,loader,stop} fsdp:{skip,other,sleep,loader,stop}
  grid:{skip,size,sleep,stop} pipeline:{skip,sleep,stop} batch:{skip,stop})

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }
# lines SHAPE FAULT: the lines of programs.py that are right.
lines() { grep -nE "# at:.* ($2|$2-$1)( |\$)" "$here/programs.py" | cut -d: -f1; }

# play SHAPE FAULT: lets a job hang, asks gorun, and prints one line.
play() {
  local name=$1-$2 d=$tmp/$1-$2 began pid answered again rank line place ok=FAILED
  mkdir -p "$d"
  timeout -k 5 100 "$GORUN" --nproc-per-node 4 --rdzv-id "$name" --log-dir "$d/logs" ${OPTIONS:-} "$here/programs.py" "$1" "$2" >"$d/out" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    grep -q TRUTH "$d/out" && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  sleep 3 # the others reach the call that they wait in
  began=$(now)
  timeout 40 "$GORUN" status --collectives --json --run-id "$name" >"$d/answer.json" 2>"$d/answer.err"
  answered=$(since "$began")
  began=$(now)
  timeout 40 "$GORUN" status --collectives --run-id "$name" >"$d/answer.txt" 2>&1
  again=$(since "$began")
  timeout 40 "$GORUN" stacks --run-id "$name" --rank 2 >"$d/stack.txt" 2>&1
  kill $pid 2>/dev/null
  wait $pid 2>/dev/null
  read -r rank place < <("$PYTHON" "$here/judge.py" "$d/answer.json")
  case $2 in
    other | size | ahead) line=$place ;; # of the call that differs
    *) line=$(grep -oE 'programs\.py:[0-9]+' "$d/stack.txt" | head -1) ;;
  esac
  for n in $(lines "$1" "$2"); do [ "$rank" = 2 ] && [ "${line##*:}" = "$n" ] && ok=ok; done
  [ "$2" = ahead ] && [ "$rank" = 2 ] && ok=ok # its next call differs, wherever that is
  echo "$ok $name: rank $rank, ${line:-no line} (right: 2, $(lines "$1" "$2" | paste -sd/)); answer after $answered s, the next after $again s"
}

"$PYTHON" -c 'import torch; print("torch", torch.__version__, "on", torch.cuda.get_device_name(0))'
"$GORUN" --version
n=0
for c in "${cases[@]}"; do
  play "${c%:*}" "${c#*:}" >>"$tmp/lines" &
  [ $((++n % ${AT_ONCE:-4})) = 0 ] && wait
done
wait
sort -k2 "$tmp/lines"
[ -z "${KEEP:-}" ] || cp -r "$tmp"/. "$KEEP"/
echo "$(grep -c ^ok "$tmp/lines") of $(wc -l <"$tmp/lines") are right"

cost() { # SIZE PROGRAM ARGS: prints what the program measures with a buffer of that size
  TORCH_FR_BUFFER_SIZE=$1 timeout 60 "$GORUN" --nproc-per-node 1 "$here/$2" "${@:3}" 2>&1 | grep -E '^(CALL|STEP)' | sed "s/^/buffer $1 /"
}
for _ in 1 2 3; do
  for size in 0 2000; do cost $size loop.py 120; done
done
for _ in 1 2; do
  for size in 0 2000; do cost $size call.py; done
done
! grep -q ^FAILED "$tmp/lines"
