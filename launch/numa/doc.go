// Package numa binds a worker's process to the CPUs and the memory next to its
// GPU, as torchrun's --numa-binding does and without numactl: in the child before
// exec, because a child inherits the CPU mask and the memory policy of the thread
// that forks it.
//
// The modes are torchrun's (torch/numa/binding.py), and so is what they choose
// with one worker a GPU. Where torchrun fails or guesses, this package decides:
//   - Workers without a GPU are spread over the NUMA nodes in blocks (of 8 workers
//     on 2 nodes the first 4 are on the first), so that neighbours in a ring are
//     neighbours in the machine, and divide a node as GPUs would; those of other
//     agents of the machine are counted with them.
//   - A machine with one NUMA node that does not say where a GPU is (numa_node is
//     -1) means that node. One with several leaves it unknown, as virtual machines
//     do: then all CPUs count as one node for all workers, so that node and socket
//     bind nothing and exclusive and core-complex keep workers apart, with a
//     warning; torchrun would take node 0 for every GPU.
//   - Memory is preferred on those nodes, not required (MPOL_PREFERRED, of several
//     nodes MPOL_PREFERRED_MANY, as numactl --preferred): a worker whose data set
//     fills its node takes memory farther away and goes on, where MPOL_BIND
//     (numactl --membind) would have it killed. torchrun sets no policy.
//
// Quota says how much time a worker has on its CPUs: its number of
// threads follows from both.
//
// Invariants: a worker is never given a CPU that this process may not use (its
// affinity mask, which its cgroup's cpuset bounds), and never none: that is an
// error. Under exclusive no two workers share a physical core.
package numa
