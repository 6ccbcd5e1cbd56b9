// Package e2e tests gorun as its user sees it: the real binary, several agents
// on the loopback addresses 127.0.0.x, real signals and real network cuts. Where
// machines have to differ in their interfaces, GPUs, libraries or limits, the tests
// use a fleet of simulated machines.
//
// Every test asserts what each agent prints, its exit code, and that no process
// of the run is left. E2E_GORUN names a binary to test instead of a new build.
package e2e
