package flight

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
)

// Bounds of what is kept of a dump.
const (
	maxEntries = 100_000
	maxFrames  = 64
	maxGroups  = 10_000
	maxRank    = 1 << 20
	maxText    = 300 // bytes of a name or a path
	maxSizes   = 64  // numbers of a call's sizes
)

// Dump is what one rank's recorder holds.
type Dump struct {
	Rank    int              `json:"rank"` // by the name of the file
	File    string           `json:"-"`    // the dump's own name
	Version string           `json:"-"`
	Groups  map[string]Group `json:"groups"` // by the recorder's id of the process group
	Calls   []Call           `json:"calls"`  // the oldest first
}

// Group is a process group.
type Group struct {
	Name  string  `json:"name"`
	Desc  string  `json:"desc,omitempty"`
	Ranks RankSet `json:"ranks,omitempty"`
}

// Call is one call of a collective, or of send or receive.
type Call struct {
	Group string `json:"g"` // key of Dump.Groups
	Seq   int    `json:"n"` // number among the group's collectives, or among its sends and receives
	P2P   bool   `json:"p,omitempty"`
	Name  string `json:"f"`           // "nccl:all_reduce"
	Sizes string `json:"s,omitempty"` // of the input: "[4 1024]"
	Types string `json:"t,omitempty"`
	State State  `json:"e,omitempty"`
	Batch int    `json:"b,omitempty"` // number of the batch of messages that has it; 0: none
	// Made is when the call was made, by the clock of the rank's node; zero: unknown.
	Made time.Time `json:"-"`
	// For is how long an open call has waited; 0: unknown.
	For    time.Duration `json:"o,omitempty"`
	Frames []Frame       `json:"l,omitempty"`
}

// State says how far a call came.
type State string

// The states of a call. A recorder knows that a call has started only if the job
// measures its collectives (TORCH_NCCL_ENABLE_TIMING).
const (
	Scheduled State = "scheduled"
	Started   State = "started"
	Completed State = "completed"
)

// Frame is a line of a program. The innermost frame of a call comes first.
type Frame struct {
	File string `json:"f"`
	Line int    `json:"l"`
	Func string `json:"n,omitempty"`
}

// IsDump reports whether a file begins as a dump does: as a pickle of protocol 2 that
// holds a dict.
func IsDump(front []byte) bool { return bytes.HasPrefix(front, []byte{0x80, 2, '}'}) }

// Read reads the dump of a rank; the name is that of its file and ends with the rank.
func Read(name string, r io.Reader) (Dump, error) {
	rank, err := rankOf(name)
	if err != nil {
		return Dump{}, err
	}
	v, err := unpickle(r)
	if err != nil {
		return Dump{}, err
	}
	top, ok := v.(dict)
	if !ok {
		return Dump{}, fmt.Errorf("it is a pickle of another thing")
	}
	entries, ok := top["entries"].(*list)
	if !ok {
		return Dump{}, fmt.Errorf("it is a pickle without entries")
	}
	d := Dump{Rank: rank, File: name, Version: text(top["version"]), Groups: map[string]Group{}}
	d.readGroups(top)
	for i, e := range entries.items {
		entry, ok := e.(dict)
		if !ok || len(d.Calls) == maxEntries {
			return Dump{}, fmt.Errorf("its entry %d is no call", i)
		}
		d.readCall(entry)
	}
	d.settle()
	return d, nil
}

// coalesced is the name of the entry that ends a batch of calls (batch_isend_irecv).
const coalesced = "nccl:coalesced"

// settle gives the sends and receives of a batch the batch's state and number. The recorder
// keeps no event for a single call of a batch, and so leaves it scheduled for ever. The
// entry that ends the batch goes, because its calls stand for it.
func (d *Dump) settle() {
	begun := map[string][]int{} // by group: the calls since the last end of a batch, as indices of kept
	batches := 0
	var kept []Call
	for _, c := range d.Calls {
		members := begun[c.Group]
		switch {
		case c.Name == coalesced && len(members) > 0:
			batches++
			for _, i := range members {
				kept[i].State, kept[i].Batch = c.State, batches
			}
			begun[c.Group] = nil
			continue
		case c.P2P && c.State == Scheduled:
			begun[c.Group] = append(members, len(kept))
		default:
			begun[c.Group] = nil
		}
		kept = append(kept, c)
	}
	d.Calls = kept
}

// rankOf returns the number at the end of a file's name.
func rankOf(name string) (int, error) {
	base := path.Base(name)
	digits := base[len(strings.TrimRight(base, "0123456789")):]
	rank, err := strconv.Atoi(digits)
	if err != nil || rank > maxRank {
		return 0, fmt.Errorf("the name of a dump ends with a rank, and %q does not", base)
	}
	return rank, nil
}

// readGroups reads pg_config: by id, the name, a description and the ranks.
func (d *Dump) readGroups(top dict) {
	config, _ := top["pg_config"].(dict)
	for id, v := range config {
		if len(d.Groups) == maxGroups {
			return
		}
		if c, ok := v.(dict); ok {
			d.Groups[Short(id)] = Group{Name: text(c["name"]), Desc: text(c["desc"]), Ranks: NewRankSet(ranks(c["ranks"]))}
		}
	}
}

func (d *Dump) readCall(entry dict) {
	c := Call{
		P2P: entry["is_p2p"] == true, Name: text(entry["profiling_name"]), State: State(text(entry["state"])),
		Made:  moment(entry["time_created_ns"]),
		Sizes: sizes(entry["input_sizes"]), Types: sizes(entry["input_dtypes"]),
		Group: strconv.Itoa(integer(entry["pg_id"], 0)),
	}
	if c.Seq = integer(entry["collective_seq_id"], integer(entry["seq_id"], 0)); c.P2P {
		c.Seq = integer(entry["p2p_seq_id"], c.Seq)
	}
	if pg, ok := entry["process_group"].(*list); ok && len(pg.items) > 0 { // (name, description)
		c.Group = d.groupNamed(text(pg.items[0]), c.Group)
		if g := d.Groups[c.Group]; len(pg.items) > 1 && g.Desc == "" {
			g.Desc = text(pg.items[1])
			d.Groups[c.Group] = g
		}
	} else if _, known := d.Groups[c.Group]; !known {
		c.Group = d.groupNamed("", c.Group)
	}
	if frames, ok := entry["frames"].(*list); ok {
		for _, v := range frames.items[:min(len(frames.items), maxFrames)] {
			if f, ok := v.(dict); ok {
				c.Frames = append(c.Frames, Frame{text(f["filename"]), integer(f["line"], 0), text(f["name"])})
			}
		}
	}
	d.Calls = append(d.Calls, c)
}

// groupNamed returns the key of the group with a name. The keys of pg_config are names
// in some releases and numbers in others. A group that pg_config has not is added.
func (d *Dump) groupNamed(name, id string) string {
	if g, ok := d.Groups[id]; ok && (g.Name == name || name == "") {
		return id
	}
	if _, ok := d.Groups[name]; ok {
		return name
	}
	for key, g := range d.Groups {
		if g.Name == name {
			return key
		}
	}
	key := cmp.Or(name, id)
	if len(d.Groups) < maxGroups {
		d.Groups[key] = Group{Name: key}
	}
	return key
}

// What returns the call without its number: "all_reduce [4] Float".
func (c Call) What() string {
	return strings.Join(strings.Fields(strings.TrimPrefix(c.Name, "nccl:")+" "+c.Sizes+" "+c.Types), " ")
}

// isOpen reports whether the call has not ended.
func (c Call) isOpen() bool { return c.State != Completed }

// Age notes how long the open calls have waited at a time, by the clock of the rank's
// node.
func (d *Dump) Age(now time.Time) {
	for i := range d.Calls {
		if c := &d.Calls[i]; c.isOpen() && !c.Made.IsZero() {
			c.For = max(0, now.Sub(c.Made))
		}
	}
}

// Tail returns the end of a dump: of each group the last n collectives, the last n sends
// and receives, and the calls that have not ended, n of each at most. A call keeps the
// line of the program alone.
func (d Dump) Tail(n int) Dump {
	type kind struct {
		group     string
		p2p, open bool
	}
	kept := map[kind]int{}
	var calls []Call
	open := func(c Call) bool {
		key := kind{c.Group, c.P2P, true}
		if !c.isOpen() || kept[key] >= n {
			return false
		}
		kept[key]++
		return true
	}
	isFirstOpen := make([]bool, len(d.Calls))
	for i, c := range d.Calls {
		isFirstOpen[i] = open(c)
	}
	for i, c := range slices.Backward(d.Calls) {
		key := kind{c.Group, c.P2P, false}
		if kept[key]++; kept[key] > n && !isFirstOpen[i] {
			continue
		}
		c.Frames = nil
		if f := d.Calls[i].programFrame(); f != nil {
			c.Frames = []Frame{{path.Base(f.File), f.Line, f.Func}}
		}
		calls = append(calls, c)
	}
	slices.Reverse(calls)
	return Dump{Rank: d.Rank, Groups: d.Groups, Calls: calls}
}

// Short returns the beginning of a text that others wrote, on one line of what a terminal
// can print.
func Short(s string) string { return term.Line(strings.ToValidUTF8(term.Cut(s, maxText), "?")) }

func text(v any) string {
	s, _ := v.(string)
	return Short(s)
}

func integer(v any, otherwise int) int {
	if n, ok := v.(int64); ok && n >= 0 && n <= 1<<40 {
		return int(n)
	}
	return otherwise
}

// moment returns a time in nanoseconds since 1970.
func moment(v any) time.Time {
	if n, ok := v.(int64); ok && n > 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// ranks returns the ranks of a group: a list, or JSON in a string.
func ranks(v any) []int {
	var list []int
	if s, ok := v.(string); ok {
		if json.Unmarshal([]byte(s), &list) != nil {
			return nil
		}
	} else {
		for _, item := range numbers(v, maxRank) {
			list = append(list, int(item))
		}
	}
	for _, r := range list {
		if r < 0 || r > maxRank {
			return nil
		}
	}
	return list
}

// numbers returns the integers of a list, at most limit.
func numbers(v any, limit int) []int64 {
	l, ok := v.(*list)
	if !ok {
		return nil
	}
	var all []int64
	for _, item := range l.items[:min(len(l.items), limit)] {
		if n, ok := item.(int64); ok {
			all = append(all, n)
		}
	}
	return all
}

// sizes prints a list of lists of numbers, or a list of names: "[4 2]", "Float".
func sizes(v any) string {
	l, ok := v.(*list)
	if !ok {
		return ""
	}
	var parts []string
	for _, item := range l.items[:min(len(l.items), 4)] {
		if s, ok := item.(string); ok {
			parts = append(parts, Short(s))
		} else {
			parts = append(parts, fmt.Sprint(numbers(item, maxSizes)))
		}
	}
	if len(l.items) > 4 {
		parts = append(parts, fmt.Sprintf("and %d more", len(l.items)-4))
	}
	return strings.Join(parts, " ")
}
