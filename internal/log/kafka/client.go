package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism returns nil if no SASL credentials are configured.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		if s.User == "" {
			return nil, fmt.Errorf("kafka: SASL %s without a user", s.Mechanism)
		}
	case "OAUTHBEARER":
		if s.Token == nil {
			return nil, fmt.Errorf("kafka: SASL %s without a token", s.Mechanism)
		}
		return bearer{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := s.Token(ctx)
			return oauth.Auth{Token: token}, err
		})}, nil
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: unknown SASL mechanism %q; there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER", s.Mechanism)
}

// bearer is a mechanism that reports why a broker rejects a token.
type bearer struct{ sasl.Mechanism }

// Authenticate implements sasl.Mechanism.
func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

// Challenge implements sasl.Session. The broker accepts a token with an empty challenge.
func (s bearerSession) Challenge(reason []byte) (bool, []byte, error) {
	if len(reason) > 0 {
		return false, nil, fmt.Errorf("the broker refuses the token (%.200q): %w", reason, kerr.SaslAuthenticationFailed)
	}
	return s.Session.Challenge(reason)
}

// newClient returns a client with the options that all clients of the log share. Record retries
// must stay unlimited. With a limit, a flush and the commit after it succeed although records are
// missing.
func (l *Log) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	o := &l.opts
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.Dialer(l.opts.dialer()),
		kgo.ClientID(o.ClientID),
		kgo.MaxVersions(versions()),
		kgo.SoftwareNameAndVersion("afterbay", "1"),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(l.told),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(backOff),
		kgo.ConcurrentTransactionsBackoff(2 * time.Millisecond),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(o.MaxRecordBytes + batchOverhead)),
		kgo.MaxBufferedRecords(1 << 16),
		kgo.MaxBufferedBytes(max(64<<20, 2*o.MaxRecordBytes)),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(int32(o.BufferBytes)),
		kgo.FetchMaxPartitionBytes(int32(max(64<<10, o.BufferBytes/8))),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}
	if o.Rack != "" {
		opts = append(opts, kgo.Rack(o.Rack))
	}
	if m, _ := o.SASL.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return kgo.NewClient(append(opts, more...)...)
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns the function that opens connections.
func (o *Options) dialer() dialer {
	if o.dial != nil {
		return o.dial
	}
	plain := &net.Dialer{Timeout: dialTimeout}
	if o.TLS != nil {
		return (&tls.Dialer{NetDialer: plain, Config: o.TLS.Clone()}).DialContext
	}
	return plain.DialContext
}

const dialTimeout = 10 * time.Second

// versions returns the newest version of each request, except ApiVersions. Brokers up to 4.3 reject
// the newest ApiVersions, and each connection would wait for a second request.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.ApiVersions), 4)
	return v
}

// batchOverhead is a generous limit for the size of a one-record batch without the record's key,
// value and headers.
const batchOverhead = 16 << 10

// backOff returns how long to wait after the given number of failed tries. A leader moves within
// milliseconds; a broker may be down for minutes.
func backOff(tries int) time.Duration {
	return min(10*time.Millisecond<<min(tries-1, 10), time.Second)
}
