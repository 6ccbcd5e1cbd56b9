package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// source is a file of a published module.
type source struct{ module, sum, file string }

// crds has the published schema of each kind.
func crds() map[string]source {
	return map[string]source{
		"JobSet":     {"sigs.k8s.io/jobset@v0.8.1", "h1:FwosQQyjmYgOKy8sD3ERpfil1BDLNpYUOJdIqmZSz3s=", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
		"PyTorchJob": {"github.com/kubeflow/training-operator@v1.8.1", "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"},
		"TrainJob":   {"github.com/kubeflow/trainer/v2@v2.0.0", "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=", "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"},
	}
}

// documents returns the documents of a manifest as JSON.
func documents(t *testing.T, file string) (docs [][]byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(b, []byte("\n---\n")) {
		doc, err := yaml.YAMLToJSONStrict(part)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

// decode decodes a document strictly.
func decode(t *testing.T, doc []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Error(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Error("more than one value")
	}
}

func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d manifests (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, doc := range documents(t, file) {
				var head struct{ Kind, APIVersion string }
				if err := json.Unmarshal(doc, &head); err != nil {
					t.Fatal(err)
				}
				switch id := head.APIVersion + " " + head.Kind; id {
				case "v1 Service":
					var s corev1.Service
					decode(t, doc, &s)
					if s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses {
						t.Error("the pods cannot meet under the service's name")
					}
				case "batch/v1 Job":
					var j batchv1.Job
					decode(t, doc, &j)
					checkJob(t, &j)
				default:
					at, ok := crds()[head.Kind]
					if !ok {
						t.Fatalf("no schema of %s", id)
					}
					for _, err := range check(doc, schemaOf(t, at, head.APIVersion)) {
						t.Error(err)
					}
				}
			}
		})
	}
}

// checkJob checks what the schema does not know.
func checkJob(t *testing.T, j *batchv1.Job) {
	t.Helper()
	pod := j.Spec.Template.Spec
	env := map[string]string{}
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
	}
	n := fmt.Sprint(*j.Spec.Completions)
	if *j.Spec.CompletionMode != batchv1.IndexedCompletion || *j.Spec.Parallelism != *j.Spec.Completions || env["GORUN_NNODES"] != n {
		t.Errorf("not %s pods at a time: %v", n, env)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("no volume %s", m.Name)
		}
	}
	if pod.Subdomain == "" || !strings.HasPrefix(env["GORUN_SECRET_FILE"], pod.Containers[0].VolumeMounts[0].MountPath+"/") {
		t.Errorf("subdomain %q, secret %q", pod.Subdomain, env["GORUN_SECRET_FILE"])
	}
}

// schema is a structural schema of a custom resource.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Additional json.RawMessage   `json:"additionalProperties"`
	Required   []string          `json:"required"`
	Enum       []any             `json:"enum"`
	Preserve   bool              `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrText  bool              `json:"x-kubernetes-int-or-string"`
}

// schemaOf reads the schema of an API version from a module's file.
func schemaOf(t *testing.T, src source, version string) schema {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", src.module).Output()
	var at struct{ Dir, Sum string }
	if err == nil {
		err = json.Unmarshal(out, &at)
	}
	if err != nil || at.Sum != src.sum {
		t.Fatalf("cannot get %s: %v: %s", src.module, err, out)
	}
	b, err := os.ReadFile(filepath.Join(at.Dir, src.file))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(b, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if crd.Spec.Group+"/"+v.Name == version {
			return v.Schema.Schema
		}
	}
	t.Fatalf("%s has no schema of %s", src.file, version)
	return schema{}
}

// check returns what does not fit the schema.
func check(doc []byte, s schema) (wrong []error) {
	var value any
	if err := json.Unmarshal(doc, &value); err != nil {
		return []error{err}
	}
	object := value.(map[string]any)
	delete(object, "metadata") // the schema leaves it to the API server
	return fit(object, s, "")
}

func fit(value any, s schema, at string) (wrong []error) {
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		bad("%v is none of %v", value, s.Enum)
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			bad("it is an object, not %s", s.Type)
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				bad("%s is missing", name)
			}
		}
		var rest *schema
		if len(s.Additional) > 0 && s.Additional[0] == '{' {
			rest = &schema{}
			if err := json.Unmarshal(s.Additional, rest); err != nil {
				bad("%v", err)
			}
		}
		for name, field := range v {
			if p, ok := s.Properties[name]; ok {
				wrong = append(wrong, fit(field, p, at+"."+name)...)
			} else if rest != nil {
				wrong = append(wrong, fit(field, *rest, at+"."+name)...)
			} else if !s.Preserve {
				bad("no field %s", name)
			}
		}
	case []any:
		if s.Type != "array" || s.Items == nil {
			bad("it is a list, not %s", s.Type)
			break
		}
		for i, item := range v {
			wrong = append(wrong, fit(item, *s.Items, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case float64:
		if !s.IntOrText && s.Type != "number" && (s.Type != "integer" || v != float64(int64(v))) {
			bad("%v is a number, not %s", v, s.Type)
		}
	case string:
		if !s.IntOrText && s.Type != "string" {
			bad("%q is a text, not %s", v, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			bad("it is a boolean, not %s", s.Type)
		}
	}
	return wrong
}

// TestCheck checks that the checks of this test find errors.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		file, old, new string
		wrong          int
	}{
		{"../jobset.yaml", "replicas: 2", "replicas: two", 1},
		{"../jobset.yaml", "replicas: 2", "replica: 2", 1},
		{"../jobset.yaml", "fieldPath:", "path:", 2}, // unknown, and fieldPath is missing
		{"../trainjob.yaml", "numNodes", "nodes", 1},
		{"../pytorchjob.yaml", "restartPolicy: Never", "restartPolicy: [Never]", 2},
	} {
		doc := documents(t, tt.file)[0]
		b, err := os.ReadFile(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = yaml.YAMLToJSON([]byte(strings.ReplaceAll(string(b), tt.old, tt.new))); err != nil {
			t.Fatal(err)
		}
		var head struct{ Kind, APIVersion string }
		if err := json.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		at := crds()[head.Kind]
		if got := check(doc, schemaOf(t, at, head.APIVersion)); len(got) != tt.wrong {
			t.Errorf("%s with %q: %v", tt.file, tt.new, got)
		}
	}
}
