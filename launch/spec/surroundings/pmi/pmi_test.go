package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// server plays mpiexec for the processes of a job.
type server struct {
	size    int
	mu      sync.Mutex
	values  map[string]string
	waiting int
	barrier chan struct{}
}

func newServer(size int, mapping string) *server {
	return &server{size: size, values: map[string]string{"PMI_process_mapping": mapping}, barrier: make(chan struct{})}
}

// serve answers one process until it ends.
func (s *server) serve(c net.Conn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		a, err := parseAnswer(append(lines.Bytes(), '\n'))
		if err != nil {
			return
		}
		answer := ""
		switch a["cmd"] {
		case "init":
			answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
		case "get_my_kvsname":
			answer = "cmd=my_kvsname kvsname=kvs_7"
		case "put":
			s.mu.Lock()
			s.values[a["key"]] = a["value"]
			s.mu.Unlock()
			answer = "cmd=put_result rc=0 msg=success"
		case "get":
			s.mu.Lock()
			answer = "cmd=get_result rc=0 msg=success value=" + s.values[a["key"]]
			s.mu.Unlock()
		case "barrier_in":
			s.mu.Lock()
			if s.waiting++; s.waiting == s.size {
				close(s.barrier)
			}
			s.mu.Unlock()
			<-s.barrier
			answer = "cmd=barrier_out"
		case "finalize":
			answer = "cmd=finalize_ack"
		}
		fmt.Fprintln(c, answer)
	}
}

func prefixes(words ...string) (list []netip.Prefix) {
	for _, w := range words {
		list = append(list, netip.MustParsePrefix(w))
	}
	return list
}

// TestExchange checks that all processes learn the same meeting from the first one.
func TestExchange(t *testing.T) {
	s := newServer(3, "(vector,(0,2,1),(1,1,1))")
	got := make([]Meeting, 3)
	var wg sync.WaitGroup
	for i := range got {
		mine, theirs := net.Pipe()
		go s.serve(theirs)
		wg.Go(func() {
			defer mine.Close()
			job := Job{Rank: i, Size: 3, Addrs: prefixes("127.0.0.1/8", fmt.Sprintf("10.0.0.%d/24", 1+i), "172.17.0.1/16"), Secret: fmt.Sprint("secret", i)}
			if i == 0 {
				job.Port = 1234
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var err error
			if got[i], err = Exchange(ctx, mine, job); err != nil {
				t.Error(i, err)
			}
		})
	}
	wg.Wait()
	for i, m := range got {
		want := Meeting{ID: "kvs_7", Nodes: 2, Node: min(i, 1), Endpoint: "10.0.0.1:1234", Secret: "secret0"}
		if i == 0 {
			want.Endpoint = got[0].Endpoint // any address of its own
		}
		if m != want {
			t.Errorf("process %d: %+v, want %+v", i, m, want)
		}
		again, err := Parse(m.String())
		if m.Secret = ""; err != nil || again != m {
			t.Errorf("%q: %+v, %v", m, again, err)
		}
	}
}

// TestExchangeEnds checks that a process that waits for others ends with its context.
func TestExchangeEnds(t *testing.T) {
	s := newServer(2, "(vector,(0,1,2))")
	mine, theirs := net.Pipe()
	defer mine.Close()
	go s.serve(theirs)
	defer close(s.barrier)
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	defer time.AfterFunc(50*time.Millisecond, func() { cancel(late) }).Stop()
	if _, err := Exchange(ctx, mine, Job{Size: 2, Port: 1, Secret: "s", Addrs: prefixes("10.0.0.1/8")}); !errors.Is(err, late) {
		t.Error(err)
	}
}

func TestExchangeRefuses(t *testing.T) {
	for _, answer := range []string{"", "x", "cmd=response_to_init rc=-1 msg=no", "cmd=other", strings.Repeat("a", 2*maxLine)} {
		mine, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_, _ = bufio.NewReader(theirs).ReadString('\n')
			fmt.Fprintln(theirs, answer)
		}()
		if _, err := Exchange(t.Context(), mine, Job{Size: 1}); err == nil {
			t.Errorf("%.20q passes", answer)
		}
		mine.Close()
	}
}

func TestNodeOf(t *testing.T) {
	for _, tt := range []struct {
		mapping     string
		rank, size  int
		nodes, node int // nodes 0: refused
	}{
		{"(vector,(0,2,1))", 1, 2, 2, 1},
		{"(vector,(0,2,2))", 1, 4, 2, 0},
		{"(vector,(0,2,2))", 2, 4, 2, 1},
		{"(vector,(0,2,1))", 2, 4, 2, 0}, // round robin
		{"(vector,(0,1,2),(1,1,1))", 2, 3, 2, 1},
		{"(vector, (3,1,1), (1,1,1))", 1, 2, 2, 1},
		{"(vector,(0,8,1))", 0, 1, 1, 0},
		{"(vector,(0,0,1))", 0, 1, 0, 0},
		{"(vector,(0,1))", 0, 1, 0, 0},
		{"", 0, 1, 0, 0},
		{"(vector,(0,1,1))", 1, 1, 0, 0},
	} {
		nodes, node, err := nodeOf(tt.mapping, tt.rank, tt.size)
		if nodes != tt.nodes || node != tt.node || (err == nil) != (tt.nodes > 0) {
			t.Errorf("%s, %d of %d: %d, %d, %v", tt.mapping, tt.rank, tt.size, nodes, node, err)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name, offered, want string
		own                 []netip.Prefix
	}{
		{"a network of its own", "192.168.0.1 10.0.0.1", "10.0.0.1", prefixes("127.0.0.1/8", "10.0.0.2/24")},
		{"no bridge that every machine has", "172.17.0.1 10.0.0.1", "10.0.0.1", prefixes("10.0.0.2/24", "172.17.0.1/16")},
		{"behind a router", "127.0.0.1 10.0.0.1", "10.0.0.1", prefixes("10.9.0.2/24")},
		{"the same machine", "127.0.0.1 10.0.0.1 172.17.0.1", "10.0.0.1", prefixes("10.0.0.1/24", "172.17.0.1/16")},
		{"loopback only", "127.0.0.1", "127.0.0.1", prefixes("127.0.0.1/8")},
	} {
		var offered []netip.Addr
		for _, w := range strings.Fields(tt.offered) {
			offered = append(offered, netip.MustParseAddr(w))
		}
		if got := choose(offered, tt.own).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add("cmd=get_result rc=0 msg=success value=1/s/10.0.0.1,::1", 1, 3)
	f.Add("(vector,(0,2,1),(1,1,1))", 2, 3)
	f.Add("kvs|2|1|10.0.0.1:5", 0, 1)
	f.Fuzz(func(t *testing.T, text string, rank, size int) {
		_, _ = parseAnswer([]byte(text + "\n"))
		if o, err := parseOffer(text); err == nil {
			if again, err := parseOffer(o.String()); err != nil || again.String() != o.String() {
				t.Errorf("%q: %v, %v", text, again, err)
			}
			choose(o.addrs, prefixes("10.0.0.2/8"))
		}
		if nodes, node, err := nodeOf(text, rank, size); err == nil && (node < 0 || node >= nodes || nodes > size) {
			t.Errorf("%q: node %d of %d for %d of %d", text, node, nodes, rank, size)
		}
		if m, err := Parse(text); err == nil {
			if again, err := Parse(m.String()); err != nil || again != m {
				t.Errorf("%q: %+v, %v", text, again, err)
			}
		}
	})
}
