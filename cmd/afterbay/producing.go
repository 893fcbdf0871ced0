package main

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

func (a *app) produce(c *produceCommand) (err error) {
	source, err := a.openEvents(c.File, c.Format)
	if err != nil {
		return err
	}
	defer source.Close()
	options := ingest.Options{
		Name: source.Name, Topic: c.Topic, Format: source.Format, Producer: c.Producer, KeyRequired: c.Key != "",
	}
	if options.Producer == "" && c.File != "-" {
		if options.Producer, err = ingest.ProducerOf(c.File, c.Topic, source.Format); err != nil {
			return err
		}
	}
	directory, closeDirectory, err := c.open(a, c.Partitions > 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if local, ok := directory.(*inspect.Local); ok { // otherwise the process knows it
		if takes, err := local.Takes(a.ctx, c.Topic); err != nil || !takes {
			return cmp.Or(err, usage("topic %q belongs to the engine: append to the input of a pipeline, or start the pipeline that reads the topic", c.Topic))
		}
	}
	options.Key = c.Key
	to := &inspect.Made{Directory: directory, Ready: sync.OnceValue(func() error {
		if c.Partitions > 0 {
			return directory.CreateTopic(a.ctx, stream.Topic{Name: c.Topic, Partitions: c.Partitions, Key: c.Key})
		}
		return nil
	})}
	if c.Partitions == 0 || c.Key == "" {
		if err := to.Ready(); err != nil {
			return err
		}
		topic, err := inspect.Find(a.ctx, directory, c.Topic)
		if err != nil {
			return err
		}
		options.Key = cmp.Or(c.Key, topic.Key)
	}
	if client, ok := directory.(*admin.Client); ok {
		client.Key = c.Key
	}
	meter := term.NewMeter(a.stderr)
	options.Progress = func(p ingest.Progress) {
		meter.Show("%d lines, %s", p.Lines, meter.Rate(p.Appended+p.Repeated))
	}
	done, err := ingest.Publish(a.ctx, to, source, options)
	meter.Clear()
	if err == nil {
		err = to.Ready() // an empty source creates the topic too
	}
	if err != nil {
		return explainProduce(err, c, options.Producer, done)
	}
	fmt.Fprintf(a.stderr, "appended %d records of %d lines to %s in %s, %s\n", done.Appended, done.Lines, c.Topic, meter.Elapsed(), meter.Rate(done.Appended))
	if done.Appended+done.Repeated == 0 {
		fmt.Fprintf(a.stderr, "%s has no records: name a file that has some\n", source.Name)
	}
	if done.Keyless > 0 {
		fmt.Fprintf(a.stderr, "%d of the records have no field %q, which keys %s: in pipelines with this key they become dead letters\n", done.Keyless, options.Key, c.Topic)
	}
	if done.Repeated > 0 {
		fmt.Fprintf(a.stderr, "skipped %d records that were in the topic already; to append them again, choose another --producer\n", done.Repeated)
	}
	return nil
}
