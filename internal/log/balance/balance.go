// Package balance distributes partitions over the members of a group, for logs that do this
// themselves.
package balance

import "slices"

// Targets returns the member that should own each partition: 0 to members-1, or -1 if there are no
// members. The numbers of partitions per member differ by at most one. As many partitions as
// possible stay with their owners; owners uses the same numbers.
func Targets(owners []int, members int) []int {
	targets := slices.Repeat([]int{-1}, len(owners))
	if members == 0 {
		return targets
	}
	counts := make([]int, members)
	fewest, more := len(owners)/members, len(owners)%members // more is how many members own one partition more than fewest
	for i, m := range owners {
		switch {
		case m < 0 || counts[m] > fewest || counts[m] == fewest && more == 0:
			continue // the partition moves
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
