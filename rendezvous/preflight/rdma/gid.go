package rdma

import (
	"fmt"
	"net/netip"
	"strings"
)

// sinceAutoGID is the first version that chooses among a port's GIDs.
const sinceAutoGID = 22100

// GID reproduces the entry of the port's table that NCCL uses; why is the rule
// that decided. ok is false if the table has no such entry: connections then
// fail with "ibv_modify_qp failed with 22 Invalid argument".
//
// Source: src/transport/net_ib/connect.cc, ncclIbGetGidIndex.
func (p Port) GID(env func(string) string, code int) (g GID, why string, ok bool) {
	if p.Link == "InfiniBand" {
		index := int(number(env, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", 1))
		if g, ok := p.entry(index); ok && flid(g) != 0 {
			return g, "InfiniBand with a routable identifier", true
		}
		g, ok := p.entry(0)
		return g, "InfiniBand uses the first", ok
	}
	automatic := int64(-1)
	if code != 0 && code < sinceAutoGID {
		automatic = 0
	}
	if index := number(env, "NCCL_IB_GID_INDEX", automatic); index >= 0 {
		why = fmt.Sprintf("NCCL_IB_GID_INDEX=%d", index)
		if env("NCCL_IB_GID_INDEX") == "" {
			why = "NCCL before 2.21 uses the first unless NCCL_IB_GID_INDEX says another"
		}
		g, ok := p.entry(int(min(index, maxGIDs)))
		return g, why, ok
	}
	r := newGIDRule(env)
	cur, _ := p.entry(0)
	for _, next := range p.GIDs {
		if next.Index > 0 && r.prefers(next, cur) {
			cur = next
		}
	}
	return cur, "NCCL prefers " + r.String(), cur.GID != ""
}

func (p Port) entry(index int) (GID, bool) {
	for _, g := range p.GIDs {
		if g.Index == index {
			return g, true
		}
	}
	return GID{}, false
}

// gidRule is what NCCL looks for among RoCE's GIDs.
type gidRule struct {
	v4      bool // NCCL_IB_ADDR_FAMILY
	version int  // NCCL_IB_ROCE_VERSION_NUM
	within  netip.Prefix
}

func newGIDRule(env func(string) string) gidRule {
	r := gidRule{v4: env("NCCL_IB_ADDR_FAMILY") != "AF_INET6", version: int(number(env, "NCCL_IB_ROCE_VERSION_NUM", 2))}
	if p, err := netip.ParsePrefix(env("NCCL_IB_ADDR_RANGE")); err == nil && p.Addr().Is4() == r.v4 {
		r.within = p
	}
	return r
}

func (r gidRule) String() string {
	family := "IPv6"
	if r.v4 {
		family = "IPv4"
	}
	s := fmt.Sprintf("RoCE v%d over %s", r.version, family)
	if r.within.IsValid() {
		s += " within " + r.within.String()
	}
	return s
}

// prefers reports whether NCCL replaces cur by next on its way through the
// table.
func (r gidRule) prefers(next, cur GID) bool {
	n, c := addressOf(next), addressOf(cur)
	if !r.matches(n) {
		return false
	}
	v4 := func(a netip.Addr) bool { return a.Is4() }
	if v4(n) != v4(c) && v4(n) == r.v4 {
		return true
	}
	if v4(n) != r.v4 || !isValid(n) {
		return false
	}
	return (version(cur) != version(next) || !isValid(c)) && version(next) == r.version
}

func (r gidRule) matches(a netip.Addr) bool { return !r.within.IsValid() || r.within.Contains(a) }

// addressOf returns the address in a GID, as IPv4 if it is one.
func addressOf(g GID) netip.Addr {
	a, err := netip.ParseAddr(g.GID)
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return a.Unmap()
}

// isValid reports whether NCCL accepts the address: neither empty nor
// link-local.
func isValid(a netip.Addr) bool {
	return !a.IsUnspecified() && !(a.Is6() && a.IsLinkLocalUnicast())
}

func version(g GID) int {
	switch {
	case strings.HasPrefix(g.Type, "IB/RoCE v1"), strings.HasPrefix(g.Type, "RoCE v1"):
		return 1
	case strings.HasPrefix(g.Type, "RoCE v2"):
		return 2
	}
	return -1
}

// flid returns the part of an InfiniBand GID that makes it routable.
func flid(g GID) int {
	a, err := netip.ParseAddr(g.GID)
	if err != nil || !a.Is6() {
		return 0
	}
	b := a.As16()
	return int(b[4])<<8 | int(b[5])
}
