package main

import "testing"

// TestAbortMessage checks that gorun abort refuses a message with control or hidden
// characters, because every terminal of the job prints it.
func TestAbortMessage(t *testing.T) {
	t.Parallel()
	for message, ok := range map[string]bool{
		"": true, "loss is NaN": true, "überlauf 東京": true, "a\nb": false, "a\x1b[2J": false, "a\u202egpj.exe": false, "a\u200bb": false, "a\u2066b": false, "a\u2028b": false,
	} {
		o := abortOptions{message: message}
		if _, err := o.request(); (err == nil) != ok {
			t.Errorf("%q: %v", message, err)
		}
	}
}
