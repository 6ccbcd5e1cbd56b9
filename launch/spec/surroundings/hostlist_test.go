package surroundings

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// lists holds host lists with their names. Slurm's own scontrol agrees where it is
// installed (TestParseHostsLikeSlurm).
var lists = map[string]string{
	"n1":                    "n1",
	"n[1-3]":                "n1 n2 n3",
	"n[1-3,07],login":       "n1 n2 n3 n07 login",
	"n[08-11]":              "n08 n09 n10 n11",
	"n[098-101]":            "n098 n099 n100 n101",
	"a,b,c":                 "a b c",
	"r[1-2]n[01-02]":        "r1n01 r1n02 r2n01 r2n02",
	"gpu[1,3-4]-ib,gpu9-ib": "gpu1-ib gpu3-ib gpu4-ib gpu9-ib",
}

func TestParseHosts(t *testing.T) {
	for list, want := range lists {
		got, err := ParseHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %q", list, got, err, want)
		}
	}
	for _, bad := range []string{"n[1-", "n]1", "n[3-1]", "n[a]", "n[]", "n[1-99999999]", "n[1-300]m[1-300]", "n[1,2", "a b"} {
		if got, err := ParseHosts(bad); err == nil {
			t.Errorf("%s: %d hosts", bad, len(got))
		}
	}
}

// TestParseHostsLikeSlurm compares with scontrol show hostnames.
func TestParseHostsLikeSlurm(t *testing.T) {
	if _, err := exec.LookPath("scontrol"); err != nil {
		t.Skip("no scontrol: the e2e tests of Slurm compare with it")
	}
	for list := range lists {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := exec.CommandContext(ctx, "scontrol", "show", "hostnames", list).Output()
		cancel()
		if err != nil {
			t.Skipf("scontrol: %v", err)
		}
		want := strings.Fields(string(out))
		if len(want) == 0 { // this release allows no text after a bracket
			continue
		}
		if got, _ := ParseHosts(list); !slices.Equal(got, want) {
			t.Errorf("%s: %q, scontrol says %q", list, got, want)
		}
	}
}

func FuzzParseHosts(f *testing.F) {
	for list := range lists {
		f.Add(list)
	}
	f.Add("n[1-4294967295]")
	f.Add("[0-9][0-9][0-9][0-9][0-9][0-9]")
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := ParseHosts(list)
		if err == nil && len(hosts) > maxHosts {
			t.Errorf("%d hosts", len(hosts))
		}
	})
}

func TestCountOf(t *testing.T) {
	for _, tt := range []struct {
		list string
		node int
		want int // 0: an error
	}{
		{"2", 0, 2},
		{"2(x3),1", 2, 2},
		{"2(x3),1", 3, 1},
		{"2(x3),1", 4, 0},
		{"", 0, 0},
		{"2(x", 0, 0},
		{"2(x3", 0, 0},
		{"0", 0, 0},
		{"x", 0, 0},
	} {
		if got, err := countOf(tt.list, tt.node); got != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("%s, node %d: %d, %v; want %d", tt.list, tt.node, got, err, tt.want)
		}
	}
}

func FuzzCountOf(f *testing.F) {
	f.Add("2(x3),1", 2)
	f.Fuzz(func(t *testing.T, list string, node int) {
		if n, err := countOf(list, node); err == nil && n < 1 {
			t.Errorf("%d", n)
		}
	})
}
