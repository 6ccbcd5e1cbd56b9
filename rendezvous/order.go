package rendezvous

import "slices"

// ordered reports whether somebody wants the whole job to end. That counts
// wherever it was said, also at a node that waits for a place.
func ordered(fs []Cause) bool {
	return slices.ContainsFunc(fs, func(f Cause) bool { return f.Kind == KindAborted })
}

// verdict is why the job ends: its first failure, but for one after which it
// would have been started again, had nobody ordered its end.
func (c *coordinator) verdict() Cause {
	i := slices.IndexFunc(c.failures, func(f failure) bool { return f.Kind == KindAborted })
	if i >= 0 && c.restart < c.maxRestarts {
		return c.failures[i].Cause
	}
	return c.first()
}
