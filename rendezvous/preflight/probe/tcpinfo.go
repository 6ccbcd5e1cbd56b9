package probe

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// slowMbit is the rate in Mbit/s below which a path is slow.
const slowMbit = 25

// tcpInfo returns the kernel's counters for a connection, all zero if the
// kernel does not give them.
func tcpInfo(c net.Conn) *unix.TCPInfo {
	info := &unix.TCPInfo{}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return info
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return info
	}
	_ = raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = got
		}
	})
	return info
}

// segments returns how many segments were sent with data, the first segment of
// the handshake included, and how many of them were sent again because they got
// lost. It does not count those that the other side reports as received twice.
func segments(info *unix.TCPInfo) (sent, resent int) {
	return 1 + int(info.Data_segs_out), int(info.Total_retrans - min(info.Total_retrans, info.Dsack_dups))
}

// queueDelay returns how much longer the round trip is than the shortest one.
func queueDelay(info *unix.TCPInfo) time.Duration {
	return time.Duration(info.Rtt-min(info.Rtt, info.Min_rtt)) * time.Microsecond
}

// isQueued reports whether packets waited in a queue on the way, longer than
// receivers that delay acknowledgements (by 40 ms) explain where packets get
// lost.
func isQueued(info *unix.TCPInfo) bool { return queueDelay(info) > 100*time.Millisecond }

// isSuspect reports whether the path may have been too slow for a payload that
// took this long: longer than TCP needs to find the rate.
func isSuspect(info *unix.TCPInfo, took time.Duration) bool {
	return took > 12*time.Millisecond+8*time.Duration(info.Min_rtt)*time.Microsecond
}

// slow reports whether a path with this rate is too slow, and not only slowed
// by lost packets: then the packets that do arrive are delivered fast.
func slow(info *unix.TCPInfo, rate float64) bool {
	return rate < slowMbit && float64(info.Delivery_rate)*8/1e6 < slowMbit && queueDelay(info) > 8*time.Millisecond
}

// mbit returns a rate in Mbit/s.
func mbit(bytes int, took time.Duration) float64 {
	return float64(bytes) * 8 / 1e6 / max(took.Seconds(), 1e-6)
}
