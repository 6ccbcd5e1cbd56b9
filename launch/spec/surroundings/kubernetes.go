package surroundings

import (
	"fmt"
	"strconv"
	"strings"
)

// kubernetes recognises a pod of an Indexed Job or of a JobSet. The pod knows its
// index, and not how many pods there are: GORUN_NNODES or --nnodes says that. The
// pods of a job that has a headless service (subdomain in the pod's template) have
// names, and the name of the first one follows from this pod's own.
func kubernetes(r *reader, host Host) Surroundings {
	if !r.has("JOB_COMPLETION_INDEX") {
		return Surroundings{}
	}
	index := r.number("JOB_COMPLETION_INDEX", 0, largest)
	s := Surroundings{
		Kind: Kubernetes, Name: fmt.Sprintf("pod %d of an Indexed Job", index), Task: Task{Count: 1},
		Values: map[string]Value{"node_rank": {strconv.Itoa(index), "JOB_COMPLETION_INDEX"}},
	}
	name, domain, named := strings.Cut(host.FQDN, ".")
	base, own := strings.CutSuffix(name, "-"+strconv.Itoa(index))
	if named && own {
		s.Values["rdzv_id"] = Value{base, "the pod's name"}
		s.Values["rdzv_endpoint"] = Value{base + "-0." + domain, "the pod's name and JOB_COMPLETION_INDEX"}
	}
	return s
}
