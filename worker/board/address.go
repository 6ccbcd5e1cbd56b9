package board

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// address says which open file of which process a board is.
type address struct {
	machine    string // boot id and PID namespace
	pid, fd    int
	dev, inode uint64
}

// Address says where other processes of this user on this machine can map a board that
// this process made, for as long as it runs. Ranks without an agent share a board so:
// nothing has a name in a file system, and nothing is left behind.
func (b *Board) Address() (string, error) {
	if b.file == nil {
		return "", errors.New("this process did not make the board")
	}
	m, err := Machine()
	if err != nil {
		return "", err
	}
	dev, inode, err := identify(b.file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d %d %d", m, os.Getpid(), b.file.Fd(), dev, inode), nil
}

// MapAddress maps the board at an address of another process. The error says why this
// process cannot, for example because it runs on another machine.
func MapAddress(text string) (*Board, error) {
	b, err := mapAddress(text)
	if err != nil {
		return nil, fmt.Errorf("cannot map the board at %q: %w", text, err)
	}
	return b, nil
}

func mapAddress(text string) (*Board, error) {
	var a address
	var end string
	if n, _ := fmt.Sscanf(text, "%s %d %d %d %d%s", &a.machine, &a.pid, &a.fd, &a.dev, &a.inode, &end); n != 5 || a.pid < 1 || a.fd < 0 {
		return nil, errors.New("it is no address of a board")
	}
	here, err := Machine()
	if err != nil {
		return nil, err
	}
	if a.machine != here {
		return nil, errors.New("it is on another machine or in another container")
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", a.pid, a.fd), os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if dev, inode, err := identify(f); err != nil || dev != a.dev || inode != a.inode {
		f.Close()
		return nil, errors.New("the process that made it has ended")
	}
	return Map(f)
}

// ID is equal on all processes that have this board mapped, and on no others.
func (b *Board) ID() string { return b.id }

// Machine returns what processes have in common that see each other in /proc: only they
// can share a board.
func Machine() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "/" + space, nil
}
