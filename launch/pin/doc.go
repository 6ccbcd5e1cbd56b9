// Package pin decides which GPUs each local rank owns, and by which variables
// its process learns so. It is pure: it looks at nothing but its arguments.
//
// What runs under torchrun runs unchanged, and torchrun never refuses. So the
// user's words decide how strict a plan is. Who names GPUs (--pin, --map,
// --gpus-per-worker, --nproc-per-node gpu) gets exactly that, or an error. Who
// names none gets Order where there is a GPU for every worker, and otherwise
// nothing is touched: 32 workers that compute on the CPUs of a machine with 8
// GPUs are left in peace, with a note. A node on which no GPU is visible has
// nothing to plan, whatever was asked: one command line serves all nodes of a job
// (that a node lost its GPUs is for the preflight checks to say).
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
package pin
