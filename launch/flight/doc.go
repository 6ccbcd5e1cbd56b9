// Package flight reads what PyTorch's flight recorder wrote of a job that hung: a dump
// a rank, with the collectives that the rank called and how far each came. Compare says
// which rank did not call what the others wait for.
//
// Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp for the fields, pickler.cpp
// for the instructions. Invariants: a dump is read without running anything that it
// names; its size, depth and texts are bounded; a rank is only said to be behind if its
// own dump shows it, or if it has none while all other ranks wait.
package flight
