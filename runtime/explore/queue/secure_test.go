package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"situ/internal/natstest"
)

// write writes a file that only its owner reads, and returns its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: c, key: key, file: write(t, name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// issue returns the files of a certificate for host, which ends at a time, and of
// its key.
func (a *authority) issue(t *testing.T, host string, ends time.Time) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, NotBefore: ends.Add(-2 * time.Hour), NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		write(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
}

// startTLS starts a server that shows a certificate; with clients set it asks for
// one of that authority's.
func startTLS(t *testing.T, cert, key string, clients *authority, change func(*server.Options)) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		b, err := os.ReadFile(clients.file)
		if err != nil || !c.ClientCAs.AppendCertsFromPEM(b) {
			t.Fatal("the authority cannot be read", err)
		}
	}
	return natstest.URL(natstest.Start(t, func(o *server.Options) {
		o.TLSConfig, o.TLSVerify, o.TLSTimeout = c, clients != nil, 20
		if change != nil {
			change(o)
		}
	}))
}

// user returns the public key of a new NATS user, and a file with its seed.
func user(t *testing.T) (public, file string, pair nkeys.KeyPair) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return public, write(t, "user.nk", seed), pair
}

// connections tries each server, and compares with part of the error that is
// wanted, "" for none.
func connections(t *testing.T, tests map[string]connection) {
	t.Helper()
	for name, test := range tests {
		p, err := NewPool(t.Context(), PoolOptions{Server: test.server})
		if err == nil {
			p.Close()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

type connection struct {
	server Server
	want   string
}

// Servers that ask who is there are told, and one that cannot be had is an error.
func TestConnect(t *testing.T) {
	public, file, _ := user(t)
	_, stranger, _ := user(t)
	locked := natstest.URL(natstest.Start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }))
	plain := natstest.URL(natstest.Start(t, func(o *server.Options) { o.JetStream = false }))
	connections(t, map[string]connection{
		"nkey":             {Server{URL: locked, NKey: file}, ""},
		"no nkey":          {Server{URL: locked}, "does not let us in: --creds or --nkey names a file"},
		"another nkey":     {Server{URL: locked, NKey: stranger}, "does not let us in"},
		"lost nkey":        {Server{URL: locked, NKey: file + "x"}, "no such file"},
		"nkey is none":     {Server{URL: locked, NKey: write(t, "x", []byte("no seed"))}, "nkey"},
		"no JetStream":     {Server{URL: plain}, "JetStream"},
		"no server":        {Server{URL: "nats://127.0.0.1:1"}, "127.0.0.1:1: no NATS server answers there"},
		"half of TLS":      {Server{URL: locked, NKey: file, TLSCert: file}, "needs its key"},
		"no creds":         {Server{URL: locked, Creds: file + "x"}, "no such file"},
		"TLS where none":   {Server{URL: strings.Replace(locked, "nats:", "tls:", 1), NKey: file}, "the server speaks no TLS"},
		"not an authority": {Server{URL: locked, NKey: file, TLSCA: file}, "failed to parse root certificate"},
	})
}

// Certificates of both sides are checked, and what is wrong with one is said.
func TestTLS(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "other")
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	cert, key := ca.issue(t, "127.0.0.1", soon)
	mine, mineKey := ca.issue(t, "situ", soon)
	old, oldKey := ca.issue(t, "situ", past)
	foreign, foreignKey := other.issue(t, "situ", soon)
	stale, staleKey := ca.issue(t, "127.0.0.1", past)
	away, awayKey := ca.issue(t, "elsewhere.example", soon)

	open := startTLS(t, cert, key, nil, nil)
	closed := startTLS(t, cert, key, ca, nil)
	connections(t, map[string]connection{
		"authority":           {Server{URL: open, TLSCA: ca.file}, ""},
		"scheme nats":         {Server{URL: strings.Replace(open, "tls:", "nats:", 1), TLSCA: ca.file}, ""},
		"no authority":        {Server{URL: open}, "unknown authority; --tlsca FILE"},
		"another authority":   {Server{URL: open, TLSCA: other.file}, "unknown authority; --tlsca FILE"},
		"lost authority":      {Server{URL: open, TLSCA: ca.file + "x"}, "no such file"},
		"server is stale":     {Server{URL: startTLS(t, stale, staleKey, nil, nil), TLSCA: ca.file}, "has expired"},
		"server of elsewhere": {Server{URL: startTLS(t, away, awayKey, nil, nil), TLSCA: ca.file}, "127.0.0.1"},
		"client":              {Server{URL: closed, TLSCA: ca.file, TLSCert: mine, TLSKey: mineKey}, ""},
		"no client":           {Server{URL: closed, TLSCA: ca.file}, "does not accept our certificate"},
		"client is old":       {Server{URL: closed, TLSCA: ca.file, TLSCert: old, TLSKey: oldKey}, "does not accept our certificate"},
		"client of another":   {Server{URL: closed, TLSCA: ca.file, TLSCert: foreign, TLSKey: foreignKey}, "does not accept our certificate"},
		"key of another":      {Server{URL: closed, TLSCA: ca.file, TLSCert: mine, TLSKey: oldKey}, "does not match"},
		"lost certificate":    {Server{URL: closed, TLSCA: ca.file, TLSCert: mine + "x", TLSKey: mineKey}, "no such file"},
	})
}

// credentials returns what makes a server trust one operator with one account, and
// what issues credentials files of it.
func credentials(t *testing.T) (change func(*server.Options), issue func(ends time.Duration) string) {
	t.Helper()
	must := func(kp nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		public, err := kp.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return kp, public
	}
	sign := func(token string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	operator, operatorKey := must(nkeys.CreateOperator())
	account, accountKey := must(nkeys.CreateAccount())
	oc := jwt.NewOperatorClaims(operatorKey)
	ac := jwt.NewAccountClaims(accountKey)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1}
	_, systemKey := must(nkeys.CreateAccount()) // an operator's server needs one of its own
	ot, err := jwt.DecodeOperatorClaims(sign(oc.Encode(operator)))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	for _, c := range []*jwt.AccountClaims{ac, jwt.NewAccountClaims(systemKey)} {
		if err := resolver.Store(c.Subject, sign(c.Encode(operator))); err != nil {
			t.Fatal(err)
		}
	}
	change = func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{ot}, resolver, systemKey
	}
	issue = func(ends time.Duration) string {
		public, _, pair := user(t)
		uc := jwt.NewUserClaims(public)
		uc.Expires = time.Now().Add(ends).Unix()
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		b, err := jwt.FormatUserConfig(sign(uc.Encode(account)), seed)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, "user.creds", b)
	}
	return change, issue
}

// Credentials files let in whom the operator's account knows.
func TestCredentials(t *testing.T) {
	change, issue := credentials(t)
	_, foreign := credentials(t)
	url := natstest.URL(natstest.Start(t, change))
	connections(t, map[string]connection{
		"creds":         {Server{URL: url, Creds: issue(time.Hour)}, ""},
		"no creds":      {Server{URL: url}, "does not let us in: --creds or --nkey names a file"},
		"another's":     {Server{URL: url, Creds: foreign(time.Hour)}, "does not let us in"},
		"expired":       {Server{URL: url, Creds: issue(-time.Minute)}, "does not let us in"},
		"creds is none": {Server{URL: url, Creds: write(t, "x", []byte("no creds"))}, "no nkey seed found"},
	})
}

// A run and its worker reach a server that asks both for certificates and for
// credentials, of either kind.
func TestSecureRun(t *testing.T) {
	sc := newScene(t, strings.Replace(space, "[32, 64, 128]", "[64]", 1))
	ca := newAuthority(t, "ours")
	cert, key := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	mine, mineKey := ca.issue(t, "situ", time.Now().Add(time.Hour))
	public, seed, _ := user(t)
	change, issue := credentials(t)
	for name, test := range map[string]struct {
		change func(*server.Options)
		server Server
	}{
		"nkey":  {func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, Server{NKey: seed}},
		"creds": {change, Server{Creds: issue(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.server
			s.URL, s.TLSCA, s.TLSCert, s.TLSKey = startTLS(t, cert, key, ca, test.change), ca.file, mine, mineKey
			stop := workers(t, WorkerOptions{Server: s, Tasks: 1}, 1)
			sc.checkOn(t, s, never)
			if n := stop(); int(n) != sc.tasks {
				t.Errorf("the worker computed %d tasks of %d", n, sc.tasks)
			}
		})
	}
}
