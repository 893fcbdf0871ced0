package sequence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// copier is the handler for the pipeline's outputs: it writes them to the inbox as outcomes. It has
// no state.
type copier struct{ options *Options }

func (copier) assign(stream.Assigned) error                   { return nil }
func (copier) due(time.Time, *turn) (next time.Time, _ error) { return next, nil }
func (copier) settle(*turn)                                   {}
func (copier) committed()                                     {}
func (copier) revoke(stream.Partition)                        {}

func (c copier) take(r *stream.Record, t *turn) error {
	i := slices.IndexFunc(c.options.Sources, func(s Source) bool { return s.Topic == r.Partition.Topic })
	result := wire.Result{Time: r.Time, Correlation: header.Get(r, header.Correlation), Model: models(header.Get(r, header.Models))}
	var ok bool
	if result.Tenant, result.Client, result.Event, ok = wire.ParseClientEvent(header.Get(r, header.ClientEvent)); !ok {
		c.options.Metrics.Foreign.Add(1)
		return nil
	}
	switch c.options.Sources[i].Kind {
	case Outputs:
		switch header.Get(r, header.Stage) {
		case "":
			result.Status, result.Payload = wire.StatusOK, payload(r.Value)
		case "late":
			late(&result)
		default: // the stage of a group, if the event was a member
			letter(&result, r)
		}
	case Partials:
		result.Status, result.Payload, result.Attempt = wire.StatusPartial, payload(r.Value), number(r, header.Attempt)
	case Letters:
		letter(&result, r)
	case Late:
		late(&result)
	}
	if len(result.Payload) > t.valueMax {
		if result.Status == wire.StatusPartial {
			return nil // the complete result follows; this part is not needed for it
		}
		result.Status, result.Payload = wire.StatusDeadLettered, nil
		result.Error = &wire.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("the result of %d bytes is over the limit of %d", len(r.Value), t.valueMax)}
	}
	t.output(wire.Outcome(Inbox(c.options.Name), &result))
	return nil
}

// letter ends an event according to its dead letter: as dead_lettered, or with a retryable status
// if the failure was not the event's fault. The reason stays in the dead letter, because it may
// contain data that clients must not see.
func letter(result *wire.Result, r *stream.Record) {
	stage := header.Get(r, header.Stage)
	result.Error = &wire.Error{Attempts: number(r, header.Attempts), RetryAfterMs: int64(number(r, header.After))}
	switch code := header.Get(r, header.Code); code {
	case deadletter.Expired:
		result.Status, result.Error.Code, result.Error.Retryable = wire.StatusExpired, wire.CodeExpired, true
		result.Error.Message = fmt.Sprintf("the event waited too long at %q: send it again with another id", stage)
	case deadletter.TenantQuota:
		result.Status, result.Error.Code, result.Error.Retryable = wire.StatusRejected, wire.CodeTenantQuota, true
		result.Error.Message = "the tenant has the maximum number of waiting events: send it again with another id"
	default:
		result.Status, result.Error.Code = wire.StatusDeadLettered, wire.CodeDeadLettered
		result.Error.Message = fmt.Sprintf("the event failed at %q, and is stored as a dead letter", stage)
	}
}

func late(result *wire.Result) {
	result.Status = wire.StatusRejected
	result.Error = &wire.Error{Code: wire.CodeLate, Message: "the event arrived later than the lateness of the pipeline"}
}

func number(r *stream.Record, key string) int {
	n, _ := strconv.Atoi(header.Get(r, key)) // 0 if the header is absent
	return max(0, n)
}

// models returns the names and versions in header.Models.
func models(value string) string {
	var names []string
	for model := range strings.SplitSeq(value, ", ") {
		name, _, _ := strings.Cut(model, " ")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// payload returns a value as UTF-8 JSON: unchanged if it is that already, otherwise {"base64":
// ...}.
func payload(value []byte) json.RawMessage {
	if len(value) == 0 || json.Valid(value) && utf8.Valid(value) {
		return value
	}
	return wire.Base64(value)
}
