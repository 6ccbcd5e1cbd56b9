//go:build linux && !386 && !s390x

package tcp

import (
	"syscall"
	"time"
	"unsafe"
)

// lastAnswer returns how long ago the peer's kernel answered for the last time, and whether
// there is something that it has to answer: data, or the question whether it has room.
func (l *lane) lastAnswer() (ago time.Duration, unanswered bool) {
	var info syscall.TCPInfo
	size := uint32(syscall.SizeofTCPInfo)
	var errno syscall.Errno
	err := l.out.raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	})
	if err != nil || errno != 0 || size < syscall.SizeofTCPInfo {
		return 0, false // the lane is closed
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond, info.Unacked > 0 || info.Probes > 0
}
