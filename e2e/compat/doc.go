// Package compat holds gorun to torchrun: each case of its tests is one command line that
// both are given, and what the workers see, the files, the lines that programs search
// for, and the exit code are compared.
//
// What torchrun does stands in testdata/torch-1.13.json, so that a comparison takes no
// longer than gorun does. "go test -run TestRecord -record" writes the file anew, with
// Debian's torch; without -record the test plays a sample of it. Cases for what torchrun
// has got since then carry what they want themselves. TestLive compares all cases with another torchrun,
// which COMPAT_TORCHRUN names.
//
// A difference is either mended or stands in allowed_test.go with its reason. A difference
// that stands there and does not occur fails the tests, too.
package compat
