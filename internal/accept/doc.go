// Package accept bounds the connections that other programs can open to a process, so
// that they cannot use up its descriptors.
//
// A Pool counts the connections of all listeners of a process, each once. A connection is
// unproven until the code that serves it calls MarkProven, because the client has shown
// the job's secret or something equal to it. The number of unproven connections is
// bounded, for each source address and in all, and each has a deadline. Proven and
// unproven connections together leave descriptors for what the process opens itself, such
// as the pipes of its workers.
//
// Where there is no room, the Pool closes an unproven connection. It takes the address
// with the most unproven connections and closes its oldest one, if that one had the time
// to prove itself; else it closes the new connection. So the Pool serves the clients of a
// burst in the order in which they came, idle connections make room, and one address never
// keeps another address out.
package accept
