package etcd

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// jobLease keeps the round's key, and with it the run id, for a job. It lasts longer
// than the job's agents may run without etcd.
type jobLease struct {
	id        leaseID
	job       string
	keeping   context.Context // ends with the keeping of the lease
	drop      func()          // ends keeping
	confirmed time.Duration   // when the last request was sent that etcd granted
	rev       int64           // of the round's key that this agent wrote last under it; 0: none yet
	ended     bool            // the key is not this agent's any more
	deleted   bool            // ended because the key is deleted
	reported  bool            // Config.Lost was called
}

// jobTTL returns the lease's time. The sealer tries to renew it for LostTimeout, and
// then all nodes stop.
func (e *Etcd) jobTTL() time.Duration { return e.cfg.LostTimeout + e.cfg.Grace + 10*time.Second }

// leaseFor returns a lease for the round's key of a job. Only a Seal calls it.
func (e *Etcd) leaseFor(ctx context.Context, job string) (leaseID, error) {
	e.mu.Lock()
	j := e.job
	usable := j != nil && j.job == job && !j.ended && e.cfg.Clock()-j.confirmed < e.cfg.LostTimeout
	e.mu.Unlock()
	if usable {
		return j.id, nil
	}
	sent := e.cfg.Clock()
	id, err := e.grant(ctx, e.jobTTL())
	if err != nil {
		return 0, err
	}
	e.setJob(&jobLease{id: id, job: job, confirmed: sent})
	return id, nil
}

// setJob makes keepJob keep another lease, or none.
func (e *Etcd) setJob(j *jobLease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.job != nil {
		e.job.drop()
	}
	if e.job = j; j != nil {
		j.keeping, j.drop = context.WithCancel(e.session.running)
		e.wakes.job.wake()
	}
}

// keepJob keeps the job's lease while this agent is the last sealer.
func (e *Etcd) keepJob(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wakes.job:
		}
		e.mu.Lock()
		j := e.job
		e.mu.Unlock()
		if j == nil {
			continue
		}
		confirm := func(sent time.Duration) {
			e.mu.Lock()
			defer e.mu.Unlock()
			j.confirmed = max(j.confirmed, sent)
		}
		if e.keep(j.keeping, j.id, min(e.jobTTL()/10, 5*time.Second), nil, confirm) {
			e.mu.Lock()
			e.endJob(j, true) // etcd deletes the key with the lease
			e.mu.Unlock()
		}
	}
}

// endJob notes that the round's key is not this agent's any more, because it was
// deleted or because another agent has sealed a world. The caller holds mu.
func (e *Etcd) endJob(j *jobLease, deleted bool) {
	if !j.ended {
		j.ended, j.deleted = true, deleted && j.rev != 0 && e.unseal.what == nil
		j.drop()
	}
}

// reportJobLost returns, once, why the job must end. The caller holds mu.
func (e *Etcd) reportJobLost() error {
	j := e.job
	if j == nil || j.rev == 0 || j.reported || e.unseal.what != nil {
		return nil
	}
	since := e.cfg.Clock() - j.confirmed
	switch {
	case j.deleted:
		j.reported = true
		return fmt.Errorf("the key %s was deleted in etcd at %s; the job ends, because another job can take its run id now", e.keys.round, e.at())
	case !j.ended && since >= e.cfg.LostTimeout:
		j.reported = true
		return fmt.Errorf("etcd at %s has not answered for %v; the job ends, because another job can take its run id soon", e.at(), since.Round(time.Second))
	}
	return nil
}

// heldSecret is the secret of the run, which this agent holds. Its key lasts as long as
// an agent renews the lease, which all agents share.
type heldSecret struct {
	lease leaseID // 0: this agent holds none
	text  string
}

// Secret returns a text that all agents of the run share and that the first of them
// makes. It waits for etcd and holds the text until Run ends. It must be called before
// Run, and only over TLS. An error other than that of ctx is one that Run would return.
func (e *Etcd) Secret(ctx context.Context) (string, error) {
	if err := e.connect(ctx); err != nil {
		return "", err
	}
	for ctx.Err() == nil {
		held, err := e.holdSecret(ctx, rand.Text())
		if err == nil {
			e.secret = held
			return held.text, nil
		}
		if t := e.explain(err); t.final {
			return "", t
		}
		pause(ctx, 50*time.Millisecond)
	}
	return "", ctx.Err()
}

// holdSecret reads the secret, or makes it from a proposal, and writes this agent's key
// among its holders. An error that is not final passes with another try.
func (e *Etcd) holdSecret(ctx context.Context, proposal string) (heldSecret, error) {
	cctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Get(cctx, e.keys.secret)
	if err != nil {
		return heldSecret{}, err
	}
	hold := func(id leaseID) clientv3.Op { return clientv3.OpPut(e.keys.holder, "", clientv3.WithLease(id)) }
	if len(got.Kvs) > 0 {
		kv := got.Kvs[0]
		h := heldSecret{leaseID(kv.Lease), string(kv.Value)}
		if len(h.text) > maxWord || len(h.text) < len(proposal) || h.lease == 0 {
			return h, final("the key %s in etcd at %s is not gorun's", e.keys.secret, e.at())
		}
		same := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.keys.secret), "=", kv.ModRevision)}
		done, err := e.txn(ctx, same, []clientv3.Op{hold(h.lease)}, nil)
		if err == nil && !done.Succeeded {
			err = passing("the key %s changes", e.keys.secret)
		}
		if err == nil { // the lease may be about to end
			_, err = e.session.cl.KeepAliveOnce(cctx, h.lease)
		}
		return h, e.unlessEnded(err)
	}
	id, err := e.grant(ctx, e.jobTTL())
	if err != nil {
		return heldSecret{}, err
	}
	free := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.keys.secret), "=", 0)}
	done, err := e.txn(ctx, free, []clientv3.Op{clientv3.OpPut(e.keys.secret, proposal, clientv3.WithLease(id)), hold(id)}, nil)
	if err == nil && !done.Succeeded {
		err = passing("another node has made the key %s", e.keys.secret)
	}
	if err != nil {
		_ = e.revoke(context.WithoutCancel(ctx), id)
		return heldSecret{}, e.unlessEnded(err)
	}
	return heldSecret{id, proposal}, nil
}

// unlessEnded returns err as one that passes if a lease has ended: another try makes
// another one.
func (e *Etcd) unlessEnded(err error) error {
	if err != nil && isLeaseNotFound(err) {
		return passing("the lease of the key %s has ended", e.keys.secret)
	}
	return err
}

// keepSecret renews the lease of the secret. If etcd has ended it, keepSecret writes the
// secret again for the nodes that come later.
func (e *Etcd) keepSecret(ctx context.Context) error {
	for e.secret.lease != 0 && ctx.Err() == nil {
		if !e.keep(ctx, e.secret.lease, e.jobTTL()/8, nil, func(time.Duration) {}) {
			return nil
		}
		held, err := e.holdSecret(ctx, e.secret.text)
		for ; err != nil && pause(ctx, time.Second); held, err = e.holdSecret(ctx, e.secret.text) {
		}
		e.mu.Lock()
		e.secret.lease = held.lease
		e.mu.Unlock()
	}
	return nil
}

// releaseSecret removes this agent from the holders of the secret, and the secret after
// the last one.
func (e *Etcd) releaseSecret(ctx context.Context) error {
	e.mu.Lock()
	id := e.secret.lease
	e.mu.Unlock()
	if id == 0 {
		return nil
	}
	if _, err := e.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(e.keys.holder)}, nil); err != nil {
		return err
	}
	unused := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.keys.holders).WithPrefix(), "=", 0)}
	done, err := e.txn(ctx, unused, []clientv3.Op{clientv3.OpDelete(e.keys.secret)}, nil)
	if err == nil && done.Succeeded { // no agent can write a key under the lease any more
		err = e.revoke(ctx, id)
	}
	return err
}
