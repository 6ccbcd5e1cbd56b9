package launch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/secret"
)

// findSecret takes the secret out of the environment, so that nothing that this
// agent starts, and no fact that it tells, has it.
func (a *agent) findSecret(ctx context.Context) error {
	file, warning := a.opts.Spec.SecretFile, ""
	s, err := await(ctx, a, "reading --secret-file "+file, func(context.Context) (s secret.Secret, err error) {
		s, warning, err = secret.Find(file, func(name string) (string, bool) { return findEnv(a.opts.Env, name) })
		return s, err
	})
	if _, stop := errors.AsType[*stopped](err); stop {
		return err
	}
	if err != nil {
		return &UsageError{Err: err}
	}
	if local := a.opts.Local; local != nil && local.Secret != nil && !s.Given() {
		if s, err = secret.New(local.Secret); err != nil {
			return fmt.Errorf("cannot use the secret of this machine's nodes: %w", err)
		}
	}
	a.given, a.secret = s, s.For(a.opts.Spec.RunID)
	a.opts.Spec.Trusted = s.Given()
	a.opts.Env = slices.DeleteFunc(slices.Clone(a.opts.Env), func(kv string) bool { return strings.HasPrefix(kv, secret.Env+"=") })
	if warning != "" && a.warns() {
		a.console.say("%s", warning)
	}
	return nil
}

// warns reports whether somebody reads warnings: a program that asked for JSON
// does not, and the first node of a machine tells what concerns all.
func (a *agent) warns() bool {
	c := a.opts.Spec.Check
	return !a.opts.quiet() && (c == nil || !c.JSON)
}

// probeKey is what preflight's probes prove: without a secret, that both are of
// the same run.
func (a *agent) probeKey() string {
	if !a.secret.Given() {
		return a.opts.Spec.RunID
	}
	key := a.secret.Key("probe")
	return hex.EncodeToString(key[:]) + " " + a.opts.Spec.RunID
}

// warnOfStrangers says what a job without a secret is open to, where others than
// this machine can reach it.
func (a *agent) warnOfStrangers() {
	if a.open() {
		a.console.say("warning: this job has no secret: whoever reaches its ports can join it, set variables of its workers, or end it; " +
			"give every node the same --secret-file FILE, made with: openssl rand -hex 32 >FILE")
	}
}

// open reports whether others than this machine hear and reach this job, and
// somebody reads warnings.
func (a *agent) open() bool {
	ip, err := netip.ParseAddr(a.node.Addr)
	return !a.secret.Given() && a.opts.Spec.MaxNodes > 1 && (err != nil || !ip.IsLoopback()) && a.warns()
}
