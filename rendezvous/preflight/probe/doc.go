// Package probe finds out by TCP whether nodes reach each other at the
// addresses that their workers would use.
//
// Every agent listens, before the compared facts are judged, on the addresses
// that it published as facts (Listen, Server.Serve). The coordinator computes
// from all facts whom each node connects to (Plans); each node carries out its
// own plan (Run), and package preflight judges the results. A probe connects
// from one chosen address to one chosen address, proves that it belongs to the
// job, learns who answered and which source address was seen there, and sends
// 64 KiB each way where the plan says so, since a path with too small an MTU
// carries small packets only. Each address listens on several ports, spread over
// the range that programs get ports from, since a firewall may let through a part
// of it.
//
// A probe that nobody answers is tried again beside the first time, a few times:
// a lost packet is no closed port. What the kernel counts for its connections
// (TCP_INFO) tells packets that get lost, and a path that is slow, from one that
// large packets do not pass.
//
// One exchange, integers in big endian:
//
//	hello    magic[8] nonce[16] length(2) id size(4) mac[32]
//	reply    magic[8] length(2) id length(1) seen clock(8) mac[32]
//	payload  size bytes from the client, 1 byte back, size bytes back
//
// Each mac is an HMAC-SHA256 under the job's key over what stands before it and,
// in the reply, over the hello's nonce: who does not know the key neither gets
// an answer nor can pose as a node.
//
// Invariants:
//
//   - nothing is allocated for what a peer announces; every length has a bound,
//     every connection a deadline and the number of connections a limit;
//   - bad input ends the connection that sent it and changes nothing else;
//   - Listen and Plans start nothing; Serve and Run return when all that they
//     started has ended;
//   - a plan names at most MaxPeers nodes and MaxTargets addresses and is
//     validated before it is obeyed, so that whoever sends one cannot make a
//     node scan a network.
package probe
