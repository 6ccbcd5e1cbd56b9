package status

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// TestAnswer checks what a node answers to questions, and that one that takes long does
// not hold up the others.
func TestAnswer(t *testing.T) {
	s := NewService(ServiceOptions{Topics: Topics{
		"numbers": func(_ context.Context, detail string) (any, error) { return []string{detail, "2"}, nil },
		"broken":  func(context.Context, string) (any, error) { return nil, errors.New("no\x1b[2J such file") },
		"slow":    func(ctx context.Context, _ string) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
	}})
	slow := make(chan []byte, 1)
	s.Answer(t.Context(), rendezvous.Question{Topic: "slow", Within: time.Minute}, func(b []byte) { slow <- b })
	for topic, want := range map[string]Answer{
		"numbers": {Topic: "numbers", Body: json.RawMessage(`["1","2"]`)},
		"broken":  {Topic: "broken", Error: "no[2J such file"},
		"other":   {Topic: "other", Error: "this gorun does not know the question other"},
	} {
		got := make(chan []byte, 1)
		s.Answer(t.Context(), rendezvous.Question{Topic: topic, Detail: "1"}, func(b []byte) { got <- b })
		var a Answer
		if err := json.Unmarshal(<-got, &a); err != nil || a.Topic != want.Topic || string(a.Body) != string(want.Body) || (a.Error == "") != (want.Error == "") {
			t.Errorf("%s: %+v, %v", topic, a, err)
		}
	}
	select {
	case <-slow:
		t.Error("the slow answer ended before its time")
	default:
	}
}

// TestDecodeAnswers checks what a client gets of nodes that answer, that do not, and that
// know no questions.
func TestDecodeAnswers(t *testing.T) {
	view, err := json.Marshal(rendezvous.View{Nodes: []rendezvous.NodeView{
		{Host: "a", Report: json.RawMessage(`{"topic":"stacks","answer":[1]}`)},
		{Host: "b", Report: json.RawMessage(`{"topic":"stacks","error":"no"}`)},
		{Host: "c", Report: json.RawMessage(`{"version":"1","ranks":[]}`)},
		{Host: "d", Trouble: "it is not connected"},
		{Host: "e", Report: json.RawMessage(`"?"`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := DecodeAnswers(view, "stacks")
	if err != nil || len(all) != 5 {
		t.Fatalf("%v, %+v", err, all)
	}
	if string(all[0].Body) != "[1]" || !all[0].Answered || all[0].Host != "a" {
		t.Errorf("%+v", all[0])
	}
	for i, trouble := range []string{1: "no", 2: "its agent does not know the question", 3: "it is not connected", 4: "its agent does not know the question"} {
		if i > 0 && (all[i].Trouble != trouble || all[i].Answered || all[i].Body != nil) {
			t.Errorf("%+v", all[i])
		}
	}
}
