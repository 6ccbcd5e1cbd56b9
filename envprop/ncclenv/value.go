// Package ncclenv knows the environment variables that decide whether ranks
// work together, where their values come from, and which of them must agree.
//
// Invariants: the catalogue is a constant; Merge is pure; conf files are read
// within a bound, as NCCL reads them, and a value remembers where it came from.
package ncclenv

// Value is one effective variable of the workers.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`           // "environment" or the path of the conf file
	Hidden []From `json:"hidden,omitempty"` // values of other sources, which do not count
}

// From is a value from another source, which does not count.
type From struct {
	Value  string `json:"value"`
	Source string `json:"source"`
}

// ConfFile is an nccl.conf that exists on the node.
type ConfFile struct {
	Path   string   `json:"path"`
	Hash   string   `json:"hash"`            // SHA-256, hex
	Names  []string `json:"names,omitempty"` // variables that it sets, in order
	Faults []string `json:"faults,omitempty"`
	Error  string   `json:"error,omitempty"`
}
