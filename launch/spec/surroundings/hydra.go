package surroundings

import (
	"fmt"
	"strconv"

	"github.com/gorun/gorun/launch/spec/surroundings/pmi"
)

// hydra recognises a process of Hydra's mpiexec (MPICH, Intel MPI). Slurm gives
// variables of PMI, too, but not those of local ranks. Where the nodes meet is known
// when the processes have told each other ([pmi.Exchange]); pmi.Env then has it.
func hydra(r *reader, _ Host) Surroundings {
	if !r.has("PMI_FD") && !r.has("PMI_PORT") && !r.has(pmi.Env) || !r.has("PMI_RANK") || !r.has("PMI_SIZE") || !r.has("MPI_LOCALNRANKS") {
		return Surroundings{}
	}
	size := r.number("PMI_SIZE", 1, largest)
	s := Surroundings{Kind: Hydra, Name: fmt.Sprintf("Hydra's job of %d processes", size), Values: map[string]Value{}}
	s.Task = Task{Local: r.optional("MPI_LOCALRANKID", 0, largest, 0), Count: r.number("MPI_LOCALNRANKS", 1, largest)}
	if text := r.text(pmi.Env); text != "" {
		meeting, err := pmi.Parse(text)
		if err != nil {
			r.fail(pmi.Env, "%v", err)
			return s
		}
		const from = "PMI_FD"
		s.Nodes, s.Task.Key = meeting.Nodes, fmt.Sprintf("hydra-%s-%d", meeting.ID, meeting.Node)
		s.Values["nnodes"] = Value{strconv.Itoa(meeting.Nodes), from}
		s.Values["node_rank"] = Value{strconv.Itoa(meeting.Node), from}
		s.Values["rdzv_id"] = Value{meeting.ID, from}
		if meeting.Nodes > 1 {
			s.Values["rdzv_endpoint"] = Value{meeting.Endpoint, from}
		}
		if s.Task.Count > 1 {
			s.Values["nproc_per_node"] = Value{strconv.Itoa(s.Task.Count), "MPI_LOCALNRANKS"}
		}
		return s
	}
	return r.mpiWithoutMeeting(s, size, r.number("PMI_RANK", 0, size-1))
}
