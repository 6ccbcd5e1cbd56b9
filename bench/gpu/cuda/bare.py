"""A bare process that starts NCCL in sequence through ctypes, for bench/gpu/cuda.sh:
cuInit, context, library, ID by a file, communicator, first all-reduce. It says when each
was done."""
import ctypes as c
import os
import sys
import time

rank, size, lib, idfile = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
begin = time.time()
done = {}


def ok(code, what):
    if code:
        sys.exit(f"{what}: {code}")
    done[what] = time.time() - begin


cuda = c.CDLL("libcuda.so.1")
ok(cuda.cuInit(0), "cuInit")
n, dev, ctx = c.c_int(), c.c_int(), c.c_void_p()
ok(cuda.cuDeviceGetCount(c.byref(n)), "count")
ok(cuda.cuDeviceGet(c.byref(dev), rank % n.value), "device")
ok(cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), dev), "context")
ok(cuda.cuCtxSetCurrent(ctx), "current")
nccl = c.CDLL(lib)


class ID(c.Structure):
    _fields_ = [("b", c.c_char * 128)]


id = ID()
if rank == 0:
    ok(nccl.ncclGetUniqueId(c.byref(id)), "id")
    with open(idfile + ".tmp", "wb") as f:
        f.write(bytes(id))
    os.rename(idfile + ".tmp", idfile)
else:
    while not os.path.exists(idfile):
        time.sleep(0.001)
    id = ID.from_buffer_copy(open(idfile, "rb").read())
done["library, id"] = time.time() - begin
comm, stream, mem = c.c_void_p(), c.c_void_p(), c.c_void_p()
nccl.ncclCommInitRank.argtypes = [c.c_void_p, c.c_int, ID, c.c_int]
ok(nccl.ncclCommInitRank(c.byref(comm), size, id, rank), "communicator")
ok(cuda.cuStreamCreate(c.byref(stream), 1), "stream")
ok(cuda.cuMemAlloc_v2(c.byref(mem), c.c_size_t(8)), "memory")
nccl.ncclAllReduce.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_int, c.c_int, c.c_void_p, c.c_void_p]
ok(nccl.ncclAllReduce(mem, mem, 2, 7, 0, comm, stream), "call")
cuda.cuStreamSynchronize.argtypes = [c.c_void_p]
ok(cuda.cuStreamSynchronize(stream), "first all-reduce")
print(f"done {rank} {time.time():.6f}")
print(f"parts of rank {rank}:", ", ".join(f"{k} {1000 * v:.0f} ms" for k, v in done.items()))
