package limit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

func open(t testing.TB, o Options) *Limiter[string] {
	t.Helper()
	l, err := New[string](o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func expect(t *testing.T, got Refusal, reason Reason, wait time.Duration) {
	t.Helper()
	if got != (Refusal{reason, wait}) {
		t.Errorf("%+v, want %q and %v", got, reason, wait)
	}
}

func take[K comparable](l *Limiter[K], key K) Refusal {
	_, refusal := l.Take(key, 1)
	return refusal
}

func TestKeyHasSoManyConnectionsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Open: 2, Rate: 1000, Burst: 1000})
		expect(t, l.Enter("a"), "", 0)
		expect(t, l.Enter("a"), "", 0)
		expect(t, l.Enter("a"), Connections, retry)
		expect(t, l.Enter("b"), "", 0)
		l.Leave("a")
		expect(t, l.Enter("a"), "", 0)
		if s := l.Stats(); s != (Stats{Keys: 2, Open: 3, Admitted: 4, Connections: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestKeyComesSoOftenASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Rate: 10, Burst: 3})
		for range 3 {
			expect(t, take(l, "a"), "", 0)
		}
		expect(t, take(l, "a"), Rate, 100*time.Millisecond)
		expect(t, l.Enter("a"), Rate, 100*time.Millisecond)
		expect(t, take(l, "b"), "", 0)
		time.Sleep(99 * time.Millisecond)
		expect(t, take(l, "a"), Rate, time.Millisecond)
		time.Sleep(time.Millisecond) // the wait that it was told
		expect(t, take(l, "a"), "", 0)
		expect(t, take(l, "a"), Rate, 100*time.Millisecond)
		time.Sleep(time.Hour)
		for range 3 { // a pause is worth a burst, not more
			expect(t, take(l, "a"), "", 0)
		}
		expect(t, take(l, "a"), Rate, 100*time.Millisecond)
	})
}

func TestManyAtOnceAreAdmittedFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Rate: 10, Burst: 5, Keys: 1})
		all := func(n, want int, reason Reason, wait time.Duration) {
			t.Helper()
			taken, refusal := l.Take("a", n)
			if taken != want {
				t.Errorf("%d of %d are taken, want %d", taken, n, want)
			}
			expect(t, refusal, reason, wait)
		}
		all(0, 0, "", 0)
		all(3, 3, "", 0)
		all(4, 2, Rate, 200*time.Millisecond)
		all(2, 0, Rate, 200*time.Millisecond)
		time.Sleep(200 * time.Millisecond) // the wait that it was told
		all(2, 2, "", 0)
		all(1000, 0, Rate, 500*time.Millisecond) // as many as fit at once
		time.Sleep(500 * time.Millisecond)
		all(1000, 5, Rate, 500*time.Millisecond)
		if taken, refusal := l.Take("b", 7); taken != 0 || refusal.Reason != Full {
			t.Errorf("no room for another key: %d, %+v", taken, refusal)
		}
		if s := l.Stats(); s.Admitted != 12 || s.Rate != 2+2+1000+995 || s.Full != 7 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMemoryIsBoundedWhoeverKnocks has 100,000 addresses come by.
func TestMemoryIsBoundedWhoeverKnocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Rate: 1, Burst: 2, Keys: 1000})
		expect(t, l.Enter("stays"), "", 0)
		for i := range 100_000 {
			refusal := l.Enter(fmt.Sprint(i))
			if refusal.Reason == "" {
				l.Leave(fmt.Sprint(i))
			} else if refusal != (Refusal{Full, retry}) {
				t.Fatalf("%d: %+v", i, refusal)
			}
			if i%100 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
			if n := l.Stats().Keys; n > 1000 {
				t.Fatalf("%d keys", n)
			}
		}
		if s := l.Stats(); s.Full == 0 || s.Forgotten == 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(retry)
		for i := range 600 { // who is gone makes room without a goroutine
			expect(t, take(l, fmt.Sprint("new ", i)), "", 0)
		}
		l.Leave("stays")
		time.Sleep(time.Minute)
		for range 1000 {
			take(l, "last")
		}
		if n := l.Stats().Keys; n != 1 {
			t.Errorf("%d keys are remembered for nothing", n)
		}
	})
}

// TestKeyThatIsInUseKeepsNoOtherFromBeingForgotten needs the room of one that is not.
func TestKeyThatIsInUseKeepsNoOtherFromBeingForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Rate: 1, Burst: 10, Keys: 2})
		for range 5 {
			expect(t, take(l, "busy"), "", 0)
		}
		expect(t, take(l, "gone"), "", 0)
		time.Sleep(2 * time.Second)
		expect(t, take(l, "busy"), "", 0)
		expect(t, take(l, "new"), "", 0)
	})
}

// TestForgottenKeyIsNoBetterOff compares with a limiter that forgets nothing: one
// bucket a key, refilled by the time that passed.
func TestForgottenKeyIsNoBetterOff(t *testing.T) {
	var seen Stats
	all := seeds.Run(t, 20, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			s := compare(t, random)
			seen.Forgotten += s.Forgotten
			seen.Rate += s.Rate
			seen.Connections += s.Connections
		})
	})
	if all && (seen.Forgotten == 0 || seen.Rate == 0 || seen.Connections == 0) {
		t.Errorf("not all was tried: %+v", seen)
	}
}

func compare(t *testing.T, random *rand.Rand) Stats {
	const rate, burst, openMax = 8, 5, 3
	type bucket struct {
		tokens float64
		at     time.Time
		open   int
	}
	l, buckets := open(t, Options{Rate: rate, Burst: burst, Open: openMax, Keys: 100}), map[string]*bucket{}
	for i := range 2000 {
		pause := time.Duration(random.Intn(20_000)) * time.Microsecond
		if random.Intn(50) == 0 {
			pause = time.Second
		}
		time.Sleep(pause)
		key := fmt.Sprint(random.Intn(8))
		b := buckets[key]
		if b == nil {
			b = &bucket{tokens: burst, at: time.Now()}
			buckets[key] = b
		}
		b.tokens = min(burst, b.tokens+rate*time.Since(b.at).Seconds())
		b.at = time.Now()
		n, entering := 1+random.Intn(3), random.Intn(3) == 0
		if entering {
			n = 1
		}
		want, fit := Reason(""), min(n, int(b.tokens+1e-9)) // a nanosecond's worth less
		switch {
		case b.open > 0 && random.Intn(6) == 0:
			l.Leave(key)
			b.open--
			continue
		case entering && b.open == openMax:
			want, fit = Connections, 0
		case fit < n:
			want = Rate
		}
		var taken int
		var got Refusal
		if !entering {
			taken, got = l.Take(key, n)
		} else if got = l.Enter(key); got.Reason == "" {
			taken = 1
			b.open++
		}
		if got.Reason != want || taken != fit {
			t.Fatalf("%d, key %s: %d of %d, %+v, want %d, %q: %+v", i, key, taken, n, got, fit, want, *b)
		}
		b.tokens -= float64(taken)
	}
	return l.Stats()
}

func TestManyGoroutinesAreCountedRight(t *testing.T) {
	l := open(t, Options{Open: 10, Rate: 1e6, Burst: 1e6})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 1000 {
				if l.Enter("a").Reason == "" {
					if n := l.Stats().Open; n > 10 {
						t.Errorf("%d are open", n)
					}
					l.Leave("a")
				}
			}
		})
	}
	all.Wait()
	if s := l.Stats(); s.Open != 0 || s.Admitted+s.Connections+s.Rate != 16_000 {
		t.Errorf("%+v", s)
	}
}

func TestAddressesOfOnePersonAreOneKey(t *testing.T) {
	for of, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Address(netip.MustParseAddr(of)).String(); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
	if Address(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("the zero address")
	}
}

func TestRefusalIsAnAnswerThatSaysWhen(t *testing.T) {
	for refusal, want := range map[Refusal]string{
		{Rate, 1}:            "429 1",
		{Rate, time.Second}:  "429 1",
		{Connections, retry}: "429 5",
		{Full, retry}:        "503 5",
	} {
		here, there := net.Pipe()
		go refusal.close(there)
		r, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Error, Hint string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Error == "" || body.Hint == "" {
			t.Errorf("%+v: body %+v: %v", refusal, body, err)
		}
		if got := fmt.Sprint(r.StatusCode, " ", r.Header.Get("Retry-After")); got != want || !r.Close {
			t.Errorf("%+v: %s, want %s", refusal, got, want)
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for want, o := range map[string]Options{"open": {Open: -1}, "rate": {Rate: 1e-9}, "burst": {Burst: -1}, "keys": {Keys: -1}} {
		if _, err := New[string](o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFloodIsRefusedWithoutMemory sees that refusals allocate nothing, whatever the
// reason.
func TestFloodIsRefusedWithoutMemory(t *testing.T) {
	l := open(t, Options{Open: 1, Keys: 2, Rate: 0.001, Burst: 2})
	l.Enter("connected")
	take(l, "fast")
	take(l, "fast")
	for key, want := range map[string]Reason{"connected": Connections, "fast": Rate, "stranger": Full} {
		if n := testing.AllocsPerRun(1000, func() {
			if got := l.Enter(key); got.Reason != want {
				t.Errorf("%s: %+v", key, got)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", key, n)
		}
	}
}

func BenchmarkRefused(b *testing.B) {
	l, err := New[netip.Prefix](Options{Open: 1})
	if err != nil {
		b.Fatal(err)
	}
	key := Address(netip.MustParseAddr("192.0.2.7"))
	l.Enter(key)
	b.ReportAllocs()
	for b.Loop() {
		if l.Enter(key).Reason == "" {
			b.Fatal("it is admitted")
		}
	}
}

// Example bounds the connections of an address before anything else is done for it.
func Example() {
	addresses, err := New[netip.Prefix](Options{Open: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	defer server.Close()
	go func() { _ = server.Serve(Listen(tcp, addresses)) }()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp", tcp.Addr().String()); err != nil {
			fmt.Println(err)
			return
		}
		defer conns[i].Close()
	}
	answer, err := bufio.NewReader(conns[1]).ReadString('\n')
	fmt.Println(strings.TrimSpace(answer), err)
	// Output: HTTP/1.1 429 Too Many Requests <nil>
}
