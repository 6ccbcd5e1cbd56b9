package status

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// UserName returns the name of this process's user in /etc/passwd, otherwise
// LOGNAME or the user id. It asks no directory service, because that may hang.
func UserName() string {
	uid := strconv.Itoa(os.Geteuid())
	f, err := os.Open("/etc/passwd")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if p := strings.Split(lines.Text(), ":"); len(p) > 2 && p[2] == uid && p[0] != "" {
				return p[0]
			}
		}
	}
	if name := os.Getenv("LOGNAME"); name != "" && uid != "0" {
		return name
	}
	return fmt.Sprintf("uid %s", uid)
}
