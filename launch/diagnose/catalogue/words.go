package catalogue

import "github.com/gorun/gorun/launch/diagnose/match"

// ConnectionClosed matches the system's words for a connection that the other
// side closed.
const ConnectionClosed = `(?:connection closed|connection reset by peer|broken pipe|socket closed)`

// LauncherBanner matches the fixed lines that launchers print after the end of a worker.
const LauncherBanner = `^(?:Primary job |a non-zero exit code|thus causing|the job to be terminated|(?:mpirun|prterun|mpiexec) |srun: |slurmstepd(?:-[\w.-]+)?: |pdsh@|make(?:\[\d+\])?: )`

// LauncherLine matches a line with a LauncherBanner.
var LauncherLine = match.Lazy(LauncherBanner)
