// Package natstest starts NATS servers with JetStream inside tests.
package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ready bounds how long a server may take to start.
const ready = 20 * time.Second

func options(t testing.TB) *server.Options {
	return &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, NoSystemAccount: false}
}

func start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(ready) {
		t.Fatal("the NATS server does not come up")
	}
	return s
}

// Start starts one server; change may set its options.
func Start(t testing.TB, change func(*server.Options)) *server.Server {
	t.Helper()
	o := options(t)
	if change != nil {
		change(o)
	}
	return start(t, o)
}

// Cluster starts n servers that are one cluster, and waits for its leader.
func Cluster(t testing.TB, n int) []*server.Server {
	t.Helper()
	ports := freePorts(t, n)
	var routes []*url.URL
	for _, p := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	var all []*server.Server
	for i := range n {
		o := options(t)
		o.ServerName = fmt.Sprintf("node-%d", i)
		o.Cluster = server.ClusterOpts{Name: "situ-test", Host: "127.0.0.1", Port: ports[i]}
		o.Routes = routes
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		all = append(all, s)
	}
	end := time.Now().Add(ready)
	for {
		for _, s := range all {
			if s.JetStreamIsLeader() && s.JetStreamClusterPeers() != nil && len(s.JetStreamClusterPeers()) == n {
				return all
			}
		}
		if time.Now().After(end) {
			t.Fatal("the NATS cluster does not find a leader")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// URL returns the addresses of servers, in the form that clients take.
func URL(servers ...*server.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.ClientURL())
	}
	return strings.Join(all, ",")
}

// freePorts returns ports that nobody listens on. They are all held until the last
// is found, so that none is given twice.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
