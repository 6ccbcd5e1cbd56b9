package ncclenv

import (
	"slices"
	"strings"
	"unicode"
)

// Credential reports whether the name of a variable, or of an option of a command line,
// is that of a credential. It looks for whole words (so that NCCL_IB_PKEY, a partition,
// is not a credential), for parts of words that mean nothing else, and for names that
// services and tools are known to read. Digits behind a word do not count.
func Credential(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range [...]string{"AWS_", "GITHUB_", "GITLAB_", "VAULT_", "KRB5CCNAME", "KUBECONFIG", "NETRC", "SSH_AUTH_SOCK", "OMPI_MCA_ORTE_PRECONDITION_TRANSPORTS"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	words := words(name)
	for i := range words {
		if credentialWord(words, i) {
			return true
		}
	}
	return false
}

// words returns the parts of a name, without digits behind them.
func words(name string) []string {
	list := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range list {
		list[i] = strings.TrimRight(word, "0123456789")
	}
	return slices.DeleteFunc(list, func(word string) bool { return word == "" })
}

// credentialWord reports whether the i-th word makes the name a credential's.
func credentialWord(words []string, i int) bool {
	word, last := words[i], i == len(words)-1
	switch word {
	case "KEY", "KEYS", "PASS", "PSK", "CRED", "CREDS", "COOKIE", "COOKIES", "DSN", "JWT", "BEARER", "AUTHORIZATION", "SAS", "SIG", "SIGNATURE":
		return true
	case "PWD": // MYSQL_PWD, but not the working directory
		return i > 0
	case "PAT": // GH_PAT, but not NCCL_PAT_ENABLE
		return last
	case "CONNECTION", "CONN":
		return !last && (strings.HasPrefix(words[i+1], "STRING") || words[i+1] == "STR")
	}
	for _, part := range [...]string{
		"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "CONNECTIONSTRING", "APIKEY", "ACCESSKEY",
		"ACCOUNTKEY", "AUTHKEY", "ENCRYPTIONKEY", "MASTERKEY", "PRIVATEKEY", "SIGNINGKEY", "SSHKEY",
	} {
		if strings.Contains(word, part) {
			return true
		}
	}
	switch {
	case strings.Contains(word, "TOKEN"):
		return !isTextToken(words, i)
	case strings.HasSuffix(word, "PASS"):
		return !isOtherPass(word)
	default:
		return strings.HasSuffix(word, "AUTH")
	}
}

// isTextToken reports whether a word is about what a language model reads:
// TOKENIZERS_PARALLELISM, MAX_TOKENS, PAD_TOKEN, TOKEN_LIMIT.
func isTextToken(words []string, i int) bool {
	at := strings.LastIndex(words[i], "TOKEN")
	head, tail := words[i][:at], words[i][at+len("TOKEN"):]
	if strings.HasPrefix(tail, "IZ") || strings.HasPrefix(tail, "IS") {
		return true
	}
	vocabulary := func(word string) bool {
		return slices.Contains([]string{"PAD", "EOS", "BOS", "UNK", "SEP", "CLS", "MASK", "STOP", "SPECIAL"}, word)
	}
	count := func(word string) bool {
		return slices.Contains([]string{"MAX", "MIN", "NUM", "N", "TOTAL", "COUNT", "LIMIT", "BUDGET", "LEN", "LENGTH", "PER", "BATCH", "BATCHED"}, word)
	}
	switch {
	case tail != "" && tail != "S":
		return false
	case head != "":
		return count(head) || vocabulary(head)
	case i > 0 && vocabulary(words[i-1]):
		return true
	case tail == "S":
		return slices.ContainsFunc(words, count)
	default: // MAX_TOKEN_LEN, but not MAX_TOKEN
		return i < len(words)-1 && count(words[i+1]) && words[i+1] != "PER"
	}
}

// isOtherPass reports whether PASS in a word is no password: COMPASS_DIR and
// SSH_ASKPASS, a program, are not SSHPASS.
func isOtherPass(word string) bool {
	for _, end := range [...]string{"ASKPASS", "BANDPASS", "BYPASS", "COMPASS", "HIGHPASS", "LOWPASS", "MULTIPASS", "OVERPASS", "SURPASS", "TRESPASS", "UNDERPASS"} {
		if strings.HasSuffix(word, end) {
			return true
		}
	}
	return false
}
