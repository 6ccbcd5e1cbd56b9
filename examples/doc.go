// Package examples holds programs that run under gorun, one folder each, and the tests
// that run them as plain processes, in the place of a launcher. It has no code of its
// own.
package examples
