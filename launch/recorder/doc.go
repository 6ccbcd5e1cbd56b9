// Package recorder makes PyTorch's flight recorder available to the agent of a running
// job, and asks it. Variables returns the environment in which torch records, Collect asks
// the recorders of a node's ranks, and package flight reads what they write.
//
// A rank whose environment names a pipe makes the pipe when it makes its default process
// group. torch's heartbeat thread looks at the pipe once a second and writes a dump for
// every byte, whatever the rank's other threads do.
//
// Sources: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp and FlightRecorder.cpp, and
// dumps of torch 2.11. Invariants: the worker itself is never asked, and no call waits for
// it. What stands in the place of a pipe or of a dump is not trusted: only pipes get a
// byte, only regular files are read, and no link is followed. A dump from before the
// question is never taken for the answer.
package recorder
