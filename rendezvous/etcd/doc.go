// Package etcd finds the agents of a run in etcd v3 and lets one world exist at a time:
// it is a rendezvous.Fence.
//
// Below <prefix>/<run id>/ there are
//
//	job/coordinator  the agent that may form the first world, later the last sealer; under that agent's lease
//	job/round        the world that was sealed last; under a lease of its own, which its sealer keeps
//	node/<id>        an agent, and the last round that left no worker there; under the agent's lease
//
// These invariants hold if etcd keeps each lease for its whole time:
//
//   - A world is sealed only when each node of the last sealed world is in the new one,
//     or has left, expired, vacated that world's round or is known to be lost, and when
//     no other agent has sealed a world meanwhile.
//   - An agent posts Unconfirmed before its node key can expire. It counts the time from
//     the moment when the last request that etcd granted was sent, by a clock that goes
//     on while its process is stopped or its machine sleeps. It checks that clock before
//     it posts any other event.
//   - No other job has the run id while job/round exists. A sealer that cannot keep
//     job/round calls Config.Lost before the key expires.
//   - All answers come from the cluster that answered first. An agent that reaches
//     another cluster reports that and uses none of its answers.
//
// Watches only make the agent fast: it reads the keys again now and then.
package etcd
