package surroundings

import (
	"fmt"
	"strconv"
)

// openMPI recognises a process of Open MPI's mpirun.
func openMPI(r *reader, _ Host) Surroundings {
	if !r.has("OMPI_COMM_WORLD_RANK") || !r.has("OMPI_COMM_WORLD_SIZE") {
		return Surroundings{}
	}
	return r.mpi(OpenMPI, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
}

// hydra recognises a process of Hydra's mpiexec (MPICH, Intel MPI).
func hydra(r *reader, _ Host) Surroundings {
	if !r.has("PMI_FD") && !r.has("PMI_PORT") || !r.has("PMI_RANK") || !r.has("PMI_SIZE") {
		return Surroundings{}
	}
	return r.mpi(Hydra, "Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
}

// mpi reads the variables of a process of mpirun. With one process a node, the
// number of processes is the number of nodes.
func (r *reader) mpi(kind Kind, name, rank, size, localRank, localSize string) Surroundings {
	n := r.number(size, 1, largest)
	s := Surroundings{Kind: kind, Name: fmt.Sprintf("%s's job of %d processes", name, n)}
	s.Task = Task{Local: r.optional(localRank, 0, largest, 0), Count: r.optional(localSize, 1, largest, 1)}
	if s.Task.Count == 1 {
		s.Nodes = n
		s.Values = map[string]Value{
			"nnodes":    {strconv.Itoa(n), size},
			"node_rank": {strconv.Itoa(r.number(rank, 0, n-1)), rank},
		}
	}
	return s
}
