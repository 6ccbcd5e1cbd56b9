//go:build race

package memory_test

// raceEnabled says that the race detector is on. Everything takes ten times as long.
const raceEnabled = true
