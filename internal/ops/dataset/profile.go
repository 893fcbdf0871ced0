package dataset

import (
	"container/heap"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/observe/profile"
)

const (
	sampleRows  = 1 << 16  // most rows in the sample of a profile
	sampleBytes = 64 << 20 // about the most bytes of the sample
	sampleSalt  = "afterbay.dataset.profile"
)

// profiler makes the profile of the features that a model gets. The first pass takes a sample of the
// rows, in any order, for the bins. The second pass counts all rows.
//
// The rows of the sample are those whose places have the smallest hashes. So the sample does not
// depend on the order of the rows or on the number of workers, and its size is bounded.
type profiler struct {
	model   string
	scores  []lang.Scored
	names   []string // of the features, sorted
	sample  sample
	room    int // most rows in the sample
	columns map[string]*profile.Profile
	key     []byte

	rows   uint64 // counted rows
	failed uint64 // rows that are not counted, because an expression failed
	first  error  // the first such error
}

// newProfiler returns nil if the options name no profile.
func newProfiler(o *Options, scored []lang.Scored, absent []string) (*profiler, error) {
	if o.Profile == "" {
		return nil, nil
	}
	model, file := "", o.Profile
	if name, rest, ok := strings.Cut(o.Profile, "="); ok && slices.ContainsFunc(scored, func(s lang.Scored) bool { return s.Model == name }) {
		model, file = name, rest
	}
	o.Profile = file
	p := &profiler{model: model}
	for _, s := range scored {
		switch {
		case p.model == "":
			p.model = s.Model
		case model == "" && s.Model != p.model:
			return nil, failure.Usage("--profile %s: the pipeline scores several models: write --profile %s=%s, or another model", file, p.model, file)
		}
		if s.Model == p.model {
			p.scores = append(p.scores, s)
		}
	}
	switch {
	case p.scores == nil && absent != nil:
		return nil, failure.Usage("--profile %s: no event is scored above the score of the missing model %s: name a pipeline that scores events", file, strings.Join(absent, ", "))
	case p.scores == nil:
		return nil, failure.Usage("--profile %s: the pipeline scores no events: name a pipeline with a score outside of each", file)
	}
	return p, p.prepare(file)
}

// prepare finds the features.
func (p *profiler) prepare(file string) error {
	kinds, bytes := map[string]bool{}, 128
	for _, f := range p.scores[0].Features {
		if kinds[f.Name] = f.Numeric(); f.Numeric() {
			bytes += 8
		} else {
			bytes += 16 + profile.CategoryBytesMax
		}
	}
	if len(kinds) == 0 || len(kinds) > profile.FeaturesMax {
		return failure.Usage("--profile %s: model %s gets %d numbers and texts: use 1 to %d", file, p.model, len(kinds), profile.FeaturesMax)
	}
	for _, s := range p.scores[1:] {
		others := map[string]bool{}
		for _, f := range s.Features {
			others[f.Name] = f.Numeric()
		}
		if !maps.Equal(kinds, others) {
			return failure.Usage("--profile %s: %s and %s give model %s other features: give them by name, inputs: {name: expression}", file, p.scores[0].Path, s.Path, p.model)
		}
	}
	p.names, p.room = slices.Sorted(maps.Keys(kinds)), min(sampleRows, sampleBytes/bytes)
	return nil
}

// sampled are the features of a row of the sample.
type sampled struct {
	hash    int64
	place   string    // unique
	numbers []float64 // by profiler.names; NaN is absent, or a text
	texts   []string  // by profiler.names; texts that are too long for a category are empty
	has     []bool    // by profiler.names: it has such a text
}

// sample is a heap of rows, the last one by hash and place first.
type sample []sampled

func (s sample) Len() int           { return len(s) }
func (s sample) Swap(i, k int)      { s[i], s[k] = s[k], s[i] }
func (s sample) Less(i, k int) bool { return s[k].before(s[i].hash, s[i].place) }

func (s *sampled) before(hash int64, place string) bool {
	return s.hash < hash || s.hash == hash && s.place < place
}

// Push implements heap.Interface.
func (s *sample) Push(x any) { *s = append(*s, x.(sampled)) }

// Pop implements heap.Interface.
func (s *sample) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// take adds a row to the sample if its hash is small enough. It may change the row.
func (p *profiler) take(place []byte, row *value.Row) {
	for i := range p.scores {
		p.key = append(append(p.key[:0], place...), byte(i), byte(i>>8))
		at := sampled{hash: hash.Of(p.key, sampleSalt), place: string(p.key)}
		full := len(p.sample) == p.room
		if full && p.sample[0].before(at.hash, at.place) {
			continue
		}
		if scored, err := evaluate(&p.scores[i], row); !scored || err != nil {
			continue
		}
		p.read(&at, &p.scores[i], row)
		if heap.Push(&p.sample, at); full {
			heap.Pop(&p.sample)
		}
	}
}

// read copies the features of a row.
func (p *profiler) read(to *sampled, s *lang.Scored, row *value.Row) {
	n := len(p.names)
	to.numbers, to.texts, to.has = make([]float64, n), make([]string, n), make([]bool, n)
	for i := range to.numbers {
		to.numbers[i] = math.NaN()
	}
	for _, f := range s.Features {
		i, _ := slices.BinarySearch(p.names, f.Name)
		switch {
		case !row.Has(f.Slot):
		case f.Numeric():
			to.numbers[i] = row.AsNumber(f.Slot)
		case len(row.Text(f.Slot)) <= profile.CategoryBytesMax:
			to.texts[i], to.has[i] = strings.Clone(row.Text(f.Slot)), true
		}
	}
}

// evaluate computes the features that are expressions. It returns false if the row is not scored.
func evaluate(s *lang.Scored, row *value.Row) (scored bool, err error) {
	if !s.Guard.Holds(row) {
		return false, nil
	}
	if s.When != nil {
		if scored, err = s.When.Bool(row); err != nil || !scored {
			return false, err
		}
	}
	for _, f := range s.Features {
		if f.Program != nil {
			if err := f.Program.Store(row, f.Slot); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// begin decides the bins when the sample is complete, and frees it.
func (p *profiler) begin() error {
	p.columns = map[string]*profile.Profile{}
	for i, name := range p.names {
		k := slices.IndexFunc(p.scores[0].Features, func(f lang.Feature) bool { return f.Name == name })
		bins := p.texts(i)
		if p.scores[0].Features[k].Numeric() {
			bins = p.numbers(i)
		}
		var err error
		if p.columns[name], err = profile.New(bins); err != nil {
			return err
		}
	}
	p.sample = nil
	return nil
}

func (p *profiler) numbers(column int) profile.Bins {
	var values []float64
	for _, row := range p.sample {
		if v := row.numbers[column]; !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return profile.NumberBins(values)
}

func (p *profiler) texts(column int) profile.Bins {
	counts := map[string]int{}
	for _, row := range p.sample {
		if row.has[column] {
			counts[row.texts[column]]++
		}
	}
	return profile.TextBins(counts, len(p.sample))
}

// count counts a row that is written. It may change the row.
func (p *profiler) count(row *value.Row) {
	for i := range p.scores {
		s := &p.scores[i]
		scored, err := evaluate(s, row)
		if err != nil {
			if p.failed++; p.first == nil {
				p.first = err
			}
		}
		if !scored {
			continue
		}
		p.rows++
		for _, f := range s.Features {
			switch column := p.columns[f.Name]; {
			case !row.Has(f.Slot):
				column.Missing()
			case f.Numeric():
				column.Number(row.AsNumber(f.Slot))
			default:
				column.Text(row.Text(f.Slot))
			}
		}
	}
}

// write writes the profile of the rows with a digest, and returns its own.
func (p *profiler) write(to io.Writer, file, rows string) (FileDigest, error) {
	r := &profile.Reference{Model: p.model, Rows: p.rows, Digest: rows, Features: p.columns}
	text, err := r.Encode()
	if err != nil {
		return FileDigest{}, err
	}
	_, err = to.Write(text)
	return FileDigest{filepath.Base(file), "json", int64(len(text)), profile.Sum(text)}, err
}
