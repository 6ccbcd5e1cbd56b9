package surroundings

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// openMPI recognises a process of Open MPI's mpirun. The nodes meet on the machine of
// mpirun (the head), since its address is all that every process knows.
func openMPI(r *reader, host Host) Surroundings {
	if !r.has("OMPI_COMM_WORLD_RANK") || !r.has("OMPI_COMM_WORLD_SIZE") {
		return Surroundings{}
	}
	size := r.number("OMPI_COMM_WORLD_SIZE", 1, largest)
	rank := r.number("OMPI_COMM_WORLD_RANK", 0, size-1)
	s := Surroundings{Kind: OpenMPI, Name: fmt.Sprintf("Open MPI's job of %d processes", size), Values: map[string]Value{}}
	s.Task = Task{Local: r.optional("OMPI_COMM_WORLD_LOCAL_RANK", 0, largest, 0), Count: r.optional("OMPI_COMM_WORLD_LOCAL_SIZE", 1, largest, 1)}
	id := r.text("PMIX_NAMESPACE")
	if id == "" {
		return r.mpiWithoutMeeting(s, size, rank)
	}
	s.Values["rdzv_id"] = Value{id, "PMIX_NAMESPACE"}
	daemon, _ := r.first("OMPI_MCA_orte_local_daemon_uri", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2", "PMIX_HOSTNAME")
	s.Task.Key = "openmpi-" + id + "-" + daemon
	if s.Task.Count == 1 {
		s.Nodes = size
		s.Values["nnodes"] = Value{strconv.Itoa(size), "OMPI_COMM_WORLD_SIZE"}
		s.Values["node_rank"] = Value{strconv.Itoa(rank), "OMPI_COMM_WORLD_RANK"}
	} else {
		r.openMPINodes(&s, size, rank)
	}
	if s.Nodes > 1 {
		r.openMPIMeeting(&s, rank, host)
	}
	return s
}

// openMPINodes counts the nodes of a job with several processes a node, and numbers
// this one where that is possible.
func (r *reader) openMPINodes(s *Surroundings, size, rank int) {
	s.Values["nproc_per_node"] = Value{strconv.Itoa(s.Task.Count), "OMPI_COMM_WORLD_LOCAL_SIZE"}
	switch {
	case r.has("OMPI_MCA_orte_num_nodes"):
		s.Nodes = r.number("OMPI_MCA_orte_num_nodes", 1, size)
		s.Values["nnodes"] = Value{strconv.Itoa(s.Nodes), "OMPI_MCA_orte_num_nodes"}
	case size%s.Task.Count == 0: // Open MPI 5 does not say it
		s.Nodes = size / s.Task.Count
		s.Values["nnodes"] = Value{strconv.Itoa(s.Nodes), "OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_LOCAL_SIZE"}
	default:
		r.fail("OMPI_COMM_WORLD_LOCAL_SIZE", "%d processes are not the same number on each node: use mpirun -N", size)
	}
	if daemon := r.text("OMPI_MCA_orte_local_daemon_uri"); daemon != "" {
		if n, ok := daemonNumber(daemon, r.text("OMPI_MCA_orte_node_regex"), s.Nodes); ok {
			s.Values["node_rank"] = Value{strconv.Itoa(n), "OMPI_MCA_orte_local_daemon_uri"}
		}
	} else if rank == 0 {
		s.Values["node_rank"] = Value{"0", "OMPI_COMM_WORLD_RANK"}
	}
}

// daemonNumber returns the number of a node: that of its daemon in a contact URI of Open
// MPI 4, if each of the daemons has processes. A daemon beside mpirun has a list of all
// nodes, which ends with their number: "a,b[1:2-3]@0(3)".
func daemonNumber(uri, nodes string, used int) (n int, ok bool) {
	_, text, _ := strings.Cut(uri, ".")
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.Atoi(text)
	_, list, _ := strings.Cut(nodes, "@0(")
	all, err2 := strconv.Atoi(strings.TrimSuffix(list, ")"))
	return n, err == nil && (n == 0 || n > 0 && n < used && err2 == nil && all == used)
}

// openMPIMeeting finds where the nodes meet. A job without a process on the head gets no
// endpoint; rank 0 stands for all, because mpirun starts it on the head unless the head
// has no process.
func (r *reader) openMPIMeeting(s *Surroundings, rank int, host Host) {
	id := s.Values["rdzv_id"].Text
	head, from, away := "", "", false
	if uri := r.text("OMPI_MCA_orte_hnp_uri"); uri != "" {
		var err error
		if head, err = headAddress(uri); err != nil {
			r.fail("OMPI_MCA_orte_hnp_uri", "%v", err)
			return
		}
		daemon := r.text("OMPI_MCA_orte_local_daemon_uri")
		from, away = "OMPI_MCA_orte_hnp_uri and PMIX_NAMESPACE", daemon != "" && daemon != uri
	} else if name, ok := headName(id); ok {
		from, away = "PMIX_NAMESPACE", !sameHost(name, host.Name)
		head = name
	} else {
		return
	}
	if rank == 0 && away {
		s.NoMeeting = fmt.Sprintf("mpirun runs on %s, and no process of rank 0 is there to meet at: give an address or a name of this node, --rdzv-endpoint %s", head, host.Name)
		return
	}
	s.Values["rdzv_endpoint"] = Value{net.JoinHostPort(head, strconv.Itoa(hashPort(id))), from}
}

// headAddress returns the address of mpirun's machine in a contact URI of Open MPI 4:
// "1886781440.0;tcp://10.0.0.1,172.17.0.1:52059;tcp6://[fd00::1]:1". The first one that
// is not of this machine only counts.
func headAddress(uri string) (string, error) {
	var loopback string
	for part := range strings.SplitSeq(uri, ";") {
		_, list, ok := strings.Cut(part, "://")
		at := strings.LastIndexByte(list, ':')
		if !ok || at < 0 {
			continue
		}
		for text := range strings.SplitSeq(list[:at], ",") {
			a, err := netip.ParseAddr(strings.Trim(text, "[]"))
			switch {
			case err != nil || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "":
			case !a.IsLoopback():
				return a.Unmap().String(), nil
			case loopback == "":
				loopback = a.Unmap().String()
			}
		}
	}
	if loopback == "" {
		return "", fmt.Errorf("%q names no address of mpirun", short(uri))
	}
	return loopback, nil
}

// headName returns the name of mpirun's machine in a namespace of Open MPI 5:
// "prterun-HOST-PID@1".
func headName(namespace string) (string, bool) {
	text, ok := strings.CutPrefix(namespace, "prterun-")
	text, _, numbered := strings.Cut(text, "@")
	at := strings.LastIndexByte(text, '-')
	if !ok || !numbered || at <= 0 || !isName(text[:at]) {
		return "", false
	}
	_, err := strconv.ParseUint(text[at+1:], 10, 32)
	return text[:at], err == nil
}

// isName reports whether a text may be the name of a host.
func isName(text string) bool {
	return len(text) <= 255 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

// sameHost reports whether two names, with or without a domain, name one host.
func sameHost(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

// hashPort returns a port for the nodes of a job to meet, from its name.
func hashPort(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return firstPort + int(h.Sum32()%portCount)
}

// mpiWithoutMeeting returns what the number of processes says when nothing says where
// they meet.
func (r *reader) mpiWithoutMeeting(s Surroundings, size, rank int) Surroundings {
	if s.Task.Count == 1 {
		s.Nodes = size
		prefix := map[Kind]string{OpenMPI: "OMPI_COMM_WORLD_", Hydra: "PMI_"}[s.Kind]
		s.Values["nnodes"] = Value{strconv.Itoa(size), prefix + "SIZE"}
		s.Values["node_rank"] = Value{strconv.Itoa(rank), prefix + "RANK"}
	}
	return s
}
