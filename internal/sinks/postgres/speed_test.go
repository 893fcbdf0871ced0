package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

var (
	speedRows   = flag.Int("speed.rows", 0, "plain rows of TestSpeedBesideABareLoader, and a quarter as many vectors; 0 leaves it out")
	speedRounds = flag.Int("speed.rounds", 5, "how often it measures each")
)

const speedPartitions, speedConnections = 4, 4

// load is what is written: plain rows, or vectors of 384 numbers.
type load struct {
	name    string
	rows    int
	options func(url string) postgres.Options
	value   func(i int) string // of the record
	columns string             // of the bare loader's table
	names   []string
	row     func(i int) []any // as pgx takes it
}

func speedLoads(n int) []load {
	rng := rand.New(rand.NewPCG(1, 2))
	vectors, numbers := make([]string, 64), make([][]float32, 64)
	for i := range vectors {
		var text []string
		for range 384 {
			numbers[i] = append(numbers[i], float32(rng.NormFloat64()/20))
			text = append(text, strconv.FormatFloat(float64(numbers[i][len(text)]), 'g', -1, 32))
		}
		vectors[i] = "[" + strings.Join(text, ",") + "]"
	}
	return []load{{
		name: "plain", rows: n,
		options: func(url string) postgres.Options {
			return postgres.Options{URL: url, Key: "id", Columns: []postgres.Column{column("id", "string"), column("customer", "string"), column("kind", "string"), column("body", "string"), column("score", "number"), column("at", "int")}}
		},
		value: func(i int) string {
			return fmt.Sprintf(`{"id":"%d","customer":"c%d","kind":"chat","body":"the payment of order %d did not go through","score":0.%d,"at":17000000%d}`, i*7919, i%5000, i, i%1000, i)
		},
		columns: "id text PRIMARY KEY, customer text, kind text, body text, score float8, at bigint",
		names:   []string{"id", "customer", "kind", "body", "score", "at"},
		row: func(i int) []any {
			return []any{strconv.Itoa(i * 7919), fmt.Sprint("c", i%5000), "chat", fmt.Sprintf("the payment of order %d did not go through", i), float64(i%1000) / 1000, int64(i)}
		},
	}, {
		name: "vectors", rows: n / 4,
		options: func(url string) postgres.Options {
			return postgres.Options{URL: url, Key: "id", Columns: []postgres.Column{column("id", "string"), column("customer", "string"), column("embed", "number[384]")}, Vector: &postgres.Vector{Column: "embed"}}
		},
		value: func(i int) string {
			return fmt.Sprintf(`{"id":"%d","customer":"c%d","embed":%s}`, i*7919, i%5000, vectors[i%len(vectors)])
		},
		columns: "id text PRIMARY KEY, customer text, embed vector(384)",
		names:   []string{"id", "customer", "embed"},
		row: func(i int) []any {
			return []any{strconv.Itoa(i * 7919), fmt.Sprint("c", i%5000), numbers[i%len(numbers)]}
		},
	}}
}

// TestSpeedBesideABareLoader measures rows a second from the log into tables, and
// those of a loop that has its rows in memory and does nothing but hand them to
// pgx, in turns. Rows are written to an empty table, and over those that are there.
func TestSpeedBesideABareLoader(t *testing.T) {
	if *speedRows == 0 {
		t.Skip("-speed.rows is 0")
	}
	b := newBase(t)
	b.exec("CREATE EXTENSION vector")
	for _, l := range speedLoads(*speedRows) {
		log, err := embedded.Open(t.TempDir(), embedded.Options{})
		b.ok(err)
		l.fill(b, log)
		rates, cpu := map[string][]float64{}, map[string][]float64{}
		for round := range *speedRounds {
			table := fmt.Sprint(l.name, round)
			bare := "bare_" + table
			b.exec("CREATE TABLE " + bare + " (" + l.columns + ")")
			ways := []way{
				{"sink-insert", func() float64 { return l.deliver(b, log, table, 0, false) }},
				{"bare-insert", func() float64 { return l.bare(b, bare) }},
				{"sink-update", func() float64 { return l.deliver(b, log, table, 1, false) }},
				{"bare-update", func() float64 { return l.bare(b, bare) }},
				{"sink-once", func() float64 { return l.deliver(b, log, table+"_once", 0, true) }},
			}
			if round%2 == 1 {
				ways[0], ways[1], ways[2], ways[3] = ways[1], ways[0], ways[3], ways[2]
			}
			for _, way := range ways {
				before := b.cpu()
				rates[way.name] = append(rates[way.name], way.run())
				cpu[way.name] = append(cpu[way.name], (b.cpu()-before)/float64(l.rows)*1e6)
			}
			b.want(fmt.Sprintf("SELECT count(*) FROM %s", table), fmt.Sprint(l.rows))
			b.exec(fmt.Sprintf("DROP TABLE %s; DROP TABLE %s_once; DROP TABLE %s; CHECKPOINT", table, table, bare))
		}
		for _, name := range []string{"sink-insert", "bare-insert", "sink-update", "bare-update", "sink-once"} {
			fmt.Printf("%s-%s %.0f rows/s\n", l.name, name, median(rates[name]))
			fmt.Printf("%s-%s-cpu %.1f us/row\n", l.name, name, median(cpu[name]))
		}
		for _, way := range []string{"insert", "update"} {
			var shares []float64
			for i, rate := range rates["sink-"+way] {
				shares = append(shares, rate/rates["bare-"+way][i])
			}
			fmt.Printf("%s-%s-of-bare %.2f ratio\n", l.name, way, median(shares))
		}
		b.ok(log.Close())
	}
}

// way is one of those that take turns.
type way struct {
	name string
	run  func() float64
}

// cpu is the time that this process and the server had of the processors so far,
// in seconds: what a busy machine changes least.
func (b *base) cpu() (seconds float64) {
	b.Helper()
	var own syscall.Rusage
	b.ok(syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	seconds = float64(own.Utime.Nano()+own.Stime.Nano()) / 1e9
	root := server.Get(b).Pid()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	b.ok(err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		name, rest, ok := strings.Cut(string(text), ") ")
		var state string
		var parent, n int
		times := make([]float64, 4) // its own and those of its children that ended
		if !ok {
			continue
		}
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
			continue
		}
		for i, field := range strings.Fields(rest) {
			if i >= 11 && i < 15 {
				fmt.Sscan(field, &times[i-11])
			}
		}
		fmt.Sscan(name, &n)
		if n == root {
			seconds += (times[0] + times[1] + times[2] + times[3]) / 100
		} else if parent == root {
			seconds += (times[0] + times[1]) / 100
		}
	}
	return seconds
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// fill writes the records of two generations to a log: of each a topic.
func (l *load) fill(b *base, log stream.Log) {
	b.Helper()
	for generation := range 2 {
		name := fmt.Sprint("rows", generation)
		b.ok(log.CreateTopic(b.Context(), stream.Topic{Name: name, Partitions: speedPartitions}))
		var list []stream.Record
		for i := range l.rows {
			key := strconv.Itoa(i * 7919)
			p := stream.Place([]byte(key), speedPartitions)
			list = append(list, stream.Record{
				Partition: stream.Partition{Topic: name, Index: p}, Key: []byte(key), Value: []byte(l.value(i)),
				Headers: []stream.Header{{Key: header.ID, Value: []byte(key)}, {Key: header.Position, Value: fmt.Appendf(nil, "contacts/%d@%d", p, i)}, {Key: header.Pipeline, Value: fmt.Appendf(nil, "support sha256:0123 %d", 1+generation)}},
			})
			if len(list) == 100 || i == l.rows-1 {
				b.ok(log.Append(b.Context(), list...))
				list = list[:0]
			}
		}
	}
}

// deliver returns how many rows a second a sink writes of a topic.
func (l *load) deliver(b *base, log *embedded.Log, table string, generation int, once bool) float64 {
	b.Helper()
	o := l.options(b.url)
	group := fmt.Sprintf("support.%s-%d", table, generation)
	o.Table, o.Connections, o.ExactlyOnce, o.Group = table, speedConnections, once, group
	sink := b.open(o)
	defer sink.Close()
	d, err := sinks.New(log, contract.Service{Many: sink}, sinks.Options{Group: group, Topic: fmt.Sprint("rows", generation)}, &sinks.Metrics{})
	b.ok(err)
	ctx, stop := context.WithCancel(b.Context())
	done, begun := make(chan error, 1), time.Now()
	go func() { done <- d.Run(ctx) }()
	for left := stream.Offset(1); left > 0; time.Sleep(2 * time.Millisecond) {
		left = 0
		for i := range int32(speedPartitions) {
			p := stream.Partition{Topic: fmt.Sprint("rows", generation), Index: i}
			_, next, err := log.Offsets(ctx, p)
			committed, err1 := log.Committed(ctx, group, p)
			b.ok(errors.Join(err, err1))
			left += next - committed
		}
	}
	rate := float64(l.rows) / time.Since(begun).Seconds()
	stop()
	b.ok(<-done)
	return rate
}

// bare returns how many rows a second a loop of pgx writes: over as many
// connections, as many rows at once as the sink, by the way that was fastest.
func (l *load) bare(b *base, table string) float64 {
	b.Helper()
	rows := make([][][]any, speedConnections)
	for i := range l.rows {
		rows[i%speedConnections] = append(rows[i%speedConnections], l.row(i))
	}
	var sets []string
	for _, name := range l.names[1:] {
		sets = append(sets, name+" = excluded."+name)
	}
	var wait sync.WaitGroup
	errs := make([]error, speedConnections)
	begun := time.Now()
	for k := range speedConnections {
		wait.Go(func() {
			errs[k] = func() error {
				conn, err := pgx.Connect(b.Context(), b.url)
				if err != nil {
					return err
				}
				defer conn.Close(context.Background())
				if l.name == "plain" {
					return l.arrays(b.Context(), conn, table, strings.Join(sets, ", "), rows[k])
				}
				return l.copies(b.Context(), conn, table, strings.Join(sets, ", "), rows[k])
			}()
		})
	}
	wait.Wait()
	b.ok(errors.Join(errs...))
	return float64(l.rows) / time.Since(begun).Seconds()
}

const bareBatch = sinks.DefaultBatch / speedConnections

// arrays writes rows as arrays of their columns.
func (l *load) arrays(ctx context.Context, conn *pgx.Conn, table, sets string, rows [][]any) error {
	sql := fmt.Sprintf(`INSERT INTO %s (%s) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[], $6::bigint[]) ON CONFLICT (id) DO UPDATE SET %s`, table, strings.Join(l.names, ", "), sets)
	for batch := range slices.Chunk(rows, bareBatch) {
		texts := make([][]string, 4)
		var scores []float64
		var times []int64
		for _, r := range batch {
			for i := range texts {
				texts[i] = append(texts[i], r[i].(string))
			}
			scores, times = append(scores, r[4].(float64)), append(times, r[5].(int64))
		}
		if _, err := conn.Exec(ctx, sql, texts[0], texts[1], texts[2], texts[3], scores, times); err != nil {
			return err
		}
	}
	return nil
}

// copies writes rows by COPY, from where they are upserted.
func (l *load) copies(ctx context.Context, conn *pgx.Conn, table, sets string, rows [][]any) error {
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE incoming (LIKE "+table+") ON COMMIT DELETE ROWS"); err != nil {
		return err
	}
	var oid uint32
	if err := conn.QueryRow(ctx, "SELECT 'vector'::regtype::oid").Scan(&oid); err != nil {
		return err
	}
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "vector", OID: oid, Codec: pgtype.ByteaCodec{}}) // what pgvector's own client sends
	for batch := range slices.Chunk(rows, bareBatch) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"incoming"}, l.names, pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) {
			numbers := batch[i][2].([]float32)
			sent := binary.BigEndian.AppendUint16(make([]byte, 0, 4+4*len(numbers)), uint16(len(numbers)))
			sent = append(sent, 0, 0)
			for _, v := range numbers {
				sent = binary.BigEndian.AppendUint32(sent, math.Float32bits(v))
			}
			return []any{batch[i][0], batch[i][1], sent}, nil
		})); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s SELECT * FROM incoming ON CONFLICT (id) DO UPDATE SET %s", table, sets)); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}
