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
	name, domain, named := strings.Cut(host.FQDN, ".")
	if set := r.text("JOBSET_NAME"); set != "" {
		return jobSet(set, index, domain)
	}
	s := Surroundings{
		Kind: Kubernetes, Name: fmt.Sprintf("pod %d of an Indexed Job", index), Task: Task{Count: 1},
		Values: map[string]Value{"node_rank": {strconv.Itoa(index), "JOB_COMPLETION_INDEX"}},
	}
	base, own := strings.CutSuffix(name, "-"+strconv.Itoa(index))
	if named && own {
		s.Values["rdzv_id"] = Value{base, "the pod's name"}
		s.Values["rdzv_endpoint"] = Value{base + "-0." + domain, "the pod's name and JOB_COMPLETION_INDEX"}
	}
	return s
}

// jobSet returns the surroundings of a pod of a JobSet, whose template gives JOBSET_NAME
// the label jobset.sigs.k8s.io/jobset-name. A JobSet has any number of Jobs, and the index
// counts the pods of one, so it is no rank. All pods are below one headless service, whose
// name stands for them. Ranks follow from the order of the pods' names.
func jobSet(set string, index int, domain string) Surroundings {
	s := Surroundings{
		Kind: Kubernetes, Name: fmt.Sprintf("pod %d of a Job of JobSet %s", index, short(set)), Task: Task{Count: 1},
		Values: map[string]Value{"rdzv_id": {set, "JOBSET_NAME"}},
	}
	if domain != "" {
		s.Values["rdzv_endpoint"] = Value{domain, "the pod's name and JOBSET_NAME"}
	}
	return s
}
