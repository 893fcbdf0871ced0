// Package profile counts the values of a column in fixed bins, and compares two such counts. Its counts are integers
// and its merge is addition, so each grouping of the same values gives the same bytes.
package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
)

const (
	EdgesMax      = 256  // edges of a column; DefaultEdges of quantiles
	CategoriesMax = 1000 // categories of a column; others count as other
	DecimalsMax   = 9    // decimals of moments
	DefaultEdges  = 19   // by quantiles: 20 bins of 5 %
	digitsMax     = 60   // digits of a moment: 2^64 values of up to 2^63, squared
)

var errBins = errors.New("profiles of different bins")

// Bins say how a column is counted: a number by edges, a text by categories. They never change after training.
type Bins struct {
	Edges      []float64 `json:"edges,omitempty"`      // ascending: n edges make n+1 bins, and an edge belongs to the bin above it
	Categories []string  `json:"categories,omitempty"` // ascending: n categories make n+1 bins, and the last one is other
	Decimals   int       `json:"decimals,omitempty"`   // of the moments of a number
}

// Check refuses bins beyond the limits or out of order.
func (b Bins) Check() error {
	switch {
	case len(b.Edges) > 0 && len(b.Categories) > 0:
		return errors.New("edges and categories: name one of them")
	case len(b.Edges) == 0 && len(b.Categories) == 0:
		return errors.New("no edges and no categories: name one of them")
	case len(b.Edges) > EdgesMax:
		return fmt.Errorf("edges: %d; at most %d", len(b.Edges), EdgesMax)
	case len(b.Categories) > CategoriesMax:
		return fmt.Errorf("categories: %d; at most %d", len(b.Categories), CategoriesMax)
	case b.Decimals < 0 || b.Decimals > DecimalsMax:
		return fmt.Errorf("decimals: %d; 0 to %d", b.Decimals, DecimalsMax)
	}
	for i, edge := range b.Edges {
		if math.IsNaN(edge) || math.IsInf(edge, 0) || i > 0 && edge <= b.Edges[i-1] {
			return fmt.Errorf("edges: %v at %d; edges are finite and ascend", edge, i)
		}
	}
	for i := 1; i < len(b.Categories); i++ {
		if b.Categories[i] <= b.Categories[i-1] {
			return fmt.Errorf("categories: %q at %d; categories ascend", b.Categories[i], i)
		}
	}
	return nil
}

func (b Bins) bins() int { return max(len(b.Edges), len(b.Categories)) + 1 }

func (b Bins) equal(other Bins) bool {
	return slices.Equal(b.Edges, other.Edges) && slices.Equal(b.Categories, other.Categories) && b.Decimals == other.Decimals
}

// Profile is the count of the values of a column. Make one with New or Decode. One goroutine owns it.
type Profile struct {
	Bins
	counts  []uint64
	missing uint64  // absent values, and values of another type
	outside uint64  // numbers beyond the moments: not finite, or 2^63 and more when scaled
	sum     big.Int // of values, times 10^decimals
	squares big.Int // of values squared, times 10^(2*decimals)
}

// New returns an empty profile.
func New(b Bins) (*Profile, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	return &Profile{Bins: b, counts: make([]uint64, b.bins())}, nil
}

// Number counts a number. NaN counts as missing. A profile of categories counts each number as missing.
func (p *Profile) Number(v float64) {
	if len(p.Edges) == 0 || math.IsNaN(v) {
		p.missing++
		return
	}
	p.counts[sort.Search(len(p.Edges), func(i int) bool { return v < p.Edges[i] })]++
	scaled := math.RoundToEven(v * math.Pow10(p.Decimals))
	if math.Abs(scaled) >= 1<<63 {
		p.outside++
		return
	}
	n := big.NewInt(int64(scaled))
	p.sum.Add(&p.sum, n)
	p.squares.Add(&p.squares, n.Mul(n, n))
}

// Text counts a category; one that the bins do not name counts as other. A profile of numbers counts each text as missing.
func (p *Profile) Text(v string) {
	if len(p.Categories) == 0 {
		p.missing++
		return
	}
	i, found := slices.BinarySearch(p.Categories, v)
	if !found {
		i = len(p.Categories)
	}
	p.counts[i]++
}

// Missing counts an absent value.
func (p *Profile) Missing() { p.missing++ }

// Merge adds the counts of another profile of the same bins.
func (p *Profile) Merge(other *Profile) error {
	if !p.equal(other.Bins) {
		return errBins
	}
	for i, n := range other.counts {
		p.counts[i] += n
	}
	p.missing += other.missing
	p.outside += other.outside
	p.sum.Add(&p.sum, &other.sum)
	p.squares.Add(&p.squares, &other.squares)
	return nil
}

// Counts returns a copy of the count of each bin, in order.
func (p *Profile) Counts() []uint64 { return slices.Clone(p.counts) }

// Absent returns how many values were missing.
func (p *Profile) Absent() uint64 { return p.missing }

// Unseen returns how many texts were no category of the bins. They are texts that training never had if the profile
// of the training rows has 0 of them.
func (p *Profile) Unseen() uint64 {
	if len(p.Categories) == 0 {
		return 0
	}
	return p.counts[len(p.counts)-1]
}

// Moments returns the number of values in the moments, their mean, and their variance (divided by n), each rounded once.
func (p *Profile) Moments() (n uint64, mean, variance float64) {
	if len(p.Edges) == 0 {
		return 0, 0, 0
	}
	for _, c := range p.counts {
		n += c
	}
	if n -= p.outside; n == 0 {
		return 0, 0, 0
	}
	count := new(big.Int).SetUint64(n)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(p.Decimals)), nil)
	divisor := new(big.Int).Mul(count, scale)
	mean, _ = new(big.Rat).SetFrac(&p.sum, divisor).Float64()
	spread := new(big.Int).Mul(count, &p.squares)
	spread.Sub(spread, new(big.Int).Mul(&p.sum, &p.sum))
	variance, _ = new(big.Rat).SetFrac(spread, divisor.Mul(divisor, divisor)).Float64()
	return n, mean, variance
}

type encoded struct {
	Bins
	Counts  []uint64 `json:"counts"`
	Missing uint64   `json:"missing,omitempty"`
	Outside uint64   `json:"outside,omitempty"`
	Sum     string   `json:"sum"`
	Squares string   `json:"squares"`
}

// Encode returns the profile as JSON. Equal profiles have equal bytes.
func (p *Profile) Encode() ([]byte, error) {
	return json.Marshal(encoded{p.Bins, p.counts, p.missing, p.outside, p.sum.String(), p.squares.String()})
}

// Decode reads what Encode wrote. Other bytes, also of the same meaning, are refused.
func Decode(data []byte) (*Profile, error) {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	p, err := New(e.Bins)
	if err != nil {
		return nil, err
	}
	if len(e.Counts) != len(p.counts) {
		return nil, fmt.Errorf("counts: %d; the bins are %d", len(e.Counts), len(p.counts))
	}
	p.counts, p.missing, p.outside = e.Counts, e.Missing, e.Outside
	for _, moment := range []struct {
		text string
		to   *big.Int
	}{{e.Sum, &p.sum}, {e.Squares, &p.squares}} {
		if len(moment.text) > digitsMax {
			return nil, fmt.Errorf("sum, squares: %d digits; at most %d", len(moment.text), digitsMax)
		}
		if _, ok := moment.to.SetString(moment.text, 10); !ok {
			return nil, fmt.Errorf("sum, squares: %q is not an integer", moment.text)
		}
	}
	if again, err := p.Encode(); err != nil || string(again) != string(data) {
		return nil, errors.New("not written by Encode: another order, spacing or spelling")
	}
	return p, nil
}

// Quantiles returns n edges that part the values into n+1 bins of about equal counts: edge i is the value at rank
// ceil(i*len/(n+1)), counted from 0. Equal edges count once, so a column of few values has fewer. It sorts values.
func Quantiles(values []float64, n int) []float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	var edges []float64
	for i := 1; i <= n; i++ {
		edges = append(edges, values[min((i*len(values)+n)/(n+1), len(values)-1)])
	}
	return slices.Compact(edges)
}
