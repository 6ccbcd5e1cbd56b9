package launch

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/launch/device"
)

// A job that has no GPU is not judged by what the machine's driver is like.
func TestUnused(t *testing.T) {
	gpus := device.Survey{Driver: true, GPUs: []device.GPU{{UUID: "GPU-1"}}}
	silent := device.Survey{Driver: true, Err: errors.New("no libnvidia-ml")}
	for name, c := range map[string]struct {
		s     device.Survey
		env   []string
		given bool
		want  bool
	}{
		"GPUs":                                {gpus, nil, true, false},
		"some of them":                        {gpus, []string{"CUDA_VISIBLE_DEVICES=0"}, true, false},
		"hidden":                              {gpus, []string{"CUDA_VISIBLE_DEVICES="}, true, true},
		"hidden by -1":                        {gpus, []string{"CUDA_VISIBLE_DEVICES=-1"}, true, true},
		"hidden by Slurm":                     {gpus, []string{"CUDA_VISIBLE_DEVICES=NoDevFiles"}, true, true},
		"shown again":                         {gpus, []string{"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=0"}, true, false},
		"a Slurm job that asked for none":     {device.Survey{Driver: true}, nil, true, true},
		"a container without GPUs":            {silent, nil, false, true},
		"a driver that does not answer":       {silent, nil, true, false},
		"a driver that is broken, and hidden": {silent, []string{"CUDA_VISIBLE_DEVICES="}, true, true},
	} {
		if got := hidden(c.env) || unused(c.s, c.given); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
