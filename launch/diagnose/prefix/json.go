package prefix

import (
	"bytes"
	"cmp"
	"encoding/json"
)

var (
	dockerStart = []byte(`{"log":`)
	// podFields and journalFields are in the lines of Fluentd, Fluent Bit, Vector and
	// Promtail, and in those of journalctl -o json.
	podFields     = []byte(`"kubernetes":{`)
	journalFields = []byte(`"_HOSTNAME":"`)
)

// UnwrapJSON returns the text and the time of a line that a collector wrapped in JSON:
// docker's json-file driver, a collector of Kubernetes, journald. The pod or the host that
// the JSON names stands before the text, as kubectl and syslog write it. ok reports
// whether p is such a line.
func UnwrapJSON(p []byte) (inner []byte, when Stamp, ok bool) {
	if len(p) == 0 || p[0] != '{' || !bytes.HasPrefix(p, dockerStart) && !bytes.Contains(p, podFields) && !bytes.Contains(p, journalFields) {
		return nil, Stamp{}, false
	}
	var entry struct {
		Log, Message *string
		Journal      *string `json:"MESSAGE"`
		Time         string
		Timestamp    string `json:"@timestamp"`
		Kubernetes   struct {
			Pod, PodName string
			Name         string `json:"pod_name"`
		}
		Hostname   string `json:"_HOSTNAME"`
		Identifier string `json:"SYSLOG_IDENTIFIER"`
	}
	if json.Unmarshal(p, &entry) != nil {
		return nil, Stamp{}, false
	}
	text := cmp.Or(entry.Log, entry.Journal, entry.Message)
	if text == nil {
		return nil, Stamp{}, false
	}
	inner = []byte(*text)
	if pod := cmp.Or(entry.Kubernetes.Name, entry.Kubernetes.Pod, entry.Kubernetes.PodName); pod != "" && isName([]byte(pod)) {
		inner = append([]byte("[pod/"+pod+"/main] "), inner...)
	} else if entry.Hostname != "" && isName([]byte(entry.Hostname)) {
		inner = append([]byte(entry.Hostname+": "+cmp.Or(entry.Identifier, "journal")+": "), inner...)
	}
	when, _ = ReadTime([]byte(cmp.Or(entry.Time, entry.Timestamp)))
	return inner, when, true
}
