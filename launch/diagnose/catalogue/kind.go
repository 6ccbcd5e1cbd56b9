package catalogue

// Kind says what sort of evidence a line is: how far it explains the failure of a job,
// and what other evidence outweighs it. Each row and each event has one kind, and a
// kind is all that the search for the cause knows of a row's weight.
type Kind uint8

// The kinds, from the most probable explanation. The table kinds says what each means.
const (
	NoKind Kind = iota
	Root
	Primary
	Catchable
	Retried
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
	Stall
	AbsenceOfAll
	Ending
	Vague
	PeerLost
	Consequence
	Harmless
)

// Tier says how probable a hypothesis is, from the most probable.
type Tier int

const (
	TierCause Tier = iota
	TierClue
	TierSymptom
	TierLogged
	TierWarning
	TierAbsence
	TierEnding
	TierVague
	TierSurvived // the worker went on after the error
	TierConsequence
	TierHarmless
)

// kindInfo is what a kind means.
type kindInfo struct {
	name    string
	tier    Tier
	marks   Mark
	meaning string
}

// Mark is a set of properties of a kind.
type Mark uint8

const (
	// MayBeCaught kinds are of errors that programs catch: a program that prints more than
	// a few lines afterwards survived the error.
	MayBeCaught Mark = 1 << iota
	// General kinds are of rows for lines in any words. Programs log many errors that
	// they overcome, whoever prints on.
	General
	// LastOnly kinds show a failure only if they are the last that their writer printed.
	LastOnly
	// MayPass kinds are overcome if the job printed progress afterwards.
	MayPass
	// LossOfPeer kinds are printed last by workers that failed as a consequence.
	LossOfPeer
)

// kinds is the table of the kinds.
var kinds = [...]kindInfo{
	Root:          {"root", TierCause, 0, "explains the failure, and no other failure of the job brings it about: the kernel, a GPU, a scheduler"},
	Primary:       {"cause", TierCause, 0, "explains the failure"},
	Catchable:     {"cause unless caught", TierCause, MayBeCaught, "explains the failure, unless the program printed more than a few lines afterwards"},
	Retried:       {"cause unless retried", TierCause, MayPass, "explains the failure, unless lines with progress follow: the program starts such work again"},
	Unreachable:   {"cause if first", TierCause, 0, "explains the failure if no other cause came first, because the peer that cannot be reached may have ended"},
	Clue:          {"clue", TierClue, 0, "an explicit line that explains the failure if no cause does"},
	CatchableClue: {"clue unless caught", TierClue, MayBeCaught, "a clue, unless the program printed more than a few lines afterwards"},
	Symptom:       {"symptom", TierSymptom, MayBeCaught, "an explicit error that does not say its cause; a consequence after a lost peer"},
	Fatal:         {"fatal", TierSymptom, MayBeCaught | General, "an error in words that no row knows, after which its writer ended"},
	SystemError:   {"system error", TierSymptom, MayBeCaught | General | LastOnly, "what the system says of a file, a program or a server, in any program's line; shows a failure if it is the last that its writer printed"},
	Logged:        {"logged", TierLogged, MayBeCaught | General | LastOnly, "an error in words that no row knows; shows a failure if it is the last that its writer printed"},
	Warning:       {"warning", TierWarning, 0, "comes from jobs that work as well; counts only beside other evidence of a failure"},
	Stop:          {"stop", TierAbsence, 0, "something outside ended the job; a cause if it came before all causes, since a worker that is stopped may print any error"},
	Absence:       {"absence", TierAbsence, 0, "something did not come in time; any explicit line is stronger"},
	Stall:         {"stall", TierAbsence, MayPass, "as absence, unless lines with progress follow: what was waited for came"},
	AbsenceOfAll:  {"absence of ranks", TierAbsence, LossOfPeer, "not all ranks came in time; as absence, and a worker that prints it last failed as a consequence"},
	Ending:        {"end", TierEnding, 0, "a worker ended, and the line does not say why"},
	Vague:         {"vague", TierVague, MayBeCaught, "says little, and counts only if nothing else does; a consequence beside a lost peer"},
	PeerLost:      {"lost peer", TierConsequence, LossOfPeer, "a peer or the store was lost; a worker that prints it last failed as a consequence"},
	Consequence:   {"consequence", TierConsequence, 0, "an effect of an earlier failure"},
	Harmless:      {"harmless", TierHarmless, 0, "comes from jobs that work"},
}

// String returns the kind's name in docs/explain.md.
func (k Kind) String() string { return kinds[k].name }

// Tier returns how probable an explanation of the kind is.
func (k Kind) Tier() Tier { return kinds[k].tier }

// Has reports whether the kind has a mark.
func (k Kind) Has(m Mark) bool { return kinds[k].marks&m != 0 }

// IsAbsence reports whether the writer of such a line waits for others, and is not at fault.
func (k Kind) IsAbsence() bool { return k == Absence || k == Stall || k == AbsenceOfAll }

// MayExplain reports whether such evidence may explain a failure. The scanner counts
// the lines that follow it, because the job may have survived it.
func (k Kind) MayExplain() bool { return k.Tier() < TierSurvived && k != Warning }

// Kinds returns all kinds, the most probable explanation first.
func Kinds() []Kind {
	var all []Kind
	for k := Root; k <= Harmless; k++ {
		all = append(all, k)
	}
	return all
}

// Meaning says in half a sentence what a line of the kind shows.
func (k Kind) Meaning() string { return kinds[k].meaning }
