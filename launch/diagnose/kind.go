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
	AbsenceOfAll
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

// kindInfo is what a kind means.
type kindInfo struct {
	name    string
	tier    tier
	marks   mark
	meaning string
}

// mark is a set of properties of a kind.
type mark uint8

const (
	// catchable kinds are of errors that programs catch: a program that prints more than
	// a few lines afterwards survived the error.
	catchable mark = 1 << iota
	// general kinds are of rows for lines in any words. Programs log many errors that
	// they overcome, whoever prints on.
	general
	// lastOnly kinds show a failure only if they are the last that their writer printed.
	lastOnly
	// lossOfPeer kinds are printed last by workers that failed as a consequence.
	lossOfPeer
)

// kinds is the table of the kinds.
var kinds = [...]kindInfo{
	Root:          {"root", tierCause, 0, "explains the failure, and no other failure of the job brings it about: the kernel, a GPU, a scheduler"},
	Primary:       {"cause", tierCause, 0, "explains the failure"},
	Catchable:     {"cause unless caught", tierCause, catchable, "explains the failure, unless the program printed more than a few lines afterwards"},
	Unreachable:   {"cause if first", tierCause, 0, "explains the failure if no other cause came first, because the peer that cannot be reached may have ended"},
	Clue:          {"clue", tierClue, 0, "an explicit line that explains the failure if no cause does"},
	CatchableClue: {"clue unless caught", tierClue, catchable, "a clue, unless the program printed more than a few lines afterwards"},
	Symptom:       {"symptom", tierSymptom, catchable, "an explicit error that does not say its cause; a consequence after a lost peer"},
	Fatal:         {"fatal", tierSymptom, catchable | general, "an error in words that no row knows, after which its writer ended"},
	SystemError:   {"system error", tierSymptom, catchable | general | lastOnly, "what the system says of a file, a program or a server, in any program's line; shows a failure if it is the last that its writer printed"},
	Logged:        {"logged", tierLogged, catchable | general | lastOnly, "an error in words that no row knows; shows a failure if it is the last that its writer printed"},
	Warning:       {"warning", tierWarning, 0, "comes from jobs that work as well; counts only beside other evidence of a failure"},
	Stop:          {"stop", tierAbsence, 0, "something outside ended the job; a cause if it came before all causes, since a worker that is stopped may print any error"},
	Absence:       {"absence", tierAbsence, 0, "something did not come in time; any explicit line is stronger"},
	AbsenceOfAll:  {"absence of ranks", tierAbsence, lossOfPeer, "not all ranks came in time; as absence, and a worker that prints it last failed as a consequence"},
	Ending:        {"end", tierEnding, 0, "a worker ended, and the line does not say why"},
	Vague:         {"vague", tierVague, catchable, "says little, and counts only if nothing else does; a consequence beside a lost peer"},
	PeerLost:      {"lost peer", tierConsequence, lossOfPeer, "a peer or the store was lost; a worker that prints it last failed as a consequence"},
	Consequence:   {"consequence", tierConsequence, 0, "an effect of an earlier failure"},
	Harmless:      {"harmless", tierHarmless, 0, "comes from jobs that work"},
}

func (k Kind) String() string  { return kinds[k].name }
func (k Kind) tier() tier      { return kinds[k].tier }
func (k Kind) has(m mark) bool { return kinds[k].marks&m != 0 }

// mayExplain reports whether such evidence may explain a failure. The scanner counts
// the lines that follow it, because the job may have survived it.
func (k Kind) mayExplain() bool { return k.tier() < tierSurvived && k != Warning }
