#!/usr/bin/env bash
# Shows on a machine with GPUs that Go workers compute on them through NCCL, and how fast:
# values of every call, times beside torch's NCCL, the parts of a start beside bare
# processes, what happens when a rank is killed, in a call and in the start, and the
# refusals. Lines "ok" and "FAILED" judge.
#
#   GORUN=path/to/gorun WORKER=path/to/worker bench/gpu/cuda.sh [STEP...]
#
# WORKER is bench/gpu/cuda, built (default: it is built). PYTHON (python3) has torch with
# CUDA. RANKS (the number of GPUs, at least 2) may be more than there are GPUs: then each
# rank looks like a machine of its own to NCCL, which joins them by sockets on lo. Steps:
# values speed (RUNS times, default 2) start abort init mismatch library shared hidden.
set -u
here=$(cd "$(dirname "$0")" && pwd)
GORUN=$(realpath "${GORUN:-$here/../../bin/gorun}")
PYTHON=$(command -v "${PYTHON:-python3}")
tmp=$(mktemp -d /tmp/gorun-cuda.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$tmp"' EXIT
if [ -n "${WORKER:-}" ]; then worker=$(realpath "$WORKER"); else
  worker=$tmp/worker; (cd "$here/../.." && go build -o "$worker" ./bench/gpu/cuda) || exit 2
fi
unset CUDA_VISIBLE_DEVICES NCCL_DEBUG
mapfile -t uuid < <(nvidia-smi --query-gpu=uuid --format=csv,noheader)
gpus=${#uuid[@]}
[ "$gpus" -ge 1 ] || { echo "there is no GPU"; exit 2; }
ranks=${RANKS:-$((gpus > 2 ? gpus : 2))}
export GORUN_NCCL_LIB=${GORUN_NCCL_LIB:-$("$PYTHON" -c 'import glob, os, nvidia.nccl as n; print(glob.glob(os.path.join(list(n.__path__)[0], "lib/libnccl.so.2"))[0])')}
failed=0
say() { printf '\n=== %s [%ds]\n' "$*" "$SECONDS"; }
ok() { echo "ok      $*"; }
bad() { failed=1; echo "FAILED  $*"; }

# alone: a rank that looks like a machine of its own.
cat >"$tmp/alone" <<'X'
#!/usr/bin/env bash
export NCCL_HOSTID=rank$RANK NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
exec "$@"
X
chmod +x "$tmp/alone"
# job OPTIONS... -- PROGRAM...: a job of all ranks.
flags=(--standalone --nproc-per-node "$ranks") prefix=()
if [ "$ranks" -gt "$gpus" ]; then flags+=(--oversubscribe-gpus) prefix=("$tmp/alone"); fi
job() { timeout -k 5 "${LIMIT:-120}" "$GORUN" "${flags[@]}" "${extra[@]}" "${prefix[@]}" "$@"; }
extra=()
now() { date +%s.%N; }
minus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a - b }'; }
until_lines() { for _ in $(seq 600); do [ "$(grep -c "$2" "$1" 2>/dev/null)" -ge "$3" ] && return; sleep 0.1; done; return 1; }

step_values() {
  [ "$ranks" -gt 1 ] || { echo "skip    values need two ranks"; return; }
  job "$worker" values >"$tmp/out" 2>&1 && ok "values" || bad "values"
  sed 's/^/  | /' "$tmp/out" | tail -20
}

step_speed() {
  local args=() mib=$((1 << 20)) o
  for o in all-reduce; do args+=($o:8 $o:65536 $o:$mib $o:$((16 * mib)) $o:$((64 * mib)) $o:$((256 * mib))); done
  for o in broadcast all-gather reduce-scatter all-to-all; do args+=($o:$mib $o:$((64 * mib))); done
  for _ in $(seq "${RUNS:-2}"); do
    job "$worker" speed "${args[@]}" 2>"$tmp/err" | tee -a "$tmp/go" | grep -v ^time; tail -3 "$tmp/err"
    job "$PYTHON" "$here/cuda/peer.py" speed "${args[@]}" 2>"$tmp/err" | tee -a "$tmp/torch" | grep -v ^time; grep -i error "$tmp/err" | head -3
  done
  echo "means of ${RUNS:-2} runs: µs a call with its wait, Go and torch; µs a call of many, Go and torch; torch/Go of both; bus GB/s of many, Go and torch"
  awk -v n="$ranks" '
    { sub(/^\[[^]]*\]:? ?/, "") } $1 != "time" { next }
    FILENAME ~ /go$/ { gs[$2" "$3] = gs[$2" "$3] ? (gs[$2" "$3] + $4) / 2 : $4; gm[$2" "$3] = gm[$2" "$3] ? (gm[$2" "$3] + $5) / 2 : $5; if (!seen[$2" "$3]++) order[++k] = $2" "$3; next }
    { ts[$2" "$3] = ts[$2" "$3] ? (ts[$2" "$3] + $4) / 2 : $4; tm[$2" "$3] = tm[$2" "$3] ? (tm[$2" "$3] + $5) / 2 : $5 }
    END { for (i = 1; i <= k; i++) { x = order[i]; split(x, p, " ")
      f = p[1] == "all-reduce" ? 2 * (n - 1) / n : p[1] == "broadcast" ? 1 : (n - 1) / n
      printf "%-15s %10d  %10.1f %10.1f  %10.1f %10.1f  %5.2f %5.2f  %7.2f %7.2f\n", p[1], p[2], gs[x], ts[x], gm[x], tm[x], gs[x] ? ts[x] / gs[x] : 0, gm[x] ? tm[x] / gm[x] : 0, gm[x] ? f * p[2] / gm[x] / 1000 : 0, tm[x] ? f * p[2] / tm[x] / 1000 : 0 } }' "$tmp/go" "$tmp/torch"
}

last_done() { grep -o 'done [0-9]* [0-9.]*' "$1" | awk '{ print $3 }' | sort -n | tail -1; }
step_start() {
  local i begin r
  for i in 1 2 3; do
    begin=$(now)
    job "$worker" start >"$tmp/out" 2>&1
    echo "gorun and Go: $(minus "$(last_done "$tmp/out")" "$begin") s to the last rank's first all-reduce"
    [ $i = 3 ] && grep -o 'parts of.*' "$tmp/out"
    begin=$(now)
    rm -f "$tmp/id"
    for r in $(seq 0 $((ranks - 1))); do
      RANK=$r ${prefix[@]+"${prefix[@]}"} "$PYTHON" "$here/cuda/bare.py" "$r" "$ranks" "$GORUN_NCCL_LIB" "$tmp/id" >"$tmp/bare.$r" 2>&1 &
    done
    wait
    cat "$tmp"/bare.* >"$tmp/bare"
    echo "bare, in sequence: $(minus "$(last_done "$tmp/bare")" "$begin") s"
    [ $i = 3 ] && grep -o 'parts of.*' "$tmp/bare"
    [ $i = 3 ] && { begin=$(now); job "$PYTHON" "$here/cuda/peer.py" start >"$tmp/out" 2>&1; echo "gorun and torch: $(minus "$(last_done "$tmp/out")" "$begin") s"; }
  done
}

# step_abort kills a rank in a loop of all-reduces.
step_abort() {
  local killed pid ended
  for _ in 1 2 3; do
    job "$worker" loop >"$tmp/out" 2>&1 &
    until_lines "$tmp/out" 'running' "$ranks" || { bad "the loop does not run"; cat "$tmp/out"; return; }
    pid=$(grep -o "running $((ranks - 1)) [0-9]*" "$tmp/out" | awk '{ print $3 }')
    killed=$(now); kill -9 "$pid"; wait $!
    ended=$(grep -o 'ended [0-9]* [0-9.]*' "$tmp/out" | awk '{ print $3 }' | sort -n | tail -1)
    [ -n "$ended" ] && echo "  the last call returned $(minus "$ended" "$killed") s after the kill"
    [ -n "$ended" ] && [ "$(grep -c 'ended .*aborted' "$tmp/out")" = $((ranks - 1)) ] && ok "killed rank $((ranks - 1)): all calls of the others returned $(minus "$ended" "$killed") s later, gorun ended $(minus "$(now)" "$killed") s later" || bad "the calls after a kill"
  done
  grep 'ended\|killed by\|likely' "$tmp/out" | head -6
  for _ in $(seq 20); do [ "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | grep -c .)" = 0 ] && break; sleep 0.1; done
  echo "processes on the GPUs afterwards: $(nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -c .)"
}

# step_init kills a rank while the others make the communicator: it never joins.
step_init() {
  cat >"$tmp/late" <<'X'
#!/usr/bin/env bash
if [ "$RANK" = "$VICTIM" ]; then sleep "$AFTER"; kill -9 $$; fi
exec "$@"
X
  chmod +x "$tmp/late"
  local begin
  for after in 0.5 3; do
    begin=$(now)
    VICTIM=$((ranks - 1)) AFTER=$after LIMIT=60 job "$tmp/late" "$worker" start >"$tmp/out" 2>&1
    [ $? != 124 ] && grep -q 'aborted' "$tmp/out" && ok "a rank that dies after $after s, before it joins: gorun ended after $(minus "$(now)" "$begin") s" || { bad "a rank that dies in the start"; tail -5 "$tmp/out"; }
  done
  # A rank that is killed some time after its start: before, in and after NCCL's own.
  local gorun victim slow=0 took
  for after in 0.05 0.3 0.5 0.6 0.7 0.8 1.0 1.3; do
    job "$worker" loop >"$tmp/out" 2>&1 &
    gorun=$!
    until_lines "$tmp/out" '^pid\|^.*pid [0-9]' "$ranks" || bad "no start"
    victim=$(grep -o "pid $((ranks - 1)) [0-9]*" "$tmp/out" | awk '{ print $3 }')
    sleep "$after"; killed=$(now); kill -9 "$victim"
    wait $gorun
    took=$(minus "$(now)" "$killed")
    echo "  a rank killed $after s after it began: gorun ended $took s later; $(grep -c 'running' "$tmp/out") ranks computed by then; $(grep -c 'gorun: aborted' "$tmp/out") lines name the abort"
    awk -v t="$took" 'BEGIN { exit !(t > 5) }' && slow=1
  done
  [ $slow = 0 ] || { bad "a start hangs after a kill"; return; }
  ok "no start hangs after a kill"
}

step_mismatch() {
  job "$worker" mismatch >"$tmp/out" 2>&1
  [ "$(grep -c 'mismatch of rank .*main.go:[0-9]*.*main.go:[0-9]*' "$tmp/out")" -ge 1 ] && ok "different calls are named with both lines" || bad "different calls"
  grep -o 'mismatch of rank.*' "$tmp/out" | head -2
}

step_library() {
  cat >"$tmp/other" <<'X'
#!/usr/bin/env bash
[ "$RANK" = 1 ] && export GORUN_NCCL_LIB=$OTHER_LIB
exec "$@"
X
  chmod +x "$tmp/other"
  OTHER_LIB=/nowhere/libnccl.so.2 job "$tmp/other" "$worker" start >"$tmp/out" 2>&1
  grep -q 'rank 1 cannot use its GPU.*/nowhere' "$tmp/out" && ok "a missing library is named" || bad "a missing library"
  grep -om1 'rank 1 cannot use.*' "$tmp/out"
  # The same library that says it is another release: ncclGetVersion's constant is patched.
  if "$PYTHON" "$here/cuda/otherversion.py" "$GORUN_NCCL_LIB" "$tmp/libnccl.so.2"; then
    OTHER_LIB=$tmp/libnccl.so.2 job "$tmp/other" "$worker" start >"$tmp/out" 2>&1
    grep -q 'different releases of NCCL' "$tmp/out" && ok "another release is named" || bad "another release"
    grep -om1 'the ranks have different.*' "$tmp/out"
  fi
}

step_shared() {
  timeout 60 "$GORUN" --standalone --nproc-per-node $((gpus + 1)) --oversubscribe-gpus "$worker" start >"$tmp/out" 2>&1
  grep -q 'have the same GPU' "$tmp/out" && ok "two ranks on one GPU are refused" || bad "two ranks on one GPU"
  grep -om1 'ranks [0-9]* and [0-9]* have the same.*' "$tmp/out"
}

step_hidden() {
  CUDA_VISIBLE_DEVICES= GORUN_DEVICE=${uuid[0]} RANK=0 WORLD_SIZE=1 timeout 30 "$worker" start >"$tmp/out" 2>&1
  grep -q 'no GPU' "$tmp/out" && ok "a hidden GPU is named" || bad "a hidden GPU"
  cat "$tmp/out"
}

nvidia-smi -L
"$GORUN" --version
echo "$ranks ranks on $gpus GPUs; NCCL $GORUN_NCCL_LIB"
[ $# -gt 0 ] || set -- values speed start abort init mismatch library shared hidden
for step; do say "$step"; "step_$step"; done
exit $failed
