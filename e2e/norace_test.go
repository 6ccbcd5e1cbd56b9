//go:build !race

package e2e_test

// raceFlag builds gorun like the test binary.
const raceFlag = "-race=false"
