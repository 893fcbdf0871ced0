package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/log/kafka"
	kafkasink "github.com/afterbay/afterbay/internal/sinks/kafka"
	"github.com/afterbay/afterbay/sink"
)

// partitionsMax is how many partitions a topic of a pipeline has at most: each has
// a producer of its own where records are written exactly once.
const partitionsMax = 1024

// openTopic makes what writes to another cluster.
func openTopic(s afterbay.Sink) (sink.Service, error) {
	cluster := s.Kafka.Cluster
	if found := checkCluster(cluster); len(found) > 0 {
		return sink.Service{}, found
	}
	writer, err := kafkasink.New(kafkasink.Options{
		Open: func(ctx context.Context) (kafkasink.Log, error) {
			// Nothing of the environment: it is for the engine.
			options, found := cluster.Options(kafka.Environment{Get: func(string) string { return "" }})
			if len(found) > 0 {
				return nil, ofCluster(ofEngine(found))
			}
			options.MaxProducers = partitionsMax
			log, err := kafka.Open(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("the cluster of the sink: %w", err)
			}
			return log, nil
		},
		Topic: s.Kafka.Topic, Group: s.Group, ExactlyOnce: s.Kafka.ExactlyOnce,
	})
	return sink.Service{Many: writer}, err
}

// checkCluster returns what is wrong with how a cluster is reached, without a look
// at files.
func checkCluster(e afterbay.Engine) afterbay.Errors {
	found := ofEngine(e.Check())
	fail := func(word, message, hint string) {
		found = append(found, &afterbay.Error{Path: "engine." + word, Message: message, Hint: hint})
	}
	secret := e.Password != "" || e.PasswordFile != "" || e.Token != "" || e.TokenFile != ""
	switch {
	case e.SASL == "":
	case !secret:
		fail("sasl", e.SASL+" without a secret of this cluster: those of the environment are the engine's", "write `password`, `password_file`, `token` or `token_file`")
	case e.SASL != "oauthbearer" && e.User == "":
		fail("user", e.SASL+" without a user", "name one with `user`")
	}
	return ofCluster(found)
}

// ofCluster says where in a sink it is what is wrong with an engine.
func ofCluster(found afterbay.Errors) afterbay.Errors {
	for _, f := range found {
		f.Path = strings.TrimSuffix("kafka.cluster."+strings.TrimPrefix(f.Path, "engine."), ".")
	}
	return found
}

// checkClusters returns what is wrong with how the clusters of a pipeline's sinks
// are reached.
func checkClusters(runner *afterbay.Runner) (all afterbay.Errors) {
	for i, s := range runner.Sinks() {
		if s.Kafka == nil {
			continue
		}
		for _, f := range checkCluster(s.Kafka.Cluster) {
			f.Path = fmt.Sprintf("sinks[%d].%s", i, f.Path)
			all = append(all, f)
		}
	}
	return all
}
