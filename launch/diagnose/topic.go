package diagnose

import (
	"regexp"
	"slices"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// topicMatcher finds what the words of a program are about.
type topicMatcher struct {
	topics []compiledTopic
	finder *match.Finder // its entries are the topics
}

// compiledTopic is a topic with its expression.
type compiledTopic struct {
	catalogue.Topic
	re func() *regexp.Regexp
	// isOpen means that a text may have the topic without a word of the finder.
	isOpen bool
}

// newTopicMatcher returns a matcher of all topics of the catalogue.
func newTopicMatcher() *topicMatcher {
	m := &topicMatcher{}
	var words [][]string
	for _, topic := range catalogue.Topics() {
		literals := match.Literals(topic.Pattern)
		isShort := func(word string) bool { return len(word) < match.Gram }
		m.topics = append(m.topics, compiledTopic{topic, match.Lazy("(?i)" + topic.Pattern), literals == nil || slices.ContainsFunc(literals, isShort)})
		words = append(words, literals)
	}
	m.finder = match.NewFinder(words)
	return m
}

// of returns the first topic that a text has, nil if it has none.
func (m *topicMatcher) of(text string) *catalogue.Topic {
	var may entries
	m.finder.All([]byte(text), func(i, _ int) { may.add(i) })
	for i := range m.topics {
		if topic := &m.topics[i]; (topic.isOpen || may.has(i)) && topic.re().MatchString(text) {
			return &topic.Topic
		}
	}
	return nil
}

// topicID returns the id that the topic of the words of a topical row has, "" if there is
// none.
func (m *matcher) topicID(row *compiledRow, text string) string {
	if !row.Topical {
		return ""
	}
	if topic := m.topics.of(text); topic != nil && len(topic.Checks) > 0 {
		return topic.Checks[0]
	}
	return ""
}
