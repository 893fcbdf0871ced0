package profile

import (
	"math"
	"slices"
)

const (
	CategoryBytesMax = 128 // bytes of a category; longer texts count as other
	categoryRowsMin  = 10  // rows of a sample with a category
	categorySharePer = CategoriesMax
)

// NumberBins returns the bins of a column of numbers, from a sample of its values: DefaultEdges quantiles, and the most
// decimals by which the largest value still has all its digits. Without values the only edge is 0. It sorts values.
func NumberBins(values []float64) Bins {
	b := Bins{Edges: Quantiles(values, DefaultEdges), Decimals: DecimalsMax}
	if b.Edges == nil {
		b.Edges = []float64{0}
	}
	for i, edge := range b.Edges {
		if edge == 0 {
			b.Edges[i] = 0 // of -0 too: equal edges have equal bytes
		}
	}
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	for b.Decimals > 0 && largest*math.Pow10(b.Decimals) >= 1<<53 {
		b.Decimals--
	}
	return b
}

// TextBins returns the bins of a column of texts, from the counts of the texts in a sample of so many rows. A category is
// a text of at most 128 bytes that at least 0.1 % of the rows have, and at least 10: so no rare text, such as the name of
// a person, gets into a profile. Without such texts the only category is the empty one.
func TextBins(counts map[string]int, rows int) Bins {
	var b Bins
	for text, n := range counts {
		if len(text) <= CategoryBytesMax && n >= categoryRowsMin && n*categorySharePer >= rows {
			b.Categories = append(b.Categories, text)
		}
	}
	if slices.Sort(b.Categories); b.Categories == nil {
		b.Categories = []string{""}
	}
	return b
}
