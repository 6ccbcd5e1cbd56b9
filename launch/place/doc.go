// Package place decides which part of its node the worker of each local rank gets:
// the GPUs that it owns and the variables that name them to its process, the CPUs and
// memory to which it is bound, and its number of threads.
//
// Make is pure. Config.Plan first asks the GPU driver, through its Driver, and
// reads /proc and /sys.
//
// More workers than visible GPUs start without GPUs of their own, as under torchrun,
// with a note: they may compute on CPUs. It is an error if the user named GPUs.
//
// Anything else that prevents a plan is an error only if the user named GPUs
// (--pin, --map, --gpus-per-worker, --nproc-per-node gpu). Without these flags the
// workers start with what they inherit, as under torchrun, and the user gets a
// note. One such case is GPUs of several models, numbered in an order that only
// CUDA knows.
//
// On a node without visible GPUs there is nothing to plan. If the user named GPUs,
// that is an error if the node has some, and otherwise a note, because one command
// line serves all nodes of a job. GPUs that CUDA would show but that were not given
// to this job are hidden from the workers.
//
// Invariants of a plan whose Mode is not None:
//   - Every worker owns the same number of GPUs, and no GPU has two owners
//     unless the user allowed it.
//   - With Order and one GPU for each worker, CUDA device r of local rank r is the
//     worker's own. Every worker sees all GPUs in the same order, because CUDA IPC
//     and NCCL's P2P require that.
//   - CUDA_VISIBLE_DEVICES stays as it is where CUDA shows the right GPUs in the right
//     order anyway. Otherwise it has the entries of the user's own list, or indexes
//     where it is not set, because many programs parse it.
//   - UUIDs name the GPUs of Exclusive where CUDA may count them otherwise than
//     nvidia-smi, MIG instances, and all GPUs with --pin-by=uuid. If a UUID is not known,
//     indexes in PCI order name all GPUs.
package place
