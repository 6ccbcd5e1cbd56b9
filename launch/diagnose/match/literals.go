package match

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// Literals returns texts in lower case. Every match of pattern contains at least one
// of them. Literals returns nil if there are none. A line without them needs no
// expression.
func Literals(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return nil
	}
	return required(re)
}

// Alternatives returns patterns that together match what pattern matches. Each has
// literals. They are pattern alone if it has no alternatives.
func Alternatives(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpAlternate {
		return []string{pattern}
	}
	var all []string
	for _, sub := range re.Sub {
		if Literals(sub.String()) == nil {
			return []string{pattern}
		}
		all = append(all, sub.String())
	}
	return all
}

// maxExact bounds the texts that exact lists for one expression.
const maxExact = 48

// maxClass bounds the characters of a class that exact lists.
const maxClass = 8

// required returns the best set of literals of re, nil if it has none.
func required(re *syntax.Regexp) []string {
	if all := exact(re); shortest(all) > 0 {
		return all
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			one := required(sub)
			if one == nil {
				return nil
			}
			all = append(all, one...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		better := func(one []string) {
			if shortest(one) > shortest(best) {
				best = one
			}
		}
		run := []string{""} // the texts directly before sub, as far back as exact lists them
		for i, sub := range re.Sub {
			next := product(run, exact(sub))
			if next == nil {
				better(run)
				better(required(sub))
				if sub.Op == syntax.OpAlternate { // the parser takes a common front out of alternatives
					better(spread(re.Sub[:i], sub.Sub))
				}
				next = []string{""}
			}
			run = next
		}
		better(run)
		return best
	}
	return nil
}

// spread returns the required literals of alternatives that all follow front,
// nil if one has none.
func spread(front, alternatives []*syntax.Regexp) []string {
	var all []string
	for _, sub := range alternatives {
		one := required(&syntax.Regexp{Op: syntax.OpConcat, Sub: append(slices.Clone(front), flat(sub)...)})
		if one == nil {
			return nil
		}
		all = append(all, one...)
	}
	return all
}

// flat returns the parts of a concatenation, or re alone.
func flat(re *syntax.Regexp) []*syntax.Regexp {
	if re.Op == syntax.OpConcat {
		return re.Sub
	}
	return []*syntax.Regexp{re}
}

// exact returns all texts that re matches, in lower case, nil if they are too
// many or cannot be listed.
func exact(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.Map(unicode.ToLower, string(re.Rune))}
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginText, syntax.OpBeginLine, syntax.OpEndText, syntax.OpEndLine:
		return []string{""}
	case syntax.OpCharClass:
		var all []string
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && len(all) <= maxClass; r++ {
				all = append(all, string(unicode.ToLower(r)))
			}
		}
		if len(all) <= maxClass {
			return all
		}
	case syntax.OpCapture:
		return exact(re.Sub[0])
	case syntax.OpQuest:
		if all := exact(re.Sub[0]); all != nil {
			return append(all, "")
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			one := exact(sub)
			if one == nil || len(all)+len(one) > maxExact {
				return nil
			}
			all = append(all, one...)
		}
		return all
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			if all = product(all, exact(sub)); all == nil {
				return nil
			}
		}
		return all
	}
	return nil
}

// product joins each text of a with each of b. It returns nil if there are none
// or too many.
func product(a, b []string) []string {
	if len(a)*len(b) > maxExact {
		return nil
	}
	var all []string
	for _, x := range a {
		for _, y := range b {
			all = append(all, x+y)
		}
	}
	return all
}

// shortest returns the length of the shortest text of all, 0 if there is none.
func shortest(all []string) int {
	n := 0
	for i, s := range all {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
