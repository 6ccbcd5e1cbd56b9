// Package handout gives a job a secret where the user gave none: the node that serves
// the first endpoint makes a key, and the other nodes ask it for the key at the
// endpoint's own port.
//
// Invariants: the key never travels in clear. It travels in a munge credential that only
// the same user can open and that answers one request, or it stays in a file in a shared
// home folder, and only the file's name travels. A node that has munge accepts no weaker
// answer. Answers of strangers are bounded and change nothing.
package handout
