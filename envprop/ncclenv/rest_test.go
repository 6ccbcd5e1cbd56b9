package ncclenv

import "testing"

func TestRestIsSound(t *testing.T) {
	seen := map[string]bool{}
	for v := range rows(restRows[:]) {
		known, ok := Lookup(v.Name)
		switch {
		case seen[v.Name]:
			t.Errorf("%s is listed twice", v.Name)
		case ok && known.Name == v.Name:
			t.Errorf("%s is in the catalogue already", v.Name)
		case v.Text == "" || v.Scope == "":
			t.Errorf("%s: no text or no scope: %+v", v.Name, v)
		}
		seen[v.Name] = true
	}
}

func TestGoverned(t *testing.T) {
	for name, want := range map[string]Scope{
		"NCCL_ALGO":                       All, // the catalogue
		"FI_PROVIDER":                     All,
		"CUDA_VISIBLE_DEVICES":            Rank,
		"HIP_VISIBLE_DEVICES":             Rank,
		"PATH":                            Never,
		"NCCL_FUTURE":                     AllSoft,
		"NCCL_HOME":                       Node,
		"NCCL_VERSION":                    Node,
		"TORCH_DISTRIBUTED_DEBUG":         All,
		"TORCH_NCCL_NAN_CHECK":            AllSoft,
		"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": Node,
		"TORCH_HOME":                      Node,
		"TORCH_LOGS":                      Free,
		"TORCH_ANYTHING":                  AllSoft,
		"TORCHELASTIC_SIGNALS_TO_HANDLE":  Node,
		"GLOO_DEVICE_TRANSPORT":           All,
		"UCX_IB_SL":                       AllSoft,
		"OMP_PLACES":                      Node,
		"MKL_NUM_THREADS":                 Node,
		"MKL_CBWR":                        AllSoft,
		"CUDA_HOME":                       Node,
		"CUDA_DISABLE_PTX_JIT":            AllSoft,
		"CUDA_MPS_PIPE_DIRECTORY":         Node,
		"PYTHONHASHSEED":                  AllSoft,
		"PYTHONUNBUFFERED":                Free,
	} {
		if v, ok := Governed(name); !ok || v.Scope != want || v.Text == "" {
			t.Errorf("%s: %+v, %v; want %s", name, v, ok, want)
		}
	}
	for _, name := range []string{"", "MINE", "HF_HOME", "nccl_algo", "NCCLX", "WANDB_API_KEY", "LANG"} {
		if v, ok := Governed(name); ok {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v, _ := Governed("MASTER_ADDR"); !v.SetByGorun {
		t.Error("MASTER_ADDR is not set by gorun")
	}
	// The families do not make unknown names known.
	if near, unknown := Misspelt("NCCL_SOKCET_IFNAME"); !unknown || near != "NCCL_SOCKET_IFNAME" {
		t.Errorf("%q, %v", near, unknown)
	}
}

func TestSoft(t *testing.T) {
	for name, want := range map[string]bool{
		"NCCL_ALGO": false, "FI_PROVIDER": false, "TORCH_DISTRIBUTED_DEBUG": false,
		"UCX_TLS": true, "TORCH_NCCL_BLOCKING_WAIT": true, "CUDA_DEVICE_ORDER": true, "NCCL_RAS_ENABLE": true, "NCCL_IB_TIMEOUT": true, "NCCL_NET_GDR_READ": true,
	} {
		if v, _ := Governed(name); v.Soft() != want {
			t.Errorf("%s is soft: %v", name, !want)
		}
	}
}
