package process

import "strconv"

// Dying returns how the process will end if the kernel is already ending it with a
// failure, and else false. The kernel first closes its files and lets drivers free what
// it had of their devices. That takes a GPU's driver a tenth of a second and more, and
// Done comes after that. [Process.Exit] then has the same time as Dying's.
func (p *Process) Dying() (Exit, bool) {
	s, dying := p.table.fs.dying(p.pid)
	if !dying {
		return Exit{}, false
	}
	p.table.reap() // what has ended by now ended earlier
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.table.living[p.pid] != p { // Done has it; the pid may be another process's
		return Exit{}, false
	}
	if p.dyingAt.IsZero() {
		p.dyingAt = p.table.deaths.now()
	}
	return exitOf(s.status, p.dyingAt), true
}

// dying reports whether all threads of a process end, with a failure. The first thread
// alone may have ended by itself (pthread_exit).
func (f procfs) dying(pid int) (stat, bool) {
	s, err := f.stat(pid)
	if err != nil || !s.isExiting() || s.status == 0 {
		return stat{}, false
	}
	tasks := f.root + "/" + strconv.Itoa(pid) + "/task/"
	tids, err := readNumbers(tasks)
	if err != nil {
		return stat{}, false
	}
	for _, tid := range tids {
		line, err := readFile(tasks + strconv.Itoa(tid) + "/stat")
		if hasEnded(err) {
			continue
		}
		if t, e := parseStat(line); err != nil || e != nil || !t.isExiting() {
			return stat{}, false
		}
	}
	s, err = f.stat(pid) // only now no thread can change how the process ends
	return s, err == nil && s.status != 0
}
