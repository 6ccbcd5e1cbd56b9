package preflight

import (
	"slices"
	"strings"
)

// Rule is one check of a fleet.
type Rule struct {
	ID       string   // "V01": unique and stable
	Name     string   // "nccl-version": unique, too; --ignore takes either
	Severity Severity // of what it finds; a finding of its own may have another
	Meaning  string   // what is compared, and what must hold
	Users    string   // what users see when nobody checks
	Steps    []Step   // what to do about a finding that has none of its own, and an example for people; for the nodes that it marks
	// Check is pure and looks only at nodes whose facts are known. Compare
	// fills in ID and Title, Severity and Steps where they are empty, and Fix.
	Check func(*Fleet) []Finding
}

// Rules is the catalogue, by id.
func Rules() []Rule {
	all := slices.Concat(
		versionRules(),
		choiceRules(), linkRules(), glooRules(), reachRules(), qualityRules(), askedRules(),
		jobRules(), programRules(),
		transportRules(), adapterRules(),
		agreeRules(), forcedRules(), nameRules(), namedRules(),
		gpuRules(), deviceRules(), healthRules(), modelRules(), hostRules(),
		memoryRules(), limitRules(), deadlyRules(),
		leftoverRules(),
		unknownRules(),
	)
	slices.SortFunc(all, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Called reports whether a person may mean the rule by this id or name.
func (r *Rule) Called(word string) bool {
	return strings.EqualFold(word, r.ID) || strings.EqualFold(word, r.Name)
}
