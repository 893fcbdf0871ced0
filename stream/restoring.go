package stream

import "time"

// Restorer is a Log whose members read the state of a partition back before
// Poll returns it.
type Restorer interface {
	// Restores returns the restores under way, the longest to go first.
	Restores() []Restoring
}

// Restoring is a partition whose state is being read back. Its records wait
// meanwhile.
type Restoring struct {
	Group     string
	Partition Partition
	Left      int64         // records to be read, about
	Took      time.Duration // since the partition was assigned
	Rest      time.Duration // what is left at the rate so far; 0 where that is not known
}

// Follower is a Log that keeps copies of states that other processes own, to take
// their partitions over soon.
type Follower interface {
	// Standbys returns the copies, the one that lacks most first.
	Standbys() []Standby
}

// Standby is a copy of the state beside a partition of another process.
type Standby struct {
	Group     string
	Partition Partition
	Behind    int64 // records of the changelog that it lacks, about
}
