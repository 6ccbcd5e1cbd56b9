//go:build race

package memory_test

// raceEnabled: everything takes ten times as long.
const raceEnabled = true
