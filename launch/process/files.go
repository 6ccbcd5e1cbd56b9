package process

import "syscall"

// filesWanted is the number of open files that a rank of the largest jobs needs
// (NCCL over sockets, more than 1,024 ranks). A higher limit only costs time in
// programs that close every descriptor up to the limit.
const filesWanted = 1 << 20

// RaiseFiles raises the limit of open files of this process and of all processes
// that it starts. Shells set 1,024, and a rank needs several files for each of its
// peers. RaiseFiles must call syscall's Setrlimit: without that call Go's runtime,
// which raises the limit for itself, gives children the old limit.
func RaiseFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = max(min(l.Max, filesWanted), min(l.Cur, l.Max))
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // if refused, the limit stays as it was
}
