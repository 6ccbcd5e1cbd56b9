package prefix

import (
	"bytes"
	"encoding/json"
)

var jsonStart = []byte(`{"log":`)

// UnwrapDockerJSON returns the text and the time of a line of docker's json-file
// driver. ok reports whether p is such a line.
func UnwrapDockerJSON(p []byte) (inner []byte, when Stamp, ok bool) {
	if !bytes.HasPrefix(p, jsonStart) {
		return nil, Stamp{}, false
	}
	var entry struct {
		Log  *string `json:"log"`
		Time string  `json:"time"`
	}
	if json.Unmarshal(p, &entry) != nil || entry.Log == nil {
		return nil, Stamp{}, false
	}
	when, _ = ReadTime([]byte(entry.Time))
	return []byte(*entry.Log), when, true
}
