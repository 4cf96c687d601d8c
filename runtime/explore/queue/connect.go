package queue

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server says where the queue is and how to be let in, as NATS has it.
type Server struct {
	URL   string // nats://host:4222, tls://host:4222; several with commas between
	Creds string // file of a JWT and its seed
	NKey  string // file of an nkey's seed

	TLSCert, TLSKey string // files of a certificate to show
	TLSCA           string // file of the authority that signed the server's

	Log func(format string, args ...any) // told of what is worth knowing; may be nil
}

// Times of calls to the server.
const (
	callTimeout = 5 * time.Second // of one call: a stream without a leader does not answer
	patience    = 2 * time.Minute // over all attempts at a call
	pause       = 200 * time.Millisecond
	blobTimeout = 10 * time.Minute // of a model's transfer
)

// conn is a connection to the server.
type conn struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	log func(format string, args ...any)
}

func connect(s *Server, name string) (*conn, error) {
	c := &conn{log: s.Log}
	if c.log == nil {
		c.log = func(string, ...any) {}
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return nil, errors.New("queue: a TLS certificate needs its key, and a key its certificate")
	}
	opts := []nats.Option{
		nats.Name(name), nats.Timeout(callTimeout), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log("queue: connection lost (%v); trying again", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.log("queue: connected to %s", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.log("queue: %v", err) }),
	}
	if s.Creds != "" {
		opts = append(opts, nats.UserCredentials(s.Creds))
	}
	if s.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, fmt.Errorf("queue: nkey %s: %w", s.NKey, err)
		}
		opts = append(opts, key)
	}
	if s.TLSCert != "" {
		opts = append(opts, nats.ClientCert(s.TLSCert, s.TLSKey))
	}
	if s.TLSCA != "" {
		opts = append(opts, nats.RootCAs(s.TLSCA))
	}
	var err error
	if c.nc, err = nats.Connect(s.URL, opts...); err != nil {
		return nil, fmt.Errorf("queue %s: %w", redacted(s.URL), explain(err))
	}
	if c.js, err = jetstream.New(c.nc); err == nil {
		err = c.check()
	}
	if err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("queue %s: %w", redacted(s.URL), err)
	}
	return c, nil
}

// explain adds to an error of connecting what to do about it.
func explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var op *net.OpError
	text := strings.ToLower(err.Error())
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return errors.New("no NATS server answers there: start one with nats-server -js")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return errors.New("the server speaks no TLS: ask for it by nats:// and without TLS flags")
	case errors.As(err, &unknown):
		return fmt.Errorf("%w; --tlsca FILE names the authority that signed the server's certificate", err)
	// A server that refuses a certificate closes the connection, and the alert that
	// says why may be lost.
	case errors.As(err, &op) && op.Op == "remote error", errors.Is(err, nats.ErrTLS) && strings.Contains(text, "closed by remote"):
		return fmt.Errorf("the server does not accept our certificate: %w; --tlscert and --tlskey name one of an authority that it trusts, and that has not expired", err)
	case strings.Contains(text, "authorization violation"), strings.Contains(text, "authentication expired"):
		return fmt.Errorf("the server does not let us in: --creds or --nkey names a file of a user that it knows (%w)", err)
	}
	return err
}

// redacted returns addresses without the passwords in them.
func redacted(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if u, err := url.Parse(p); err == nil {
			parts[i] = u.Redacted()
		}
	}
	return strings.Join(parts, ",")
}

// check returns an error when the server has no JetStream. A cluster that is just
// starting says so too, for a moment.
func (c *conn) check() error {
	for range 15 {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		_, err := c.js.AccountInfo(ctx)
		cancel()
		var api *jetstream.APIError
		switch {
		case err == nil || passing(err) && !errors.Is(err, nats.ErrNoResponders):
			return nil
		case errors.As(err, &api) && api.Code != 503:
			return err
		}
		time.Sleep(pause)
	}
	return errors.New("the server has no JetStream (nats-server -js), or this account may not use it")
}

// try calls f, with a deadline for each call, until it gives an answer or patience
// ends.
func (c *conn) try(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := f(call)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return fmt.Errorf("queue: %s: %w", what, err)
		case time.Since(began) > patience:
			return fmt.Errorf("queue: %s: gave up after %v: %w", what, patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// passing reports whether an error is one of a server that is not there, or of a
// cluster that has no leader, at the moment.
func passing(err error) bool {
	for _, e := range []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		jetstream.ErrNoStreamResponse, jetstream.ErrNoHeartbeat, jetstream.ErrConsumerLeadershipChanged, jetstream.ErrServerShutdown} {
		if errors.Is(err, e) {
			return true
		}
	}
	// The server says 503 for "no leader" and "not enough peers now", and also when
	// it has no JetStream at all.
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503 &&
		api.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabled && api.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabledForAccount
}

// exists reports whether an error is that of publishing to a subject that has a
// message already.
func exists(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// publish enters a message unless its subject has one. The id makes the attempts
// at it one.
func (c *conn) publish(ctx context.Context, subject, id string, data []byte) error {
	if limit := c.nc.MaxPayload(); int64(len(data)) > limit {
		return fmt.Errorf("queue: a message of %d bytes; the server takes at most %d (max_payload)", len(data), limit)
	}
	return c.try(ctx, "publishing to "+subject, func(ctx context.Context) error {
		_, err := c.js.Publish(ctx, subject, data, jetstream.WithMsgID(id), jetstream.WithExpectLastSequencePerSubject(0))
		if exists(err) {
			return nil
		}
		return err
	})
}
