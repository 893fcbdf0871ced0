package compile

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/sink"
)

// Ask asks the service of the sink whether it has everything that the sink needs, and returns the
// problems. It changes nothing there and takes at most within.
func (s *Sunk) Ask(ctx context.Context, within time.Duration) []error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	service, err := s.Open(ctx)
	if err != nil {
		return []error{err}
	}
	defer service.Close()
	return service.Check(ctx)
}

// Open opens the service that takes the records.
func (s *Sunk) Open(ctx context.Context) (sink.Service, error) {
	service, err := s.Config.Open(ctx, s.Topic)
	if err != nil {
		return sink.Service{}, err
	}
	if takes := TakenBy(s.Config); service.Kinds() != 1 || (service.Each != nil) != (takes == sink.Each) || (service.Many != nil) != (takes == sink.Many) {
		service.Close()
		return sink.Service{}, fmt.Errorf("a sink of kind %q opened another service than it takes records by", s.Kind)
	}
	return service, nil
}
