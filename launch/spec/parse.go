package spec

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous"
)

// maxSeconds bounds durations. It is far below what time.Duration can hold; 1e9 s
// are about 31 years.
const maxSeconds = 1e9

// ParseSeconds reads a duration that is not negative: a number of seconds ("5",
// "0.5") or a Go duration ("5s", "1m30s").
func ParseSeconds(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if secs, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		// NaN fails both comparisons.
		if !(math.Abs(secs) <= maxSeconds) {
			return 0, fmt.Errorf("%q is not a usable number of seconds", s)
		}
		d, err = time.Duration(secs*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is neither seconds (5, 0.5) nor a duration (5s, 1m)", s)
	case d < 0:
		return 0, fmt.Errorf("%s is negative", s)
	}
	return d, nil
}

// ParseNodes reads --nnodes: "N" or "MIN:MAX".
func ParseNodes(s string) (min, max int, err error) {
	lo, hi, elastic := strings.Cut(s, ":")
	if !elastic {
		hi = lo
	}
	min, err = parseInt(lo)
	if err == nil {
		max, err = parseInt(hi)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%q is neither N nor MIN:MAX", s)
	case min < 1:
		return 0, 0, fmt.Errorf("%q asks for fewer than one node", s)
	case min > max:
		return 0, 0, fmt.Errorf("%q has a minimum above its maximum", s)
	case max > rendezvous.MaxNodes:
		return 0, 0, fmt.Errorf("%q asks for more than %d nodes", s, rendezvous.MaxNodes)
	}
	return min, max, nil
}

// ParseNproc reads --nproc-per-node: a number, "auto", "cpu" or "gpu".
func ParseNproc(s string) (Nproc, error) {
	s = strings.TrimSpace(s)
	switch s {
	case "auto", "cpu", "gpu":
		return Nproc{Of: s}, nil
	}
	n, err := parseInt(s)
	switch {
	case err != nil:
		return Nproc{}, fmt.Errorf("%q is neither a number nor auto, cpu or gpu", s)
	case n < 1:
		return Nproc{}, fmt.Errorf("%q asks for fewer than one worker", s)
	case n > rendezvous.MaxWorkers:
		return Nproc{}, fmt.Errorf("%q asks for more workers than the %d that a node can have", s, rendezvous.MaxWorkers)
	}
	return Nproc{Count: n}, nil
}

// ParsePortRange reads "A-B", a range that includes both ends.
func ParsePortRange(s string) (PortRange, error) {
	lo, hi, ok := strings.Cut(s, "-")
	a, errA := parseInt(lo)
	b, errB := parseInt(hi)
	if !ok || errA != nil || errB != nil || a < 1 || b > 65535 || a > b {
		return PortRange{}, fmt.Errorf("%q is not a range A-B of ports between 1 and 65535", s)
	}
	return PortRange{a, b}, nil
}

// ParseEndpoints reads "host[:port],host[:port],...". An IPv6 address with a port
// needs brackets. An endpoint without a port gets the port unset.
func ParseEndpoints(s string, unset int) ([]Endpoint, error) {
	var list []Endpoint
	seen := map[Endpoint]bool{}
	for part := range strings.SplitSeq(s, ",") {
		e, err := parseEndpoint(strings.TrimSpace(part), unset)
		if err != nil {
			return nil, err
		}
		// A vote for a majority would count a repeated endpoint twice.
		if seen[e] {
			return nil, fmt.Errorf("%s is named twice", e)
		}
		seen[e] = true
		list = append(list, e)
	}
	return list, nil
}

func parseEndpoint(s string, unset int) (Endpoint, error) {
	host, port, shown := s, "", ncclenv.ShownAddress(s)
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(s, "["), "]"); ok && strings.HasPrefix(s, "[") {
		if !strings.Contains(inner, ":") || !validHost(inner) {
			return Endpoint{}, fmt.Errorf("%q holds no IPv6 address between its brackets", shown)
		}
		host = inner
		if rest != "" {
			if port = strings.TrimPrefix(rest, ":"); port == rest || port == "" {
				return Endpoint{}, fmt.Errorf("%q is not [address]:port", shown)
			}
		}
	} else if strings.Count(s, ":") == 1 {
		host, port, _ = strings.Cut(s, ":")
		if port == "" {
			return Endpoint{}, fmt.Errorf("%q has no port after its colon", shown)
		}
	}
	if !validHost(host) {
		return Endpoint{}, fmt.Errorf("%q is not host[:port]", shown)
	}
	e := Endpoint{host, unset}
	if e.IsService() {
		if port != "" {
			return e, fmt.Errorf("%q has a port, which is the DNS service record's to say", shown)
		}
		return e, nil
	}
	if port == "" {
		return e, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q has a port that is no number from 0 to 65535", shown)
	}
	return Endpoint{host, int(n)}, nil
}

// validHost accepts names and addresses. So the user sees a mistyped flag at once,
// not ten minutes later as a failed name look-up.
func validHost(s string) bool {
	if strings.Contains(s, ":") {
		addr, err := netip.ParseAddr(s)
		return err == nil && (addr.Zone() == "" || validName(addr.Zone()))
	}
	return validName(s) && len(s) <= 253 && s[0] != '-'
}

func validName(s string) bool {
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != ""
}
