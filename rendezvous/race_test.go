//go:build race

package rendezvous

// raceEnabled: everything takes ten times as long.
const raceEnabled = true
