package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/control"
)

func preset(t *testing.T, name string) Options {
	t.Helper()
	o, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func simulated(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPresetsHaveTheirKnownFigures(t *testing.T) {
	type figures struct{ produced, scored, dropped, peak, throttled, switches int }
	for name, want := range map[string]figures{
		"textbook": {1078, 1000, 0, 151, 2676, 5},
		"wide":     {1131, 1000, 0, 195, 2609, 3},
		"equal":    {1100, 1000, 0, 104, 2623, 873},
		"fast":     {2031, 2000, 0, 58, 0, 0},
	} {
		r := simulated(t, preset(t, name))
		got := figures{r.Produced, r.Scored, r.Dropped, r.PeakDepth, r.ThrottledTicks, r.Switches}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if _, err := Preset("other"); err == nil {
		t.Error("a preset that there is not")
	}
}

func TestTextbookQueueIsAsDeepAsKnown(t *testing.T) {
	r := simulated(t, preset(t, "textbook"))
	var ticks, depths []int
	for _, s := range r.Samples {
		ticks, depths = append(ticks, s.Tick), append(depths, s.Depth)
	}
	if diff := cmp.Diff([]int{71, 134, 129, 106, 90, 56, 95, 145, 110, 88, 66, 77, 141, 127, 95}, depths); diff != "" {
		t.Error(diff)
	}
	if ticks[0] != 250 || ticks[14] != 3750 {
		t.Error(ticks)
	}
	if got := math.Round(100 * r.ThrottledShare()); got != 67 {
		t.Errorf("%v %% throttled", got)
	}
}

// TestNoEventIsLostOrMadeUp counts events of options at random.
func TestNoEventIsLostOrMadeUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		o := Options{
			Ticks: 1 + random.IntN(3000), Seed: random.Uint64(), Queue: control.GateOptions{Max: 1 + random.IntN(300)},
			Arrivals: Arrivals(random.IntN(3)), Peak: 1000 * random.Float64(), Throttled: 1000 * random.Float64(),
			Backlog: random.IntN(2) == 0, Poll: random.IntN(100), Workers: random.IntN(4), Batch: random.IntN(20), Every: 1 + random.IntN(10),
			Service: Service{Kind: ServiceKind(random.IntN(2)), From: time.Duration(1+random.IntN(20)) * time.Millisecond},
		}
		if o.Arrivals != Bernoulli {
			o.Peak *= 20
		}
		if random.IntN(3) == 0 {
			o.Burst = Burst{On: 100 * time.Millisecond, Off: 150 * time.Millisecond, Rest: 10}
		}
		last := Sample{Tick: -1}
		r, err := Run(o, func(s Sample) bool {
			if s.Tick != last.Tick+1 || s.Produced != s.Scored+s.Dropped+s.Depth+s.Backlog || s.Depth > o.Queue.Max || s.Depth < 0 || s.Backlog < 0 {
				t.Fatalf("%+v: %+v after %+v", o, s, last)
			}
			last = s
			return true
		})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if r.Produced != last.Produced || r.Scored != last.Scored || r.Dropped != last.Dropped || r.Depth != last.Depth || r.Backlog != last.Backlog {
			t.Errorf("%+v: %+v ends as %+v", o, last, r)
		}
		if o.Backlog && r.Dropped > 0 {
			t.Errorf("%+v: %d of a log were dropped", o, r.Dropped)
		}
	}
}

// TestPausedSourceOfALogIsThrottledAsArithmeticSays has a log that fills twice as
// fast as a worker empties the queue. What waits in the log is read in no time, so
// once the queue was full the first time its source is always paused. A source
// that stops itself gains as fast as it loses, and is paused half of the time.
func TestPausedSourceOfALogIsThrottledAsArithmeticSays(t *testing.T) {
	o := Options{
		Ticks: 600_000, Queue: control.GateOptions{Max: 2000, High: 1500, Low: 500}, Arrivals: Steady, Peak: 20_000,
		Backlog: true, Batch: 40, Service: Service{From: 4 * time.Millisecond},
	}
	r := simulated(t, o)
	if r.Dropped != 0 || r.Scored < 5_999_000 || r.PeakDepth > 2000 {
		t.Errorf("%+v", r)
	}
	if share := r.ThrottledShare(); math.Abs(share-(1-150.0/600_000)) > 1e-5 { // 10 a tick up to 1,500
		t.Errorf("throttled in %.5f of the ticks", share)
	}
	withoutLog := o
	withoutLog.Backlog = false
	r = simulated(t, withoutLog)
	if share := r.ThrottledShare(); math.Abs(share-0.5) > 0.01 {
		t.Errorf("without a log throttled in %.4f of the ticks", share)
	}
}

func TestThrottledRateIsWhatAClosedGateReads(t *testing.T) {
	o := Options{
		Ticks: 10_000, Queue: control.GateOptions{Max: 1000, High: 10}, Arrivals: Steady, Peak: 1000, Throttled: 500,
		Backlog: true, Service: Service{From: 4 * time.Millisecond},
	}
	r := simulated(t, o) // 0.5 a tick come in, 0.25 go: the gate never opens again
	if r.Switches != 1 || r.Depth != 999 && r.Depth != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestWaitIsFromTheSourceToTheCall(t *testing.T) {
	o := Options{Ticks: 1000, Arrivals: Steady, Peak: 1000, Service: Service{From: 10 * time.Millisecond}, Batch: 10, Every: 100}
	r := simulated(t, o) // 1 a tick, 10 every 10 ticks: the first of a call waited 9 or 10 ticks
	if r.WaitMeanMs < 4 || r.WaitMeanMs > 5.5 || r.WaitP99Ms < 9 || r.WaitP99Ms > 10 {
		t.Errorf("%v, %v", r.WaitMeanMs, r.WaitP99Ms)
	}
}

func TestBurstsRest(t *testing.T) {
	o := Options{Ticks: 1000, Arrivals: Steady, Peak: 1000, Burst: Burst{On: 100 * time.Millisecond, Off: 400 * time.Millisecond, Rest: 100}, Service: Service{From: time.Millisecond}}
	if r := simulated(t, o); r.Produced != 280 { // twice 100 at 1 and 400 at 0.1 a tick
		t.Errorf("%d produced", r.Produced)
	}
}

func TestRecordedEventsComeWhenTheyCame(t *testing.T) {
	o := Options{Recorded: []time.Duration{0, 0, 2500 * time.Microsecond, 7 * time.Millisecond}, Backlog: true, Every: 1, Service: Service{From: time.Millisecond}}
	var produced []int
	r, err := Run(o, func(s Sample) bool { produced = append(produced, s.Produced); return true })
	if diff := cmp.Diff([]int{2, 2, 3, 3, 3, 3, 3, 4}, produced); diff != "" || err != nil || r.Scored != 4 || r.Ticks != 8 {
		t.Errorf("%s %v %+v", diff, err, r)
	}
}

func TestServiceIsDrawnAroundItsMean(t *testing.T) {
	r := newRandom(1)
	for _, s := range []Service{
		{From: 4 * time.Millisecond},
		{Kind: Exponential, From: 4 * time.Millisecond},
		{Kind: Uniform, From: 2 * time.Millisecond, To: 6 * time.Millisecond},
		{Kind: Measured, Measured: []time.Duration{time.Millisecond, 4 * time.Millisecond, 7 * time.Millisecond}},
	} {
		var sum time.Duration
		for range 100_000 {
			sum += s.draw(r)
		}
		if mean := sum / 100_000; mean < 3900*time.Microsecond || mean > 4100*time.Microsecond || s.Mean() != 4*time.Millisecond {
			t.Errorf("%+v: %v, says %v", s, mean, s.Mean())
		}
	}
}

func TestOtherServiceChangesNoArrivals(t *testing.T) {
	o := preset(t, "textbook")
	o.Throttled = o.Peak // else what is served decides which rate is asked
	produced := simulated(t, o).Produced
	o.Service = Service{Kind: Exponential, From: 5 * time.Millisecond}
	if got := simulated(t, o).Produced; got != produced {
		t.Errorf("%d, want %d", got, produced)
	}
}

func TestOptionsThatMeanNothingAreRefused(t *testing.T) {
	for text, o := range map[string]Options{
		"use 1 to 100000000":              {Ticks: -1},
		"use a time above 0":              {Tick: -time.Second},
		"the high mark 201":               {Queue: control.GateOptions{Max: 200, High: 201}},
		"a rate is below 0":               {Peak: -1},
		"bursts of 0s":                    {Burst: Burst{Off: time.Second}},
		"wait in a log":                   {Recorded: []time.Duration{1}},
		"in order of time":                {Recorded: []time.Duration{2, 1}, Backlog: true},
		"use poisson":                     {Peak: 2000},
		"of at most 500":                  {Peak: 600_000, Arrivals: Poisson},
		"has no range":                    {Service: Service{Kind: Measured}},
		"ticks shorter than that":         {Service: Service{From: time.Microsecond}},
		"workers are 1 to":                {Workers: -1},
		"samples 1 or more":               {Every: -1},
		"the low mark 30 is out of range": {Queue: control.GateOptions{Max: 20, Low: 30}, Peak: -1},
	} {
		if _, err := Run(o, nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %s", o, err, text)
		}
	}
}

func TestSimulationEndsWhereItIsTold(t *testing.T) {
	r, err := Run(preset(t, "textbook"), func(s Sample) bool { return s.Tick < 99 })
	if err != nil || r.Ticks != 100 {
		t.Errorf("%d ticks, %v", r.Ticks, err)
	}
}

func TestSweepTradesDepthForSwitches(t *testing.T) {
	gaps, err := Sweep(preset(t, "textbook"), 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(gaps) != 21 || gaps[0].Gap != 0 || gaps[20].Gap != 200 || gaps[20].High != 200 || gaps[20].Low != 0 {
		t.Fatalf("%+v", gaps)
	}
	at := func(gap int) Gap {
		return gaps[slices.IndexFunc(gaps, func(g Gap) bool { return g.Gap == gap })]
	}
	if a, b := at(0), at(100); a.Switches != 873 || a.PeakDepth != 104 || b.Switches != 5 || b.PeakDepth != 151 || b.ThrottledTicks != 2676 {
		t.Errorf("%+v, %+v", a, b)
	}
	for i := 1; i < len(gaps); i++ {
		if gaps[i].PeakDepth < gaps[i-1].PeakDepth {
			t.Errorf("%+v is not as deep as %+v", gaps[i], gaps[i-1])
		}
	}
}
