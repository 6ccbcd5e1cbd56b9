package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/launch/spec/surroundings/pmi"
	"github.com/gorun/gorun/rendezvous/secret"
)

// pmiWait bounds the wait for the other processes of mpiexec.
const pmiWait = time.Minute

// findSurroundings finds what started this process. Processes of Hydra's mpiexec first
// tell each other where they meet; this process's agent inherits the result. Both
// Hydra and Open MPI bring a secret, too.
func findSurroundings(lookup surroundings.Lookup) (surroundings.Surroundings, error) {
	host := surroundings.ThisHost()
	found, err := surroundings.Find(lookup, host)
	if key, ok := lookup("OMPI_MCA_orte_precondition_transports"); ok && found.Kind == surroundings.OpenMPI && len(key) >= mpirunKey {
		return found, errors.Join(err, offerSecret(key))
	}
	_, exchanged := lookup(pmi.Env)
	text, offered := lookup("PMI_FD")
	if err != nil || found.Kind != surroundings.Hydra || exchanged || !offered {
		return found, err
	}
	if err := meetByPMI(text); err != nil {
		return found, fmt.Errorf("cannot learn from mpiexec where the nodes meet: %w; --surroundings none does without", err)
	}
	return surroundings.Find(lookup, host)
}

// meetByPMI exchanges what the processes of a job need to meet, over the descriptor that
// PMI_FD names, and sets the variables that the agent reads. PMI_FD is unset, because
// the connection is over.
func meetByPMI(fdText string) error {
	fd, err := strconv.Atoi(fdText)
	if err != nil || fd < 3 {
		return fmt.Errorf("PMI_FD is %q", fdText)
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "PMI_FD")
	conn, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("PMI_FD: %w", err)
	}
	defer conn.Close()
	job := pmi.Job{Addrs: ownAddresses(), Secret: rand.Text()}
	job.Rank, _ = strconv.Atoi(os.Getenv("PMI_RANK")) // surroundings.Find has checked both
	job.Size, _ = strconv.Atoi(os.Getenv("PMI_SIZE"))
	if job.Rank == 0 {
		if job.Port, err = freePort(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), pmiWait, fmt.Errorf("some of the %d processes did not start gorun within %v", job.Size, pmiWait))
	defer cancel()
	say := time.AfterFunc(reportAfter, func() {
		fmt.Fprintf(os.Stderr, "gorun: process %d of mpiexec waits for the other %d to start gorun, at most %v\n", job.Rank, job.Size-1, pmiWait)
	})
	defer say.Stop()
	meeting, err := pmi.Exchange(ctx, conn, job)
	if err != nil {
		return err
	}
	return errors.Join(offerSecret(meeting.Secret), os.Setenv(pmi.Env, meeting.String()), os.Unsetenv("PMI_FD"))
}

// mpirunKey is the length of the random key of 128 bits that Open MPI's mpirun makes for
// each job and gives to its processes only.
const mpirunKey = 33

// offerSecret sets the secret of the job unless the user has set one.
func offerSecret(text string) error {
	if _, own := os.LookupEnv(secret.Env); own {
		return nil
	}
	return os.Setenv(secret.Env, text)
}

// ownAddresses lists the addresses of this machine's interfaces that are up.
func ownAddresses() (list []netip.Prefix) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()))
		}
	}
	return list
}

// freePort returns a port that is free for TCP and UDP now.
func freePort() (int, error) {
	var err error
	for range 100 {
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", ":0"); err != nil {
			break
		}
		at := tcp.Addr().(*net.TCPAddr)
		var udp net.PacketConn
		udp, err = net.ListenPacket("udp", fmt.Sprintf(":%d", at.Port))
		tcp.Close()
		if err == nil {
			udp.Close()
			return at.Port, nil
		}
	}
	return 0, fmt.Errorf("no port is free for TCP and UDP: %w", err)
}
