package host

import "context"

// background is work that may block: opening a device, reading a remote file
// system or the /proc files of a process that hangs. Nothing can interrupt such
// work in the kernel. If it does not end in time, its goroutine stays behind,
// and nothing else does.
type background[T any] struct {
	what string
	done chan answer[T]
}

type answer[T any] struct {
	value T
	why   string // what stays unknown
}

func startBackground[T any](what string, work func() (T, string)) background[T] {
	b := background[T]{what, make(chan answer[T], 1)}
	go func() {
		value, why := work()
		b.done <- answer[T]{value, why}
	}()
	return b
}

// wait returns the answer, or why there is none if ctx ends first.
func (b background[T]) wait(ctx context.Context) (value T, why string) {
	select {
	case a := <-b.done:
		return a.value, a.why
	default: // the answer may have come together with the end
	}
	select {
	case a := <-b.done:
		return a.value, a.why
	case <-ctx.Done():
		return value, b.what + " took too long"
	}
}
