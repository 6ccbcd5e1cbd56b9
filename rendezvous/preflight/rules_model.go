package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// modelRules are D05 and D08: which GPUs the workers get.
func modelRules() []Rule {
	return []Rule{
		{
			ID: "D05", Name: "gpu-model", Severity: Warning,
			Meaning: "All nodes have GPUs of one model.",
			Users:   "Every rank waits for the slowest; out of memory on some nodes only; other algorithms on some ranks.",
			Steps:   []Step{byHand("start the job on nodes of one kind, or give the larger nodes no more work than the smaller ones can do")},
			Check:   checkModel,
		},
		{
			ID: "D08", Name: "cuda-order", Severity: Warning,
			Meaning: "On a node with GPUs of several models CUDA_DEVICE_ORDER is PCI_BUS_ID, so that CUDA numbers them as NVML and nvidia-smi do.",
			Users:   "LOCAL_RANK is another GPU than nvidia-smi shows under that number, far from the rank's network card.",
			Steps:   []Step{everyRank("number the GPUs by their place on the bus", "CUDA_DEVICE_ORDER", "PCI_BUS_ID")},
			Check:   checkOrder,
		},
	}
}

// models are the names of the node's GPUs, each once, in the order of the bus.
func (n *Facts) models() []string {
	var names []string
	for _, d := range n.GPU.Devices {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

func checkModel(f *Fleet) []Finding {
	return one(f.differ(func(_ int, n *Facts) string {
		if n.hides() {
			return ""
		}
		return strings.Join(n.models(), ", ")
	}), Finding{Text: "The nodes have GPUs of different models."})
}

func checkOrder(f *Fleet) []Finding {
	return one(f.faults(func(_ int, n *Facts) string {
		models := n.models()
		if len(models) < 2 || n.hides() || n.env("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" {
			return ""
		}
		return fmt.Sprintf("%s; CUDA numbers the fastest first", strings.Join(models, ", "))
	}), Finding{Text: "CUDA numbers the GPUs otherwise than NVML and nvidia-smi."})
}
