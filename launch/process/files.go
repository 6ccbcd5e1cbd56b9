package process

import "syscall"

// filesWanted is as many open files as a rank of the largest jobs needs (NCCL
// over sockets, more than 1,024 ranks); more than that only costs programs that
// close every descriptor up to the limit.
const filesWanted = 1 << 20

// RaiseFiles lifts the limit of open files of this process and of all that it
// starts: shells give 1,024, and a rank needs several for each of its peers. It
// must be syscall's Setrlimit: without a call to it Go's runtime, which raises the
// limit for itself, gives children the old one.
func RaiseFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = max(min(l.Max, filesWanted), min(l.Cur, l.Max))
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // refused: as it was
}
