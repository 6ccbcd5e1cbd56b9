package launch

import (
	"errors"
	"fmt"
	"io/fs"
)

// unkept tells that a log file does not get what a worker prints: a full disk
// costs the log, not the job, but nobody should look for the lines later.
func (a *agent) unkept(rank int, path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is said already
	}
	a.losses.Put(fmt.Sprintf("rank %d: cannot write %s: %v; what it prints is no longer kept there", rank, path, err))
	a.events.Put(unkeptEvent{})
}

// sayUnkept says what was not said yet. It is called after the loop, too: the
// last output is taken only then.
func (a *agent) sayUnkept() {
	for _, text := range a.losses.Take() {
		a.console.say("%s", text)
	}
}
