package ssh

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/rendezvous"
)

// watch passes signals on until the job has ended on all hosts, and returns its exit
// code.
func (j *job) watch(ctx context.Context, usable []int) int {
	ended := make(chan *connection, len(usable))
	living := map[*connection]bool{}
	for _, i := range usable {
		c := j.all[i]
		living[c] = true
		go func() {
			<-c.done
			ended <- c
		}()
	}
	tell := func(o order) {
		for c := range living {
			c.send(o.line())
		}
	}
	end := outcome{fixed: j.o.Least == len(j.o.Hosts)}
	var others, kill, abandon <-chan time.Time
	cancelled, stops := ctx.Done(), 0
	for len(living) > 0 {
		select {
		case c := <-ended:
			delete(living, c)
			code, said := c.end()
			if !said {
				j.o.Console.Say("%s: its connection is lost, or gorun was killed there; nothing of the job stays there. The last line: %s", c.host, c.lost())
			}
			if end.add(c.host, code, said) && end.fixed {
				others = time.After(endWait)
			}
		case sig := <-j.o.Signals:
			s, isSignal := sig.(syscall.Signal)
			switch {
			case !isSignal:
				continue
			case s == unix.SIGTSTP:
				j.o.Console.Say("a job on other hosts cannot be stopped for a while: it goes on, and Ctrl-C ends it")
				continue
			case endsJob(s):
				if stops++; stops == 2 {
					kill = time.After(killWait)
				}
			}
			tell(order{signal: s})
		case <-others: // they would wait for the host, and nothing starts it again
			j.o.Console.Say("%s has ended its part of the job; ending the parts of the other hosts, too", end.failed)
			end.forced = true
			tell(order{signal: unix.SIGTERM})
		case <-cancelled:
			cancelled = nil
			kill = time.After(0)
		case <-kill:
			tell(order{kill: true})
			abandon = time.After(abandonWait)
		case <-abandon:
			for c := range living {
				c.kill()
			}
		}
	}
	return end.code()
}

// endsJob reports whether a signal ends the job. The others are for the workers.
func endsJob(sig os.Signal) bool { return sig != unix.SIGUSR1 && sig != unix.SIGUSR2 }

// lost says why the host's gorun did not say how it ended.
func (c *connection) lost() string {
	if e := c.process.Exit(); e.Signal != 0 {
		return fmt.Sprintf("ssh %v", e)
	}
	return cmp.Or(c.errs.lastLine(), fmt.Sprintf("ssh %v", c.process.Exit()))
}

// outcome is what is known of a job's end.
type outcome struct {
	fixed      bool  // the size of the job is fixed
	codes      []int // of the hosts that said how they ended, in the order of their ends
	failed     Host  // the first host that failed
	failedCode int   // its exit code; 0: none has failed
	forced     bool  // the other hosts ended because of that one, by order of this end
}

// add adds a host that has ended; said is false if its connection was lost. It reports
// whether the host is the first that failed.
func (o *outcome) add(h Host, code int, said bool) (first bool) {
	if said {
		o.codes = append(o.codes, code)
	} else {
		code = rendezvous.ExitLost
	}
	if code == 0 || o.failedCode != 0 {
		return false
	}
	o.failed, o.failedCode = h, code
	return true
}

// code returns the exit code of the job. Of a job of fixed size all hosts have one
// code, or the first that failed says why. An elastic job has ended well if a host has:
// a node may fail in it, and only a node of the last world ends with 0.
func (o *outcome) code() int {
	if o.forced {
		return o.failedCode
	}
	first := 0
	for _, code := range o.codes {
		if code == 0 && !o.fixed {
			return 0
		}
		first = cmp.Or(first, code)
	}
	return cmp.Or(first, o.failedCode)
}
