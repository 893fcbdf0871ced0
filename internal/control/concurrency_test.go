package control_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/control"
)

// service is an endpoint that answers in virtual time: so many calls at a time, the
// others in the order they came, or turned away where there are too many.
type service struct {
	workers int
	most    int // calls at a time that are not turned away; 0 is any number
	mean    time.Duration
	random  *rand.Rand // nil: every call takes the mean
	even    bool       // a call takes half of the mean to one and a half; else any time, by an exponential distribution

	free []time.Time // when each worker is
}

func (s *service) answer(now time.Time, running int) (time.Time, control.Outcome) {
	if s.most > 0 && running > s.most {
		return now.Add(time.Millisecond), control.Overloaded
	}
	for len(s.free) < s.workers {
		s.free = append(s.free, now)
	}
	slices.SortFunc(s.free, time.Time.Compare)
	s.free = s.free[len(s.free)-s.workers:]
	took := s.mean
	if s.random != nil {
		if took = time.Duration(s.random.ExpFloat64() * float64(s.mean)); s.even {
			took = s.mean/2 + time.Duration(s.random.Float64()*float64(s.mean))
		}
	}
	if s.free[0].Before(now) {
		s.free[0] = now
	}
	s.free[0] = s.free[0].Add(took)
	if timeout := now.Add(3 * time.Second); s.free[0].After(timeout) {
		return timeout, control.Faulted // and the worker is at it all the same
	}
	return s.free[0], control.Answered
}

type ended struct {
	turn    control.Turn
	began   time.Time
	at      time.Time
	outcome control.Outcome
}

// load makes as many calls as a limit lets, for so long, and returns those that
// ended, and the limits after each.
func load(c *control.Concurrency, s *service, from time.Time, long time.Duration, running []ended) (done []ended, limits []int, left []ended) {
	for now := from; now.Before(from.Add(long)); {
		again := time.Duration(0)
		for {
			turn, wait, ok := c.Begin(now, 1)
			if again = wait; !ok {
				break
			}
			at, outcome := s.answer(now, len(running)+1)
			running = append(running, ended{turn, now, at, outcome})
		}
		slices.SortStableFunc(running, func(a, b ended) int { return a.at.Compare(b.at) })
		first := running[0]
		if next := now.Add(again); again > 0 && next.Before(first.at) {
			now = next
			continue
		}
		now = first.at
		c.Observe(now, first.turn, first.outcome)
		c.End(first.turn)
		done, limits, running = append(done, first), append(limits, c.Stats().Limit), running[1:]
	}
	return done, limits, running
}

func summary(done []ended) (answered, faulted int, mean time.Duration) {
	for _, d := range done {
		if d.outcome == control.Answered {
			answered++
			mean += d.at.Sub(d.began)
		} else {
			faulted++
		}
	}
	return answered, faulted, mean / time.Duration(max(answered, 1))
}

func TestConcurrencyKeepsCallsOfASlowServiceOnTime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, random := range []*rand.Rand{nil, rand.New(rand.NewPCG(seed, 0))} {
		c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 64}))
		s := &service{workers: 4, mean: 500 * time.Millisecond, random: random} // 8 a second
		_, _, running := load(c, s, dawn, 2*time.Minute, nil)
		done, limits, _ := load(c, s, dawn.Add(2*time.Minute), 10*time.Minute, running)
		answered, faulted, mean := summary(done)
		t.Logf("%d answered, %d late, mean %v, limit %d to %d", answered, faulted, mean, slices.Min(limits), slices.Max(limits))
		if answered < 8*600*85/100 {
			t.Errorf("%d of %d answers: the service is idle", answered, 8*600)
		}
		if mean > 1700*time.Millisecond || faulted > answered/20 {
			t.Errorf("calls take %v, %d are late", mean, faulted)
		}
		if slices.Max(limits) > 24 {
			t.Errorf("limit %d where 12 calls take the target", slices.Max(limits))
		}
	}
}

func TestConcurrencyStaysWithinWhatAServiceTurnsAway(t *testing.T) {
	c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 64}))
	s := &service{workers: 12, most: 12, mean: 100 * time.Millisecond}
	_, _, running := load(c, s, dawn, time.Minute, nil)
	done, limits, _ := load(c, s, dawn.Add(time.Minute), time.Minute, running)
	answered, turnedAway, _ := summary(done)
	if answered < 120*60*85/100 || turnedAway > answered/20 || slices.Max(limits) > 13 {
		t.Errorf("%d answered of %d, %d turned away, limit up to %d", answered, 120*60, turnedAway, slices.Max(limits))
	}
}

func TestConcurrencyFollowsAServiceThatSlowsDownAndRecovers(t *testing.T) {
	c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 16}))
	s := &service{workers: 16, mean: 400 * time.Millisecond}
	_, limits, running := load(c, s, dawn, time.Minute, nil)
	if got := limits[len(limits)-1]; got != 16 {
		t.Fatalf("limit %d of a service that bears 16", got)
	}
	s.workers = 1 // 2.5 a second: four calls take longer than the target
	_, _, running = load(c, s, dawn.Add(time.Minute), 2*time.Minute, running)
	done, limits, running := load(c, s, dawn.Add(3*time.Minute), 2*time.Minute, running)
	if _, late, mean := summary(done); late > 0 || mean > 2*time.Second || slices.Max(limits) > 6 {
		t.Errorf("slow: %d late, mean %v, limit up to %d", late, mean, slices.Max(limits))
	}
	s.workers = 16
	_, limits, _ = load(c, s, dawn.Add(5*time.Minute), time.Minute, running)
	if got := limits[len(limits)-1]; got != 16 {
		t.Errorf("limit %d after it recovered", got)
	}
}

// TestConcurrencyOpensAtOnceAtAnIdleService has a service with as many places as may
// be used. After the first generation of calls nearly all of them are.
func TestConcurrencyOpensAtOnceAtAnIdleService(t *testing.T) {
	for _, slots := range []int{16, 64, 256} {
		for _, took := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1400 * time.Millisecond} {
			c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: slots}))
			done, _, _ := load(c, &service{workers: slots, mean: took}, dawn, 12*took, nil)
			if used := usage(done, dawn.Add(took), dawn.Add(11*took), slots); used < 0.9 {
				t.Errorf("%d slots of %v: %.1f %% are used", slots, took, 100*used)
			}
		}
	}
	c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 64, Start: 64}))
	if done, _, _ := load(c, &service{workers: 64, mean: time.Second}, dawn, 1500*time.Millisecond, nil); len(done) < 64 {
		t.Errorf("%d calls of the first second, want 64", len(done))
	}
}

// usage is the share of slots that answered calls had, from a time to another.
func usage(done []ended, from, to time.Time, slots int) float64 {
	had := time.Duration(0)
	for _, d := range done {
		began, end := d.began, d.at
		if began.Before(from) {
			began = from
		}
		if end.After(to) {
			end = to
		}
		if d.outcome == control.Answered {
			had += max(end.Sub(began), 0)
		}
	}
	return float64(had) / float64(to.Sub(from)) / float64(slots)
}

// TestFewCallsAreRefusedByLoad counts the calls that a service of few places refuses,
// from the first call on.
func TestFewCallsAreRefusedByLoad(t *testing.T) {
	for _, most := range []int{16, 64, 256} {
		for _, calls := range []int{64, 170, 1000} {
			for _, took := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond, 1300 * time.Millisecond} {
				c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: most}))
				done, _, _ := load(c, &service{workers: 4, most: 4, mean: took}, dawn, time.Duration(calls/4)*took, nil)
				answered, refused, _ := summary(done)
				if refused*10 > answered+refused {
					t.Errorf("limit of %d, calls of %v: %d of %d are refused", most, took, refused, answered+refused)
				}
				if answered < calls*85/100 {
					t.Errorf("limit of %d, calls of %v: %d answers of %d", most, took, answered, calls)
				}
			}
		}
	}
}

// TestConcurrencySettlesWhereCallsQueue has a service of 4 places that accepts every
// call, and lets it wait without a word.
func TestConcurrencySettlesWhereCallsQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, most := range []int{16, 64} {
		for _, took := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond} {
			for _, random := range []*rand.Rand{nil, rand.New(rand.NewPCG(seed, uint64(took)))} {
				c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: most}))
				s := &service{workers: 4, mean: took, random: random, even: true}
				_, first, running := load(c, s, dawn, 100*took, nil)
				done, limits, _ := load(c, s, dawn.Add(100*took), 400*took, running)
				answered, _, _ := summary(done)
				sum := 0
				for _, limit := range limits {
					sum += limit
				}
				mean := float64(sum) / float64(len(limits))
				t.Logf("limit of %d, calls of %v, by chance %v: it is %.1f in the mean, %d at most, from %d", most, took, random != nil, mean, slices.Max(limits), slices.Max(first))
				if random == nil && slices.Max(limits) > 8 || mean > 12 {
					t.Error("it is too high")
				}
				if answered < 4*400*85/100 {
					t.Errorf("limit of %d, calls of %v, by chance %v: %d answers of %d", most, took, random != nil, answered, 4*400)
				}
			}
		}
	}
}

// TestLongerCallsAreNoQueue has a service that bears all calls, which take longer and
// longer, and differ. The limit stays.
func TestLongerCallsAreNoQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, random := range []*rand.Rand{nil, rand.New(rand.NewPCG(seed, 0))} {
		c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 32}))
		s := &service{workers: 32, mean: 20 * time.Millisecond, random: random}
		now, running := dawn, []ended(nil)
		for range 3 {
			var limits []int
			_, _, running = load(c, s, now, 30*time.Second, running)
			_, limits, running = load(c, s, now.Add(30*time.Second), 30*time.Second, running)
			sum := 0
			for _, limit := range limits {
				sum += limit
			}
			if mean := float64(sum) / float64(len(limits)); mean < 28 {
				t.Errorf("calls of %v, by chance %v: the limit is %.1f of 32 in the mean", s.mean, random != nil, mean)
			}
			now, s.mean = now.Add(time.Minute), 4*s.mean
		}
	}
}

func TestConcurrencyRisesOnlyWhereItIsReached(t *testing.T) {
	c := must(control.NewConcurrency(control.ConcurrencyOptions{}))
	for range 1000 { // three at a time
		var turns [3]control.Turn
		for i := range turns {
			turns[i], _, _ = c.Begin(dawn, 0)
		}
		for _, turn := range turns {
			c.Observe(dawn, turn, control.Answered)
			c.End(turn)
		}
	}
	if got := c.Stats().Limit; got != 4 {
		t.Errorf("limit %d", got)
	}
}

func TestFaultsOfOneOverloadLowerTheLimitOnce(t *testing.T) {
	c := must(control.NewConcurrency(control.ConcurrencyOptions{Max: 4}))
	var turns [4]control.Turn
	for i := range turns {
		turns[i], _, _ = c.Begin(dawn, 0)
	}
	for _, turn := range turns {
		c.Observe(dawn, turn, control.Overloaded)
	}
	if got := c.Stats(); got.Limit != 3 || got.Falls != 1 {
		t.Errorf("%+v", got)
	}
	if _, _, ok := c.Begin(dawn, 0); ok {
		t.Error("a call begins before an answer is journalled")
	}
	for _, turn := range turns {
		c.End(turn)
	}
	if got := c.Stats().Running; got != 0 {
		t.Errorf("%d running", got)
	}
}

func TestWeightUnderWayIsBounded(t *testing.T) {
	c := must(control.NewConcurrency(control.ConcurrencyOptions{Weight: 1000}))
	first, _, _ := c.Begin(dawn, 600)
	if _, _, ok := c.Begin(dawn, 401); ok {
		t.Error("1,001 of 1,000 under way")
	}
	second, _, ok := c.Begin(dawn, 400)
	if !ok {
		t.Fatal("1,000 of 1,000 refused")
	}
	c.End(first)
	c.End(second)
	alone, _, ok := c.Begin(dawn, 5000)
	if _, _, with := c.Begin(dawn, 1); !ok || with {
		t.Errorf("a heavy call begins: %v, another with it: %v", ok, with)
	}
	c.End(alone)
}

func TestConcurrencyKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := control.ConcurrencyOptions{Max: rapid.IntRange(1, 20).Draw(t, "max"), Weight: rapid.Int64Range(0, 50).Draw(t, "weight")}
		c, now := must(control.NewConcurrency(o)), dawn
		type under struct {
			turn   control.Turn
			weight int64
		}
		var running []under
		sum := func() (w int64) {
			for _, u := range running {
				w += u.weight
			}
			return w
		}
		pick := func(t *rapid.T) int {
			if len(running) == 0 {
				t.Skip()
			}
			return rapid.IntRange(0, len(running)-1).Draw(t, "call")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				s := c.Stats()
				if s.Limit < 1 || s.Limit > o.Max || s.Running != len(running) || s.Weight != sum() || s.Running > o.Max ||
					o.Weight > 0 && s.Weight > o.Weight && s.Running > 1 {
					t.Fatalf("%+v", s)
				}
			},
			"begin": func(t *rapid.T) {
				w := rapid.Int64Range(0, 60).Draw(t, "weight")
				before := c.Stats()
				turn, _, ok := c.Begin(now, w)
				want := before.Running < before.Limit && (o.Weight == 0 || before.Running == 0 || before.Weight+w <= o.Weight)
				if opened := c.Stats().Limit > before.Limit; ok != want && !(ok && opened) {
					t.Fatalf("%v, of %+v", ok, before)
				}
				if ok {
					running = append(running, under{turn, w})
				}
			},
			"observe": func(t *rapid.T) {
				outcome := rapid.SampledFrom([]control.Outcome{control.Abandoned, control.Answered, control.Faulted}).Draw(t, "outcome")
				c.Observe(now, running[pick(t)].turn, outcome)
			},
			"end": func(t *rapid.T) {
				at := pick(t)
				c.End(running[at].turn)
				running = slices.Delete(running, at, at+1)
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			},
		})
	})
}

func TestEndpointWastesNoProbe(t *testing.T) {
	e := must(control.NewEndpoint(control.EndpointOptions{Concurrency: control.ConcurrencyOptions{Max: 1}}))
	for range 5 {
		call, _, _ := e.Begin(dawn, 0)
		e.Observe(dawn, call, control.Faulted)
		e.End(dawn, call)
	}
	if _, admission, wait := e.Begin(dawn, 0); admission != control.Down || wait != 30*time.Second {
		t.Fatalf("%v, %v", admission, wait)
	}
	now := dawn.Add(30 * time.Second)
	probe, admission, _ := e.Begin(now, 0)
	if admission != control.Admitted {
		t.Fatalf("the probe is %v", admission)
	}
	if _, admission, _ := e.Begin(now, 0); admission != control.Busy {
		t.Fatalf("%v beside the only call", admission)
	}
	e.End(now, probe) // its caller gave up
	probe, admission, _ = e.Begin(now, 0)
	if admission != control.Admitted {
		t.Fatalf("the next probe is %v", admission)
	}
	e.Observe(now, probe, control.Answered)
	if _, admission, _ := e.Begin(now, 0); admission != control.Busy {
		t.Error("an answer that is not journalled makes room")
	}
	e.End(now, probe)
	if _, admission, _ := e.Begin(now, 0); admission != control.Admitted {
		t.Errorf("%v after the probe was answered", admission)
	}
}

func TestEndpointsAreShared(t *testing.T) {
	var all control.Endpoints
	first := must(all.Of("grpc://a:1", "bert", control.EndpointOptions{}))
	same := must(all.Of("grpc://a:1", "bert", control.EndpointOptions{Breaker: control.BreakerOptions{Failures: 5}}))
	other := must(all.Of("grpc://a:1", "gpt", control.EndpointOptions{}))
	if first != same || first == other {
		t.Error("endpoints are one by URL, model and options")
	}
	var names []string
	all.Each(func(url, model string, e *control.Endpoint) { names = append(names, url+" "+model) })
	if want := []string{"grpc://a:1 bert", "grpc://a:1 gpt"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func ExampleEndpoint() {
	var endpoints control.Endpoints
	endpoint, err := endpoints.Of("grpc://models:8001", "bert", control.EndpointOptions{})
	if err != nil {
		panic(err)
	}
	score := func(now time.Time) {
		call, admission, wait := endpoint.Begin(now, 1)
		if admission != control.Admitted {
			fmt.Println(admission, wait)
			return
		}
		defer endpoint.End(now, call)
		endpoint.Observe(now, call, control.Faulted) // no connection
	}
	for range 7 {
		score(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	// Output:
	// down 30s
	// down 30s
}
