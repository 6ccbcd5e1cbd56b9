// Package place decides what the worker of each local rank gets of its node: which
// GPUs it owns and by which variables its process learns so, the CPUs and memory
// that it is bound to, and how many threads it should have.
//
// Make is pure. Config.Plan asks the GPU driver first, through the Driver that it
// was given, and reads /proc and /sys.
//
// More workers than visible GPUs is an error, also where the user named none: of
// two workers on one GPU NCCL refuses the second, or both run at half the speed,
// after the time that loading takes. torchrun starts them, which is right only for
// workers that compute on CPUs, and those gorun cannot tell from the others; the
// error says how the user does (--pin=none, or CUDA_VISIBLE_DEVICES="").
//
// What else can stand in a plan's way is an error only for a user who named GPUs
// (--pin, --map, --gpus-per-worker, --nproc-per-node gpu). Without these flags the
// workers start with what they inherit, and a note: that is what torchrun does. So
// it is where GPUs of several models are numbered in an order that only CUDA knows.
//
// Where no GPU is visible there is nothing to plan. A user who named GPUs gets a
// note, as one command line serves all nodes of a job, but an error if the node has
// some. GPUs that CUDA would show and that were not given are kept from the workers.
//
// Invariants of a plan that is in force (Mode is not None):
//   - Every worker owns the same number of GPUs, and no GPU has two owners
//     unless the user allowed it.
//   - Under Order, what CUDA shows as device r to local rank r is its own (with
//     one GPU a worker), and every worker sees all GPUs in the same order, which
//     is what CUDA IPC and NCCL's P2P want.
//   - A GPU is named by UUID, which CUDA numbers in the order of the list,
//     whatever CUDA_DEVICE_ORDER says. Where a UUID is not known, indexes in PCI
//     order are used for all.
package place
