package spec

import (
	"crypto/rand"
	"fmt"
)

// rendezvous decides how the nodes meet and reads the settings of that way.
func (in *input) rendezvous(s *Spec) {
	m := in.meeting()
	if in.isOn("standalone") {
		in.standalone(s, m)
	} else {
		in.chooseBackend(s, m)
	}
	text := in.get("rdzv_conf")
	pairs, err := ParseConf(text.text)
	if err != nil {
		in.fail("cannot use %s: %w", text.from, err)
		return
	}
	if s.Backend == EtcdV3 {
		in.etcdConf(s, pairs)
	} else {
		in.noteEtcdFlags(s)
	}
	conf, err := resolveConf(pairs, s.Backend)
	in.check(err)
	s.Conf, s.Notes = conf.Conf, append(s.Notes, conf.notes...)
	in.onJoin(s)
	s.StoreOpen = in.isOn("store_open")
	if s.NodeRank < 0 {
		s.NodeRank = conf.rank
	}
	if s.NodeRank < 0 && s.Backend != Gossip && s.Backend != EtcdV3 {
		s.NodeRank = 0
	}
	if s.NodeRank >= s.MaxNodes {
		in.fail("cannot use --node-rank %d: with --nnodes %d ranks go from 0 to %d", s.NodeRank, s.MaxNodes, s.MaxNodes-1)
	}
}

// meeting holds what the user said about where the nodes meet.
type meeting struct {
	backend, endpoint, addr, portFlag value
	port                              int // 0: not given, or any free port
}

func (in *input) meeting() meeting {
	m := meeting{
		backend:  in.text("rdzv_backend", ""),
		endpoint: in.text("rdzv_endpoint", ""),
		addr:     in.text("master_addr", ""),
	}
	m.port, m.portFlag = in.number("master_port", 0, 0)
	if m.port > 65535 {
		in.fail("%s is %d: ports end at 65535", m.portFlag.from, m.port)
	}
	if m.addr.given && !validHost(m.addr.text) {
		in.fail("cannot use %s: %q is not a host name or an address", m.addr.from, m.addr.text)
	}
	return m
}

// standalone applies --standalone, which overrides backend, endpoint and run id.
func (in *input) standalone(s *Spec, m meeting) {
	if s.MinNodes > 1 {
		in.fail("cannot use --standalone with --nnodes %d: it is for one node", s.MinNodes)
	}
	for _, v := range []value{m.backend, m.endpoint, in.text("rdzv_id", "")} {
		if v.given {
			s.note("%s %s is ignored: --standalone decides it", v.from, v.text)
		}
	}
	in.dropMaster(s, &m, "--standalone decides it")
	if s.NodeRank > 0 {
		s.note("node rank %d is ignored: --standalone is the only node", s.NodeRank)
	}
	s.NodeRank, s.RunID = 0, newRunID()
	s.setStandalone(m, RankZero)
}

// dropMaster ignores the variables of the master's address and port, for they are those of
// all jobs of a pod or an allocation. Flags count.
func (in *input) dropMaster(s *Spec, m *meeting, why string) {
	for _, v := range []*value{&m.addr, &m.portFlag} {
		if v.given && v.env {
			s.note("%s=%s is ignored: %s", v.from, v.text, why)
			if *v = (value{}); v == &m.portFlag {
				m.port = 0
			}
		}
	}
}

// setStandalone makes this node the whole job. The agent opens the store if the user
// names its port.
func (s *Spec) setStandalone(m meeting, owner StoreOwner) {
	s.Backend, s.MinNodes, s.MaxNodes = Standalone, 1, 1
	switch s.MasterPort = m.port; {
	case m.portFlag.given:
	case owner == AgentNearPort:
		s.MasterPort, s.StoreOwner = DefaultMasterPort, owner
	default:
		s.StoreOwner = owner
	}
	if m.addr.given {
		s.MasterAddr, s.MasterFrom = m.addr.text, []string{m.addr.from}
	}
}

// chooseBackend picks the backend. Without a named backend torchrun takes static. gorun
// takes gossip if several nodes have an endpoint, because an endpoint is mostly given
// for gossip. One node needs no rendezvous at all.
func (in *input) chooseBackend(s *Spec, m meeting) {
	name := m.backend.text
	switch {
	case m.backend.given || s.LocalNodes > 0:
	case m.endpoint.given && s.MaxNodes == 1 && in.isPlainEndpoint(m.endpoint):
		name = string(Static)
	case m.endpoint.given:
		name = string(Gossip)
	case s.MaxNodes == 1:
		name = string(Standalone)
	case m.addr.given || m.portFlag.given:
		name = string(Static)
	case in.found.NoMeeting != "":
		in.fail("%s", in.found.NoMeeting)
		return
	default:
		in.fail("cannot find the other nodes: with --nnodes above 1 give --rdzv-endpoint HOST[:PORT], or --master-addr and --node-rank")
		return
	}
	switch {
	case isEtcd(name):
		in.etcd(s, m)
	case s.LocalNodes == 1:
		in.noteUnused(s, Standalone, m.portFlag)
		s.setStandalone(meeting{}, AgentAtPort)
	case s.LocalNodes > 0:
		s.Backend = Gossip
		in.noteUnused(s, Gossip, m.portFlag)
	case name == "c10d" || name == string(Gossip):
		in.gossip(s, m)
	case name == string(Static):
		in.static(s, m)
	case name == string(Standalone):
		if s.MinNodes > 1 {
			in.fail("cannot use --rdzv-backend standalone with --nnodes %d: it is for one node", s.MinNodes)
		}
		in.noteUnused(s, Standalone, m.endpoint)
		s.setStandalone(m, AgentNearPort)
	default:
		in.fail("cannot use --rdzv-backend %s: this build has gossip (also called c10d), etcd, static and standalone", name)
	}
}

// isPlainEndpoint reports whether the user gives one endpoint that the static rendezvous
// can use.
func (in *input) isPlainEndpoint(v value) bool {
	list, err := ParseEndpoints(v.text, DefaultMasterPort)
	return in.fromUser("rdzv_endpoint").given && err == nil && len(list) == 1 && !list[0].IsService()
}

func (in *input) gossip(s *Spec, m meeting) {
	if !m.endpoint.given {
		if s.MaxNodes > 1 {
			in.fail("cannot use --rdzv-backend %s without --rdzv-endpoint HOST[:PORT] when --nnodes is above 1", m.backend.text)
		}
		s.setStandalone(m, RankZero)
		return
	}
	list, err := ParseEndpoints(m.endpoint.text, DefaultPort)
	if err != nil {
		in.fail("cannot use %s: %w", m.endpoint.from, err)
	}
	for _, e := range list {
		if e.Port != 0 {
			continue
		}
		// torchrun's users write "localhost:0" for --standalone: a port that no
		// other node can know.
		if s.MinNodes > 1 || len(list) > 1 {
			in.fail("cannot use %s %s: port 0 (any free port) is for one node, the others cannot know it", m.endpoint.from, e)
		}
		in.dropMaster(s, &m, m.endpoint.from+" "+m.endpoint.text+" asks for any free port")
		s.setStandalone(m, RankZero)
		return
	}
	s.Backend, s.Endpoints = Gossip, list
	if s.MaxNodes == 1 {
		s.StoreOwner = RankZero
	}
	in.noteUnused(s, Gossip, m.addr)
	in.noteUnused(s, Gossip, m.portFlag)
}

// static lets the nodes meet at one fixed place. The endpoint names it or, in most
// jobs, --master-addr and --master-port do.
func (in *input) static(s *Spec, m meeting) {
	if s.MinNodes != s.MaxNodes {
		in.fail("cannot use --nnodes %d:%d with the static rendezvous, whose size is fixed: give --nnodes N, or --rdzv-endpoint without --rdzv-backend static", s.MinNodes, s.MaxNodes)
	}
	at := Endpoint{"127.0.0.1", DefaultMasterPort}
	s.MasterFrom = []string{m.addr.from, m.portFlag.from}
	if m.portFlag.given {
		at.Port = m.port
	}
	if m.addr.given {
		at.Host = m.addr.text
	}
	if m.endpoint.given {
		list, err := ParseEndpoints(m.endpoint.text, at.Port)
		switch {
		case err != nil:
			in.fail("cannot use %s: %w", m.endpoint.from, err)
			return
		case list[0].IsService():
			in.fail("cannot use %s %s: a DNS service record is for the gossip rendezvous", m.endpoint.from, m.endpoint.text)
			return
		case len(list) != 1:
			in.fail("cannot use %s %s: the static rendezvous has one endpoint", m.endpoint.from, m.endpoint.text)
			return
		}
		if m.addr.given && m.addr.text != list[0].Host || m.portFlag.given && m.port != list[0].Port {
			s.note("--master-addr and --master-port are ignored: %s %s decides", m.endpoint.from, m.endpoint.text)
		}
		at, s.MasterFrom = list[0], []string{m.endpoint.from}
	}
	if at.Port == 0 && s.MaxNodes > 1 {
		in.fail("cannot use port 0 (any free port) with several nodes: the others cannot know it")
	}
	s.Backend, s.Endpoints = Static, []Endpoint{at}
	s.MasterAddr, s.MasterPort = at.Host, at.Port
}

// noteUnused notes a flag that has no meaning here. torchrun ignores it silently.
func (in *input) noteUnused(s *Spec, b Backend, v value) {
	if v.given {
		s.note("%s %s has no meaning with the %s rendezvous and is ignored", v.from, v.text, b)
	}
}

func (s *Spec) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// newRunID returns a random (version 4) UUID, as torchrun does for --standalone.
func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; without random bytes it ends the program
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
