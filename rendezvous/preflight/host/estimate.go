package host

import "cmp"

// The estimates below are orders of magnitude, to be shown beside the limit
// ("estimated need / limit"). Sources: NCCL's documentation ("a 144-rank job
// with the device API needs more than 32 K files") and sources, nccl#290 for
// the size of a shared memory segment, and the defaults of Docker (64 MB of
// /dev/shm).

// Load is what the needs of a node's workers depend on.
type Load struct {
	Ranks    int // number of ranks of the whole job
	Local    int // number of ranks on the node
	Channels int // NCCL's, per peer; 0: 2, as over sockets
}

// Sizes that the estimates are made of.
const (
	filesPerPeer   = 4         // files of bootstrap and proxy, at worst
	segmentBytes   = 9_637_888 // of one channel of one shared memory connection
	threadsPerRank = 64        // of CUDA, NCCL, PyTorch and OpenMP

	SHMWanted     = 1 << 30 // bytes of /dev/shm that a node with GPUs should have
	ThreadsWanted = 4096    // processes and threads that a rank should be allowed
)

// Files estimates how many files a worker opens if all ranks connect to all
// over sockets: 4 for every rank, and a connection to send and one to receive,
// for each channel, to every rank of another node.
func (l Load) Files() int64 {
	channels := int64(cmp.Or(max(l.Channels, 0), 2))
	remote := int64(max(l.Ranks-l.Local, 0))
	return filesPerPeer*int64(max(l.Ranks, 0)) + 2*channels*remote
}

// FilesLeast estimates the files that every worker needs for its first
// collective: its own and its libraries', the other ranks of its node, and two
// neighbours on a ring. It is gorun's own estimate and meant to be low.
func (l Load) FilesLeast() int64 {
	const perWorker, neighbours = 80, 16
	return perWorker + neighbours + 8*int64(max(l.Local, 0))
}

// FilesWanted returns the limit of open files (ulimit -n) to advise for a job.
func FilesWanted(ranks int) int64 {
	switch {
	case ranks <= 64:
		return 1 << 16
	case ranks <= 1024:
		return 1 << 17
	}
	return 1 << 20
}

// SHM estimates the bytes of /dev/shm that the node's ranks need if none of
// them reach each other by NVLink or PCI: a segment for each channel between
// neighbours on a ring. All to all needs as many for every pair.
func (l Load) SHM() int64 {
	if l.Local < 2 {
		return 0
	}
	return int64(l.Local) * int64(cmp.Or(max(l.Channels, 0), 2)) * segmentBytes
}

// Threads estimates the processes and threads of the node's workers.
func (l Load) Threads() int64 {
	return int64(max(l.Local, 0)) * threadsPerRank
}

// Neighbours estimates the entries of the neighbour table (ARP) for a job of so
// many nodes, each with so many network cards; gc_thresh3 should be four times
// as large.
func Neighbours(nodes, cards int) int64 { return int64(max(nodes, 0)) * int64(max(cards, 1)) }
