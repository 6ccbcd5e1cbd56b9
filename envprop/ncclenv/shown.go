package ncclenv

import "strings"

// Hidden stands for what must not be shown.
const Hidden = "(hidden)"

// Shown returns a value as it may be sent to the other nodes and printed: bounded,
// and without credentials.
func Shown(name, value string) string {
	if value != "" && Credential(name) {
		return Hidden
	}
	value = withoutNamed(withoutUser(value, isProxy(name)))
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "..."
	}
	return value
}

// HasCredential reports whether Shown hides a part of the value because it is a credential.
func HasCredential(name, value string) bool {
	return value != "" && (Credential(name) || withoutNamed(withoutUser(value, isProxy(name))) != value)
}

// ShownText returns a text without credentials. The text may contain a part of a
// command line.
func ShownText(text string) string { return withoutNamed(withoutUser(text, false)) }

// ShownAddress returns an address or URL without its user and password.
func ShownAddress(address string) string { return withoutUser(address, true) }

// ShownWords returns a command line without credentials. It hides the values of
// HF_TOKEN=... and --api-key ..., also within a word such as a shell's text. It cannot
// recognise a credential without a name (the -p of sshpass).
func ShownWords(words []string) []string {
	shown := make([]string, len(words))
	hide := false // the word before names a credential, and this is its value
	for i, word := range words {
		if shown[i] = ShownText(word); hide && word != "" && word[0] != '-' {
			shown[i] = Hidden
		}
		hide = strings.HasPrefix(word, "-") && nameEnd(word, 0) == len(word) && isNamed(word)
	}
	return shown
}

func isProxy(name string) bool { return strings.HasSuffix(strings.ToLower(name), "_proxy") }

// withoutNamed hides what follows the name of a credential within a text: NAME=value,
// "name": value, Name: value, --name value. It hides the whole rest of the text,
// because it cannot know where the value ends.
func withoutNamed(text string) string {
	for i := 0; i < len(text); {
		end := nameEnd(text, i)
		if end == i {
			i++
			continue
		}
		if value := valueAt(text, i, end); value < len(text) && isNamed(text[i:end]) {
			return text[:value] + Hidden
		}
		i = end
	}
	return text
}

// nameEnd returns the end of the name that begins at i, or i if no name begins there.
func nameEnd(text string, i int) int {
	for ; i < len(text); i++ {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			break
		}
	}
	return i
}

// valueAt returns where the value of the name text[i:end] begins, or len(text) if there
// is no value.
func valueAt(text string, i, end int) int {
	none := len(text)
	next := func(at int) byte {
		if at < none {
			return text[at]
		}
		return 0
	}
	at := end
	if next(at) == '\\' { // JSON within quotes of a shell
		at++
	}
	quoted := false
	if q := next(at); (q == '"' || q == '\'') && i > 0 && text[i-1] == q {
		at++
		quoted = true
	} else {
		at = end
	}
	separator := afterBlanks(text, at)
	switch c := next(separator); {
	case c == '=':
		return afterBlanks(text, separator+1)
	case c == ':' && (quoted || separator == at && isBlank(next(at+1))):
		return afterBlanks(text, separator+1)
	case !quoted && text[i] == '-' && separator > at && c != '-': // an option and its value
		return separator
	}
	return none
}

func afterBlanks(text string, i int) int {
	for i < len(text) && isBlank(text[i]) {
		i++
	}
	return i
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isNamed is Credential for a name within a text: --hub-token, -eAWS_PROFILE.
func isNamed(text string) bool {
	const most = 256 // bytes; what is longer is no name
	if len(text) > most {
		return false
	}
	name := strings.ReplaceAll(strings.Trim(text, "-."), "-", "_")
	after, glued := strings.CutPrefix(text, "-e")
	return Credential(name) || glued && Credential(after)
}

// withoutUser hides "user:password@" of every URL in a value. proxy says that the value
// is an address even without a scheme.
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

// afterUser replaces the user and password at the start of s. A password may contain a
// '/' or an '@' that should have been escaped, so afterUser replaces everything up to
// the last '@' before a blank or a comma.
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
