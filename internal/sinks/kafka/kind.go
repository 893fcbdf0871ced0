package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

// Kind writes to another Kafka cluster.
var Kind = sink.Kind{
	Name:    "kafka",
	Help:    "a topic of another cluster of Kafka",
	Example: "{cluster: 'kafka://other-1:9092', topic: decisions}",
	New:     func() sink.Config { return &Config{} },
}

// Config writes records to a topic of a Kafka cluster other than the pipeline's. The topic must
// exist. Records keep their key, value, time and headers.
type Config struct {
	Cluster     kafka.Settings // connection to the cluster, with its own user and secrets
	Topic       string         // topic of the cluster
	ExactlyOnce bool           // by transactions that include the position of each partition: consumers of committed records see each record once
}

var configFields = []spec.Field[Config]{
	{Name: "cluster", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Config) *kafka.Settings { return &t.Cluster }, kafka.ReadCluster),
		Example: "{url: 'kafka+tls://other-1:9093', sasl: scram-sha-512, user: fraud, password_file: /run/secrets/other}", Help: "the cluster: written like `engine`"},
	{Name: "topic", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Config) *string { return &t.Topic }, spec.ReadName), Example: "decisions", Help: "an existing topic of the cluster"},
	{Name: "exactly_once", Affects: spec.Nothing, Form: spec.Into(func(t *Config) *bool { return &t.ExactlyOnce }, spec.OnlyTrue()), Example: "true", Absent: "a crash repeats records that were in flight"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// partitionsMax is the maximum number of partitions of a pipeline's topic. With exactly_once each
// partition has a producer of its own.
const partitionsMax = 1024

// Takes implements sink.Taker.
func (c *Config) Takes() sink.Way { return sink.Many }

// Opaque implements sink.Opaque.
func (c *Config) Opaque() {}

// Check implements sink.Config.
func (c *Config) Check(t sink.Topic) (found []error) {
	fail := func(field, hint, format string, args ...any) {
		found = append(found, &sink.Mistake{Field: field, Hint: hint, Err: fmt.Errorf(format, args...)})
	}
	switch {
	case c.Topic == "":
		fail("topic", "", "missing: name a topic of the cluster")
	case !naming.ValidTopic(c.Topic):
		fail("topic", "", "%q is not the name of a topic: use letters, digits, '.', '_' and '-'", c.Topic)
	}
	if !strings.HasPrefix(c.Cluster.URL, "kafka://") && !strings.HasPrefix(c.Cluster.URL, "kafka+tls://") {
		fail("cluster", "", "%q is not a valid URL: use kafka://HOST:PORT or kafka+tls://HOST:PORT", httpclient.ShownText(c.Cluster.URL))
	} else {
		found = append(found, mistakes(c.checkCluster())...)
	}
	if c.Cluster.URL != t.Log {
		return found
	}
	if naming.Reserved(t.Pipeline, c.Topic) {
		fail("topic", "use another name, such as "+strings.ReplaceAll(c.Topic, ".", "-"), "topic %q has a name that is reserved for topics of the engine", c.Topic)
	}
	if slices.Contains(t.Topics, c.Topic) {
		fail("topic", "", "the pipeline itself reads or writes %q on this cluster: its records would loop", c.Topic)
	}
	return found
}

// checkCluster returns the errors in the cluster's settings. It does not read files.
func (c *Config) checkCluster() spec.Problems {
	e := c.Cluster
	found := e.Check()
	secret := e.Password != "" || e.PasswordFile != "" || e.Token != "" || e.TokenFile != ""
	switch {
	case e.SASL == "":
	case !secret:
		found = append(found, &spec.Problem{
			Path: "sasl", Message: e.SASL + " without a secret of this cluster: those of the environment are the engine's", Hint: "write `password`, `password_file`, `token` or `token_file`",
		})
	case e.SASL != "oauthbearer" && e.User == "":
		found = append(found, &spec.Problem{Path: "user", Message: e.SASL + " without a user", Hint: "name one with `user`"})
	}
	return found
}

// mistakes converts problems of the cluster into mistakes of the sink.
func mistakes(found spec.Problems) (list []error) {
	for _, f := range found {
		list = append(list, &sink.Mistake{Field: "cluster." + f.Path, Hint: f.Hint, Err: errors.New(f.Message)})
	}
	return list
}

// Open implements sink.Config.
func (c *Config) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	if found := mistakes(c.checkCluster()); found != nil {
		return sink.Service{}, errors.Join(found...)
	}
	writer, err := New(Options{
		Open: func(ctx context.Context) (Log, error) {
			// The environment holds the settings of the engine, not of this cluster.
			options, found := c.Cluster.Options(kafka.Environment{Get: func(string) string { return "" }})
			if len(found) > 0 {
				return nil, errors.Join(mistakes(found)...)
			}
			options.MaxProducers = partitionsMax
			log, err := kafka.Open(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("the cluster of the sink: %w", err)
			}
			return log, nil
		},
		Topic: c.Topic, Group: t.Group, ExactlyOnce: c.ExactlyOnce,
	})
	return sink.Service{Many: writer}, err
}

// Describe implements sink.Config.
func (c *Config) Describe() string {
	topic := "topic " + c.Topic
	u, err := url.Parse(c.Cluster.URL)
	if err != nil {
		return topic
	}
	return httpclient.Shown(u) + " " + topic
}
