package tcpstore

import (
	"strings"
	"testing"
)

// step is what a client sends and what must come back.
type step struct{ send, want []byte }

// scripts returns the same conversations for both dialects: code maps a modern
// command to the dialect's number.
func scripts(code func(command) byte) map[string][]step {
	f := func(c command, fields ...any) []byte { return frame(code(c), fields...) }
	get := func(key, value string) step { return step{f(cmdGet, key), encode(value)} }
	set := func(key, value string) step { return step{f(cmdSet, key, value), nil} }
	long := strings.Repeat("x", 100_000)
	return map[string][]step{
		"SET, GET":           {set("k", "v"), get("k", "v"), set("k", "w"), get("k", "w")},
		"SET empty":          {set("", ""), get("", ""), {f(cmdGetNumKeys), encode(1)}},
		"SET long":           {set("k", long), get("k", long)},
		"SET long key":       {set(long[:MaxKey], "v"), get(long[:MaxKey], "v")},
		"GET missing":        {get("k", "")},
		"COMPARE_SET absent": {{f(cmdCompareSet, "k", "", "v"), encode("v")}, get("k", "v")},
		"COMPARE_SET absent, other expected": {
			{f(cmdCompareSet, "k", "e", "v"), encode("e")}, {f(cmdGetNumKeys), encode(0)},
		},
		"COMPARE_SET equal":     {set("k", "a"), {f(cmdCompareSet, "k", "a", "b"), encode("b")}, get("k", "b")},
		"COMPARE_SET different": {set("k", "a"), {f(cmdCompareSet, "k", "x", "b"), encode("a")}, get("k", "a")},
		"COMPARE_SET empty expected of a key that is there": {
			set("k", "a"), {f(cmdCompareSet, "k", "", "b"), encode("a")},
		},
		"ADD": {{f(cmdAdd, "n", 5), encode(5)}, {f(cmdAdd, "n", -7), encode(-2)}, get("n", "-2")},
		"ADD to text that starts with a number": {
			set("n", " 12 apples"), {f(cmdAdd, "n", 1), encode(13)}, get("n", "13"),
		},
		"CHECK": {
			{f(cmdCheck, 1, "a"), []byte{1}},
			set("a", ""),
			{f(cmdCheck, 1, "a"), []byte{0}},
			{f(cmdCheck, 2, "a", "b"), []byte{1}},
			{f(cmdCheck, 0), []byte{0}},
		},
		"WAIT for what is there": {set("a", "1"), set("b", "2"), {f(cmdWait, 2, "a", "b"), []byte{0}}, {f(cmdWait, 0), []byte{0}}},
		"GETNUMKEYS":             {{f(cmdGetNumKeys), encode(0)}, set("a", "1"), set("a", "2"), set("b", "1"), {f(cmdGetNumKeys), encode(2)}},
		"DELETE_KEY":             {set("a", "1"), {f(cmdDeleteKey, "a"), encode(1)}, {f(cmdDeleteKey, "a"), encode(0)}, get("a", "")},
		"APPEND":                 {{f(cmdAppend, "a", "x"), nil}, {f(cmdAppend, "a", "yz"), nil}, get("a", "xyz")},
		"MULTI_GET":              {set("a", "1"), set("b", long), {f(cmdMultiGet, 3, "a", "b", "c"), encode("1", long, "")}},
		"MULTI_SET":              {{f(cmdMultiSet, 2, "a", "1", "b", "2"), nil}, get("a", "1"), get("b", "2")},
		"CANCEL_WAIT of nothing": {{f(cmdCancelWait), []byte{1}}},
		"two at once":            {{append(f(cmdAdd, "n", 1), f(cmdAdd, "n", 1)...), encode(1, 2)}},
	}
}

func TestCommands(t *testing.T) {
	modern := scripts(func(c command) byte { return byte(c) })
	f := func(c command, fields ...any) []byte { return frame(byte(c), fields...) }
	modern["PING"] = []step{{f(cmdPing, uint32(0xA1B2C3D4)), encode(uint32(0xA1B2C3D4))}}
	modern["QUEUE"] = []step{
		{f(cmdQueueLen, "q"), encode(0)},
		{f(cmdQueuePop, "q"), encode(0)},
		{f(cmdQueuePush, "q", "one"), nil},
		{f(cmdQueuePush, "q", ""), nil},
		{f(cmdQueueLen, "q"), encode(2)},
		{f(cmdCheck, 1, "q"), []byte{0}},
		{f(cmdWait, 1, "q"), []byte{0}}, // a filled queue exists
		{f(cmdGetNumKeys), encode(0)},
		{f(cmdGet, "q"), encode("")}, // but it is not a value
		{f(cmdDeleteKey, "q"), encode(0)},
		{f(cmdQueuePop, "q"), encode(2, "one")},
		{f(cmdQueuePop, "q"), encode(1, "")},
		{f(cmdQueuePop, "q"), encode(0)},
		{f(cmdCheck, 1, "q"), []byte{1}},
	}
	for name, script := range modern {
		t.Run("modern/"+name, func(t *testing.T) {
			_, addr := start(t, Options{})
			play(t, dialModern(t, addr), script)
		})
	}

	// These are the numbers of torch 1.13 and, from 9 on, of torch 2.0.
	legacy := map[command]byte{
		cmdSet: 0, cmdCompareSet: 1, cmdGet: 2, cmdAdd: 3, cmdCheck: 4, cmdWait: 5,
		cmdGetNumKeys: 6, cmdDeleteKey: 8, cmdAppend: 9, cmdMultiGet: 10, cmdMultiSet: 11, cmdCancelWait: 12,
	}
	for name, script := range scripts(func(c command) byte { return legacy[c] }) {
		t.Run("legacy/"+name, func(t *testing.T) {
			_, addr := start(t, Options{})
			play(t, dial(t, addr), script)
		})
	}
}

// play runs a script and then expects silence.
func play(t *testing.T, c *client, script []step) {
	for _, s := range script {
		c.call(s.send, s.want)
	}
	_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	c.expectEnd()
}

// TestRequestsInSingleBytes checks a connection whose bytes arrive one at a time.
func TestRequestsInSingleBytes(t *testing.T) {
	for _, first := range [][]byte{{}, {0x00, 0xCE, 0xF7, 0x85, 0x3C}} {
		_, addr := start(t, Options{})
		set, get := byte(0), byte(2)
		if len(first) > 0 {
			set, get = 1, 3
		}
		c := dial(t, addr)
		for _, b := range append(first, append(frame(set, "key", "value"), frame(get, "key")...)...) {
			c.send([]byte{b})
		}
		c.expect(encode("value"))
	}
}

// TestWatchKey checks the watch connection of torch before 2.1, which only its
// C++ side uses.
func TestWatchKey(t *testing.T) {
	_, addr := start(t, Options{})
	w, c := dial(t, addr), dial(t, addr)
	w.call(frame(7, "k"), []byte{watchRegistered})
	c.send(frame(0, "other", "1"))
	c.send(frame(0, "k", "1"))
	w.expect(encode(byte(watchCreated), "k", "", "1"))
	c.call(frame(3, "k", 1), encode(2))
	w.expect(encode(byte(watchUpdated), "k", "1", "2"))
	c.call(frame(1, "k", "2", "3"), encode("3"))
	w.expect(encode(byte(watchUpdated), "k", "2", "3"))
	c.call(frame(1, "k", "x", "4"), encode("3"))
	c.send(frame(9, "k", "3"))
	w.expect(encode(byte(watchAppended), "k", "", "3"))
	c.call(frame(8, "k"), encode(1))
	w.expect(encode(byte(watchDeleted), "k", "33", ""))
}
