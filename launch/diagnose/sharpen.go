package diagnose

import "github.com/gorun/gorun/launch/diagnose/catalogue"

// sharpen makes the meaning, the fix and the place of f more precise by what other lines say
// of the job: who came, who shares a host, what is full, what differs.
func (s *Scanner) sharpen(f *Finding, row *compiledRow, e *event) {
	j := &s.job
	if missing := j.writers.announced.missing(); missing != nil && row.Key == catalogue.RowClients {
		f.Meaning += "; no process announced " + rankList(missing)
	}
	if host := j.sharedHost(); host != "" && f.ID == "X-PORT" && j.facts[catalogue.AgentFailed] != "" {
		f.Meaning += ": Slurm started several tasks on " + host + ", and each task a torchrun"
		f.Fix = "start one torchrun on each node (srun --ntasks-per-node=1, with --nodes as --nnodes); otherwise " + f.Fix
	}
	if used := j.facts[catalogue.HostMemory]; used != "" && f.ID == "X-HOSTOOM" && (!s.hasSeveralHosts() || e.host != "" && j.facts[catalogue.FullHost] == e.host) {
		f.Meaning += "; a program said before that the memory of its host was full (" + used + ")"
	}
	if f.ID == "X-CUDAOOM" {
		f.sharpenMemory()
	}
	j.nccl.sharpen(f)
	s.sharpenPod(f)
}
