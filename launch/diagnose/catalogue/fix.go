package catalogue

// Fixes that rows and topics of several families give.
const (
	gpuMemory   = "use smaller batches or sequences, activation checkpointing or sharding; at the start it is another process (`nvidia-smi`), or a share that a program takes at once (gpu_memory_utilization of vLLM, XLA_PYTHON_CLIENT_MEM_FRACTION of JAX)"
	missingFile = "look on that node: ls -ld PATH and the folders above it; mount or copy what is missing, or correct the path or its permissions; what the job itself writes must lie on storage that all nodes share, and stay until all have read it"
)
