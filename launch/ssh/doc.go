// Package ssh starts one program on many hosts through the system's ssh, and watches
// it there. It has both ends: Job is the one at the user, Node the one that sshd
// starts on a host.
//
// The two ends speak over the standard streams of ssh. The shell command on the host
// finds the program, or takes a copy from standard input, and executes it. The program
// prints one line about its host (Hello). When all hosts have done so, each gets one
// line that says what to run (Start). From then on standard output and standard error
// are the job's. Standard input carries signals, and a sign of life that never stops.
//
// Invariants: nothing runs on any host before enough hosts have said Hello. No secret
// is part of a command line, or of the environment of ssh. A host whose connection
// ends, or stays silent, ends what it runs. Every line from the other end is bounded.
package ssh
