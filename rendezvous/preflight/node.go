package preflight

// env is the value that the node's workers have of a variable, "" when unset.
func (n *Facts) env(name string) string {
	value, _ := n.setting(name)
	return value
}

func (n *Facts) setting(name string) (string, bool) {
	for i := range n.Settings {
		if n.Settings[i].Name == name {
			return n.Settings[i].Value, true
		}
	}
	return "", false
}

// source is where a variable is from: ncclenv.Environment or a conf file's path;
// "" when it is unset.
func (n *Facts) source(name string) string {
	for i := range n.Settings {
		if n.Settings[i].Name == name {
			return n.Settings[i].Source
		}
	}
	return ""
}

// ncclCode is the version of the NCCL that the node's workers load, 0 unknown.
func (n *Facts) ncclCode() int {
	if n.Libraries.NCCL == nil {
		return 0
	}
	return n.Libraries.NCCL.Code
}

// on reports whether a switch of NCCL's is set to anything but 0.
func (n *Facts) on(name string) bool {
	value, set := n.setting(name)
	return set && value != "" && value != "0"
}

// knows reports whether nothing of the source stayed unknown.
func (n *Facts) knows(source string) bool {
	for _, u := range n.Unknown {
		if u.Source == source {
			return false
		}
	}
	return true
}

// settled reports whether the node's variables are known, if not all that may
// change them.
func (n *Facts) settled() bool {
	return len(n.Settings) > 0 || len(n.ConfFiles) > 0 || n.knows("settings")
}
