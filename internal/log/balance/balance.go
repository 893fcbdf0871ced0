// Package balance says which member of a group is to have which partition, for the
// engines that decide that themselves.
package balance

import "slices"

// Targets returns the member that is to have each partition: 0 to members-1, or -1
// where there is none. Members get the same number of partitions, but for one, and as
// many as possible stay with their owners, which are given in the same way.
func Targets(owners []int, members int) []int {
	targets := slices.Repeat([]int{-1}, len(owners))
	if members == 0 {
		return targets
	}
	counts := make([]int, members)
	fewest, more := len(owners)/members, len(owners)%members // so many members have one more
	for i, m := range owners {
		switch {
		case m < 0 || counts[m] > fewest || counts[m] == fewest && more == 0:
			continue // it moves
		case counts[m] == fewest:
			more--
		}
		targets[i] = m
		counts[m]++
	}
	for i := range targets {
		if targets[i] < 0 {
			least := slices.Index(counts, slices.Min(counts))
			targets[i] = least
			counts[least]++
		}
	}
	return targets
}
