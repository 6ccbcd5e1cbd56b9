package surroundings

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
)

// ThisHost returns the names of this machine.
func ThisHost() Host {
	name, err := os.Hostname()
	if err != nil {
		return Host{}
	}
	hosts, _, _ := smallfile.Read("/etc/hosts", 1<<20)
	return Host{Name: name, FQDN: fullName(hosts, name)}
}

// fullName returns the first name with a dot on the line of a hosts file that names
// a host. The kubelet writes such a line for a pod that has a subdomain.
func fullName(hosts []byte, name string) string {
	for lines := bufio.NewScanner(bytes.NewReader(hosts)); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) < 2 || !slices.Contains(words[1:], name) {
			continue
		}
		for _, word := range words[1:] {
			if strings.HasPrefix(word, name+".") {
				return word
			}
		}
	}
	return ""
}
