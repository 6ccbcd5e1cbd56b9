package gossip

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// userMsg is a message type of memberlist that no agent sends.
const userMsg = 8

// pairs makes a MessagePack map of alternating names and values. A value is a number,
// a text or bytes.
func pairs(kv ...any) []byte {
	b := []byte{0x80 | byte(len(kv)/2)}
	for _, v := range kv {
		switch v := v.(type) {
		case int:
			b = binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
		case string:
			b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

func message(kind byte, body []byte) []byte { return append([]byte{kind}, body...) }

// compressed returns a message in memberlist's compression.
func compressed(msg []byte) []byte {
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	_, _ = w.Write(msg)
	w.Close()
	return message(compressMsg, pairs("Algo", 0, "Buf", b.String()))
}

// compound makes a packet of several messages.
func compound(msgs ...[]byte) []byte {
	b := []byte{compoundMsg, byte(len(msgs))}
	for _, m := range msgs {
		b = binary.BigEndian.AppendUint16(b, uint16(len(m)))
	}
	return append(b, slices.Concat(msgs...)...)
}

var versions = string([]byte{1, 5, 2, 0, 0, 0})

// member returns the fields that an alive message and a state have in common.
func member(t testing.TB) []any {
	t.Helper()
	meta, err := json.Marshal(meta{Protocol: rendezvous.Protocol, Run: "run", Name: "x", Control: "127.0.0.9:1", Endpoint: -1})
	if err != nil {
		t.Fatal(err)
	}
	return []any{"Incarnation", 1, "Addr", string([]byte{127, 0, 0, 9}), "Port", 9, "Meta", string(meta), "Vsn", versions}
}

func alive(t testing.TB, id string) []byte {
	return message(aliveMsg, pairs(append(member(t), "Node", id)...))
}

func state(t testing.TB, id string) []byte {
	return pairs(append(member(t), "Name", id, "State", 0)...)
}

// TestSmallMessagesCostLittleMemory checks that an agent allocates little for messages
// that announce, or decompress to, many bytes.
func TestSmallMessagesCostLittleMemory(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	home := open(t, first)
	other := open(t, config(2, at))
	meet(t, home, other)
	long := strings.Repeat("x", 38<<20)
	header := func(nodes, user int) []byte {
		return message(pushPullMsg, pairs("Nodes", nodes, "UserStateLen", user))
	}
	packets := map[string][]byte{
		"a long name":             compressed(alive(t, long)),
		"a long name twice":       compressed(compressed(alive(t, long))),
		"a ping from a long name": compressed(message(pingMsg, pairs("SeqNo", 1, "Node", string(home.id), "SourceNode", long, "SourceAddr", long, "SourcePort", 1))),
		"a suspect of long names": compressed(message(suspectMsg, pairs("Incarnation", 9, "Node", string(other.id), "From", long))),
	}
	streams := map[string][]byte{
		"a long name":      compressed(slices.Concat(header(1, 0), state(t, long))),
		"a million nodes":  header(1<<20, 0),
		"much user state":  header(0, 20<<20),
		"a long user text": message(userMsg, pairs("UserMsgLen", 20<<20)),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, b := range packets {
		if len(b) > 61<<10 {
			t.Errorf("%s: %d bytes do not fit into a packet", name, len(b))
		}
		c, err := net.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range streams {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(b)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if reply, _ := io.ReadAll(c); bytes.HasPrefix(reply, []byte{pushPullMsg}) {
			t.Errorf("%s: the agent answers it", name)
		}
	}
	meet(t, home, other, open(t, config(3, at))) // all is handled
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 8 {
		t.Errorf("the agents allocated %d MiB", n)
	}
}

// TestNamesAreBounded checks that forged agents cannot make an agent store any number of
// names, and that the agents that it knows stay known.
func TestNamesAreBounded(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves, first.MaxAgents = 0, 100
	home, other := open(t, first), open(t, config(2, at))
	meet(t, home, other)
	udp, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for i := range 1000 {
		_, _ = udp.Write(alive(t, fmt.Sprint("forged", i)))
	}
	many := message(pushPullMsg, pairs("Nodes", 300, "UserStateLen", 0))
	for i := range 300 {
		many = append(many, state(t, fmt.Sprint("many", i))...)
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(many)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if reply, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(reply, []byte{pushPullMsg}) {
		t.Errorf("a state in bounds is answered with %.40q (%v)", reply, err)
	}
	eventually(t, 30*time.Second, func() bool { return len(home.peers().All) >= 100 }, func() string {
		return fmt.Sprintf("only %d of the first hundred are known", len(home.peers().All))
	})
	known := func() (n int, kept bool) {
		all := home.peers().All
		return len(all), slices.ContainsFunc(all, func(p rendezvous.Peer) bool { return p.ID == other.id })
	}
	if n, kept := known(); n > 101 || !kept { // itself is not readCounted
		t.Errorf("%d are known; the other agent is: %v", n, kept)
	}
}

// TestFilterPassesAgentsMessages checks that the filter passes what agents send each other.
func TestFilterPassesAgentsMessages(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	open(t, first)
	udp, err := net.ListenPacket("udp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	to, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	fields := member(t)
	fields[5] = udp.LocalAddr().(*net.UDPAddr).Port
	if _, err := udp.WriteTo(message(aliveMsg, pairs(append(fields, "Node", "fake")...)), to); err != nil {
		t.Fatal(err)
	}
	seen, buf := map[byte]bool{}, make([]byte, 1<<16)
	for end := time.Now().Add(20 * time.Second); !seen[pingMsg] || !seen[hasCrcMsg]; {
		_ = udp.SetReadDeadline(end)
		n, _, err := udp.ReadFrom(buf)
		if err != nil {
			t.Fatalf("after %v: %v", seen, err)
		}
		seen[buf[0]] = true
		if err := (&filter{}).checkPacket(buf[:n]); err != nil {
			t.Errorf("a packet of an agent does not pass: %v: %q", err, buf[:n])
		}
	}
}

func TestFilterPacket(t *testing.T) {
	good := alive(t, "n")
	ping := message(pingMsg, pairs("SeqNo", 1, "Node", "n"))
	for name, b := range map[string][]byte{
		"alive": good, "compound": compound(good, ping), "checksum": slices.Concat([]byte{hasCrcMsg, 0, 0, 0, 0}, compound(ping)),
	} {
		if err := (&filter{}).checkPacket(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"empty": {}, "user": message(userMsg, nil), "compressed": compressed(good), "nested": compound(compound(good)), "cut": good[:len(good)-1],
		"more": append(slices.Clone(good), 0), "list": message(pingMsg, []byte{0x90}), "list inside": message(pingMsg, []byte{0x81, 0xa1, 'x', 0x90}),
		"twice": message(pingMsg, pairs("a", 1, "a", 2)), "long": message(pingMsg, pairs("Node", strings.Repeat("x", maxField+1))),
		"announced": message(pingMsg, []byte{0x81, 0xa1, 'x', 0xdb, 0xff, 0xff, 0xff, 0xff}), "large": make([]byte, maxPacket+1),
		"checksum only": {hasCrcMsg, 0, 0, 0, 0}, "half compound": {compoundMsg, 3, 0, 1},
	} {
		if err := (&filter{}).checkPacket(b); err == nil {
			t.Errorf("%s: passes", name)
		}
	}
	f, relay := &filter{}, message(indirectPingMsg, pairs("SeqNo", 1))
	passed := 0
	for range 4 * maxRelays {
		if f.checkPacket(relay) == nil {
			passed++
		}
	}
	if passed < maxRelays || passed > 3*maxRelays {
		t.Errorf("%d of %d indirect pings pass", passed, 4*maxRelays)
	}
}

// receivedConn is a connection on which the bytes of r arrived.
type receivedConn struct {
	net.Conn
	r io.Reader
}

func (c receivedConn) Read(b []byte) (int, error) { return c.r.Read(b) }
func (c receivedConn) Close() error               { return nil }

// FuzzFilter checks that the filter passes only received bytes and not too many, and
// that it counts none of them after Close.
func FuzzFilter(f *testing.F) {
	f.Add(alive(f, "n"), false)
	f.Add(compound(alive(f, "n"), message(pingMsg, pairs("SeqNo", 1))), false)
	f.Add(slices.Concat(message(pushPullMsg, pairs("Nodes", 2, "UserStateLen", 0)), state(f, "a"), state(f, "b")), false)
	f.Add(message(encryptMsg, []byte{0, 0, 0, 3, 1, 2, 3}), true)
	f.Add(compressed(alive(f, "n")), false)
	f.Fuzz(func(t *testing.T, b []byte, encrypts bool) {
		fl := &filter{encrypts: encrypts, maxStates: 3}
		_ = fl.checkPacket(b)
		c := fl.stream(receivedConn{r: bytes.NewReader(b)})
		got, _ := io.ReadAll(c)
		if !bytes.HasPrefix(b, got) || int64(len(got)) > fl.maxMessage() {
			t.Errorf("%d bytes that were not sent, or too many", len(got))
		}
		c.Close()
		if n := fl.buffered.Load(); n != 0 {
			t.Errorf("%d bytes stay charged", n)
		}
	})
}
