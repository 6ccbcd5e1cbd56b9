package diagnose

import (
	"encoding/json"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// readFields reads the fields of a line in JSON that loggers write.
func (e *event) readFields(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var field struct {
		Msg, Message, Error, Err jsonText
		Rank                     *int
		Host, Hostname, Node     string
	}
	if json.Unmarshal(raw, &field) != nil {
		return
	}
	if field.Rank != nil && *field.Rank >= 0 {
		e.rank = *field.Rank
	}
	for _, host := range []string{field.Host, field.Hostname, field.Node} {
		if host != "" {
			e.host = match.PlainText([]byte(host))
		}
	}
	text := string(field.Msg + field.Message)
	switch cause := string(field.Error + field.Err); {
	case text == "":
		text = cause
	case cause != "":
		text += ": " + cause
	}
	if text != "" {
		e.text = match.PlainText([]byte(text))
	}
}

// jsonText is a field that holds a text, or an object with a text.
type jsonText string

// UnmarshalJSON reads the text. Values of other types have none.
func (t *jsonText) UnmarshalJSON(p []byte) error {
	var text string
	if json.Unmarshal(p, &text) == nil {
		*t = jsonText(text)
		return nil
	}
	var object struct{ Message, Msg, Detail, Error string }
	if json.Unmarshal(p, &object) == nil {
		*t = jsonText(object.Message + object.Msg + object.Detail + object.Error)
	}
	return nil
}
