package catalogue

// deviceRows returns the rows about GPUs, the driver and memory on the GPU.
func deviceRows() []Row {
	const (
		oneGPU = "call torch.cuda.set_device(LOCAL_RANK) before the first CUDA call (Horovod: hvd.local_rank(); mpirun: OMPI_COMM_WORLD_LOCAL_RANK; srun: SLURM_LOCALID), start no more workers than GPUs, and do not set CUDA_VISIBLE_DEVICES to one GPU for all; do not hide the error with NCCL_MULTI_RANK_GPU_ENABLE"
		drain  = "take the node out of the job (drain it); reset the GPU or reboot the node, and if it comes again look at power, heat and slot, or replace the GPU"
		nvml   = "`nvidia-smi` must work for all GPUs of the node: reboot after a driver upgrade, drain a node with a broken GPU"
	)
	return []Row{
		{
			Key: "46", Checks: ids("D01"), Kind: Primary, Pattern: `Duplicate GPU detected\s*:\s*rank (?P<rank>\d+) and rank (?P<rank2>\d+) both on CUDA device`,
			Cause: "two ranks use the same GPU", Fix: oneGPU, Seen: "2.5.6-2.29.7", Source: "pytorch#68666, Megatron-LM#661",
		},
		{
			Key: "47", Checks: ids("D01"), Kind: Primary, Pattern: `multiple ranks (?:detected using|are using) the same GPU|Multiple processes .{0,60}same CUDA device`,
			Cause: "several ranks use the same GPU", Fix: oneGPU, Seen: "2.30.3+", Source: "src/graph/topo.cc, src/init.cc:1057",
		},
		{
			Key: "48", Checks: ids("D01"), Kind: Primary, Pattern: `allocated on device \d+ mismatchs? with NCCL device \d+`,
			Cause: "a tensor is on another GPU than the rank's communicator", Fix: oneGPU, Seen: "all", Source: "src/misc/argcheck.cc",
		},
		{
			Key: "49", Checks: ids("D02"), Kind: Primary, Pattern: `invalid device ordinal`,
			Cause: "a worker asked for a GPU that it cannot see: more workers than visible GPUs", Fix: "use --nproc-per-node gpu, or make more GPUs visible (CUDA_VISIBLE_DEVICES, Slurm --gpus-per-node, the container)", Seen: "CUDA", Source: "nccl-tests#300",
		},
		{
			Key: "50", Checks: ids("V03"), Kind: Primary, Pattern: `CUDA driver version is insufficient|The NVIDIA driver on your system is too old`,
			Cause: "the GPU driver is too old for this CUDA", Fix: "upgrade the driver (CUDA 12 needs 525.60.13), or install a build for an older CUDA", Seen: "CUDA", Source: "CUDA error 35",
		},
		{
			Key: "y20", Checks: ids("G02", "X-CUDAERR"), Kind: Primary, Pattern: `failed to open CUDA IPC handle|peer access is not supported between these two devices|transport/p2p\.cc.*Cuda failure`,
			Cause: "two GPUs of a node cannot access each other's memory", Fix: "set NCCL_P2P_DISABLE=1 on this node; check `nvidia-smi topo -p2p r`, the IOMMU and ACS", Seen: "CUDA 217", Source: "src/transport/p2p.cc",
		},
		{
			Key: "y98", Checks: ids("D03", "V03"), Kind: Root, Pattern: `fabric.?manager.{0,60}version \S+ don'?t match(?:es)? (?:with )?(?:the )?driver version`,
			Cause: "the fabric manager of this NVSwitch node does not start, because it is of another version than the driver", Fix: "install the fabric manager of the driver's version that the line names, then systemctl start nvidia-fabricmanager", Seen: "fabric manager", Source: "nvidia-fabricmanager's log", Explains: ids("D03"),
		},
		{
			Key: "51", Checks: ids("D03"), Kind: Primary, Pattern: `Cuda failure.*(?:system not yet initialized|\b802\b)|(?:CUDA error|Error 802): system not yet initialized`,
			Cause: "the fabric manager of this NVSwitch node does not run", Fix: "run systemctl start nvidia-fabricmanager (of the driver's version); reset the GPUs after its restart", Seen: "CUDA 802", Source: "pytorch#35710, nccl-tests#264",
		},
		{
			Key: "52", Checks: ids("S01", "X-CUDAOOM"), Kind: Primary, Pattern: `Cuda failure.*out of memory`,
			Cause: "the GPU had no memory left for NCCL: an old process or the program itself uses all of it", Fix: "`nvidia-smi` shows the processes that use it; " + gpuMemory, Seen: "all", Source: "src/include/checks.h",
		},
		{
			Key: "53", Checks: ids("V01", "V03"), Kind: Primary, Pattern: `Cuda failure.*(?:invalid device function|no kernel image)`,
			Cause: "this NCCL was not built for this GPU", Fix: "install a newer nvidia-nccl-cuXX", Seen: "CUDA", Source: "nccl#444",
		},
		{
			Key: "54", Checks: ids("D10"), Kind: Primary, Pattern: `Cuda failure.*unknown error|CUDA unknown error|CUDA error: unknown error`,
			Cause: "the driver's device files or modules are not in order (CUDA 999)", Fix: "run nvidia-modprobe -u; in a container use --gpus all", Seen: "CUDA 999", Source: "section 4",
		},
		{
			Key: "v09", Checks: ids("D10"), Kind: Harmless, Pattern: `failed call to cuInit`,
			Cause: "TensorFlow or JAX found no GPU and uses the CPU", Fix: "nothing to do, unless the program needs a GPU", Seen: "TensorFlow", Source: "cuda_driver.cc",
		},
		{
			Key: "x01", Checks: ids("D10"), Kind: Primary, Pattern: `no CUDA-capable device is detected|No CUDA GPUs are available|no supported devices found for platform (?:CUDA|ROCM)|Found no NVIDIA driver on your system`,
			Cause: "the worker sees no GPU", Fix: "in a container use --gpus all; check CUDA_VISIBLE_DEVICES and the scheduler's GPU option", Seen: "CUDA 100", Source: "section 4.2",
		},
		{
			Key: "x02", Checks: ids("D09"), Kind: Primary, Pattern: `(?:all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable`,
			Cause: "another process has the GPU, or the GPU is in a bad state", Fix: "nvidia-smi on that node shows its processes and its compute mode (nvidia-smi -c 0 ends exclusive mode); if neither explains it, look for Xid lines (dmesg -T) and drain the node", Seen: "CUDA 46", Source: "section 4",
		},
		{
			Key: "x03", Checks: ids("G01"), Kind: Primary, Pattern: `uncorrectable (?:ECC|NVLink) error|CUDA error: .*(?:ECC error|hardware error|GPU is lost)`,
			Cause: "a GPU's hardware failed", Fix: drain, Seen: "CUDA 214, 220", Source: "section 6.4",
		},
		{
			Key: RowNoGPUMemory, Checks: ids("X-CUDAOOM"), Kind: Catchable, Pattern: `CUDA out of memory|out_of_memory: (?:RMM|CUDA)\b|Maximum pool size exceeded|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED`,
			Cause: "the worker ran out of GPU memory", Fix: gpuMemory, Seen: "torch", Source: "CUDACachingAllocator.cpp",
		},
		{
			Key: "x05", Checks: ids("X-CUDAERR"), Kind: Primary, Pattern: `CUDA_ERROR_(?:ILLEGAL_ADDRESS|ASSERT|MISALIGNED_ADDRESS|LAUNCH_FAILED)|cudaError(?:IllegalAddress|Assert|LaunchFailure)|hipErrorIllegalAddress|CUDA error: (?:an illegal memory access|device-side assert|misaligned address|an illegal instruction|invalid program counter)|Cuda failure.*(?:illegal memory access|device-side assert|misaligned address)|device-side assert triggered|\.(?:cu|hip):\d+: .{0,400}: block: \[[\d,]+\], thread: \[[\d,]+\] Assertion`,
			Cause: "a kernel of the program did an illegal access, or its assertion failed", Fix: "run again with CUDA_LAUNCH_BLOCKING=1 and look for indices out of range (labels, embedding ids); compute-sanitizer names the kernel", Seen: "CUDA 700, 710, 716", Source: "CUDAException.cpp",
		},
		{
			Key: "t14", Checks: ids("V03"), Kind: Primary, Pattern: `PTX was compiled with an unsupported toolchain|CUDA_ERROR_UNSUPPORTED_PTX_VERSION`,
			Cause: "the driver of the node is older than the CUDA that compiled the program's kernels", Fix: "update the driver of that node (nvidia-smi shows the newest CUDA that it supports), or install a build for an older CUDA", Seen: "CUDA 222", Source: "CUDA Runtime API",
		},
		{
			Key: "t08", Checks: ids("V03", "D04"), Kind: Primary, Pattern: `forward compatibility was attempted on non supported HW`,
			Cause: "the container's CUDA needs a newer driver than the node has, and its compatibility libraries (cuda-compat) do not work on this kind of GPU", Fix: "update the driver of that node, or use an image with an older CUDA (nvidia-smi shows the newest that the driver supports); taking cuda-compat out of LD_LIBRARY_PATH helps where the driver is new enough; after a driver upgrade reboot", Seen: "CUDA 804", Source: "CUDA compatibility guide",
		},
		{
			Key: "55", Checks: ids("D04"), Kind: Primary, Pattern: `nvmlInit\w*\(\) failed|NVML/RM version mismatch|Failed to initialize NVML`,
			Cause: "NVML does not work on this node: the versions of driver and library differ, or a GPU is broken", Fix: nvml, Seen: "all", Source: "src/misc/nvmlwrap.cc",
		},
		{
			Key: "56", Checks: ids("D04"), Kind: Primary, Pattern: `nvmlDeviceGetHandleBy\w+\(\d*\) failed|Unable to determine the device handle for GPU`,
			Cause: "a GPU of this node is broken; NCCL opens all GPUs, even those that the job does not use", Fix: nvml, Seen: "2.12.7+", Source: "sglang#24666",
		},
		{
			Key: "57", Checks: ids("D04", "D10"), Kind: Primary, Pattern: `Failed to open libnvidia-ml\.so\.1`,
			Cause: "the container has no libnvidia-ml", Fix: "set NVIDIA_DRIVER_CAPABILITIES=compute,utility", Seen: "all", Source: "src/os/linux.cc:615",
		},
		{
			Key: "58", Checks: ids("D10"), Kind: Primary, Pattern: `Failed to find CUDA library`,
			Cause: "the node or the container has no libcuda.so.1", Fix: "start the container with --gpus all, or install the driver", Seen: "2.13.4-2.20.5", Source: "src/misc/cudawrap.cc",
		},
		{
			Key: "77", Checks: ids("D03", "E02"), Kind: Primary, Pattern: `MNNVL \(cliqueSize \d+\) is available but not (?:working|supported)`,
			Cause: "the nodes have NVLink between them, but its IMEX daemon or channels are missing", Fix: "start nvidia-imex and map /dev/nvidia-caps-imex-channels, or set NCCL_MNNVL_ENABLE=0 on all ranks", Seen: "2.25+", Source: "src/mnnvl.cc",
		},
		{
			Key: "78", Checks: ids("D03", "E02"), Kind: Primary, Pattern: `Failed to bind NVLink SHARP \(NVLS\) Multicast memory|transport/nvls\.cc:\d+ NCCL WARN Cuda failure`,
			Cause: "NVLink SHARP does not work: the fabric manager is in a wrong state, or another process uses it", Fix: "restart nvidia-fabricmanager and reset the GPUs, or set NCCL_NVLS_ENABLE=0 on all ranks", Seen: "2.27.3+", Source: "nccl#976, #1705; src/transport/nvls.cc:376",
		},
		{
			Key: "79", Checks: ids("G02", "E02"), Kind: Warning, Pattern: `P2P is disabled between NVLINK connected GPUs`,
			Cause: "GPUs with NVLink are not allowed to use it: a driver setting, NCCL_P2P_*, IOMMU or a virtual machine", Fix: "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; check `nvidia-smi topo -p2p r`", Seen: "2.12.7+", Source: "src/graph/paths.cc",
		},
		{
			Key: "80", Checks: ids("H04"), Kind: Primary, Pattern: `Could not find real path of /sys/class`,
			Cause: "/sys is not mounted in the sandbox", Fix: "mount /sys (gVisor and chroots have none)", Seen: "all", Source: "src/os/linux.cc:637",
		},
		{
			Key: "93d", Checks: ids("G01"), Kind: Warning, Pattern: `NVRM: Xid \(PCI:\S+\): 14\d, \w+ Nonfatal`,
			Cause: "a GPU's link reported an error that it corrected", Fix: "look for a fatal one of the same node (dmesg -T | grep Xid)", Seen: "kernel", Source: "NVIDIA Xid docs",
		},
		{
			Key: "92", Checks: ids("G01"), Kind: Root, Explains: ids("D10", "D04", "X-CUDAERR"), Pattern: `NVRM: (?:The NVIDIA GPU \S+|.*fallen off the bus)|NVRM: Xid \(PCI:\S+\): (?:48|64|74|79|94|95|119|120|140|14[3-9]|154)\b|\bamdgpu\b.* [1-9]\d* uncorrectable hardware errors detected`,
			Cause: "a GPU's hardware failed", Fix: drain, Seen: "kernel", Source: "k8s-device-plugin internal/rm/health.go, NVIDIA Xid docs",
		},
		{
			Key: "r03", Quote: "GSP", Checks: ids("G01", "D04"), Kind: Root, Pattern: `NVRM: .*(?:GSP Timeout|kgspIsHeartbeatTimedOut|GSP (?:heartbeat|RPC|firmware)\b.{0,60}(?:timed? ?out|fail|crash|dead|lost)|RmInitAdapter failed|kgspBootstrap\w* .*fail)`,
			Cause: "the driver cannot start a GPU of this node, or the GPU's own processor (GSP) no longer answers", Fix: "take the node out of the job (drain it); reset the GPU (nvidia-smi -r) or start the node again; if it comes back, replace the GPU", Seen: "kernel", Source: "open-gpu-kernel-modules kernel_gsp.c",
		},
		{
			Key: "93c", Checks: ids("G01"), Kind: Harmless, Pattern: `NVRM: Xid \(PCI:\S+\): 63\b`,
			Cause: "the driver put a page or row of a GPU's memory out of use", Fix: "nothing now; reset that GPU (nvidia-smi -r) when no job uses it", Seen: "kernel", Source: "NVIDIA Xid docs",
		},
		{
			Key: "93a", Checks: ids("X-CUDAERR", "G01"), Kind: Primary, Explains: ids("X-PYEXC"), Pattern: `NVRM: Xid \(PCI:\S+\): (?:13|31)\b|\bamdgpu\b.* (?:\[\w*hub\w*\]|VM_L2) page fault|(?:\*ERROR\*|amdgpu:) ring \S+ timeout`,
			Cause: "the program did an illegal access on the GPU; the node is in order", Fix: "read that process's stack; compute-sanitizer names the kernel", Seen: "kernel", Source: "the same",
		},
		{
			Key: "93b", Checks: ids("G01"), Kind: Consequence, Pattern: `NVRM: Xid \(PCI:\S+\): (?:43|45)\b`,
			Cause: "the driver cleaned up after a process that had failed before", Fix: "look for the earlier error", Seen: "kernel", Source: "the same",
		},
		{
			Key: "v05", Checks: ids("V03", "V01"), Kind: Primary, Pattern: `no kernel image is available for execution|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU|hipErrorNoBinaryForGpu|not compatible with the current PyTorch installation`,
			Cause: "the program or a library was not built for this GPU", Fix: "install a build for its compute capability (torch.cuda.get_arch_list() lists those of torch), or build extensions with TORCH_CUDA_ARCH_LIST or PYTORCH_ROCM_ARCH", Seen: "CUDA 209, HIP", Source: "driver_types.h",
		},
		{
			Key: "x06a", Checks: ids("X-CUDAERR"), Kind: Clue, Pattern: `\bamdgpu\b.*\bpage fault \(src_id|\bVM_L2_PROTECTION_FAULT_STATUS\b`,
			Cause: "a kernel accessed memory of the GPU that its process does not have: a page fault", Fix: "run again with AMD_SERIALIZE_KERNEL=3 to find the kernel; the program, a library or their versions are wrong, seldom the GPU: the same on another node proves it", Seen: "kernel", Source: "amdgpu, gmc_v9_0.c",
		},
		{
			Key: "x06", Checks: ids("X-CUDAERR"), Kind: Clue, Pattern: `CUDA error: |Cuda failure|Memory access fault by GPU|HW Exception by GPU|HIP failure|HIP error: |CUDA runtime error \(|unhandled cuda error|cuBLAS error|CUBLAS_STATUS_[A-RT-Z]\w+|CUDNN_STATUS_[A-RT-Z]\w+|CUDA_ERROR_\w+|cudaError[A-Z]\w+|hipError[A-Z]\w+|(?:CUSOLVER|CUSPARSE|CURAND)_STATUS_\w+|CUFFT_\w*(?:ERROR|FAILED)|NVRTC_ERROR\w*|miopenStatus[A-RT-Z]\w+|rocblas_status_[a-rt-z]\w+|HSA_STATUS_ERROR\w*|CUDA (?:error|failure) ?(?:code)?[ =:(]*\d+`,
			Cause: "a call of CUDA failed", Fix: "run again with CUDA_LAUNCH_BLOCKING=1 (ROCm: AMD_SERIALIZE_KERNEL=3), and look for Xid or amdgpu lines in the kernel's log; HSA_OVERRIDE_GFX_VERSION must not name another GPU", Seen: "CUDA", Source: "CUDAException.cpp, src/include/checks.h",
		},
	}
}
