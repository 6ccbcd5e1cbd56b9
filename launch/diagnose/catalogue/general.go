package catalogue

// catchAllRows returns the rows about lines in words that no other row knows: what a
// logger, a runtime or the system marks as an error, whoever prints it.
func catchAllRows() []Row {
	const (
		read  = "do what that line says; the lines before it, of the same process, show what led to it"
		reach = "check that the server runs and listens there (ss -ltn on it), and that this node reaches it (nc -vz HOST PORT)"
	)
	return []Row{
		{
			Key: RowUnknownWarning, Checks: ids("X-NCCL"), Kind: Symptom, Pattern: ` NCCL WARN \S`,
			Cause: "NCCL warned of something that gorun explain does not know", Fix: "read the line and those below it of the same process; NCCL_DEBUG=INFO shows what came before", Seen: "all", Source: "src/debug.cc",
		},
		{
			Key: RowCascade, Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: NoLine,
			Cause: "an error that speaks of another failure", Fix: "look for the earliest error of another rank", Seen: "all", Source: "its words",
		},
		{
			Key: RowSummary, Checks: ids("X-ERROR"), Kind: Vague, Pattern: NoLine,
			Cause: "the program or its launcher says that it failed, and not why", Fix: "read what the failed process printed before: its own log, on its node", Seen: "all", Source: "its words",
		},
		{
			Key: "z21", Checks: ids("X-FILE"), Kind: SystemError, Pattern: `Permission denied|Operation not permitted|Access ?denied|Read-only file system`,
			Cause: "the program may not use a file or a device on this node", Fix: missingFile, Seen: "all", Source: "errno(3)",
		},
		{
			Key: "z20", Checks: ids("X-FILE"), Kind: SystemError, Pattern: `No such file or directory|Not a directory|(?:can't|cannot|could not|couldn't|unable to|failed to) open (?:\w+ ){0,2}(?:file|shared)|file not found|Is a directory$|NoSuchKey|FileNotFound`,
			Cause: "the program did not find a file on this node", Fix: missingFile, Seen: "all", Source: "errno(3)",
		},
		{
			Key: "z22", Checks: ids("X-START"), Kind: SystemError, Pattern: `\b(?:ba|da|k|z)?sh: line \d+: |Exec format error|cannot execute|command not found|sh: \d+: \S+: not found|unbound variable|syntax error (?:near|in conditional)|Argument list too long|bad interpreter`,
			Cause: "a program or script of the job could not be run on this node", Fix: "run the script's line by hand on that node; put the same program and interpreter at the same path on every node", Seen: "shells", Source: "bash(1)",
		},
		{
			Key: RowUnreached, Topical: true, Checks: ids("X-CONNECT"), Kind: SystemError, Pattern: `(?:Connection refused|ECONNREFUSED|Connection timed out|ETIMEDOUT|No route to host|Network is unreachable|Host is unreachable|i/o timeout|context deadline exceeded)|(?:can't|cannot|could not|couldn't|unable to|failed to) (?:connect|reach|contact|communicate)\b`,
			Cause: "a server could not be reached from this node", Fix: reach, Seen: "all", Source: "errno(3)",
		},
		{
			Key: RowNoMemory, Checks: ids("X-HOSTOOM", "L07"), Kind: SystemError, Pattern: `out of memory|(?:could not|couldn't|can't|unable to|failed to) (?:m?alloc|allocate|reserve|commit)\b|insufficient (?:virtual )?memory|memory exhausted|not enough memory|memory allocation .{0,20}failed`,
			Cause: "the program got no memory", Fix: "use fewer processes on that node or smaller data, or a higher limit (container memory, Slurm --mem, ulimit -v)", Seen: "all", Source: "its words",
		},
		{
			Key: RowCoreDumped, Checks: ids("X-SEGV"), Kind: Vague, Pattern: `\(core dumped\)|^(?:Aborted|Trace/breakpoint trap)$|line \d+: +\d+ (?:Aborted|Trace/breakpoint trap) |\] Signal: Aborted`,
			Cause: "the program was ended by a signal", Fix: "the lines before it, of the same process, show what led to it; a core file (ulimit -c unlimited) has the stack", Seen: "shells", Source: "bash(1)",
		},
		{
			Key: "z09", Topical: true, Checks: ids("X-PYEXC"), Kind: Logged, Pattern: `(?-i:\w*[a-z\d](?:Error|Exception|NotFound|Failure))(?:: \S|: ?$|\(\w)|^\w+(?:Error|Exception) in \w|^(?-i:Exception): \S|Exception in thread "|Unhandled exception|Uncaught \w+`,
			Cause: "the program raised an exception", Fix: read, Seen: "Python, Java, JavaScript", Source: "its words",
		},
		{
			Key: RowFatal, Topical: true, Checks: ids("X-ERROR"), Kind: Fatal, Pattern: `\bNon-OK-status: |(?:level|severity|levelname)"\s*:\s*"(?:fatal|panic|critical|emergency)"|\blevel=(?:fatal|panic|critical)|(?:^|[\s\[|<(:])(?-i:FATAL|CRITICAL|PANIC)[\]:|>) ]|\bfatal ?: |fatal   : |fatal error|panicked at |^panic: |forrtl: severe|pure virtual method called|Check failed: |assertion .{0,200}failed|Assertion failed|Execution halted|^Fatal \w+|Abort trap|what\(\): |^ERROR: LoadError: |Called CmiAbort|\bLLVM ERROR: |(?-i:\b[A-Z]+_ASSERT(?:ION)?\b ?[:(]).{0,200}\bfail`,
			Cause: "the program ended itself with this error", Fix: read, Seen: "loggers, runtimes", Source: "its words",
		},
		{
			Key: RowLogged, Topical: true, Checks: ids("X-ERROR"), Kind: Logged, Pattern: `(?:level|severity|levelname)"\s*:\s*"error"|(?:message|value|reason|error|failure)"\s*:\s*"[^"]*\b(?:fail(?:ed|ure)|error|invalid|timed out|denied|exceeded|killed|not found|refused)\b|\blevel=error|(?:^|[\s\[|<(:])(?-i:ERROR|SEVERE)[\]:|>) ]|\berror: \S|\berror\[\w+\]: |^HDF\d-DIAG: |^ *Error (?:in|on|at|while|when) |^Error from server|\.(?:crit|alert|emerg)\[\d+\]: |broker\.err\[\d+\]: |(?-i:\bFAIL at line)|(?-i:[A-Z]{2,}_ERROR)[\]:|>) ]|\b[a-z]\w+ failed(?::|,|\.?$| for | with | because | in | at | while | during )|\b(?:errors?|exceptions?) (?:has |have )?occurred\b|\b(?:bailing out|giving up|gave up)\b|non-zero status|(?-i:\*\*\* (?:Error|ERROR))|\.(?:cpp|cc|cu|hpp|h):\d+:? (?:failed|error[ :]|cannot|unable)|(?:cannot|could not|unable to|failed to) \w+|: (?:invalid|illegal|unknown|unrecognized|unsupported|missing) (?:option|argument|value|parameter|key|field|keyword|command|identifier|symbol|type|format|file|section|operand|data|header|name|character|configuration)\b`,
			Cause: "the program reported this error, and no line shows a clearer one", Fix: read, Seen: "loggers, runtimes", Source: "its words",
		},
	}
}
