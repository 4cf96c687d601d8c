package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names on the server.
const (
	workStream   = "situ-work"
	resultStream = "situ-results"
	jobBucket    = "situ-jobs"

	workSubjects   = "situ.work."   // PROGRAM.RUN.TASK
	resultSubjects = "situ.result." // RUN.TASK
)

// How long things stay on a server when nobody fetches them.
const (
	keepMessages = 7 * 24 * time.Hour
	keepJobs     = 30 * 24 * time.Hour
)

// consumerName is that of the consumer from which workers of a program take
// tasks.
func consumerName(program string) string { return "situ-" + program }

// makeStreams makes what is missing on the server. Streams that exist are left as
// they are.
func (c *conn) makeStreams(ctx context.Context, replicas int) (work, results jetstream.Stream, err error) {
	if replicas == 0 {
		replicas = 1
		if c.nc.ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	stream := func(cfg jetstream.StreamConfig) (s jetstream.Stream, err error) {
		cfg.Storage, cfg.Replicas, cfg.MaxAge, cfg.AllowDirect = jetstream.FileStorage, replicas, keepMessages, true
		err = c.try(ctx, "stream "+cfg.Name, func(ctx context.Context) error {
			if s, err = c.js.Stream(ctx, cfg.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
				s, err = c.js.CreateStream(ctx, cfg)
			}
			return err
		})
		if err != nil {
			return nil, hint(err, replicas)
		}
		if got := s.CachedInfo().Config.Retention; got != cfg.Retention {
			return nil, fmt.Errorf("queue: the server has a stream %s of another kind (%v, want %v)", cfg.Name, got, cfg.Retention)
		}
		return s, nil
	}
	if work, err = stream(jetstream.StreamConfig{
		Name: workStream, Description: "situ: designs to be evaluated", Subjects: []string{workSubjects + ">"}, Retention: jetstream.WorkQueuePolicy,
	}); err != nil {
		return nil, nil, err
	}
	if results, err = stream(jetstream.StreamConfig{
		Name: resultStream, Description: "situ: what came of them", Subjects: []string{resultSubjects + ">"}, Retention: jetstream.LimitsPolicy,
	}); err != nil {
		return nil, nil, err
	}
	err = c.try(ctx, "object store "+jobBucket, func(ctx context.Context) error {
		_, err := c.js.ObjectStore(ctx, jobBucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
				Bucket: jobBucket, Description: "situ: spaces and models", TTL: keepJobs, Storage: jetstream.FileStorage, Replicas: replicas,
			})
		}
		return err
	})
	return work, results, hint(err, replicas)
}

// hint adds to an error what to do about it.
func hint(err error, replicas int) error {
	if err != nil && replicas > 1 {
		return fmt.Errorf("%w; %d replicas were asked for, --replicas sets another number", err, replicas)
	}
	return err
}

// workConsumer makes the consumer from which workers of a program take tasks.
func (c *conn) workConsumer(ctx context.Context, work jetstream.Stream, program string, ackWait time.Duration) error {
	return c.try(ctx, "consumer "+consumerName(program), func(ctx context.Context) error {
		_, err := work.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: consumerName(program), FilterSubject: workSubjects + program + ".>", AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 1 << 16, InactiveThreshold: keepMessages,
		})
		return err
	})
}

// pending lists the subjects below one of which a stream has messages.
func (c *conn) pending(ctx context.Context, stream, subjects string) (map[string]uint64, error) {
	var found map[string]uint64
	err := c.try(ctx, "looking into "+stream, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(subjects))
		if err == nil {
			found = info.State.Subjects
		}
		return err
	})
	return found, err
}

// lastPart returns the last token of a subject.
func lastPart(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// put stores an object; one that is there and young is left as it is.
func (c *conn) put(ctx context.Context, name string, data []byte) error {
	return c.blob(ctx, "storing "+name, func(ctx context.Context, b jetstream.ObjectStore) error {
		if info, err := b.GetInfo(ctx, name); err == nil && info.Size == uint64(len(data)) && time.Since(info.ModTime) < keepJobs/2 {
			return nil
		}
		_, err := b.Put(ctx, jetstream.ObjectMeta{Name: name}, bytes.NewReader(data))
		return err
	})
}

// errGone says that an object is not there.
var errGone = jetstream.ErrObjectNotFound

// get returns an object.
func (c *conn) get(ctx context.Context, name string) (data []byte, err error) {
	err = c.blob(ctx, "fetching "+name, func(ctx context.Context, b jetstream.ObjectStore) (err error) {
		data, err = b.GetBytes(ctx, name)
		return err
	})
	return data, err
}

// blob calls f with the object store and time enough for a large object.
func (c *conn) blob(ctx context.Context, what string, f func(context.Context, jetstream.ObjectStore) error) error {
	return c.try(ctx, what, func(call context.Context) error {
		b, err := c.js.ObjectStore(call, jobBucket)
		if err != nil {
			return err
		}
		long, cancel := context.WithTimeout(ctx, blobTimeout)
		defer cancel()
		return f(long, b)
	})
}
