package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// ncclLines holds what the processes say of their NCCL when they start.
type ncclLines struct {
	addresses endpoints // of the bootstrap
	others    endpoints // of all interfaces that carry data
	version   string    // the last that a line named
	versions  byHost
	variables map[string]byHost // by name
	ras       []lineRef         // frames of its RAS thread
	frames    []lineRef         // frames of libnccl
}

// endpoints holds who announced each address.
type endpoints map[string]endpoint

// endpoint is the host and the interface of an address.
type endpoint struct {
	host  soleName // several hosts may have an address, such as that of docker0
	iface string
}

// add adds the host and the interface of an address.
func (all endpoints) add(address, host, iface string) {
	e, known := all[address]
	if host == "" || !known && len(all) >= maxTracked {
		return
	}
	e.host.add(host)
	e.iface = iface
	all[address] = e
}

// byHost holds a value of each host.
type byHost map[string]string

// readAddress reads the address under which a rank of NCCL is reached.
func (s *Scanner) readAddress(l *line, f *match.Fields) {
	s.job.nccl.addresses.add(f.Text("address"), l.Host, f.Text("interface"))
}

// ownAddress matches one interface in the list of those that carry data.
var ownAddress = match.Lazy(`\[\d+\]([\w.@-]+):([\d.]+)<`)

// readInterfaces reads the interfaces that carry the data of a rank.
func (s *Scanner) readInterfaces(l *line, _ *match.Fields) {
	for _, m := range ownAddress().FindAllSubmatch(l.raw, 16) {
		s.job.nccl.others.add(string(m[2]), l.Host, string(m[1]))
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
	// maxShown bounds the values and the variables that a meaning names.
	maxShown = 4
)

// readVariable reads a variable that NCCL found in the environment.
func (s *Scanner) readVariable(l *line, f *match.Fields) {
	all, name := s.job.nccl.variables, f.Text("name")
	if l.Host == "" {
		return
	}
	if all[name] == nil && len(all) < maxVariables {
		all[name] = byHost{}
	}
	if values, value := all[name], f.Text("value"); values != nil && len(values) < maxHosts {
		values[l.Host] = strings.ToValidUTF8(value[:min(len(value), maxValue)], "")
	}
}

// addressesOf returns the addresses of one family that a host announced. Each host
// announces one.
func (n *ncclLines) addressesOf(host string) []string {
	var all []string
	for _, address := range slices.Sorted(maps.Keys(n.addresses)) {
		if n.addresses[address].host.name == host && strings.Contains(address, ".") {
			all = append(all, address)
		}
	}
	return all
}

// endpointOf returns who announced the address of a peer.
func (n *ncclLines) endpointOf(peer string) endpoint {
	address, _, _ := strings.Cut(peer, "<")
	if e, ok := n.addresses[address]; ok {
		return e
	}
	return n.others[address]
}

// nameHost adds the host to a peer that a line names by its address.
func (n *ncclLines) nameHost(peer string) string {
	host := n.endpointOf(peer).host.known()
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
	for i, value := range slices.Sorted(maps.Keys(hosts)) {
		if i == maxShown {
			parts = append(parts, fmt.Sprintf("%d other values", len(hosts)-maxShown))
			break
		}
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
	odd, others := "", 0
	for _, on := range values.hosts() {
		if len(on) == 1 && odd == "" {
			odd = on[0]
		} else {
			others = len(on)
		}
	}
	if len(values.hosts()) != 2 || others < 2 {
		return ""
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
var localInterface = match.Lazy(`^(?:lo\d*$|docker|br-|virbr|veth|cni|flannel|cali|podman|lxc|lxd|vmnet|tun|tap|tailscale|wg|zt|nodelocaldns|kube-)`)

// sharpenPeer says which interface the peer announced that cannot be reached.
func (n *ncclLines) sharpenPeer(f *Finding) {
	if f.ID[0] != 'I' {
		return
	}
	peer, _, _ := strings.Cut(f.Peer, " on ")
	from := n.endpointOf(peer)
	host := from.host.known()
	own := ""
	for _, address := range n.addressesOf(f.Host) {
		if iface := n.addresses[address].iface; iface != from.iface {
			own = "; " + f.Host + " uses " + iface
		}
	}
	switch {
	case from.iface == "":
		n.compareNetworks(f, peer)
	case host != "" && host == f.Host && localInterface().MatchString(from.iface): // its own address, which the peer has, too
		f.Meaning = "NCCL chose the interface " + from.iface + ", whose address each node has for itself"
		f.Fix = "set NCCL_SOCKET_IFNAME to the interface of the common network on all nodes, or use gorun --iface"
	case host != "" && host == f.Host:
	case localInterface().MatchString(from.iface):
		f.Meaning = cmp.Or(host, "a peer") + " announced the address of its interface " + from.iface + ", which other nodes cannot reach" + own
		f.Fix = "set NCCL_SOCKET_IFNAME to the interface of the common network on all nodes, or use gorun --iface"
		f.blame(host)
		f.Peer = ""
	case own != "" && host != "":
		f.Meaning += " (" + host + " announced its interface " + from.iface + own + ")"
	}
}

// compareNetworks adds the address that the writer itself uses, if the first byte of the peer's
// differs: the two may be in networks that do not reach each other.
func (n *ncclLines) compareNetworks(f *Finding, peer string) {
	address, _, _ := strings.Cut(peer, "<")
	other, err := netip.ParseAddr(address)
	if other = other.Unmap(); err != nil || !other.Is4() {
		return
	}
	for _, own := range n.addressesOf(f.Host) {
		if a, err := netip.ParseAddr(own); err == nil && a.Is4() && a.As4()[0] != other.As4()[0] {
			f.Meaning += " (" + f.Host + " itself uses " + own + " of " + n.addresses[own].iface + ")"
			return
		}
	}
}

// commonVariable matches the variables of NCCL that must be the same on all nodes.
var commonVariable = match.Lazy(`^NCCL_(?:ALGO|PROTO|BUFFSIZE|NSOCKS_PERTHREAD|SOCKET_(?:NTHREADS|FAMILY)|NTHREADS|(?:MIN|MAX)_(?:NCHANNELS|CTAS)|IB_(?:DISABLE|GID_INDEX|TC|SL|TIMEOUT|RETRY_CNT|QPS_PER_CONNECTION|SPLIT_DATA_ON_QPS|ADAPTIVE_ROUTING|ROCE_VERSION_NUM|ADDR_FAMILY|PKEY)|NET|CROSS_NIC|P2P_\w+|SHM_DISABLE|COLLNET_ENABLE|NVLS_ENABLE|PXN_DISABLE|NET_GDR_\w+)$`)

// nodeVariable matches the variables that name what a node has, which may differ.
var nodeVariable = match.Lazy(`^NCCL_(?:SOCKET_IFNAME|OOB_NET_IFNAME|IB_HCA)$`)

// ncclVariable matches the name of a variable of NCCL.
var ncclVariable = match.Lazy(`NCCL_[A-Z0-9_]+`)

// sharpenVariables says which variables of NCCL differ between the hosts, for a finding about
// the network or NCCL's settings, and else the values of those that the meaning names.
func (n *ncclLines) sharpenVariables(f *Finding) {
	if f.ID[0] != 'I' && f.ID[0] != 'N' && f.ID[0] != 'E' && f.ID != "G04" && f.ID != "X-NCCL" {
		return
	}
	var differ, texts, odd []string
	for _, name := range slices.Sorted(maps.Keys(n.variables)) {
		switch text := n.variables[name].text(); {
		case text == "":
		case nodeVariable().MatchString(name):
			f.Meaning += " (" + name + " is " + text + ")"
		case commonVariable().MatchString(name):
			differ, texts, odd = append(differ, name), append(texts, name+" is "+text), append(odd, n.variables[name].odd())
		}
	}
	differ, texts = differ[:min(len(differ), maxShown)], texts[:min(len(texts), maxShown)]
	if odd = slices.Compact(odd); len(odd) == 1 {
		f.blame(odd[0])
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
