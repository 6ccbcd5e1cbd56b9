package ncclenv

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseConf(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name, text string
		want       []Entry
		faults     []string // parts of the faults, in order
	}{
		{"empty", "", nil, nil},
		{"plain", "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==ens1f0\n", []Entry{{"NCCL_DEBUG", "WARN"}, {"NCCL_SOCKET_IFNAME", "=ens1f0"}}, nil},
		{"no line break at the end", "NCCL_DEBUG=WARN", []Entry{{"NCCL_DEBUG", "WARN"}}, nil},
		{"comments and empty lines", "# NCCL_DEBUG=INFO\n\n#\nA=b\n", []Entry{{"A", "b"}}, nil},
		{"empty value", "NCCL_ALGO=\n", []Entry{{"NCCL_ALGO", ""}}, nil},
		{"any name", "PATH=/bin\n", []Entry{{"PATH", "/bin"}}, nil},
		{"trailing blank", "NCCL_PROTO=LL \n", []Entry{{"NCCL_PROTO", "LL "}}, []string{"line 1: NCCL does not trim: the value of NCCL_PROTO"}},
		{"blanks around =", "NCCL_PROTO = LL\n", []Entry{{"NCCL_PROTO ", " LL"}}, []string{`the name is "NCCL_PROTO "`, `the value of "NCCL_PROTO "`}},
		{"quotes", "NCCL_NET=\"IB\"\n", []Entry{{"NCCL_NET", `"IB"`}}, []string{"the value of NCCL_NET keeps its quotes"}},
		{"export", "export NCCL_NET=IB\n", []Entry{{"export NCCL_NET", "IB"}}, []string{`no shell: it sets a variable named "export NCCL_NET"`}},
		{"late comment", "NCCL_NET=IB # fast\n", []Entry{{"NCCL_NET", "IB # fast"}}, []string{"belongs to the value of NCCL_NET"}},
		{"indented comment", " # NCCL_NET=IB\n", []Entry{{" # NCCL_NET", "IB"}}, []string{"a comment must begin in the first column"}},
		{"Windows", "NCCL_NET=IB\r\n", []Entry{{"NCCL_NET", "IB\r"}}, []string{"carriage return"}},
		{"variable", "NCCL_DEBUG_FILE=$HOME/log\n", []Entry{{"NCCL_DEBUG_FILE", "$HOME/log"}}, []string{"keeps its $"}},
		{"no =", "NCCL_NET IB\n  \n", nil, []string{"line 1: no '='"}},
		{"no name", "=IB\n", nil, []string{"no name"}},
		{"twice", "A=1\nB=2\nA=3\n", []Entry{{"A", "1"}, {"B", "2"}}, []string{"line 3: NCCL uses the earlier value of A, in line 1"}},
		{"zero byte", "A=1\x002\nB=3\n", []Entry{{"A", "1"}, {"B", "3"}}, []string{"zero byte"}},
		{"cut", "A=" + long + "\n", []Entry{{"A", long[:1023]}}, []string{"after 1023 bytes"}},
		{"byte order mark", "\ufeffA=1\n", []Entry{{"\ufeffA", "1"}}, []string{"the name is"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := ParseConf("/etc/nccl.conf", []byte(c.text))
			if !reflect.DeepEqual(f.Entries, c.want) {
				t.Errorf("entries %q, want %q", f.Entries, c.want)
			}
			if len(f.Facts.Faults) != len(c.faults) {
				t.Fatalf("faults %q, want %q", f.Facts.Faults, c.faults)
			}
			for i, part := range c.faults {
				if !strings.Contains(f.Facts.Faults[i], part) {
					t.Errorf("fault %q, want %q in it", f.Facts.Faults[i], part)
				}
			}
			if len(f.Facts.Names) != len(c.want) || f.Facts.Error != "" || len(f.Facts.Hash) != 64 {
				t.Errorf("facts %+v", f.Facts)
			}
		})
	}
}

func TestParseConfIsBounded(t *testing.T) {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "A%d= \n", i)
	}
	f := ParseConf("p", []byte(many.String()))
	if len(f.Entries) != maxEntries || len(f.Facts.Faults) != maxFaults || f.Facts.Error == "" {
		t.Errorf("%d entries, %d faults, error %q", len(f.Entries), len(f.Facts.Faults), f.Facts.Error)
	}
	if f := ParseConf("p", []byte(strings.Repeat("x", maxConf+1))); f.Facts.Error == "" {
		t.Error("a file that is too long is no error")
	}
}

func TestFaultsDoNotRepeatValues(t *testing.T) {
	f := ParseConf("p", []byte("API_KEY=\"hunter2 # $x\" \nAPI_KEY=hunter2\r\n export http_proxy=hunter2 \n"))
	if all := fmt.Sprint(f.Facts); strings.Contains(all, "hunter2") {
		t.Error(all)
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add([]byte("NCCL_DEBUG=WARN\n# x\nA = \"b\" #c\r\n=1\nexport C=$D\x00\nA=2"))
	f.Add([]byte("\ufeffA=1\n\n   \nB"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := ParseConf("p", text)
		if len(file.Entries) > maxEntries || len(file.Facts.Faults) > maxFaults || len(file.Facts.Names) != len(file.Entries) {
			t.Fatalf("not bounded: %d entries, %d faults", len(file.Entries), len(file.Facts.Faults))
		}
		var again strings.Builder
		for _, e := range file.Entries {
			if e.Name == "" || e.Name[0] == '#' || strings.ContainsAny(e.Name, "=\n\x00") || strings.ContainsAny(e.Value, "\n\x00") || len(e.Name) > cutAt || len(e.Value) > cutAt {
				t.Fatalf("entry %q", e)
			}
			fmt.Fprintf(&again, "%s=%s\n", e.Name, e.Value)
		}
		if again.Len() <= maxConf {
			if second := ParseConf("p", []byte(again.String())); !reflect.DeepEqual(second.Entries, file.Entries) {
				t.Fatalf("read again %q, first %q", second.Entries, file.Entries)
			}
		}
		Merge([]string{"NCCL_DEBUG=INFO"}, []File{file, file})
	})
}
