package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

const (
	tenants      = 20
	floodClients = 20
	floodTimes   = 100 // the rate of each other tenant
)

// flood runs a tenant that sends a hundred times the rate of each other tenant and ignores
// backpressure. Tenants are limited to ten times what one needs.
func flood(ctx context.Context, b *bench) error {
	each := max(1, b.rate/5/tenants)
	limits := fmt.Sprintf("pending: 200, tenant: {connections: 20000, rate: %d, burst: %d}", 10*each+b.clients, 10*each+b.clients)
	ours, err := b.startOurs(settings{pipeline: decidePipeline, limits: limits})
	if err != nil {
		return err
	}
	defer ours.stop()
	var alone, beside []float64
	for round := range b.rounds {
		for _, flooded := range []bool{false, true} {
			times, pushed, err := b.flooded(ctx, ours, fmt.Sprintf("%d%v", round, flooded), each, flooded)
			if err != nil {
				return ours.explain(err)
			}
			p99 := quantile(times, 0.99)
			if flooded {
				beside = append(beside, p99)
				b.figure(fmt.Sprintf("flood.refused_%d", round+1), float64(pushed), "events")
			} else {
				alone = append(alone, p99)
			}
			fmt.Fprintf(os.Stderr, "flood: round %d of %d: flooded %v: p50 %.2f ms, p99 %.2f ms, %d refused\n", round+1, b.rounds, flooded, quantile(times, 0.5), p99, pushed)
		}
	}
	b.figure("flood.p99_alone", median(alone), "ms")
	b.figure("flood.p99_beside", median(beside), "ms")
	b.held("flood.p99_ratio", median(beside)/median(alone), "x", 2)
	return nil
}

// flooded returns the latencies of tenants' clients, beside one that floods or not,
// and how many of its events were refused.
func (b *bench) flooded(ctx context.Context, ours *process, run string, each int, with bool) (times []float64, pushed int, err error) {
	if with {
		loud := b.newFleet("loud"+run, ours, floodClients, 1, true)
		loud.rude = true
		defer loud.end()
		if err := loud.connect(ctx); err != nil {
			return nil, 0, err
		}
		flooding, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = loud.publish(flooding, each*floodTimes, b.length+time.Minute) // until it is stopped
		}()
		defer func() { stop(); <-done; pushed = loud.counted().pushed }()
	}
	quiet := b.newFleet("quiet"+run, ours, b.clients, tenants, true)
	times, err = quiet.round(ctx, each*tenants, b.length)
	return times, 0, err
}

const (
	behindClients = 10
	behindRate    = 3000 // events a second, of 1 KB
)

// stalledReaders keeps connections that do not read, each with more pending results than the
// network buffers, while others get results.
func stalledReaders(ctx context.Context, b *bench) error {
	ours, err := b.startOurs(settings{pipeline: decidePipeline, limits: "pending: 10000, tenant: {connections: 20000, rate: 1000000, burst: 1000000}"})
	if err != nil {
		return err
	}
	defer ours.stop()
	slow := b.newFleet("slow", ours, behindClients, 1, true)
	slow.text = strings.Repeat("x", 1000)
	if _, err := slow.round(ctx, behindRate, time.Duration(b.behind*behindClients)*time.Second/behindRate); err != nil {
		return ours.explain(err)
	}
	var alone, beside []float64
	most := 0.0
	for round := range b.rounds {
		for _, stalled := range []bool{false, true} {
			before := ours.memory("VmRSS")
			err := ours.forgetPeak()
			if err != nil {
				return err
			}
			var conns []net.Conn
			if stalled {
				if conns, err = b.stall(ctx, slow); err != nil {
					return ours.explain(err)
				}
				ours.settle(ctx)
			}
			f := b.newFleet(fmt.Sprintf("beside%d%v", round, stalled), ours, max(1, b.clients/10), 1, true)
			times, err := f.round(ctx, max(1, b.rate/5), b.length)
			for _, conn := range conns {
				_ = conn.Close()
			}
			if err != nil {
				return ours.explain(err)
			}
			p99, peak := quantile(times, 0.99), ours.memory("VmHWM")
			if stalled {
				beside = append(beside, p99)
				most = max(most, peak-before)
			} else {
				alone = append(alone, p99)
			}
			fmt.Fprintf(os.Stderr, "stalled: round %d of %d: stalled %v: p50 %.2f ms, p99 %.2f ms, resident %.0f MB, at most %.0f MB\n", round+1, b.rounds, stalled, quantile(times, 0.5), p99, before, peak)
		}
	}
	b.figure("stalled.connections", float64(b.stalled), "connections")
	b.figure("stalled.p99_alone", median(alone), "ms")
	b.figure("stalled.p99_beside", median(beside), "ms")
	b.held("stalled.p99_ratio", median(beside)/median(alone), "x", 2)
	b.held("stalled.resident_more", most, "MB", 300)
	return nil
}

// stall opens connections of clients that are far behind, and reads from none of them.
func (b *bench) stall(ctx context.Context, slow *fleet) (conns []net.Conn, err error) {
	connect, err := wire.Encode(&wire.Connect{Resume: &wire.Resume{From: wire.FromEarliest}})
	if err != nil {
		return nil, err
	}
	for i := range b.stalled {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", slow.address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
		err = errors.Join(conn.(*net.TCPConn).SetReadBuffer(4096), ask(conn, slow.clients[i%len(slow.clients)].token))
		if err != nil {
			return conns, err
		}
		if _, err := conn.Write(frame(connect)); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

// ask requests the protocol and reads the response, and nothing after it.
func ask(conn net.Conn, token string) error {
	if _, err := io.WriteString(conn, requestOf(token)); err != nil {
		return err
	}
	var answer []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(answer), "\r\n\r\n"); answer = append(answer, one[0]) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 101 ") {
		return fmt.Errorf("it is answered by %s", answer)
	}
	return nil
}
