package catalogue

// Keys of rows that the code names, most of them found from several lines.
const (
	RowException         = "x40" // a traceback
	RowDesync            = "x42" // watchdogs in different collectives
	RowDataset           = "x27" // an exception of the dataset
	RowTimeout           = "74"  // a time-out that a watchdog reports
	RowMissing           = "x43" // ranks that never joined
	RowAllWait           = "x44" // all ranks in one collective
	RowSelfTest          = "x70" // gorun's self-test, which its rank 0 reports for all
	RowNoReason          = "x45" // an exit code without a reason
	RowKilled            = "x46" // killed by SIGKILL
	RowCrashed           = "x24"
	RowIllegal           = "y71" // an instruction that the processor does not have
	RowBusError          = "x23"
	RowRAS               = "x48"  // a crash in NCCL's RAS thread
	RowStopped           = "x92"  // stopped by a launcher or a scheduler
	RowStopException     = "x93"  // an exception that shows a stop from outside
	RowOwnerDied         = "y74"  // an exception about a process of Ray whose owner ended, too
	RowActorDied         = "w17"  // an exception about a process of Ray that ended, too
	RowMount             = "w18"  // a volume of a pod
	RowScheduling        = "w11"  // no node for a pod
	RowImage             = "y04"  // a pod's image
	RowRegistry          = "y37"  // an image that the registry refuses
	RowContainer         = "y39"  // a container of a pod
	RowProbe             = "v04"  // a pod's probe
	RowActorNode         = "w25"  // the node of a process of Ray
	RowNoMemory          = "z24"  // memory that is used up, in any program's words
	RowNoGPUMemory       = "x04"  // the memory of a GPU
	RowTransport         = "u07"  // an error of UCX
	RowUnreached         = "z23"  // what the system says of a server that cannot be reached
	RowPeerException     = "x94"  // an exception that shows a lost peer
	RowLauncherException = "x57"  // an exception of a launcher
	RowNoStderr          = "x58"  // an exit code and nothing on stderr
	RowLastLine          = "x59"  // an exit code after a last line on stderr
	RowNoModule          = "x61"  // a traceback of a missing module
	RowNoFile            = "x62"  // a traceback of a missing or forbidden file
	RowPeerExited        = "x63"  // a rank that ended well while others needed it
	RowLastWords         = "x65"  // an exit code after a line of the log
	RowUnknownWarning    = "z01"  // an NCCL WARN that no other row knows
	RowFatal             = "z10"  // a line at the level fatal
	RowLogged            = "z11"  // a line at the level error
	RowAborted           = "x71"  // a line of the log, after which MPI ended the job
	RowTwiceRank         = "x72"  // ranks that several processes announce
	RowNotFound          = "x67"  // an exit code by which a shell says that it found no program
	RowCoreDumped        = "z08"  // a core dump without another word
	RowCascade           = "z02"  // such a line that speaks of another failure
	RowSummary           = "z03"  // such a line that sums up
	RowNodeFailed        = "x56"  // a node of which Slurm says that it failed
	RowStopSignal        = "y09"  // a signal that stopped a launcher or a program
	RowInterrupted       = "x66"  // an exception that shows Ctrl-C
	RowMPI               = "v03"  // an error that MPI reports
	RowMPIAdapter        = "y47"  // an adapter that MPI cannot open
	RowTwoOnGPU          = "46"   // two ranks on one GPU, as NCCL says
	RowHostID            = "x64"  // two hosts that NCCL takes for one
	NoLine               = `\b\B` // matches nothing
)
