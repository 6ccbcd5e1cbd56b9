package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decodeList decodes a JSON array of at most limit elements and allocates
// nothing for more. Empty input and null are empty lists.
func decodeList[T any](data []byte, limit int) ([]T, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(data))
	if open, err := in.Token(); err != nil || open != json.Delim('[') {
		return nil, fmt.Errorf("not a list (%v)", err)
	}
	var out []T
	for in.More() {
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d elements", limit)
		}
		var v T
		if err := in.Decode(&v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	if in.InputOffset() != int64(len(bytes.TrimRight(data, " \t\r\n"))) {
		return nil, fmt.Errorf("something follows the list")
	}
	return out, nil
}
