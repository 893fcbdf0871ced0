package step_test

import (
	"errors"
	"testing"
	"time"

	"github.com/afterbay/afterbay/control"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/step"
)

// outOfOrder is an answer that is no score.
type outOfOrder struct{ error }

func (outOfOrder) Blame() model.Blame { return model.BlameModel }

func TestRowAloneIsBlamedOnlyWhileOthersAreAnswered(t *testing.T) {
	endpoint, err := control.NewEndpoint(control.EndpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	calling := &step.Calling{Endpoint: endpoint}
	failure, now := outOfOrder{errors.New("500")}, time.Unix(0, 0)
	call := func(err error, rows, failed int) {
		t.Helper()
		admitted, admission, _ := endpoint.Begin(now, 0)
		if admission != control.Admitted {
			t.Fatal(admission)
		}
		endpoint.Observe(now, admitted, calling.Outcome(err, rows, failed))
		endpoint.End(now, admitted)
	}
	blamed := func(attempts int, seen uint64, want bool, when string) {
		t.Helper()
		if calling.Blames(failure, 1, 1, attempts, seen) != want {
			t.Errorf("%s, after %d attempts: it is blamed: %v", when, attempts, !want)
		}
	}
	if !calling.Blames(failure, 64, 1, 0, 0) || calling.Blames(failure, 64, 2, 5, 0) {
		t.Error("one of a call that failed is to blame, some are not")
	}
	blamed(0, 0, false, "nothing was said of it")
	blamed(1, 0, false, "nobody was answered")
	call(nil, 8, 0)
	blamed(1, 0, true, "others were answered")
	blamed(1, calling.Answered(), false, "nobody was answered since")
	call(failure, 8, 8)
	blamed(1, 0, false, "others failed too")
	call(nil, 8, 0)
	blamed(1, 0, true, "others are answered again")
}
