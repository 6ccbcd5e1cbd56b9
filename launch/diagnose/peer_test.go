package diagnose

import (
	"strings"
	"testing"
)

// TestMixedTracebacks reads tracebacks of two writers line by line, whatever stands
// before their lines.
func TestMixedTracebacks(t *testing.T) {
	for prefix, host := range map[string]string{
		"t-# ":                        "t-1",
		"[t-#] ":                      "t-1",
		"[ns][t-#] ":                  "t-1",
		"(t-#) ":                      "t-1",
		"t-#/main: ":                  "t-1",
		"[t-#/main] ":                 "t-1",
		"[Rank #] ":                   "",
		"rank# | ":                    "",
		"[2026-05-02 10:11:12][t-#] ": "t-1",
	} {
		var log strings.Builder
		for _, line := range []string{
			"0Traceback (most recent call last):", "1Traceback (most recent call last):",
			`0  File "/w/train.py", line 10, in <module>`, `1  File "/w/train.py", line 10, in <module>`,
			"0    main()", "1    main()", "1KeyError: 'b'", "0  File \"/w/m.py\", line 2, in main", "0    f()", "0ValueError: a",
		} {
			log.WriteString(strings.ReplaceAll(prefix, "#", line[:1]) + line[1:] + "\n")
		}
		found := scan(t, oneFile(log.String())...)
		if len(found) != 2 || found[0].Text != "KeyError: 'b' (w/train.py:10)" || found[1].Text != "ValueError: a (w/m.py:2)" || found[0].Host != host {
			t.Errorf("%q: %+v", prefix, found)
		}
	}
}

// TestPeerIn reads the address of the other side from lines about connections.
func TestPeerIn(t *testing.T) {
	for line, want := range map[string]string{
		"OSError: [Errno 113] No route to host (peer 10.4.1.7:29501)":                           "10.4.1.7:29501",
		"NCCL WARN Call to connect to 10.1.2.3<40001> failed : Connection refused":              "10.1.2.3<40001>",
		"gloo/transport/tcp/pair.cc:538] Read error [10.2.0.10]:28113: Connection timed out":    "[10.2.0.10]:28113",
		"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.6.1.4:8476: no route": "10.6.1.4:8476",
		"dial tcp 10.0.0.9:2379: connect: connection refused":                                   "10.0.0.9:2379",
		"Failed to establish a new connection to head-0:6379: [Errno 111] Connection refused":   "head-0:6379",
		"connected to 10.0.0.9:2379":                                  "", // nothing failed
		"RuntimeError: Connection reset by peer (train.py:10)":        "",
		"Connection refused":                                          "",
		"the worker on 10.0.0.9:2379 timed out":                       "", // its own address
		"RuntimeError: Connection closed by peer after version 1.2.3": "",
	} {
		if got := peerIn(line); got != want {
			t.Errorf("peerIn(%q) = %q, want %q", line, got, want)
		}
	}
}
