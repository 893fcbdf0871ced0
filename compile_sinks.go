package afterbay

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

const databaseConnectionsMax = 64

// sinks checks where the pipeline's outputs go, and returns that with the names
// that are not written.
func (c *compiler) sinks() []Sink {
	sinks := slices.Clone(c.pipeline.Sinks)
	complete := len(c.errs) == 0 && !c.cut // else steps that write may be missing
	for i := range sinks {
		s, path := &sinks[i], fmt.Sprintf("sinks[%d]", i)
		s.Name = cmp.Or(s.Name, s.From)
		switch {
		case s.From == "":
			c.fail(path+".from", "missing: name a topic that the pipeline writes")
			continue
		case complete && !slices.Contains(c.plan.Topics(), s.From):
			c.fail(path+".from", "the pipeline does not write %q", s.From)
			c.hint("it writes " + strings.Join(c.plan.Topics(), ", "))
		case !validTopic(s.Name):
			c.fail(path+".name", "%q is not the name of a sink: use letters, digits, '.', '_' and '-'", s.Name)
		case naming.ReservedSink(s.Name):
			c.fail(path+".name", "sink %q has a name that is reserved: its group or its topics would be those of another part of the engine", s.Name)
			c.hint("give it a `name`, such as " + strings.ReplaceAll(s.Name, ".", "-") + "-sink")
		case slices.ContainsFunc(sinks[:i], func(o Sink) bool { return o.Name == s.Name }):
			c.fail(path+".name", "two sinks are named %q: their consumer group has that name", s.Name)
			c.hint("give one of them a `name`")
		}
		s.Group = groupOf(s, c.pipeline.Name)
		c.sinkTarget(path, s, complete)
		if err := optionsOf(s, c.pipeline.Name).Validate(); err != nil && c.pipeline.Name != "" {
			c.fail(path, "%v", err)
		}
	}
	return sinks
}

// sinkTarget checks where a sink's records go: to exactly one place. Complete says
// that all that writes is known.
func (c *compiler) sinkTarget(path string, s *Sink, complete bool) {
	set := 0
	for _, there := range []bool{s.HTTP != nil, s.Postgres != nil, s.Redis != nil, s.Files != nil, s.Kafka != nil} {
		if there {
			set++
		}
	}
	if set == 1 && s.HTTP == nil {
		c.noWindow(path, s)
	}
	if s.Postgres != nil && s.Concurrency > databaseConnectionsMax {
		c.fail(path+".concurrency", "%d connections to a database: use 1 to %d", s.Concurrency, databaseConnectionsMax)
	}
	switch {
	case set != 1:
		c.fail(path, "a sink has exactly one of http, postgres, redis, files and kafka, which say where the records go")
		c.hint("write a sink for each, with a `name`")
	case s.HTTP != nil:
		c.sinkHTTP(path, s.HTTP)
	case s.Postgres != nil && complete:
		c.secretIn(path+".postgres.url", s.Postgres.URL)
		c.sinkRows(path+".postgres", s)
	case s.Kafka != nil:
		c.sinkTopic(path+".kafka", s.Kafka)
	case s.Redis != nil && complete:
		c.secretIn(path+".redis.url", s.Redis.URL)
		c.sinkKeys(path+".redis", s)
	case s.Files != nil:
		s.Files = c.sinkFiles(path, s, complete)
	}
}

// noWindow refuses the words about ids that a service took: where records go in the
// order of their offsets none are remembered.
func (c *compiler) noWindow(path string, s *Sink) {
	for _, word := range []struct {
		name string
		set  bool
	}{{"window", s.Window != 0}, {"max", s.Max != 0}} {
		if word.set {
			c.fail(path+"."+word.name, "it says nothing about what is not called by http: no ids are remembered")
			c.hint("remove it")
		}
	}
}

func (c *compiler) sinkHTTP(path string, h *HTTPSink) {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.fail(path+".http.url", "the URL is not valid: use http://HOST/PATH or https://HOST/PATH")
	case u.User != nil:
		c.fail(path+".http.url", "it has a user and password, which errors would show")
		c.hint("use `token`, `token_file` or `headers`")
	default:
		c.secretIn(path+".http.url", h.URL)
	}
}

// secretIn warns where the query of a URL holds a secret.
func (c *compiler) secretIn(path, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return // the error of opening it says so
	}
	if name := httpclient.SecretIn(u); name != "" {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: the parameter %s of the query holds a secret, by its name: logs of proxies and servers keep queries. Use a token, a header or a password before the @ where the service takes one", path, name))
	}
}

// sinkTopic checks a sink to another cluster, but for how it is reached.
func (c *compiler) sinkTopic(path string, t *KafkaSink) {
	switch {
	case t.Topic == "":
		c.fail(path+".topic", "missing: name a topic of the cluster")
	case !validTopic(t.Topic):
		c.fail(path+".topic", "%q is not the name of a topic: use letters, digits, '.', '_' and '-'", t.Topic)
	}
	if !strings.HasPrefix(t.Cluster.URL, "kafka://") && !strings.HasPrefix(t.Cluster.URL, "kafka+tls://") {
		c.fail(path+".cluster", "%q is not a valid URL: use kafka://HOST:PORT or kafka+tls://HOST:PORT", httpclient.ShownText(t.Cluster.URL))
	}
	own := c.pipeline.Engine.URL
	if t.Cluster.URL == own {
		c.unreserved(path+".topic", t.Topic)
	}
	if t.Cluster.URL == own && slices.Contains(append(c.plan.Topics(), c.pipeline.Input.Topic), t.Topic) {
		c.fail(path+".topic", "the pipeline itself reads or writes %q on this cluster: it would come round again", t.Topic)
	}
}

// groupOf is the sink's consumer group.
func groupOf(s *Sink, pipeline string) string { return pipeline + "." + s.Name }

func optionsOf(s *Sink, pipeline string) sinks.Options {
	var objects sink.Bounds
	if s.Files != nil {
		objects = objectBounds(s.Files)
	}
	return sinks.Options{
		Objects: objects,
		Group:   groupOf(s, pipeline), Topic: s.From, Name: s.Name, Timeout: s.Timeout, Concurrency: s.Concurrency,
		Window: s.Window, Max: s.Max, Expire: s.Expire,
	}
}
