package diagnose

import (
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// staleAfter is how long, in seconds, a job goes on after what the kernel reported if
// that has nothing to do with the job's failure.
const staleAfter = 30 * 60

// isOfKernel reports whether the kernel, a GPU or a scheduler reports e, perhaps about a
// process that is not of the job.
func (e *event) isOfKernel() bool {
	return e.kind == catalogue.Root || strings.Contains(e.text, "NVRM: ")
}

// markStale marks events of the kernel as handled after which the job went on for long,
// until it failed for a reason of its own.
func markStale(all []*hypothesis) {
	var failures []*event
	for _, h := range all {
		for _, e := range h.events {
			if !e.isOfKernel() && e.kind != catalogue.Warning && e.kind != catalogue.Harmless && !e.mayBeHandled() {
				failures = append(failures, e)
			}
		}
	}
	for _, h := range all {
		for _, e := range h.events {
			if e.isOfKernel() && e.isBefore(failures) {
				e.handled = true
			}
		}
	}
}

// isBefore reports whether all failures came long after e, and one of them explains
// itself.
func (e *event) isBefore(failures []*event) bool {
	explained := false
	for _, f := range failures {
		if !e.when.IsKnown() || !f.when.IsKnown() || f.when.Sec-e.when.Sec < staleAfter {
			return false
		}
		explained = explained || f.isDirect() && !f.mayFollowKernel()
	}
	return explained
}

// mayFollowKernel reports whether a GPU or an adapter that failed brings e about.
func (e *event) mayFollowKernel() bool {
	id := e.row.ID()
	return id == "X-CUDAERR" || id == "X-SEGV" || id == "X-DISK" || id[0] == 'G' || id[0] == 'N'
}
