package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/files"
	httpsink "github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	"github.com/afterbay/afterbay/internal/sinks/redis"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	contract "github.com/afterbay/afterbay/sink"
)

// openSink makes what takes the records of a sink.
func openSink(s afterbay.Sink) (contract.Service, error) {
	if s.Postgres != nil {
		options, err := postgresOptions(s)
		if err != nil {
			return contract.Service{}, err
		}
		sink, err := postgres.New(options)
		return contract.Service{Many: sink}, err
	}
	if s.Kafka != nil {
		return openTopic(s)
	}
	if s.Redis != nil {
		options, err := redisOptions(s.Redis)
		if err != nil {
			return contract.Service{}, err
		}
		sink, err := redis.New(options)
		return contract.Service{Many: sink}, err
	}
	if s.Files != nil {
		archive, err := openFiles(s.Files)
		return contract.Service{Whole: archive}, err
	}
	headers := http.Header{}
	for _, h := range s.HTTP.Headers {
		headers.Add(h.Name, h.Value)
	}
	sink, err := httpsink.New(httpsink.Options{
		URL: s.HTTP.URL, Method: s.HTTP.Method, Headers: headers, Token: s.HTTP.Token, TokenFile: s.HTTP.TokenFile, Connections: s.Concurrency,
	})
	return contract.Service{Each: sink}, err
}

func postgresOptions(s afterbay.Sink) (postgres.Options, error) {
	t := s.Postgres
	o := postgres.Options{URL: t.URL, Table: t.Table, Version: t.Order, ExactlyOnce: t.ExactlyOnce, Connections: s.Concurrency, Group: s.Group}
	for _, c := range t.Columns {
		of, err := value.ReadType(c.Type)
		if err != nil {
			return o, err
		}
		o.Columns = append(o.Columns, postgres.Column{Name: c.Name, Column: c.Column, Type: of})
		if c.Name == t.Key {
			o.Key = c.Column
		}
	}
	if t.Vector != nil {
		o.Vector = &postgres.Vector{Column: t.Vector.Column, Index: t.Vector.Index, Distance: t.Vector.Distance}
	}
	return o, nil
}

func redisOptions(r *afterbay.RedisSink) (redis.Options, error) {
	o := redis.Options{URL: r.URL, Prefix: r.Prefix, Key: r.Key, JSON: r.As == "json", TTL: r.TTL, Version: r.Order}
	for _, c := range r.Columns {
		of, err := value.ReadType(c.Type)
		if err != nil {
			return o, err
		}
		o.Fields = append(o.Fields, redis.Field{Name: c.Name, Field: c.Column, Type: of})
	}
	return o, nil
}

func openFiles(f *afterbay.FilesSink) (*files.Archive, error) {
	columns := make([]files.Column, len(f.Columns))
	for i, c := range f.Columns {
		columns[i] = files.Column{Name: c.Name, Type: c.Type}
	}
	return files.New(files.Options{
		URL: f.URL, Format: files.Format(f.Format), Compress: f.Compression, Columns: columns, Digest: f.Digest,
		S3: files.S3{Endpoint: f.S3.Endpoint, Region: f.S3.Region, Credentials: f.S3.Credentials, Profile: f.S3.Profile},
	})
}

// checkSink asks the service of a sink what it is not that the sink needs, and
// changes nothing there. A service by HTTP is not called.
func checkSink(ctx context.Context, s afterbay.Sink) []error {
	service, err := openSink(s)
	if err != nil {
		return []error{err}
	}
	defer service.Close()
	for _, one := range []any{service.Many, service.Whole} {
		if checked, ok := one.(interface{ Check(context.Context) []error }); ok {
			return checked.Check(ctx)
		}
	}
	return nil
}

// describeSinks says where the outputs of a pipeline go. What follows the path of
// a URL may be a secret.
func (p pipeline) describeSinks() (text string) {
	for _, s := range p.runner.Sinks() {
		to, rest := "", ""
		switch {
		case s.Postgres != nil:
			to, rest = s.Postgres.URL, " table "+s.Postgres.Table
		case s.Redis != nil:
			to, rest = s.Redis.URL, " keys "+s.Redis.Prefix+"<"+s.Redis.Key+">"
		case s.Files != nil:
			to = s.Files.URL
		case s.Kafka != nil:
			to, rest = s.Kafka.Cluster.URL, " topic "+s.Kafka.Topic
		default:
			to = s.HTTP.URL
		}
		u, err := url.Parse(to)
		if err != nil {
			text += fmt.Sprintf("\n  sink %s: %s to%s", s.Name, s.From, rest)
			continue
		}
		shown := httpclient.Shown(u)
		if s.HTTP != nil {
			shown = httpclient.ShownOrigin(u)
		}
		text += fmt.Sprintf("\n  sink %s: %s to %s%s", s.Name, s.From, shown, rest)
	}
	return text
}

// sumUpSinks prints what the sinks did.
func (p *process) sumUpSinks(runner *afterbay.Runner) {
	for i, m := range runner.SinkMetrics() {
		fmt.Fprintf(p.stdout, "sink %s.%s: %d delivered, %d repeated, %d dead letters, %d failed calls\n",
			runner.Name(), runner.Sinks()[i].Name, m.Delivered.Load(), m.Repeated.Load(), m.Refused.Load(), m.Failures.Load())
	}
}
