package wrap

import "slices"

// parser returns the function that reads the command line of a wrapper, or nil if
// the program is no wrapper.
func parser(program string) func(argv []string) (layer, error) {
	switch name := base(program); name {
	case "env":
		return parseEnv
	case "nice", "timeout", "taskset", "numactl", "chroot", "unshare", "nsenter", "setpriv", "stdbuf", "ionice", "chrt", "setsid", "nohup":
		return plain(name)
	case "ip":
		return parseNetns
	case "sudo":
		return parseSudo
	case "su", "runuser":
		return parseSu
	case "sh", "bash", "dash", "ash", "zsh", "ksh":
		return parseShell
	case "docker", "podman", "nerdctl":
		return parseContainer
	case "apptainer", "singularity":
		return parseApptainer
	case "conda", "mamba", "micromamba":
		return parseConda
	case "ssh":
		return parseSSH
	case "srun":
		return parseSrun
	case "mpirun", "mpiexec", "orterun":
		return parseMPI
	}
	if slices.Contains(foreign(), base(program)) {
		return parseForeign
	}
	return nil
}

// foreign lists the wrappers whose command lines gorun does not read.
func foreign() []string {
	return []string{
		"kubectl", "oc", "crictl", "ctr", "lxc-attach", "lxc", "incus", "machinectl", "systemd-run", "systemd-nspawn",
		"doas", "gosu", "su-exec", "pkexec", "enroot", "shifter", "charliecloud", "ch-run", "udocker", "bwrap", "firejail",
		"toolbox", "distrobox", "docker-compose", "podman-compose", "rsh", "pdsh", "pixi", "prun", "aprun", "jsrun", "flux",
	}
}

// lossy reports whether a wrapper with this name may lose variables.
func lossy(name string) bool {
	switch name {
	case "sudo", "su", "runuser", "docker", "podman", "nerdctl", "apptainer", "singularity", "conda", "mamba", "micromamba",
		"ssh", "srun", "mpirun", "mpiexec", "orterun":
		return true
	}
	return slices.Contains(foreign(), name)
}

func parseForeign([]string) (layer, error) {
	return layer{}, errUnread
}
