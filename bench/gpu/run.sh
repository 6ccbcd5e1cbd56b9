#!/usr/bin/env bash
# Shows on a machine with GPUs what gorun does with them, and judges it: every
# line "ok" or "FAILED" is one thing that was looked at, "skip" one that needs a
# second GPU. It takes less than 6 minutes, needs no network, and goes on after what
# failed.
#
#   GORUN=path/to/gorun bench/gpu/run.sh
#
# PYTHON (python3) has torch with CUDA. Of the GPUs at most 4 are used; nobody else
# should compute on them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
GORUN=$(realpath "${GORUN:-$here/../../bin/gorun}")
PYTHON=$(command -v "${PYTHON:-python3}")
tmp=$(mktemp -d /tmp/gorun-gpu.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$tmp"' EXIT
export PYTHON_EXEC=$PYTHON PYTHONUNBUFFERED=1
unset CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NCCL_DEBUG
worker=$here/worker.py
failed=() passed=0 skipped=0

say() { printf '\n=== %s [%ds]\n' "$*" "$SECONDS"; }
ok() { passed=$((passed + 1)); echo "ok      $*"; }
bad() { failed+=("$*"); echo "FAILED  $*"; }
# pair TEXT: whether there are 2 GPUs, which TEXT needs.
pair() { [ "$n" -ge 2 ] || { skipped=$((skipped + 1)); echo "skip    $*"; return 1; }; }
# judge TEXT COMMAND...: ok if the command succeeds.
judge() { local text=$1; shift; if "$@" >/dev/null 2>&1; then ok "$text"; else bad "$text"; fi; }
# try SECONDS COMMAND...: runs it, shows what it prints, leaves that in $out and the code in $code.
try() {
  local limit=$1; shift
  echo "+ ${*/#$here\//}" | sed "s#$GORUN#gorun#g; s#$PYTHON#python3#g"
  timeout -k 5 "$limit" "$@" >"$tmp/out" 2>&1
  code=$?
  out=$tmp/out
  cut -c1-400 "$out" | sed 's/^/  | /' | head -60
  [ $code -lt 124 ] || echo "  | (exit code $code)"
}
ended() { [ "$code" = "$1" ]; }
prints() { grep -qE -- "$1" "$out"; }
silent() { ! grep -qE -- "$1" "$out"; }
lines() { [ "$(grep -cE -- "$2" "$out")" = "$1" ]; }
distinct() { [ "$(grep -oE 'computes on GPU-[^ ]+' "$out" | sort -u | wc -l)" = "$1" ]; }

say "the machine"
nvidia-smi -L || { echo "there is no nvidia-smi"; exit 2; }
mapfile -t uuid < <(nvidia-smi --query-gpu=uuid --format=csv,noheader)
n=${#uuid[@]}
[ "$n" -ge 1 ] || { echo "there is no GPU"; exit 2; }
[ "$n" -le 4 ] || n=4
# More than 4 stay out of sight, as for a job that was given 4.
[ "${#uuid[@]}" -le 4 ] || export CUDA_VISIBLE_DEVICES=0,1,2,3
nvidia-smi --query-gpu=driver_version,persistence_mode,numa_node --format=csv,noheader 2>/dev/null | sort | uniq -c
"$GORUN" --version
"$PYTHON" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", torch.cuda.nccl.version())'
ldconfig -p 2>/dev/null | grep libnccl
nproc; readlink /proc/self/ns/pid; df -h /dev/shm | tail -1

say "NVML facts against nvidia-smi"
"$GORUN" probe-gpu facts >"$tmp/probe.json" 2>"$tmp/probe.err"
"$GORUN" probe-gpu procfs >"$tmp/files.json" 2>>"$tmp/probe.err"
try 60 "$PYTHON" "$here/facts.py" "$tmp/probe.json" "$tmp/files.json"
judge "gorun and nvidia-smi agree on every fact, and so do the driver's files" ended 0
try 4 "$GORUN" probe-gpu events
judge "the driver's events are watched" prints '"kind":"watching"'

say "$n ranks, --pin=order"
try 60 "$GORUN" --nproc-per-node "$n" "$worker"
judge "order: it ends with 0" ended 0
judge "order: every rank computes on its own GPU and sees $n" lines "$n" "of $n visible .*\(its own\) sum $n "
judge "order: on $n GPUs" distinct "$n"

say "$n ranks, --pin=exclusive"
try 60 "$GORUN" --nproc-per-node gpu --pin=exclusive "$worker"
judge "exclusive: it ends with 0" ended 0
judge "exclusive: every rank computes on its own GPU and sees 1" lines "$n" "of 1 visible .*\(its own\) sum $n "
judge "exclusive: on $n GPUs" distinct "$n"

half=$((n / 2)) both=$((n / 2 * 2))
if pair "2 nodes on this machine"; then
  say "2 nodes of $half GPUs on this machine"
  try 60 "$GORUN" --local-nodes 2 --nproc-per-node "$half" --no-python \
    bash -c "export NCCL_HOSTID=node\$GROUP_RANK; exec $PYTHON $worker"
  judge "2 nodes: it ends with 0" ended 0
  judge "2 nodes: every rank computes on its own GPU" lines "$both" "\(its own\) sum $both "
  judge "2 nodes: on $both GPUs" distinct "$both"
fi

say "CUDA_VISIBLE_DEVICES"
visible() { # NAME LIST UUID...: the workers of the list compute on these, in this order
  local name=$1 list=$2 rank=0 want; shift 2
  echo "+ CUDA_VISIBLE_DEVICES=$list"
  CUDA_VISIBLE_DEVICES=$list try 45 "$GORUN" --nproc-per-node gpu --preflight=off "$worker" --alone
  judge "$name: it ends with 0" ended 0
  for want in "$@"; do
    judge "$name: rank $rank computes on $want" prints "^rank $rank .*computes on $want \(its own\)"
    rank=$((rank + 1))
  done
  judge "$name: $rank ranks" lines "$rank" '^rank '
}
visible "by index" $((n > 1)) "${uuid[n > 1]}"
visible "abbreviated" "${uuid[n > 1]:0:12}" "${uuid[n > 1]}"
# torch takes a list that names a GPU twice for an empty one.
visible "an invalid entry" "$([ "$n" = 1 ] && echo 0,99 || echo 1,99,0)" "${uuid[n > 1]}"
judge "an invalid entry: it is said what is cut off" prints '"99" is no GPU of this node'
if pair "CUDA_VISIBLE_DEVICES of several GPUs"; then
  visible "reversed" 1,0 "${uuid[1]}" "${uuid[0]}"
  visible "by UUID" "${uuid[1]},${uuid[0]}" "${uuid[1]}" "${uuid[0]}"
fi
CUDA_VISIBLE_DEVICES=0 try 45 "$GORUN" --nproc-per-node 2 "$worker" --alone
judge "more workers than GPUs, not pinned: it ends with 0" ended 0
judge "more workers than GPUs, not pinned: one line" lines 1 '^gorun: 2 workers, but 1 GPU is visible .*: no worker gets a GPU of its own'
judge "more workers than GPUs, not pinned: no warning of the preflight" silent 'D02'
CUDA_VISIBLE_DEVICES=0 try 30 "$GORUN" --nproc-per-node 2 --pin=order "$worker" --alone
judge "more workers than GPUs: exit code 2" ended 2
judge "more workers than GPUs: one line" lines 1 '^gorun: 2 workers, but 1 GPU is visible'

say "which NCCL a worker maps: the prediction of gorun check, and /proc/PID/maps"
predicted() { # NAME: compares the two in this environment
  try 30 "$GORUN" check --ignore S01,L02 --save "$tmp/facts.json" "$worker"
  local path
  path=$("$PYTHON" -c 'import json, os, sys; print(os.path.realpath(json.load(open(sys.argv[1]))["libraries"]["nccl"]["path"]))' "$tmp/facts.json" 2>/dev/null)
  "$PYTHON" -c 'import json, sys; l = json.load(open(sys.argv[1]))["libraries"]; print("  predicted:", l.get("nccl")); [print("  candidate:", c) for c in l.get("candidates") or []]' "$tmp/facts.json"
  try 45 "$GORUN" --nproc-per-node 1 --preflight=off "$worker" --alone
  if [ -n "${LD_PRELOAD:-}" ]; then # torch opens the wheel's by its path too, but nobody calls that
    judge "$1: the worker maps what was predicted, ${path:-nothing}" prints "NCCL [0-9.]+ .*${path:-none}"
    NCCL_DEBUG=VERSION try 45 "$GORUN" --nproc-per-node $((n > 1 ? 2 : 1)) --preflight=off "$worker"
    judge "$1: NCCL says its version is the predicted one" prints "NCCL version $("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["libraries"]["nccl"]["version"])' "$tmp/facts.json")"
    return
  fi
  judge "$1: the worker maps what was predicted, ${path:-nothing}" prints "NCCL [0-9.]+ ${path:-none}\$"
}
predicted "the wheel's"
system=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnccl.so.2 .*=> //p' | head -1)
if [ -n "$system" ]; then
  export LD_LIBRARY_PATH=${system%/*}
  predicted "the system's folder in LD_LIBRARY_PATH"
  unset LD_LIBRARY_PATH
  export LD_PRELOAD=$system
  predicted "the system's in LD_PRELOAD"
  unset LD_PRELOAD
else
  echo "there is no libnccl in ld.so.cache: only the wheel's was looked at"
fi

say "a process that was left on a GPU"
stray() { # holds GPU $1 until it is killed; sets $stray
  "$PYTHON" -c "import time, torch; x = torch.ones(1 << 28, device='cuda:$1'); print('up', flush=True); time.sleep(90)" >"$tmp/stray" 2>&1 &
  stray=$!
  for _ in $(seq 300); do grep -q up "$tmp/stray" && break; sleep 0.1; done
}
gone() { kill "$stray" 2>/dev/null; wait "$stray" 2>/dev/null; }
stray 0
try 30 "$GORUN" check --ignore L02 "$worker"
judge "S01 names a process on GPU 0" prints 'holds GPU 0 with [0-9]+ MiB'
prints "pid $stray " && echo "  it is the one: pid $stray" || echo "  the driver calls it by a number of another pid namespace"
gone

say "a restart finds the GPUs free"
try 90 "$GORUN" --nproc-per-node "$n" --max-restarts 1 "$worker" --fill 0.9 --fail-once "$tmp/once"
judge "restart: the second attempt works" ended 0
judge "restart: all ranks computed, on free GPUs" lines $((2 * n)) '^rank .* found 9[5-9]% of its memory free'

say "a restart waits for what is left on a GPU"
timeout 120 "$PYTHON" "$here/left.py" "$tmp/left" 8 &
try 120 "$GORUN" --nproc-per-node "$n" --max-restarts 1 "$worker" --alone --leave "$tmp/left"
wait $!
judge "left: it ends with 0" ended 0
judge "left: gorun waits and says for what" prints 'waiting until the GPUs are free.*GPU 0: pid [0-9]+ \(python'
judge "left: both attempts find the GPUs free" lines $((2 * n)) '^rank .* found 9[5-9]% of its memory free'

say "one rank a device, across agents of one machine"
agents() { # FLAGS...: two agents that know nothing of each other but the endpoint
  local port=$((20000 + RANDOM % 10000)) i
  local -a pids=()
  : >"$tmp/agents"
  for i in 1 2; do
    local -a apart=()
    unshare --uts true 2>/dev/null && apart=(unshare --uts sh -c "hostname container$i; exec \"\$@\"" --)
    CUDA_VISIBLE_DEVICES=$(eval echo "\$gpu$i") timeout -k 5 60 "${apart[@]}" "$GORUN" --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" \
      --local-addr "127.0.0.$i" --nproc-per-node 1 --ignore L02,H01 "$@" "$worker" --alone >>"$tmp/agents" 2>&1 &
    pids+=($!)
  done
  code=0
  for i in "${pids[@]}"; do wait "$i" || code=$?; done
  out=$tmp/agents
  sed 's/^/  | /' "$tmp/agents" | head -40
}
all=$([ "$n" = 1 ] && echo 0 || echo 0,1)
gpu1=$all gpu2=$all agents
judge "both on GPU 0: refused with 78" ended 78
judge "both on GPU 0: D01 names it" prints "1 GPU: ${uuid[0]}"
if pair "one GPU each"; then
  gpu1=0 gpu2=1 agents
  judge "one each: it ends with 0" ended 0
  judge "one each: on 2 GPUs" distinct 2
fi

say "--numa-binding"
for i in $(seq 0 $((n - 1))); do
  bus=$(nvidia-smi -i "$i" --query-gpu=pci.bus_id --format=csv,noheader | tr 'A-F' 'a-f' | sed 's/^0000//')
  echo "  GPU $i $bus: NUMA node $(cat "/sys/bus/pci/devices/$bus/numa_node" 2>/dev/null), CPUs $(cat "/sys/bus/pci/devices/$bus/local_cpulist" 2>/dev/null)"
done
echo "  allowed: $(sed -n 's/Cpus_allowed_list:\t//p' /proc/self/status)"
for mode in node socket exclusive core-complex; do
  try 30 "$GORUN" --nproc-per-node "$n" --numa-binding "$mode" --preflight=off --no-python \
    bash -c 'echo "rank $RANK $(grep Cpus_allowed_list: /proc/self/status) OMP_NUM_THREADS=$OMP_NUM_THREADS"'
  judge "$mode: it ends with 0" ended 0
  judge "$mode: $n masks" lines "$n" 'Cpus_allowed_list:'
  [ "$mode" != exclusive ] || judge "exclusive: they differ" test "$(grep -o 'list:.* ' "$out" | sort -u | wc -l)" = "$n"
done

if pair "a script that forgets set_device"; then
  say "a script that forgets set_device: told a minute after the workers have met"
  try 150 "$GORUN" --nproc-per-node 2 "$worker" --meet --forget --stay 80
  judge "mis-binding: it ends with 0" ended 0
  if prints 'cannot check which worker runs on which GPU: the driver lists'; then
    ok "mis-binding: this container's numbers are not the driver's, and gorun says so"
  else
    judge "mis-binding: rank 1 is named, with both GPUs" prints 'rank 1 \(pid [0-9]+\) runs on GPU 0, its own is GPU 1'
    judge "mis-binding: rank 0 is not" silent 'rank 0 \(pid [0-9]+\) (also )?runs on'
  fi
fi

say "what a look at the GPUs costs a start of $n workers"
try 120 "$PYTHON" "$here/medians.py" 11 "$GORUN" "$n"
judge "the starts were measured, and pins cost at most 15 ms" ended 0

say "the end"
echo "$passed ok, ${#failed[@]} FAILED, $skipped skipped"
for f in "${failed[@]}"; do echo "  FAILED  $f"; done
[ ${#failed[@]} = 0 ]
