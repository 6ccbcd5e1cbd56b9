//go:build unix

package tcp

import "syscall"

// tryWrite writes rest until the socket takes no more.
func (o *outbox) tryWrite(fd uintptr) bool {
	for len(o.rest) > 0 {
		n, err := syscall.Write(int(fd), o.rest)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		o.rest = o.rest[n:]
	}
	return true // never wait
}
