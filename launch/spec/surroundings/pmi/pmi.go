// Package pmi lets the processes of Hydra's mpiexec tell each other where they meet. It
// is a client of PMI version 1, the text protocol that mpiexec offers to each of its
// processes on the descriptor PMI_FD: the process of rank 0 publishes its addresses, a
// port and a fresh secret, and the others read them.
//
// Invariants: every answer is bounded and checked. Exchange ends with its context. All
// processes of a job take part in one exchange; afterwards the connection is finished,
// so that mpiexec takes no exit for an abort.
package pmi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Env is the variable with the result of the exchange for processes that gorun starts.
const Env = "GORUN_INTERNAL_PMI"

// Job is what this process knows before the exchange.
type Job struct {
	Rank, Size int
	Addrs      []netip.Prefix // addresses of this machine, with their networks
	Port       int            // of rank 0: a free one
	Secret     string         // of rank 0: a fresh one
}

// Meeting is the result of the exchange.
type Meeting struct {
	ID          string // of the job: the same for all of its processes
	Nodes, Node int    // number of nodes, and that of this one
	Endpoint    string // where the nodes meet
	Secret      string // not part of String
}

// String returns what Parse reads.
func (m Meeting) String() string {
	return fmt.Sprintf("%s|%d|%d|%s", m.ID, m.Nodes, m.Node, m.Endpoint)
}

// Parse reads a Meeting without its secret.
func Parse(text string) (Meeting, error) {
	words := strings.Split(text, "|")
	if len(words) != 4 || !isWord(words[0]) {
		return Meeting{}, errors.New("it is for gorun itself")
	}
	m := Meeting{ID: words[0], Endpoint: words[3]}
	var errs [2]error
	m.Nodes, errs[0] = strconv.Atoi(words[1])
	m.Node, errs[1] = strconv.Atoi(words[2])
	if _, err := netip.ParseAddrPort(m.Endpoint); err != nil || errors.Join(errs[:]...) != nil || m.Node < 0 || m.Node >= m.Nodes {
		return Meeting{}, errors.New("it is for gorun itself")
	}
	return m, nil
}

// Bounds of the protocol.
const (
	maxLine   = 8192
	maxSize   = 1 << 20 // processes of a job
	maxAddrs  = 12
	maxSecret = 64
	offerKey  = "gorun-meeting"
)

// client is a connection to mpiexec.
type client struct {
	conn    net.Conn
	answers *bufio.Reader
	kvs     string // name of the job's key-value space
}

// Exchange tells the other processes of the job where they meet, or learns it.
func Exchange(ctx context.Context, conn net.Conn, job Job) (Meeting, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	m, err := exchange(&client{conn: conn, answers: bufio.NewReaderSize(conn, maxLine)}, job)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m, err
}

func exchange(c *client, job Job) (m Meeting, err error) {
	if _, err := c.ask("init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return Meeting{}, err
	}
	answer, err := c.ask("get_my_kvsname", "my_kvsname")
	if err != nil {
		return Meeting{}, err
	}
	if c.kvs = answer["kvsname"]; !isWord(c.kvs) {
		return Meeting{}, errors.New("mpiexec gives this job no name")
	}
	own := offer{port: job.Port, secret: job.Secret}
	for _, p := range job.Addrs {
		if a := p.Addr(); len(own.addrs) < maxAddrs && !a.IsLinkLocalUnicast() {
			own.addrs = append(own.addrs, a)
		}
	}
	if job.Rank == 0 {
		if err := c.put(offerKey, own.String()); err != nil {
			return Meeting{}, err
		}
	}
	if _, err := c.ask("barrier_in", "barrier_out"); err != nil {
		return Meeting{}, err
	}
	text, err := c.get(offerKey)
	if err != nil {
		return Meeting{}, err
	}
	first, err := parseOffer(text)
	if err != nil {
		return Meeting{}, err
	}
	mapping, err := c.get("PMI_process_mapping")
	if err != nil {
		return Meeting{}, err
	}
	m = Meeting{ID: c.kvs, Secret: first.secret}
	if m.Nodes, m.Node, err = nodeOf(mapping, job.Rank, job.Size); err != nil {
		return Meeting{}, err
	}
	m.Endpoint = netip.AddrPortFrom(choose(first.addrs, job.Addrs), uint16(first.port)).String()
	_, err = c.ask("finalize", "finalize_ack")
	return m, err
}

func (c *client) put(key, value string) error {
	_, err := c.ask(fmt.Sprintf("put kvsname=%s key=%s value=%s", c.kvs, key, value), "put_result")
	return err
}

func (c *client) get(key string) (string, error) {
	answer, err := c.ask(fmt.Sprintf("get kvsname=%s key=%s", c.kvs, key), "get_result")
	return answer["value"], err
}

// ask sends a command and reads its answer.
func (c *client) ask(command, want string) (map[string]string, error) {
	name, _, _ := strings.Cut(command, " ")
	fail := func(err error) (map[string]string, error) {
		return nil, fmt.Errorf("mpiexec does not answer %s as PMI version 1 does: %w", name, err)
	}
	if _, err := c.conn.Write([]byte("cmd=" + command + "\n")); err != nil {
		return fail(err)
	}
	line, err := c.answers.ReadSlice('\n')
	if err != nil {
		return fail(err)
	}
	answer, err := parseAnswer(line)
	switch {
	case err != nil:
		return fail(err)
	case answer["cmd"] != want:
		return fail(fmt.Errorf("it sent %.40q, not %s", answer["cmd"], want))
	case answer["rc"] != "" && answer["rc"] != "0":
		return fail(fmt.Errorf("its code is %.40q: %.80q", answer["rc"], answer["msg"]))
	}
	return answer, nil
}

// parseAnswer reads a line of NAME=VALUE words.
func parseAnswer(line []byte) (map[string]string, error) {
	text, complete := bytes.CutSuffix(line, []byte("\n"))
	if !complete {
		return nil, errors.New("the line does not end")
	}
	answer := map[string]string{}
	for word := range strings.FieldsSeq(string(text)) {
		name, value, ok := strings.Cut(word, "=")
		if !ok && len(answer) == 0 {
			return nil, fmt.Errorf("%.40q is no NAME=VALUE", word)
		}
		if ok { // else a part of a message
			answer[name] = value
		}
	}
	return answer, nil
}

// isWord reports whether a text can stand in a command of the protocol.
func isWord(text string) bool {
	for _, b := range []byte(text) {
		if b <= ' ' || b > '~' || b == '=' || b == '|' {
			return false
		}
	}
	return text != "" && len(text) <= 256
}

// offer is what rank 0 publishes: "PORT/SECRET/ADDRESS,ADDRESS".
type offer struct {
	port   int
	secret string
	addrs  []netip.Addr
}

func (o offer) String() string {
	list := make([]string, len(o.addrs))
	for i, a := range o.addrs {
		list[i] = a.String()
	}
	return fmt.Sprintf("%d/%s/%s", o.port, o.secret, strings.Join(list, ","))
}

func parseOffer(text string) (o offer, err error) {
	wrong := errors.New("the first process of the job did not say where to meet; is it a gorun of the same version?")
	words := strings.Split(text, "/")
	if len(words) != 3 || !isWord(words[1]) || len(words[1]) > maxSecret {
		return offer{}, wrong
	}
	o.secret = words[1]
	if o.port, err = strconv.Atoi(words[0]); err != nil || o.port < 1 || o.port > 65535 {
		return offer{}, wrong
	}
	for word := range strings.SplitSeq(words[2], ",") {
		a, err := netip.ParseAddr(word)
		if err != nil || a.Zone() != "" || len(o.addrs) == maxAddrs {
			return offer{}, wrong
		}
		o.addrs = append(o.addrs, a)
	}
	return o, nil
}

// choose returns the offered address that this machine reaches most probably: one in a
// network of its own, else one that is not of one machine only. An address that this
// machine has itself (a bridge for containers is the same everywhere) counts only if all
// are its own. offered is not empty.
func choose(offered []netip.Addr, own []netip.Prefix) netip.Addr {
	best, most := offered[0], -1
	allOwn := true
	for _, a := range offered {
		allOwn = allOwn && isOwn(a, own)
	}
	for _, a := range offered {
		score := 0
		if !a.IsLoopback() {
			score++
			if allOwn || !isOwn(a, own) {
				score += 2
				for _, p := range own {
					if p.Contains(a) {
						score += 4
						break
					}
				}
			}
		}
		if score > most {
			best, most = a, score
		}
	}
	return best
}

func isOwn(a netip.Addr, own []netip.Prefix) bool {
	for _, p := range own {
		if p.Addr() == a || a.IsLoopback() {
			return true
		}
	}
	return false
}

// nodeOf reads PMI_process_mapping: "(vector,(0,2,1))" has blocks of a first node, a
// number of nodes and a number of ranks a node, and begins again when all are used. It
// returns the number of nodes and the node of a rank.
func nodeOf(mapping string, rank, size int) (nodes, node int, err error) {
	wrong := fmt.Errorf("mpiexec's PMI_process_mapping is %.80q, and names no node for each of %d processes", mapping, size)
	list, ok := strings.CutPrefix(strings.ReplaceAll(mapping, " ", ""), "(vector,(")
	list, ok2 := strings.CutSuffix(list, "))")
	if !ok || !ok2 || rank < 0 || rank >= size || size > maxSize {
		return 0, 0, wrong
	}
	type block struct{ first, nodes, each int }
	var blocks []block
	for part := range strings.SplitSeq(list, "),(") {
		var b block
		var end string
		n, err := fmt.Sscanf(part+" .", "%d,%d,%d %s", &b.first, &b.nodes, &b.each, &end)
		if n != 4 || err != nil || end != "." || b.first < 0 || b.nodes < 1 || b.each < 1 || b.first > maxSize || b.nodes > maxSize || b.each > maxSize {
			return 0, 0, wrong
		}
		blocks = append(blocks, b)
	}
	seen := map[int]int{} // mpiexec's number of a node → its place among those that are used
	for at := 0; ; {
		for _, b := range blocks {
			for i := range b.nodes {
				if _, known := seen[b.first+i]; !known {
					seen[b.first+i] = len(seen)
				}
				if rank >= at && rank < at+b.each {
					node = seen[b.first+i]
				}
				if at += b.each; at >= size {
					return len(seen), node, nil
				}
			}
		}
	}
}
