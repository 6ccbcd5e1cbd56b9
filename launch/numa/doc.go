// Package numa binds a worker's process to the CPUs and the memory next to its
// GPU, as torchrun's --numa-binding does, but without numactl. It binds in the
// child before exec, because a child inherits the CPU mask and the memory policy
// of the thread that forks it.
//
// The modes are torchrun's (torch/numa/binding.py). With one worker a GPU they
// choose what torchrun chooses. Where torchrun fails or guesses, this package
// decides:
//   - Workers without a GPU are spread over the NUMA nodes in blocks (of 8 workers
//     on 2 nodes the first 4 are on the first), so that neighbours in a ring are
//     neighbours in the machine. They divide a node as GPUs would. The workers of
//     other agents of the machine are counted with them.
//   - On a machine with one NUMA node that does not say where a GPU is (numa_node
//     is -1), the GPU is on that node. On a machine with several nodes, such as a
//     virtual machine, its place is unknown. All CPUs then count as one node for
//     all workers, with a warning: node and socket bind nothing, exclusive and
//     core-complex keep workers apart. torchrun would take node 0 for every GPU.
//   - Memory is preferred on those nodes, not required (MPOL_PREFERRED, for several
//     nodes MPOL_PREFERRED_MANY, as numactl --preferred). A worker whose data set
//     fills its node takes memory farther away and goes on. MPOL_BIND (numactl
//     --membind) would have it killed. torchrun sets no policy.
//
// Quota says how much time a worker has on its CPUs. The worker's number of
// threads follows from both.
//
// These always hold. A worker never gets a CPU that this process may not use (its
// affinity mask, which its cgroup's cpuset bounds). A worker always gets a CPU, or
// there is an error. Under exclusive no two workers share a physical core.
package numa
