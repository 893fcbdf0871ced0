package operator

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Fairness decides the order of queued events that are due. The zero value has one class and one
// tenant: events run in the order of their due times.
type Fairness struct {
	High, Low *expression.Program // whether an event is of the class; nil is never
	Tenant    *expression.Program // tenant of an event, a text; nil is one tenant for all
	TenantMax int                 // events of a tenant that may be queued in the process; 0 is no limit
	Weights   control.FairOptions // weights of the classes, and how events age
}

// Of returns the class and the tenant of an event. The error is the event's.
func (f *Fairness) Of(row *value.Row) (class control.Class, tenant string, err error) {
	for _, c := range []struct {
		class control.Class
		when  *expression.Program
	}{{control.LowClass, f.Low}, {control.HighClass, f.High}} {
		if c.when == nil {
			continue
		}
		holds, err := c.when.Bool(row)
		if err != nil {
			return class, "", fmt.Errorf("priority: %w", err)
		}
		if holds {
			class = c.class
		}
	}
	if f.Tenant != nil {
		if tenant, err = f.Tenant.Text(row); err != nil {
			return class, "", fmt.Errorf("tenant: %w", err)
		}
	}
	return class, tenant, nil
}
