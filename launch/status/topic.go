package status

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Topics of questions that every node of a job answers.
const (
	TopicSigns       = "signs"       // what each worker does: a list of hang.Sign
	TopicCollectives = "collectives" // in which collectives its ranks are
	TopicStacks      = "stacks"      // where in the program its ranks are
)

// Topics answer questions about a node, by their topics. Each runs beside the agent's loop,
// until its context ends, which is soon enough for the question. Two run at one time when
// two questions have other details.
type Topics map[string]func(ctx context.Context, detail string) (any, error)

// Answer is a node's answer to a question, a report in a rendezvous.View.
type Answer struct {
	Topic string          `json:"topic"`
	Error string          `json:"error,omitempty"` // why there is no Body
	Body  json.RawMessage `json:"answer,omitempty"`
}

// maxAnswers is the number of questions that a node answers at one time.
const maxAnswers = 4

// answerMargin is the part of a question's time that is for the way back.
const answerMargin = 250 * time.Millisecond

// Answer answers a question about this node beside the loop and calls post with the answer.
func (s *Service) Answer(ctx context.Context, q rendezvous.Question, post func([]byte)) {
	answer, ok := s.opts.Topics[q.Topic]
	if !ok {
		post(encodeAnswer(Answer{Topic: q.Topic, Error: "this gorun does not know the question " + shortText(q.Topic)}))
		return
	}
	if s.answering.Add(1) > maxAnswers {
		s.answering.Add(-1)
		post(encodeAnswer(Answer{Topic: q.Topic, Error: "the agent answers too many questions"}))
		return
	}
	go func() { // not awaited: a file system may hang
		defer s.answering.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, max(q.Within-answerMargin, q.Within/2, answerMargin))
		defer cancel()
		body, err := answer(ctx, q.Detail)
		a := Answer{Topic: q.Topic}
		if err == nil {
			a.Body, err = json.Marshal(body)
		}
		if err != nil {
			a.Error = shortText(err.Error())
		}
		post(encodeAnswer(a))
	}()
}

func encodeAnswer(a Answer) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic("status: an answer is always JSON: " + err.Error())
	}
	return b
}

// NodeAnswer is a node's answer as the client got it. Trouble says why there is none.
type NodeAnswer struct {
	NodeStatus // without what only the node itself can say
	Body       json.RawMessage
}

// DecodeAnswers returns the answers in a view of a question, one a node. It trusts no
// node: each Body is JSON of any kind.
func DecodeAnswers(view []byte, topic string) (v rendezvous.View, all []NodeAnswer, err error) {
	if v, err = decodeView(view); err != nil {
		return v, nil, err
	}
	for i := range v.Nodes {
		n := NodeAnswer{NodeStatus: newNodeStatus(&v.Nodes[i])}
		var a Answer
		switch {
		case v.Nodes[i].Report == nil:
		case json.Unmarshal(v.Nodes[i].Report, &a) != nil || a.Topic != topic:
			n.Trouble = "its agent does not know the question"
		case a.Error != "":
			n.Trouble = shortText(a.Error)
		default:
			n.Answered, n.Body = true, a.Body
		}
		all = append(all, n)
	}
	return v, all, nil
}
