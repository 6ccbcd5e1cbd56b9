package setting

import "strings"

// Credential reports whether a variable is named like something that must not
// be told: by a whole word (so that NCCL_IB_PKEY, a partition, is not one), by
// the end of a word, or as what services and tools are known to read.
func Credential(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range [...]string{"AWS_", "GITHUB_", "GITLAB_", "VAULT_", "KRB5CCNAME", "KUBECONFIG", "NETRC", "SSH_AUTH_SOCK"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	first := true
	for word := range strings.SplitSeq(name, "_") {
		switch word {
		case "KEY", "PASS", "PSK", "AUTH", "CREDENTIAL", "CREDENTIALS", "CREDS", "COOKIE", "DSN", "JWT", "BEARER":
			return true
		case "PWD": // MYSQL_PWD, but not the working directory
			if !first {
				return true
			}
		}
		for _, end := range [...]string{"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "ACCESSKEY", "PRIVATEKEY", "SECRETKEY"} {
			if strings.HasSuffix(word, end) {
				return true
			}
		}
		first = false
	}
	return false
}

// Shown is a value as it may be told to the other nodes and printed: bounded,
// and without credentials.
func Shown(name, value string) string {
	if value != "" && Credential(name) {
		return Hidden
	}
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "..."
	}
	return withoutUser(value, isProxy(name))
}

// Secret reports whether Shown keeps something of the value to itself, besides
// its length.
func Secret(name, value string) bool {
	return value != "" && (Credential(name) || withoutUser(value, isProxy(name)) != value)
}

func isProxy(name string) bool { return strings.HasSuffix(strings.ToLower(name), "_proxy") }

// Hidden stands for the value of a credential.
const Hidden = "(hidden)"

// withoutUser removes "user:password@" of every URL in a value; proxy says that
// the value is an address even without a scheme.
func withoutUser(value string, proxy bool) string {
	var out strings.Builder
	rest := value
	for {
		i := strings.Index(rest, "://")
		if i < 0 {
			break
		}
		i += len("://")
		out.WriteString(rest[:i])
		rest = afterUser(rest[i:])
		proxy = false
	}
	if proxy {
		rest = afterUser(rest)
	}
	out.WriteString(rest)
	return out.String()
}

// afterUser replaces the user of an authority at the start of s. A password may
// hold a '/' or an '@' that should have been escaped, so all up to the last '@'
// before a blank or a comma goes.
func afterUser(s string) string {
	end := strings.IndexAny(s, " ,\t\n")
	if end < 0 {
		end = len(s)
	}
	if at := strings.LastIndexByte(s[:end], '@'); at >= 0 {
		return "***" + s[at:]
	}
	return s
}
