package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Host is one host of a job, as ssh reaches it.
type Host struct {
	Name  string // what ssh gets: a name, an address or an alias, with user@ in front if given
	Port  int    // 0: ssh decides
	Slots int    // number of workers; 0: not given
}

// String returns the host as a user writes it.
func (h Host) String() string {
	if h.Port == 0 {
		return h.Name
	}
	if user, addr, ok := cutUser(h.Name); strings.Contains(addr, ":") {
		if ok {
			user += "@"
		}
		return fmt.Sprintf("%s[%s]:%d", user, addr, h.Port)
	}
	return fmt.Sprintf("%s:%d", h.Name, h.Port)
}

// Bounds of what names hosts.
const (
	MaxHosts    = 4096
	MaxHostfile = 1 << 20 // bytes
	maxName     = 320     // bytes of user and host
	maxSlots    = 1 << 16
)

// ParseHosts reads the value of --hosts: a,me@b,c:2222,[::1]:22.
func ParseHosts(text string) ([]Host, error) {
	if len(text) > MaxHostfile {
		return nil, fmt.Errorf("the list has %d bytes, at most %d are read", len(text), MaxHostfile)
	}
	var hosts []Host
	seen := map[Host]bool{}
	for word := range strings.SplitSeq(text, ",") {
		h, err := parseHost(strings.TrimSpace(word))
		switch {
		case err != nil:
			return nil, err
		case seen[h]:
			return nil, fmt.Errorf("%s is named twice: a host has one gorun, and --nproc-per-node says how many workers it starts", h)
		case len(hosts) == MaxHosts:
			return nil, fmt.Errorf("more than %d hosts are named", MaxHosts)
		}
		seen[h] = true
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// parseHost reads host, user@host and host:port. Several colons are an IPv6 address,
// which stands in brackets if a port follows.
func parseHost(word string) (Host, error) {
	fail := func(why string) (Host, error) {
		return Host{}, fmt.Errorf("%s is no host: %s", strconv.Quote(term.Cut(word, 80)), why)
	}
	user, addr, hasUser := cutUser(word)
	var h Host
	port := ""
	hasPort := false
	switch {
	case strings.HasPrefix(addr, "["):
		inside, after, closed := strings.Cut(addr[1:], "]")
		if port, hasPort = strings.CutPrefix(after, ":"); !closed || after != "" && !hasPort {
			return fail("write [ADDRESS]:PORT")
		}
		addr = inside
	case strings.Count(addr, ":") == 1:
		addr, port, hasPort = strings.Cut(addr, ":")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fail("its port must be a number from 1 to 65535")
		}
		h.Port = int(n)
	}
	switch {
	case addr == "" || hasUser && user == "":
		return fail("a name is missing")
	case len(word) > maxName:
		return fail(fmt.Sprintf("it has %d characters, at most %d are allowed", len(word), maxName))
	case !isHostName(addr, ".-_:%+") || hasUser && !isHostName(user, `.-_+@%\`):
		return fail("a name has letters, digits and .-_ and begins with no dash")
	}
	if strings.Contains(addr, ":") {
		if _, err := netip.ParseAddr(addr); err != nil {
			return fail("several colons are for an IPv6 address, [ADDRESS]:PORT with a port")
		}
	}
	if h.Name = addr; hasUser {
		h.Name = user + "@" + addr
	}
	return h, nil
}

// cutUser splits user@host at the last @, as ssh does.
func cutUser(s string) (user, host string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return "", s, false
	}
	return s[:at], s[at+1:], true
}

// isHostName reports whether s has only letters, digits and the other characters, and
// begins with no dash: ssh would take it for a flag.
func isHostName(s, others string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != "" && s[0] != '-'
}

// ParseHostfile reads a hostfile of DeepSpeed or Open MPI: one host a line, followed by
// slots=N and perhaps max_slots=N; # begins a comment. A host that stands on several
// lines has their slots together, and a line without slots counts one then.
func ParseHostfile(text []byte) ([]Host, error) {
	if len(text) > MaxHostfile {
		return nil, fmt.Errorf("it has more than %d bytes", MaxHostfile)
	}
	type entry struct{ lines, bare, slots, most int }
	var order []Host
	entries := map[Host]*entry{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		words := strings.Fields(strings.TrimPrefix(before(string(line), "#"), "\ufeff"))
		if len(words) == 0 {
			continue
		}
		fail := func(err error) ([]Host, error) { return nil, fmt.Errorf("line %d: %w", number, err) }
		h, err := parseHost(words[0])
		if err != nil {
			return fail(err)
		}
		slots, most, err := parseSlots(words[1:])
		if err != nil {
			return fail(fmt.Errorf("%s: %w", h, err))
		}
		e := entries[h]
		if e == nil {
			if len(order) == MaxHosts {
				return fail(fmt.Errorf("more than %d hosts are named", MaxHosts))
			}
			e = &entry{}
			entries[h] = e
			order = append(order, h)
		}
		e.lines++
		e.most = max(e.most, most)
		if e.slots += slots; slots == 0 {
			e.bare++
		}
		if e.slots+e.bare > maxSlots {
			return fail(fmt.Errorf("%s has more than %d slots", h, maxSlots))
		}
	}
	if len(order) == 0 {
		return nil, errors.New("it names no host: write one host a line, as in: node1 slots=8")
	}
	for i, h := range order {
		e := entries[h]
		if e.lines > 1 {
			e.slots += e.bare
		}
		if e.most > 0 && e.slots > e.most {
			return nil, fmt.Errorf("%s has %d slots and max_slots=%d", h, e.slots, e.most)
		}
		order[i].Slots = e.slots
	}
	return order, nil
}

func before(s, mark string) string {
	s, _, _ = strings.Cut(s, mark)
	return s
}

// parseSlots reads the words behind a host; 0 stands for a number that is not given.
func parseSlots(words []string) (slots, most int, err error) {
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		n, err := strconv.ParseUint(text, 10, 32)
		switch {
		case !ok:
			return 0, 0, fmt.Errorf("%s is not understood: slots=N and max_slots=N may follow a host", strconv.Quote(term.Cut(word, 40)))
		case err != nil || n == 0 || n > maxSlots:
			return 0, 0, fmt.Errorf("%s must be a number from 1 to %d, without spaces around the =", strconv.Quote(term.Cut(word, 40)), maxSlots)
		}
		switch strings.ReplaceAll(name, "-", "_") {
		case "slots":
			slots = int(n)
		case "max_slots":
			most = int(n)
		default:
			return 0, 0, fmt.Errorf("%s is not understood: slots=N and max_slots=N may follow a host", strconv.Quote(term.Cut(name, 40)))
		}
	}
	return slots, most, nil
}
