package workers

import "fmt"

// state is the state of a round; the package comment has the diagram.
type state int

const (
	stateIdle     state = iota
	stateStarting       // the processes are being started
	stateRunning        // every start has been tried
	stateFailed         // a worker failed; the others run until Stop
	stateDone           // every worker ended with exit code 0
	stateStopping       // the workers are being stopped
	stateStopped        // Stop has returned
)

func (s state) String() string {
	return [...]string{"idle", "starting", "running", "failed", "done", "stopping", "stopped"}[s]
}

// event is an event that changes the state.
type event int

const (
	eventStart     event = iota
	eventStarted         // every start has been tried
	eventSucceeded       // every worker has ended with exit code 0
	eventFailure         // a worker or its start failed
	eventStop
	eventOver // all of the workers' processes have ended, or they cannot be ended
)

func (e event) String() string {
	return [...]string{"start", "started", "succeeded", "failure", "stop", "over"}[e]
}

// transition returns the state after an event. It returns an error for an event
// that cannot happen in the state.
func transition(s state, e event) (state, error) {
	switch e {
	case eventStart:
		if s == stateIdle {
			return stateStarting, nil
		}
	case eventStarted:
		switch s {
		case stateStarting:
			return stateRunning, nil
		case stateFailed, stateStopping, stateStopped: // these happened while the starts were tried
			return s, nil
		}
	case eventSucceeded:
		if s == stateRunning {
			return stateDone, nil
		}
	case eventFailure:
		switch s {
		case stateStarting, stateRunning, stateFailed, stateDone: // a worker can report a failure and still exit with 0
			return stateFailed, nil
		case stateStopping, stateStopped:
			return s, nil
		}
	case eventStop:
		switch s {
		case stateStarting, stateRunning, stateFailed, stateDone:
			return stateStopping, nil
		case stateStopping, stateStopped: // a second stop shortens the first
			return s, nil
		}
	case eventOver:
		if s == stateStopping {
			return stateStopped, nil
		}
	}
	return s, fmt.Errorf("internal error: %q cannot happen to workers that are %v", e, s)
}
