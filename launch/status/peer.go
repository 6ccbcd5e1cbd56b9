package status

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/accept"
	"golang.org/x/sys/unix"
)

// Secret is the text that clients of other users prove to an agent.
type Secret interface {
	Given() bool
	Prove(purpose string, nonce []byte) []byte
	Verify(purpose string, nonce, proof []byte) bool
}

// proofPurpose keeps these proofs apart from other uses of the secret.
const proofPurpose = "gorun inspect, client to agent"

// proofText returns the text that a proof signs: the agent's user and the nonce. If
// another user relays a nonce, the agent does not accept the proof of it.
func proofText(nonce []byte, agent uint32) []byte {
	return append(binary.BigEndian.AppendUint32(nil, agent), nonce...)
}

// peerCredentials returns the credentials of the process at the other end from the
// kernel.
func peerCredentials(c net.Conn) (*unix.Ucred, error) {
	if counted, ok := c.(*accept.Conn); ok {
		c = counted.NetConn()
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("it is not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	ctl := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(ctl, err)
}

// socketPrefix begins the sockets' names. "@" stands for the zero byte that begins an
// abstract name. Abstract names belong to a network namespace.
const socketPrefix = "@gorun."

// socketName returns the name of an agent's socket. Processes of two pid namespaces
// can share a network namespace and a pid; then extra distinguishes their sockets.
func socketName(uid, pid int, extra string) string {
	name := fmt.Sprintf("%s%d.%d", socketPrefix, uid, pid)
	if extra != "" {
		name += "." + extra
	}
	return name
}

// parseSocketName returns the user that a socket's name claims, and the agent's pid.
func parseSocketName(name string) (uid, pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, socketPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return 0, 0, false
	}
	u, err1 := strconv.ParseUint(parts[0], 10, 32)
	p, err2 := strconv.ParseUint(parts[1], 10, 31)
	return int(u), int(p), err1 == nil && err2 == nil
}
