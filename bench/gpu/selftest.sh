#!/usr/bin/env bash
# Shows on a machine with GPUs what gorun selftest finds: a healthy job passes, its quick
# part takes seconds, and a slow node, a hidden GPU, two ranks on one GPU, a wrong library
# and a killed process are named. Lines "ok" and "FAILED" judge.
#
#   GORUN=path/to/gorun bench/gpu/selftest.sh [STEP...]
#
# PYTHON (python3) has torch with CUDA, whose NCCL is used where GORUN_NCCL_LIB names none.
# With 4 GPUs or more there are two nodes, each with half of them. With fewer, NODES (4)
# nodes of one rank share the GPUs: each looks like a machine of its own to NCCL, which
# joins them by sockets on lo. Steps: full quick slow hidden shared library killed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
GORUN=$(realpath "${GORUN:-$here/../../bin/gorun}")
PYTHON=$(command -v "${PYTHON:-python3}")
tmp=$(mktemp -d /tmp/gorun-selftest.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$tmp"' EXIT
unset CUDA_VISIBLE_DEVICES NCCL_DEBUG
gpus=${GPUS:-$(nvidia-smi -L | wc -l)}
[ "$gpus" -ge 1 ] || { echo "there is no GPU"; exit 2; }
if [ "$gpus" -ge 4 ]; then nodes=2 each=$((gpus / 2)); else nodes=${NODES:-4} each=1; fi
export GORUN_NCCL_LIB=${GORUN_NCCL_LIB:-$("$PYTHON" -c 'import glob, os, nvidia.nccl as n; print(glob.glob(os.path.join(list(n.__path__)[0], "lib/libnccl.so.2"))[0])')}
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
failed=0
say() { printf '\n=== %s [%ds]\n' "$*" "$SECONDS"; }
ok() { echo "ok      $*"; }
bad() { failed=1; echo "FAILED  $*"; }
now() { date +%s.%N; }
minus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a - b }'; }

# node I [NAME=VALUE...] -- FLAGS...: the agent of node I, from 0.
node() {
  local i=$1 gpu=0 list vars=()
  shift
  while [ "$1" != -- ]; do vars+=("$1"); shift; done
  shift
  [ "$each" -gt 1 ] && gpu=$((i * each))
  list=$(seq -s, "$gpu" $((gpu + each - 1)))
  [ "$each" -gt 1 ] || list=$((i % gpus))
  env CUDA_VISIBLE_DEVICES="$list" NCCL_HOSTID="node$i" SLURMD_NODENAME="node$i" "${vars[@]}" \
    timeout -k 5 "${LIMIT:-100}" "$GORUN" selftest --nnodes "$nodes" --node-rank "$i" --rdzv-endpoint "127.0.0.1:$port" --rdzv-id "selftest$port" \
    --local-addr "127.0.0.$((i + 1))" --preflight off --device gpu --nproc-per-node "${nproc:-$each}" "$@"
}

# job [NAME=VALUE...] -- FLAGS...: all nodes; the variables are the last node's. The table
# is in $tmp/0, the time in $took, the exit code of node 0 in $code.
job() {
  local i vars=() begin
  while [ "$1" != -- ]; do vars+=("$1"); shift; done
  port=$((20000 + RANDOM % 10000))
  begin=$(now)
  for i in $(seq $((nodes - 1)) -1 1); do
    if [ "$i" = $((nodes - 1)) ]; then node "$i" "${vars[@]}" "$@" >"$tmp/$i" 2>&1 & else node "$i" -- "${@:2}" >"$tmp/$i" 2>&1 & fi
  done
  node 0 -- "${@:2}" >"$tmp/0" 2>"$tmp/0.err"
  code=$?
  took=$(minus "$(now)" "$begin")
  wait
  sed 's/^/  | /' "$tmp/0"
}

# finds CODE TEXT: the test ended so and said that.
finds() {
  if [ "$code" = "$1" ] && grep -qF -- "$2" "$tmp/0" "$tmp/0.err"; then ok "$took s: $2"; else
    bad "code $code after $took s, wanted $1 and: $2"
    tail -n 15 "$tmp/0.err" "$tmp/$last"
  fi
}

last=$((nodes - 1))
step_full() { job -- --bad "$tmp/bad"; finds 0 "all-to-all"; }

step_quick() { job -- --quick; finds 0 "all-reduce"; }

# The last node's processes stand still for two thirds of the time. With several GPUs a
# node it may not use NVLink instead.
step_slow() {
  if [ "$each" -gt 1 ]; then
    job NCCL_P2P_DISABLE=1 -- --bad "$tmp/bad"
    finds 0 "GB/s expected"
    return
  fi
  "$PYTHON" - "node$last" <<'X' &
import os, signal, sys, time
mine = b"NCCL_HOSTID=" + sys.argv[1].encode()
begin, known = time.time(), set()
while time.time() - begin < 90 and os.getppid() > 1:
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and pid not in known and b"--probe" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0") and mine in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
                known.add(pid)
        except OSError:
            pass
    for _ in range(8):
        for sig, pause in ((signal.SIGSTOP, 0.02), (signal.SIGCONT, 0.01)):
            for pid in list(known):
                try:
                    os.kill(int(pid), sig)
                except ProcessLookupError:
                    known.discard(pid)
            time.sleep(pause)
X
  local slower=$!
  job -- --links
  kill "$slower" 2>/dev/null
  finds 0 "node $last (node$last) is slow"
}

step_hidden() {
  if [ "$each" -gt 1 ]; then
    job "CUDA_VISIBLE_DEVICES=$((last * each))" -- --quick
    finds 1 "node $last (node$last) has 1 GPU, others $each"
  else
    job "CUDA_VISIBLE_DEVICES=" -- --quick
    finds 1 "node $last (node$last)"
  fi
}

step_shared() { job NCCL_HOSTID=node0 "CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((each - 1)))" -- --quick; finds 1 "have the same GPU"; }

step_library() { job GORUN_NCCL_LIB=/none/libnccl.so.2 -- --quick; finds 1 "/none/libnccl.so.2"; }

# A process of the last rank is killed while it computes.
step_killed() {
  (
    for _ in $(seq 2000); do
      for pid in $(pgrep -f 'selftest-rank --probe'); do
        grep -qz "^NCCL_HOSTID=node$last$" "/proc/$pid/environ" 2>/dev/null && grep -q "pairs of nodes" "$tmp/0.err" && kill -9 "$pid" && exit
      done
      sleep 0.01
    done
  ) &
  job -- --links
  finds 1 "on node$last: crashed: signal: killed"
}

for step in "${@:-full quick slow hidden shared library killed}"; do
  for one in $step; do
    say "$one"
    "step_$one"
  done
done
exit $failed
