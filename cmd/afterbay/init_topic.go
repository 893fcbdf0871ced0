package main

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	"github.com/afterbay/afterbay/internal/process"
)

// topicPrefix marks an argument as the name of a topic rather than a file.
const topicPrefix = "topic:"

// registryFlags select a schema registry.
type registryFlags struct {
	SchemaRegistry     string `help:"Schema registry of the records, https://HOST:PORT: each record begins with the id of its schema. Types are those of the newest schema." placeholder:"URL"`
	SchemaRegistryUser string `help:"User of the schema registry; the password is AFTERBAY_SCHEMA_REGISTRY_PASSWORD. Without a user, AFTERBAY_SCHEMA_REGISTRY_TOKEN is a bearer token." placeholder:"NAME"`
}

// topic samples a topic.
func (c *initCommand) topic(a *app, name string) (_ *sampled, err error) {
	from := scaffold.Topic{Name: name}
	switch {
	case c.SchemaRegistry != "":
		from.Registry = &scaffold.Registry{URL: c.SchemaRegistry, User: c.SchemaRegistryUser}
	case c.SchemaRegistryUser != "":
		return nil, usage("--schema-registry-user: name the registry too, with --schema-registry URL")
	}
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	topic, err := inspect.Find(a.ctx, directory, name)
	if err != nil {
		return nil, err
	}
	from.Partitions, from.Records = len(topic.Partitions), inspect.Sample.Of(a.ctx, directory, topic)
	found, err := scaffold.InferTopic(a.ctx, from, scaffold.Options{Key: c.Key, Time: c.Time})
	if err != nil {
		return nil, err
	}
	s := &sampled{Findings: found, count: fmt.Sprintf("in the newest %d records of topic %s", found.Read, name), lines: "records cannot be read"}
	if from.Registry != nil {
		s.lint = "--connect "
	}
	out, at := process.ShellWord(c.Out), c.at()
	s.next = append(s.next, fmt.Sprintf("try %s topic:%s%s", out, name, at))
	if c.URL == "" {
		s.next = append(s.next, fmt.Sprintf("run %s --until-idle%s", out, at))
	}
	s.next = append(s.next, fmt.Sprintf("tail %s --limit 5%s", found.Output(), at))
	return s, nil
}

// at returns the flags to type for working on the same log.
func (f *directoryFlags) at() string {
	if f.URL != "" {
		return " --url " + process.ShellWord(f.URL)
	}
	return engineFlag(f.engine, f.Data)
}
