// Package place decides which part of its node the worker of each local rank gets:
// the GPUs that it owns and the variables that name them to its process, the CPUs and
// memory to which it is bound, and its number of threads.
//
// Make is pure. Config.Plan first asks the GPU driver, through its Driver, and
// reads /proc and /sys.
//
// More workers than visible GPUs is an error, even if the user named no GPUs. With
// two workers on one GPU, NCCL refuses the second, or both run at half the speed,
// and the user sees it only after the time that loading takes. torchrun starts
// them, which is right only for workers that compute on CPUs. gorun cannot know
// which workers do; the error says what the user can do (--pin=none, or
// CUDA_VISIBLE_DEVICES="").
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
//   - A UUID names each GPU, and CUDA numbers the GPUs in the order of the list,
//     whatever CUDA_DEVICE_ORDER says. If a UUID is not known, indexes in PCI order
//     name all GPUs.
package place
