package logs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openPipe returns a pipe. r is read through the poller, w is for a child.
func openPipe() (r, w *os.File, err error) {
	// os.Pipe would make both ends non-blocking.
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("cannot open a pipe for a worker's output: %w", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, nil, fmt.Errorf("cannot open a pipe for a worker's output: %w", err)
	}
	return os.NewFile(uintptr(p[0]), "pipe from worker"), os.NewFile(uintptr(p[1]), "pipe to gorun"), nil
}

// openPTY returns a pseudo-terminal that passes bytes unchanged. r is read through
// the poller, w is for a child. The usual helpers leave r in blocking mode, where a
// read cannot be interrupted.
func openPTY() (r, w *os.File, err error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open a terminal for a worker's output: %w", err)
	}
	slave, err := openSlave(master)
	if err != nil {
		unix.Close(master)
		return nil, nil, fmt.Errorf("cannot open a terminal for a worker's output: %w", err)
	}
	return os.NewFile(uintptr(master), "/dev/ptmx"), os.NewFile(uintptr(slave), "terminal of worker"), nil
}

func openSlave(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return 0, err
	}
	// TIOCGPTPEER needs no path, which may be another one in a container.
	// O_NOCTTY keeps it from becoming gorun's controlling terminal.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return 0, errno
	}
	slave := int(fd)
	modes, err := unix.IoctlGetTermios(slave, unix.TCGETS)
	if err == nil {
		// The real terminal turns \n into \r\n; doing it here too would double the \r.
		modes.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(slave, unix.TCSETS, modes)
	}
	if err != nil {
		unix.Close(slave)
		return 0, err
	}
	return slave, nil
}

// copySize gives terminal `to` the window size of `from`.
func copySize(from, to *os.File) error {
	var size *unix.Winsize
	err := withFD(from, func(fd int) (err error) {
		size, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	})
	if err != nil {
		return err
	}
	return withFD(to, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
}

// withFD calls do with f's descriptor. File.Fd would make the file blocking.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if ctlErr := raw.Control(func(fd uintptr) { err = do(int(fd)) }); ctlErr != nil {
		return ctlErr
	}
	return err
}
