// Package e2e tests gorun as its user sees it: the real binary, several agents
// on the loopback addresses 127.0.0.x, real signals and real network cuts. Where
// machines have to differ, in their interfaces, GPUs, libraries or limits, a fleet
// of simulated ones stands for them.
//
// Every test asserts what each agent prints, its exit code, and that no process
// of the run is left. E2E_GORUN names a binary to test instead of a fresh one.
package e2e
