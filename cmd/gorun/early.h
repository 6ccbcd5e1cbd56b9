// What early.c has done before the Go runtime started.
struct early {
	int lifeline; // in the agent: descriptor that ends with the keeper
	int ended;    // in the keeper: whether the agent has ended and something is left to do
	int status;   // how it ended, as waitpid(2) says it
	int killed;   // how many processes that it left were sent SIGKILL
	long long born; // in the keeper: when it forked the agent, in Unix time
	long slack; // in the agent: the timer slack of who started gorun, in ns; 0: unchanged
	unsigned long long tag; // of the agent's temporary files, known to both
};

extern struct early early;

// early_tell says to the keeper of an agent that this process ends now, after all
// that it had to do, with an exit code.
void early_tell(int code);

// early_step_back makes the keeper go on as if this process had never been there.
void early_step_back(void);
