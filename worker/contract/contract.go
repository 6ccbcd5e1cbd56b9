// Package contract has all that an agent and a worker share: the names of the
// environment variables and the frames on the worker socket. It uses the
// standard library only, so that linking it into a user's program costs nothing.
//
// The socket is a Unix stream socket that only the job's user can connect to (mode
// 0600). Frames are JSON objects, one a line, at most MaxFrame bytes. The worker
// sends hello first; the agent answers with welcome. Afterwards either side may
// send at any time. A connection that ends without a bye or an abort means that
// the other side is lost.
//
// A hello says with Board that the worker can map a board, which is memory that the
// agent and the workers of a node share (package worker/board). If the welcome has Board
// too, the board's descriptor comes with its first byte (SCM_RIGHTS).
package contract

import "time"

// Version is the version of the socket protocol. A side that sees a higher version keeps
// to its own.
const Version = 1

// BoardVersion is the version of the board's layout. Agent and worker share a board only
// if both have the same.
const BoardVersion = 4

// MaxFrame is the longest line that either side accepts, in bytes.
const MaxFrame = 64 << 10

// Environment variables that gorun adds to torchrun's.
const (
	EnvSocket = "GORUN_WORKER_SOCKET" // path of the agent's worker socket
	EnvRunID  = "GORUN_RUN_ID"        // names the job
	EnvRound  = "GORUN_ROUND"         // round number, grows with every attempt
	EnvDevice = "GORUN_DEVICE"        // UUID of the worker's own GPU, if it has one
	EnvNCCL   = "GORUN_NCCL_LIB"      // path of the libnccl that Go workers open
	EnvCUDA   = "GORUN_CUDA_LIB"      // path of the libcuda that Go workers open, where the loader's is not the one
	EnvAddr   = "GORUN_NODE_ADDR"     // address of this node that the others reach
	EnvPorts  = "GORUN_WORKER_PORTS"  // A-B: the workers open ports of this range only (--port-range)
	EnvStep   = "GORUN_STEP"          // step of Slurm or mpirun in which the agent runs, if it does
	EnvStore  = "GORUN_STORE"         // host:port of the agent's store, where MASTER_ADDR:MASTER_PORT is rank 0's
	EnvToken  = "GORUN_WORLD_TOKEN"   // shared by the workers of one world, fresh every round
)

// Frame types.
const (
	TypeHello   = "hello"   // worker → agent: Rank, PID, Version, Round
	TypeWelcome = "welcome" // agent → worker: Version
	TypeFail    = "fail"    // worker → agent: Message; ends the round
	TypeAbort   = "abort"   // agent → worker: Cause; the round is over
	TypeBye     = "bye"     // worker → agent: it closes on purpose
	TypeStep    = "step"    // worker → agent: Step; how far the program is, at most a few a second
	TypeStacks  = "stacks"  // agent → worker: where are you? worker → agent: Message, what the runtime prints of its threads
)

// Frame is one line on the worker socket.
type Frame struct {
	Type    string `json:"type"`
	Version int    `json:"version,omitempty"`
	Rank    int    `json:"rank,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Round   *int   `json:"round,omitempty"` // of a hello; nil: the running round; the agent closes connections of other rounds
	Board   int    `json:"board,omitempty"` // of a hello: BoardVersion of the worker; of a welcome: that of the board that comes with it; 0: none
	CPUs    []int  `json:"cpus,omitempty"`  // of a welcome with a board: CPUs that no other worker of this agent has; the worker binds itself to them
	Message string `json:"message,omitempty"`
	Step    int64  `json:"step,omitempty"`
	Cause   *Cause `json:"cause,omitempty"`
}

// Cause says to a worker why its round was aborted.
type Cause struct {
	Kind     string    `json:"kind"`           // exit, signal, report, start, lost, stopped
	Host     string    `json:"host,omitempty"` // node of the first failure
	Rank     int       `json:"rank"`           // rank that failed first; -1: no rank is to blame
	ExitCode int       `json:"exit_code"`
	Signal   int       `json:"signal,omitempty"`
	Text     string    `json:"text"` // one line for a person
	Time     time.Time `json:"time"`
}
