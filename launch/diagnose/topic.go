package diagnose

import (
	"regexp"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// topicMatcher finds what the words of a program are about.
type topicMatcher struct {
	topics []catalogue.Topic
	re     []func() *regexp.Regexp
}

func newTopicMatcher() *topicMatcher {
	m := &topicMatcher{topics: catalogue.Topics()}
	for _, topic := range m.topics {
		m.re = append(m.re, match.Lazy("(?i)"+topic.Pattern))
	}
	return m
}

// of returns the topic of the first text that has one, nil if none has.
func (m *topicMatcher) of(texts ...string) *catalogue.Topic {
	for _, text := range texts {
		for i := range m.topics {
			if m.re[i]().MatchString(text) {
				return &m.topics[i]
			}
		}
	}
	return nil
}
