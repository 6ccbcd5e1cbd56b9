package rules

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/reach"
)

// All returns the rules of every family, by id.
func All() []preflight.Rule {
	all := slices.Concat(
		versionRules(),
		choiceRules(), linkRules(), glooRules(), reach.Rules(), ifaceRules(),
		jobRules(), programRules(),
		transportRules(), adapterRules(),
		agreeRules(), forcedRules(), unreadRules(), nameRules(), namedFileRules(),
		gpuRules(), deviceRules(), healthRules(), modelRules(), hostRules(),
		memoryRules(), limitRules(), workerLimitRules(),
		leftoverRules(),
		unknownRules(),
	)
	slices.SortFunc(all, func(a, b preflight.Rule) int { return strings.Compare(a.ID, b.ID) })
	return all
}
