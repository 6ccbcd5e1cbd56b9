// Package etcd finds the agents of a run in etcd v3 and lets one world through
// at a time: it is a rendezvous.Fence.
//
// Below <prefix>/<run id>/ there are
//
//	job/coordinator  the agent that may form the first world, later the last sealer; under that agent's lease
//	job/round        the world that was sealed last; under a lease of its own, which its sealer keeps
//	node/<id>        an agent, and the last round that left no worker there; under the agent's lease
//
// Invariants, as far as etcd itself keeps a lease for its whole time. A world is
// sealed only when each node of the world sealed before, by any agent, is in it too,
// or has left, expired, vacated that world's round or is known to be lost, and when
// no other world was sealed meanwhile. An agent posts Unconfirmed before its node key
// can expire. It counts from the moment when the last request that etcd granted was
// sent, by a clock that goes on while its process is stopped or its machine sleeps.
// It looks at that clock before every other event that it posts. No other job has the
// run id while job/round is there. A sealer that cannot keep job/round any longer
// learns this through Config.Lost before the key ends.
//
// All answers come from the cluster that answered first. An agent that reaches
// another cluster reports trouble and believes none of its answers.
//
// Watches only make it fast. What they may have missed is read again.
package etcd
