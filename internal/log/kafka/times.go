package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// timeTrap is a topic setting that does not fit the times of outputs. Outputs carry the times of
// their events. Brokers may compute ages from them, reject them or replace them.
type timeTrap struct{ found, means, want string }

// aheadMost is how far the time of an output may be ahead of a broker's clock. Events that are
// further ahead than max_ahead become dead letters.
const aheadMost = time.Hour

// timeTraps returns the problems in a topic's settings.
func timeTraps(configs map[string]string) (traps []timeTrap) {
	forever := fmt.Sprint(int64(math.MaxInt64))
	if v := configs["message.timestamp.type"]; v == "LogAppendTime" { // then no other setting uses the times of events
		return []timeTrap{{"message.timestamp.type=" + v, "the broker replaces the times of outputs by append times: a pipeline that reads them by time gives other results on each run", "message.timestamp.type=CreateTime"}}
	}
	number := func(name string, sound int64) int64 {
		v, err := strconv.ParseInt(configs[name], 10, 64)
		if err != nil {
			return sound
		}
		return v
	}
	if v := number("retention.ms", -1); v >= 0 && strings.Contains(configs["cleanup.policy"], "delete") {
		traps = append(traps, timeTrap{fmt.Sprintf("retention.ms=%d", v), "an output has the time of its event: outputs of older events are deleted within minutes, perhaps before a consumer reads them", "retention.ms=-1"})
	}
	if v := number("message.timestamp.before.max.ms", math.MaxInt64); v < math.MaxInt64 {
		traps = append(traps, timeTrap{fmt.Sprintf("message.timestamp.before.max.ms=%d", v), "an output has the time of its event: outputs of older events are refused, and the pipeline stops", "message.timestamp.before.max.ms=" + forever})
	}
	if v := number("message.timestamp.after.max.ms", math.MaxInt64); v < aheadMost.Milliseconds() {
		traps = append(traps, timeTrap{fmt.Sprintf("message.timestamp.after.max.ms=%d", v), "outputs of events that are further ahead of the broker's clock are refused, and the pipeline stops", "message.timestamp.after.max.ms=" + forever})
	}
	return traps
}

// WarnOfTimes logs a warning for each topic setting that would delete, reject or redate outputs
// because of their event times. Topics that Log created have no such setting. It skips topics with
// settings that it may not read.
func (l *Log) WarnOfTimes(ctx context.Context, topics ...string) {
	for _, name := range topics {
		configs, err := l.describeConfigs(ctx, kmsg.ConfigResourceTypeTopic, name, -1)
		if err != nil {
			continue // pipelines do not need this right, and unavailable brokers are asked again soon
		}
		for _, trap := range timeTraps(configs) {
			l.opts.Logger.Warn("kafka: a topic does not suit outputs", "topic", name, "setting", trap.found, "means", trap.means, "change", alterTopic(strings.Join(l.opts.Brokers, ","), name, trap.want))
		}
	}
}

// alterTopic returns the command that changes a setting of a topic.
func alterTopic(server, topic, pair string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s", server, topic, pair)
}

// describeConfigs returns the settings of a broker or a topic. It asks the broker node if node is
// not negative.
func (l *Log) describeConfigs(ctx context.Context, kind kmsg.ConfigResourceType, name string, node int) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req.Resources = append(req.Resources, r)
	var resp *kmsg.DescribeConfigsResponse
	var err error
	if node >= 0 {
		var answer kmsg.Response
		if answer, err = l.client.Broker(node).Request(ctx, req); err == nil {
			resp = answer.(*kmsg.DescribeConfigsResponse)
		}
	} else {
		resp, err = req.RequestWith(ctx, l.client)
	}
	if err != nil {
		return nil, err
	}
	if len(resp.Resources) != 1 {
		return nil, errors.New("no answer")
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		if c.Value != nil {
			configs[c.Name] = *c.Value
		}
	}
	return configs, nil
}
