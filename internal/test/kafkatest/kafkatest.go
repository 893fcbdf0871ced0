// Package kafkatest starts real Apache Kafka brokers for tests.
//
// AFTERBAY_KAFKA names the folder of Kafka's jars, which `make deps` fills and
// `make test` sets. Without it tests that need a broker are skipped as NOT RUN;
// where AFTERBAY_FULL is 1 they fail.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Options say what brokers to start. The zero value is one broker that lets
// everybody do everything and compiles for a quick start.
type Options struct {
	Brokers  int      // 1, the default, or 3: three times replicated, at least two in sync
	Settings []string // more broker settings, "key=value"; the last one of a key counts
	Secure   bool     // listen at Broker.SASL, Broker.TLS and Broker.Mutual too, and check ACLs
	Speed    bool     // compile as in production: the broker starts later and becomes faster; in less than some minutes that costs more than it saves
	JVM      []string // more flags of the JVM, after -Xms256m -Xmx512m
	Proxies  []string // addresses at which tests hand connections on to Broker.Behind; of one broker that is not Secure, 3 at most
}

// Cluster is a running Kafka of one or three brokers in a folder of its own.
type Cluster struct {
	Brokers []*Broker
	dir     string
	ports   net.Listener // claims the cluster's ports among tests of other processes
}

// Start returns a cluster that serves; it ends with t. Where Kafka is missing
// it ends t as Need does.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	Need(t)
	c, err := start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range c.Brokers {
				t.Logf("the end of the log of broker %s:\n%s", b.Address, b.tail())
			}
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Shared is one cluster for all tests of a package, started by the first that
// asks for it:
//
//	var broker kafkatest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(broker.Run(m)) }
type Shared struct {
	Options Options

	mu      sync.Mutex // guards the rest
	tried   bool
	cluster *Cluster
	err     error
}

// Get returns the cluster, which serves unless a test ended its brokers. Where
// Kafka is missing it ends t as Need does.
func (s *Shared) Get(t testing.TB) *Cluster {
	t.Helper()
	Need(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		s.cluster, s.err = start(context.Background(), s.Options)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

// Run runs the tests, ends the cluster and returns the code to exit with.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return code
	}
	if err := s.cluster.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Need skips t where Kafka is missing, or fails it where AFTERBAY_FULL is 1.
func Need(t testing.TB) {
	t.Helper()
	const reason = "AFTERBAY_KAFKA names no folder with the jars of Kafka (make deps gets them into .kafka/libs-4.3.1)"
	if libs := os.Getenv("AFTERBAY_KAFKA"); libs != "" {
		if jars, _ := filepath.Glob(filepath.Join(libs, "kafka_*.jar")); len(jars) > 0 {
			return
		}
	}
	if os.Getenv("AFTERBAY_FULL") == "1" {
		t.Fatal("AFTERBAY_FULL=1 but " + reason)
	}
	t.Skip("NOT RUN: " + reason)
}

// Addresses are where clients that may do everything connect, one a broker.
func (c *Cluster) Addresses() []string {
	addresses := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		addresses[i] = b.Address
	}
	return addresses
}

// CertificateFile is what a client of Broker.TLS has to trust, in PEM.
func (c *Cluster) CertificateFile() string { return filepath.Join(c.dir, "ca.pem") }

// ClientFiles are the certificate of a client of Broker.Mutual and its key, in
// PEM.
func (c *Cluster) ClientFiles() (certificate, key string) {
	return filepath.Join(c.dir, "client.pem"), filepath.Join(c.dir, "client.key")
}

func start(ctx context.Context, options Options) (_ *Cluster, err error) {
	script, err := findScript()
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "kafkatest-"); err != nil {
		return nil, err
	}
	brokers := max(options.Brokers, 1)
	base, ports, err := claimPorts(brokers)
	if err != nil {
		return nil, err
	}
	c.ports = ports
	args := []string{"prepare", "--dir", c.dir, "--port", strconv.Itoa(base), "--brokers", strconv.Itoa(brokers)}
	for _, setting := range append(behind(base, options.Proxies), options.Settings...) {
		args = append(args, "--set", setting)
	}
	if options.Secure {
		if err := writeClient(c.dir); err != nil {
			return nil, fmt.Errorf("make certificates: %w", err)
		}
		args = append(args, "--secure", "--clients", filepath.Join(c.dir, "authority.pem"))
	}
	if !options.Speed {
		args = append(args, "--jvm", "-XX:TieredStopAtLevel=1")
	}
	for _, flag := range options.JVM {
		args = append(args, "--jvm", flag)
	}
	if output, err := exec.CommandContext(ctx, script, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("prepare brokers: %w: %s", err, output)
	}
	for i := range brokers {
		c.Brokers = append(c.Brokers, newBroker(script, c.dir, i+1, base+portsBroker*i, options.Secure))
	}
	for i := range options.Proxies {
		c.Brokers[0].Behind = append(c.Brokers[0].Behind, "127.0.0.1:"+strconv.Itoa(base+2+i))
	}
	// Brokers wait for each other, so all are begun before any is awaited.
	for _, b := range c.Brokers {
		if err := b.begin(); err != nil {
			return nil, err
		}
	}
	for _, b := range c.Brokers {
		if err := b.await(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// behind returns the settings of a broker that also listens for proxies, one port each. A client
// that connects by a proxy gets the proxy's address as the broker's.
func behind(base int, proxies []string) []string {
	if len(proxies) == 0 {
		return nil
	}
	listeners := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", base)
	advertised, protocols := listeners, "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
	listeners += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", base+1)
	for i, proxy := range proxies {
		listeners += fmt.Sprintf(",PROXY%d://127.0.0.1:%d", i, base+2+i)
		advertised += fmt.Sprintf(",PROXY%d://%s", i, proxy)
		protocols += fmt.Sprintf(",PROXY%d:PLAINTEXT", i)
	}
	return []string{"listeners=" + listeners, "advertised.listeners=" + advertised, "listener.security.protocol.map=" + protocols}
}

// close kills the brokers, because their data is no longer needed.
func (c *Cluster) close() error {
	var errs []error
	for _, b := range c.Brokers {
		errs = append(errs, b.Kill())
	}
	if c.ports != nil {
		errs = append(errs, c.ports.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

func findScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		script := filepath.Join(dir, "scripts", "kafka")
		if info, err := os.Stat(script); err == nil && !info.IsDir() {
			return script, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no folder above the test has scripts/kafka: tests run in their package's folder")
		}
		dir = filepath.Dir(dir)
	}
}

const (
	portsBroker = 10 // from one broker's ports to the next one's
	portsUsed   = 5  // by a broker
	portClaim   = 9  // of the first broker's ten: no broker uses it
)

// claimPorts returns the first port of a cluster. The ports are below those that systems assign to
// connections, so a broker finds its port free when it restarts. The process that listens on the
// claim owns the others.
func claimPorts(brokers int) (base int, claim net.Listener, err error) {
	listen := func(port int) (net.Listener, error) {
		return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	}
	for range 100 {
		base = 10_000 + 40*rand.IntN(500)
		if claim, err = listen(base + portClaim); err != nil {
			continue
		}
		free := true
		for i := range brokers * portsUsed {
			l, err := listen(base + i/portsUsed*portsBroker + i%portsUsed)
			if err != nil {
				free = false
				break
			}
			_ = l.Close()
		}
		if free {
			return base, claim, nil
		}
		_ = claim.Close()
	}
	return 0, nil, fmt.Errorf("no free ports for %d brokers: %w", brokers, err)
}
