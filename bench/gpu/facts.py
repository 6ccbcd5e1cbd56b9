"""Compares what gorun learnt from NVML with what nvidia-smi says, field by field.

Usage: facts.py PROBE.json FILES.json, the outputs of `gorun probe-gpu facts` and
`gorun probe-gpu procfs`. What the driver's files say has to be the same."""

import json
import os
import re
import subprocess
import sys


def smi(*args):
    r = subprocess.run(["nvidia-smi", *args], capture_output=True, text=True, timeout=30)
    return r.stdout if r.returncode == 0 else ""


def query(field):
    """One value a GPU; None for each where this nvidia-smi does not know the field."""
    return [line.strip() for line in smi(f"--query-gpu={field}", "--format=csv,noheader,nounits").splitlines()]


def unknown(text):
    return text is None or text in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "")


def on(text):
    return {"Enabled": True, "Disabled": False, "Yes": True, "No": False}.get(text)


def pci(text):
    domain, rest = text.lower().split(":", 1)
    return f"{domain[-4:]}:{rest}"


def remapped(field):
    by = {}
    for line in smi(f"--query-remapped-rows=gpu_uuid,{field}", "--format=csv,noheader").splitlines():
        uuid, value = (s.strip() for s in line.split(",")[:2])
        by[uuid] = value
    return by


def links(index):
    """The NVLinks that are up, and all; None where there is none."""
    text = smi("nvlink", "-s", "-i", str(index))
    up, total = len(re.findall(r"Link \d+: [\d.]+ GB/s", text)), len(re.findall(r"Link \d+:", text))
    return (up, total) if total else None


def local(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


SLOWED = (1 << 3, 1 << 5, 1 << 6, 1 << 7)  # hardware slowdown, heat twice, power brake


def read(path):
    with open(path) as f:
        for line in f:
            if line.startswith('{"gorun_gpu_probe"'):
                return json.loads(line)
    return None


def main():
    report, files = read(sys.argv[1]), read(sys.argv[2])
    if report is None or report.get("error"):
        print("DIFFERS: the probe gave no answer:", report)
        return 1
    counts = {"OK": 0, "DIFFERS": 0, "unknown": 0}

    def same(what, ours, theirs):
        if theirs is None or unknown(theirs if isinstance(theirs, str) else "x"):
            verdict = "unknown" if ours is None else "unknown"
        else:
            verdict = "OK" if ours == theirs else "DIFFERS"
        counts[verdict] += 1
        print(f"  {verdict:8} {what:28} gorun {ours!r:44} nvidia-smi {theirs!r}")

    gpus = report["gpus"]
    uuids = query("uuid")
    same("number of GPUs", len(gpus), len(uuids))

    def get(field):
        values = query(field)
        return values if len(values) == len(uuids) else [None] * len(uuids)

    theirs = {
        name: get(name)
        for name in (
            "index", "pci.bus_id", "name", "memory.total", "compute_cap", "compute_mode", "persistence_mode",
            "ecc.errors.uncorrected.volatile.total", "mig.mode.current", "retired_pages.pending",
            "clocks_event_reasons.active", "fabric.state", "fabric.status",
        )
    }
    pending, failure = remapped("remapped_rows.pending"), remapped("remapped_rows.failure")
    for i, g in enumerate(gpus[: len(uuids)]):
        f, smi_of = g.get("state") or {}, lambda name: theirs[name][i]
        print(f" GPU {g['index']}:")
        number = lambda name: None if unknown(smi_of(name)) else int(smi_of(name))
        same("index", g["index"], number("index"))
        same("UUID", g.get("uuid"), uuids[i])
        same("PCI address", g.get("pci"), pci(smi_of("pci.bus_id")))
        same("name", g.get("name"), smi_of("name"))
        same("memory, MiB", f.get("memory_mib"), number("memory.total"))
        same("compute capability", f.get("capability"), smi_of("compute_cap"))
        mode = smi_of("compute_mode")
        same("compute mode", f.get("compute_mode"), mode and mode.lower().replace("_", "-"))
        same("persistence mode", f.get("persistence"), on(smi_of("persistence_mode")))
        same("uncorrected errors", f.get("uncorrected"), number("ecc.errors.uncorrected.volatile.total"))
        same("MIG", g.get("mig"), on(smi_of("mig.mode.current")))
        same("pages to retire", f.get("retire_pending"), on(smi_of("retired_pages.pending")))
        for what, ours, rows in (("rows to remap", "remap_pending", pending), ("rows that cannot be", "remap_failed", failure)):
            value = rows.get(uuids[i])
            same(what, f.get(ours), None if unknown(value) else value not in ("0", "No"))
        clocks = smi_of("clocks_event_reasons.active")
        same("slowed", len(f.get("slowed") or []), None if unknown(clocks) else sum(int(clocks, 16) & bit > 0 for bit in SLOWED))
        ours = f.get("nvlinks")
        same("NVLinks up, of", None if ours is None else (sum(ours), len(ours)), links(g["index"]))
        state = smi_of("fabric.state")
        same("fabric", f.get("fabric"), None if unknown(state) else {"not supported": "unsupported"}.get(state.lower(), state.lower()))
        node = local(f"/sys/bus/pci/devices/{g.get('pci')}/numa_node")
        same("NUMA node (of /sys)", g.get("numa"), None if node in (None, "-1") else int(node))
        print(f"  {'':8} {'nearest adapters':28} {f.get('nearest_nics')}")
    print(" the driver's files in /proc:", files.get("error") or files.get("unsure") or "certain")
    if not files.get("error") and not files.get("unsure"):
        same("number of GPUs, by files", len(files["gpus"]), len(gpus))
        for ours, g in zip(files["gpus"], gpus):
            for field in ("index", "uuid", "pci", "name", "minor", "numa", "denied"):
                counts["OK" if ours.get(field) == g.get(field) else "DIFFERS"] += 1
                if ours.get(field) != g.get(field):
                    print(f"  DIFFERS  {field:28} files {ours.get(field)!r:44} NVML {g.get(field)!r}")
    held = sorted((h["uuid"], h["pid"]) for h in report.get("held") or [])
    apps = [tuple(s.strip() for s in line.split(",")) for line in smi("--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader").splitlines()]
    same("processes", held, sorted((uuid, int(pid)) for uuid, pid in apps if pid.isdigit()))
    print(f" {counts['OK']} OK, {counts['DIFFERS']} DIFFERS, {counts['unknown']} not told by nvidia-smi")
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    sys.exit(main())
