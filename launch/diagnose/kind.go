package diagnose

// Kind says what sort of evidence a line is: how far it explains the failure of a job,
// and what other evidence outweighs it. Each row and each event has one kind, and a
// kind is all that the search for the cause knows of a row's weight.
type Kind uint8

// The kinds, from the most probable explanation. The table kinds says what each means.
const (
	noKind Kind = iota
	Root
	Primary
	Catchable
	Unreachable
	Clue
	CatchableClue
	Symptom
	Fatal
	SystemError
	Logged
	Warning
	Stop
	Absence
	Ending
	Vague
	PeerLost
	Consequence
	Harmless
)

// tier says how probable a hypothesis is, from the most probable.
type tier int

const (
	tierCause tier = iota
	tierClue
	tierSymptom
	tierLogged
	tierWarning
	tierAbsence
	tierEnding
	tierVague
	tierSurvived // the worker went on after the error
	tierConsequence
	tierHarmless
)

// kindInfo is what a kind means. catchable kinds are of errors that programs catch: a
// program that prints more than a few lines afterwards survived the error.
type kindInfo struct {
	name      string
	tier      tier
	catchable bool
	meaning   string
}

// kinds is the table of the kinds.
var kinds = [...]kindInfo{
	Root:          {"root", tierCause, false, "explains the failure, and no other failure of the job brings it about: the kernel, a GPU, a scheduler"},
	Primary:       {"cause", tierCause, false, "explains the failure"},
	Catchable:     {"cause unless caught", tierCause, true, "explains the failure, unless the program printed more than a few lines afterwards"},
	Unreachable:   {"cause if first", tierCause, false, "explains the failure if no other cause came first, because the peer that cannot be reached may have ended"},
	Clue:          {"clue", tierClue, false, "an explicit line that explains the failure if no cause does"},
	CatchableClue: {"clue unless caught", tierClue, true, "a clue, unless the program printed more than a few lines afterwards"},
	Symptom:       {"symptom", tierSymptom, true, "an explicit error that does not say its cause; a consequence after a lost peer"},
	Fatal:         {"fatal", tierSymptom, true, "an error in words that no row knows, after which its writer ended"},
	SystemError:   {"system error", tierSymptom, true, "what the system says of a file, a program or a server, in any program's line; shows a failure if it is the last that its writer printed"},
	Logged:        {"logged", tierLogged, true, "an error in words that no row knows; shows a failure if it is the last that its writer printed"},
	Warning:       {"warning", tierWarning, false, "comes from jobs that work as well; counts only beside other evidence of a failure"},
	Stop:          {"stop", tierAbsence, false, "something outside ended the job; a cause if it came before all causes, since a worker that is stopped may print any error"},
	Absence:       {"absence", tierAbsence, false, "something did not come in time; any explicit line is stronger"},
	Ending:        {"end", tierEnding, false, "a worker ended, and the line does not say why"},
	Vague:         {"vague", tierVague, true, "says little, and counts only if nothing else does; a consequence beside a lost peer"},
	PeerLost:      {"lost peer", tierConsequence, false, "a peer or the store was lost; a worker that prints it last failed as a consequence"},
	Consequence:   {"consequence", tierConsequence, false, "an effect of an earlier failure"},
	Harmless:      {"harmless", tierHarmless, false, "comes from jobs that work"},
}

func (k Kind) String() string    { return kinds[k].name }
func (k Kind) tier() tier        { return kinds[k].tier }
func (k Kind) isCatchable() bool { return kinds[k].catchable }

// isGeneral reports whether such evidence is of a row for lines in any words. Programs
// log many errors that they overcome.
func (k Kind) isGeneral() bool { return k == Fatal || k == SystemError || k == Logged }

// mayExplain reports whether such evidence may explain a failure. The scanner counts
// the lines that follow it, because the job may have survived it.
func (k Kind) mayExplain() bool { return k.tier() < tierSurvived && k != Warning }
