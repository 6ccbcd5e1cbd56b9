"""A worker of bench/gpu/run.sh: joins an NCCL process group, all-reduces, and
says which GPU it computes on and which NCCL it has mapped."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def mapped_nccl():
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "libnccl.so" in line})


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--forget", action="store_true", help="do not call set_device")
    args.add_argument("--alone", action="store_true", help="no process group: only compute")
    args.add_argument("--meet", action="store_true", help="as --alone, but over the CPUs the processes meet")
    args.add_argument("--stay", type=float, default=0, help="seconds to hold the GPU afterwards")
    args.add_argument("--fill", type=float, default=0, help="share of the GPU's memory to take")
    args.add_argument("--fail-once", default="", help="file: rank 0 fails while it does not exist")
    args.add_argument("--leave", default="", help="file: once, rank 0 leaves its environment there for left.py, and fails when that computes")
    args = args.parse_args()
    args.alone = args.alone or args.meet

    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    count = torch.cuda.device_count()
    # With --pin=exclusive a worker sees one GPU, whatever its local rank is.
    device = 0 if args.forget else local % max(1, count)
    torch.cuda.set_device(device)
    here = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    own = os.environ.get("GORUN_DEVICE", "none")
    free, total = torch.cuda.mem_get_info()
    x = torch.ones(1 << 20, device="cuda")
    filled = torch.empty(int(args.fill * total), dtype=torch.uint8, device="cuda")
    if args.meet:
        dist.init_process_group("gloo")
        dist.barrier()
    if not args.alone:
        dist.init_process_group("nccl", device_id=torch.device("cuda", device))
        dist.all_reduce(x)
        torch.cuda.synchronize()
        assert x[0].item() == dist.get_world_size(), x[0].item()
    version = ".".join(map(str, torch.cuda.nccl.version()))
    line = (
        f"rank {rank} pid {os.getpid()} local {local} of {count} visible computes on {here} "
        f"({'its own' if here == own else 'own: ' + own}) sum {x[0].item():.0f} "
        f"found {100 * free // total}% of its memory free NCCL {version} {' '.join(mapped_nccl())}\n"
    )
    os.write(1, line.encode())  # at once: the ranks share one standard output
    if args.fail_once and rank == 0 and not os.path.exists(args.fail_once):
        open(args.fail_once, "w").close()
        os._exit(7)
    if args.leave and rank == 0 and not os.path.exists(args.leave):
        with open(args.leave + ".part", "wb") as f:
            f.write(b"\0".join(k + b"=" + v for k, v in os.environb.items()))
        os.rename(args.leave + ".part", args.leave)
        for _ in range(600):
            if os.path.exists(args.leave + ".up"):
                break
            time.sleep(0.1)
        os._exit(7)
    time.sleep(args.stay)
    del filled
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
