// Package queue computes stages of explorations on many machines, by way of NATS
// JetStream. One process explores and decides; workers come and go.
//
// What lies on the server, under names that begin with situ:
//
//	situ-work     tasks, each until a worker acknowledges it
//	              (subject situ.work.PROGRAM.RUN.TASK)
//	situ-results  their results, each task's at most once
//	              (subject situ.result.RUN.TASK)
//	situ-jobs     object store: what workers need of a run, and models by hash
//
// PROGRAM is the hash under which the store keeps results: workers of another
// program never see these tasks. TASK is a hash of the keys of its results. A
// worker first publishes a result, then acknowledges the task; a task that is not
// acknowledged in time is given to another worker. A result is published on the
// condition that there is none of its subject, so that whoever is second is
// refused, however late. The store of the one who explores stays the only place
// where results are kept for good.
//
// Read connect.go (the connection, and calls that are tried again), streams.go
// (what lies on the server), pool.go (the side that explores), worker.go.
package queue
