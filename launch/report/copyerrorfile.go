package report

import (
	"encoding/json"
	"fmt"
)

// CopyErrorFile copies a worker's error file to gorun's own
// (TORCHELASTIC_ERROR_FILE in gorun's environment), for the program that started
// gorun. As torchrun does, it adds the worker's exit code (negative: the signal) as
// message.errorCode, if the code is not zero and message is an object. It replaces
// what was at to, and keeps everything else of the worker's file.
func CopyErrorFile(from, to string, exitCode int) error {
	b, size, err := readBounded(from)
	if err != nil {
		return err
	}
	if size > MaxErrorFile {
		return fmt.Errorf("cannot copy the worker's error file %s: it is larger than %d bytes", from, MaxErrorFile)
	}
	var file, message map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return fmt.Errorf("cannot copy the worker's error file %s: %w", from, describeJSONError(b, err))
	}
	if exitCode != 0 && isObject(file["message"]) {
		if err := json.Unmarshal(file["message"], &message); err != nil {
			return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
		}
		message["errorCode"], _ = json.Marshal(exitCode)
		if file["message"], err = json.Marshal(message); err != nil {
			return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
		}
	}
	if b, err = json.Marshal(file); err != nil {
		return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
	}
	if err := writeWhole(to, b); err != nil {
		return fmt.Errorf("cannot write the error file that TORCHELASTIC_ERROR_FILE names: %w", err)
	}
	return nil
}
