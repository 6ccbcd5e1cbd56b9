package meet

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// containerHint says what to do where other machines cannot reach this node, because
// it is a container whose address is one of a bridge of its machine. It is "" elsewhere.
// The addresses of Kubernetes' pods are reached from all nodes.
func containerHint(ctx context.Context, address string) string {
	marked := slices.ContainsFunc([]string{"/.dockerenv", "/run/.containerenv"}, func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	})
	if !marked || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return ""
	}
	facts, _ := netif.Gather(ctx, netif.Options{Brief: true})
	return bridgeHint(facts, address)
}

// bridgeHint is containerHint for a network. In a container with its machine's own
// network the address is on hardware, or the hardware is beside it.
func bridgeHint(facts netif.Facts, address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.IsLoopback() {
		return ""
	}
	for _, i := range facts.Interfaces {
		if !i.Loopback && i.Up && i.Kind != "veth" {
			return ""
		}
	}
	return fmt.Sprintf("this node is a container, and its address %s is one of a bridge: containers of the same network of Docker reach it, other machines do not; between machines start the containers with --network host", address)
}
