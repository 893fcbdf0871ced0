package e2e_test

import (
	"errors"
	"time"
)

const (
	// outOfSync is what a broker logs at a write of a coordinator that did not read its log. Such a
	// coordinator is read again, and one of 4.3.1 may be active again before that ends, so that its
	// next write fails too, and so on: ADR 0009.
	outOfSync    = "is out of sync with the underlying log"
	outOfSyncMax = 20               // a few mend themselves
	outOfSyncFor = 30 * time.Second // without an output
	restartsMax  = 3                // after each kill of the broker
)

// killBroker kills the broker, starts it again, and waits for more outputs.
func (c *orderedCrash) killBroker() {
	c.Helper()
	broker := c.cluster.Brokers[0]
	if err := errors.Join(broker.Kill(), broker.Start(c.Context())); err != nil {
		c.Fatal(err)
	}
	c.restarts = restartsMax
	c.goesOn()
	c.restarts = 0
}

// goesOn waits for more outputs of each case.
func (c *orderedCrash) goesOn() {
	c.Helper()
	for _, run := range c.runs {
		last := run.runners[len(run.runners)-1]
		topic := last.Plan.Outputs[0]
		before, since := c.ends(topic), time.Now()
		for ; c.ends(topic) < before+20; time.Sleep(10 * time.Millisecond) {
			c.mustRun()
			if time.Since(since) > outOfSyncFor && c.restarted() {
				since = time.Now()
			}
			if time.Since(since) > crashPatience {
				c.Fatalf("seed %d: %s does not go on", *answerSeed, last.Name())
			}
		}
	}
}

// restarted restarts the broker, as its operator has to, if its coordinators are out of sync over
// and over after it was killed. It reports whether it did.
func (c *orderedCrash) restarted() bool {
	c.Helper()
	if c.restarts == 0 {
		return false
	}
	broker := c.cluster.Brokers[0]
	n, err := broker.Logged(outOfSync)
	if err != nil {
		c.Fatal(err)
	}
	if n < outOfSyncMax {
		return false
	}
	c.restarts--
	c.Logf("the broker is restarted: %d writes of its coordinators were out of sync with their logs", n)
	if err := errors.Join(broker.Stop(), broker.Start(c.Context())); err != nil {
		c.Fatal(err)
	}
	return true
}
