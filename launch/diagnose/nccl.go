package diagnose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// ncclLines holds what the processes say of their NCCL when they start.
type ncclLines struct {
	addresses map[string]announced // by address, of the bootstrap
	others    map[string]announced // by address, of the other interfaces
	version   string               // the last that a line named
	versions  byHost
	variables map[string]byHost // by name
	ras       []lineRef         // frames of its RAS thread
	frames    []lineRef         // frames of libnccl
}

// announced says under which host and interface others reach an address.
type announced struct{ host, iface string }

// byHost holds a value of each host.
type byHost map[string]string

// readAddress reads the address under which a rank of NCCL is reached.
func (s *Scanner) readAddress(l *line, f *match.Fields) {
	if l.Host != "" && len(s.job.nccl.addresses) < maxTracked {
		s.job.nccl.addresses[f.Text("address")] = announced{l.Host, f.Text("interface")}
	}
}

// ownAddress matches one interface in the list of those that carry data.
var ownAddress = match.Lazy(`\[\d+\]([\w.@-]+):([\d.]+)<`)

// readInterfaces reads the interfaces that carry the data of a rank.
func (s *Scanner) readInterfaces(l *line, _ *match.Fields) {
	for _, m := range ownAddress().FindAllSubmatch(l.raw, 16) {
		if others := s.job.nccl.others; l.Host != "" && len(others) < maxTracked {
			others[string(m[2])] = announced{l.Host, string(m[1])}
		}
	}
}

// readVersion reads the version that NCCL itself prints. The version in torch's
// errors is the version with which torch was built.
func (s *Scanner) readVersion(l *line, f *match.Fields) {
	s.job.nccl.version = f.Text("version")
	if l.Host != "" && len(s.job.nccl.versions) < maxTracked {
		s.job.nccl.versions[l.Host] = s.job.nccl.version
	}
}

const (
	// maxVariables bounds the variables that are kept, maxHosts the hosts of each, and
	// maxValue a value in bytes.
	maxVariables = 64
	maxHosts     = 1024
	maxValue     = 64
)

// readVariable reads a variable that NCCL found in the environment.
func (s *Scanner) readVariable(l *line, f *match.Fields) {
	all, name := s.job.nccl.variables, f.Text("name")
	if all[name] == nil && len(all) < maxVariables {
		all[name] = byHost{}
	}
	if values, value := all[name], f.Text("value"); values != nil && len(values) < maxHosts {
		values[l.Host] = value[:min(len(value), maxValue)]
	}
}

// addressesOf returns the addresses of one family that a host announced. Each host
// announces one.
func (n *ncclLines) addressesOf(host string) []string {
	var all []string
	for _, address := range slices.Sorted(maps.Keys(n.addresses)) {
		if n.addresses[address].host == host && strings.Contains(address, ".") {
			all = append(all, address)
		}
	}
	return all
}

// announcedBy returns who announced the address of a peer.
func (n *ncclLines) announcedBy(peer string) announced {
	address, _, _ := strings.Cut(peer, "<")
	if a, ok := n.addresses[address]; ok {
		return a
	}
	return n.others[address]
}

// nameHost adds the host to a peer that a line names by its address.
func (n *ncclLines) nameHost(peer string) string {
	host := n.announcedBy(peer).host
	if host == "" || host == peer {
		return peer
	}
	return peer + " on " + host
}

// text lists the values with their hosts, "" if all hosts have the same.
func (values byHost) text() string {
	hosts := values.hosts()
	if len(hosts) < 2 {
		return ""
	}
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(hosts)) {
		on := hosts[value]
		if more := len(on) - 3; more > 0 {
			on = append(on[:3:3], fmt.Sprintf("%d more", more))
		}
		parts = append(parts, value+" on "+strings.Join(on, ", "))
	}
	return strings.Join(parts, "; ")
}

// hosts returns the hosts of each value in their order.
func (values byHost) hosts() map[string][]string {
	hosts := map[string][]string{}
	for _, host := range slices.Sorted(maps.Keys(values)) {
		hosts[values[host]] = append(hosts[values[host]], host)
	}
	return hosts
}

// odd returns the only host whose value differs from that of all others, "" if there is
// none.
func (values byHost) odd() string {
	odd := ""
	if hosts := values.hosts(); len(hosts) == 2 && len(values) > 2 {
		for _, on := range hosts {
			if len(on) == 1 {
				odd = on[0]
			}
		}
	}
	return odd
}

// blame makes host the one at fault, if there is one. The line's own writer only reports it.
func (f *Finding) blame(host string) {
	if host != "" {
		f.Host, f.Node, f.Rank, f.Ranks, f.Local, f.otherHosts, f.ofJob = host, "", -1, nil, -1, 0, false
	}
}

// sharpen makes a finding about NCCL more precise by what differs between the hosts: the
// versions that they loaded, their variables, the interfaces that they chose.
func (n *ncclLines) sharpen(f *Finding) {
	switch versions := n.versions.text(); {
	case versions == "":
	case f.ID == "V01":
		f.Meaning += " (" + versions + ")"
	case slices.Contains(f.Checks, "V01"):
		f.Checks = slices.DeleteFunc(append([]string{f.ID}, f.Checks...), func(id string) bool { return id == "V01" })
		f.ID, f.Meaning, f.Fix = "V01", "ranks loaded different versions of NCCL ("+versions+")", "install the same NCCL (nvidia-nccl-cuXX), or use the same image, on all nodes; `gorun check` says which node loads which file"
		f.ofJob = true
		f.blame(n.versions.odd())
	}
	n.sharpenPeer(f)
	n.sharpenVariables(f)
}

// localInterface matches names of interfaces that other nodes cannot reach.
var localInterface = match.Lazy(`^(?:lo\d*|docker|br-|virbr|veth|cni|flannel|cali|podman|lxc|lxd|vmnet|tun|tap|tailscale|wg|zt)`)

// sharpenPeer says which interface the peer announced that cannot be reached.
func (n *ncclLines) sharpenPeer(f *Finding) {
	peer, _, _ := strings.Cut(f.Peer, " on ")
	from := n.announcedBy(peer)
	if f.ID[0] != 'I' || from.host == f.Host {
		return
	}
	if from.host == "" {
		n.compareNetworks(f, peer)
		return
	}
	own := ""
	for _, address := range n.addressesOf(f.Host) {
		if a := n.addresses[address]; a.iface != from.iface {
			own = "; " + a.host + " uses " + a.iface
		}
	}
	switch {
	case localInterface().MatchString(from.iface):
		f.Meaning = from.host + " announced the address of its interface " + from.iface + ", which other nodes cannot reach" + own
		f.Fix = "set NCCL_SOCKET_IFNAME to the interface of the common network on all nodes, or use gorun --iface"
		f.blame(from.host)
		f.Peer = ""
	case own != "":
		f.Meaning += " (" + from.host + " announced its interface " + from.iface + own + ")"
	}
}

// mayDiffer matches the variables of NCCL that name what each node has.
var mayDiffer = match.Lazy(`^NCCL_(?:SOCKET_IFNAME|IB_HCA|TOPO_\w+|GRAPH_\w+)$`)

// compareNetworks says that the peer announced an address of another network than that of the
// writer, if the first byte differs.
func (n *ncclLines) compareNetworks(f *Finding, peer string) {
	network := func(address string) string { return address[:max(0, strings.IndexByte(address, '.'))] }
	for _, own := range n.addressesOf(f.Host) {
		if network(peer) != "" && network(peer) != network(own) {
			f.Meaning += " (it is in another network than that of " + f.Host + ": " + own + " of " + n.addresses[own].iface + ")"
			return
		}
	}
}

// ncclVariable matches the name of a variable of NCCL.
var ncclVariable = match.Lazy(`NCCL_[A-Z0-9_]+`)

// sharpenVariables says which variables of NCCL differ between the hosts, for a finding about
// the network or NCCL's settings, and else the values of those that the meaning names.
func (n *ncclLines) sharpenVariables(f *Finding) {
	if f.ID[0] != 'I' && f.ID[0] != 'N' && f.ID[0] != 'E' && f.ID != "G04" && f.ID != "X-NCCL" {
		return
	}
	var differ, texts []string
	for _, name := range slices.Sorted(maps.Keys(n.variables)) {
		switch text := n.variables[name].text(); {
		case text == "" || strings.HasPrefix(name, "NCCL_DEBUG"):
		case mayDiffer().MatchString(name):
			f.Meaning += " (" + name + " is " + text + ")"
		default:
			differ, texts = append(differ, name), append(texts, name+" is "+text)
			f.blame(n.variables[name].odd())
		}
	}
	if differ != nil {
		f.Meaning = strings.Join(texts, ", ") + ": " + f.Meaning
		f.Fix = "give all nodes the same " + strings.Join(differ, ", ") + "; then " + f.Fix
		return
	}
	f.Meaning = replaceFirst(ncclVariable(), f.Meaning, func(name string) string {
		if hosts := n.variables[name].hosts(); len(hosts) == 1 {
			for value := range hosts {
				return name + " (" + value + ")"
			}
		}
		return name
	})
}

// replaceFirst replaces the first match of re in text by what by returns for it.
func replaceFirst(re *regexp.Regexp, text string, by func(string) string) string {
	at := re.FindStringIndex(text)
	if at == nil {
		return text
	}
	return text[:at[0]] + by(text[at[0]:at[1]]) + text[at[1]:]
}
