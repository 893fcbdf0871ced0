package stream

import "time"

// Restorer is a Log that restores the state of a partition before Poll returns the partition.
type Restorer interface {
	// Restores returns the restores in progress, the one with the longest remaining time first.
	Restores() []Restoring
}

// Restoring describes a partition during the restore of its state. Its records wait for the restore
// to end.
type Restoring struct {
	Group     string
	Partition Partition
	Left      int64         // approximate number of records still to read
	Took      time.Duration // time since the partition was assigned
	Rest      time.Duration // estimated remaining time at the rate so far; 0 if unknown
}

// Follower is a Log that keeps standby copies of state that other processes own, so that it can
// take over their partitions quickly.
type Follower interface {
	// Standbys returns the copies, the one that is furthest behind first.
	Standbys() []Standby
}

// Standby is a local copy of the state of a partition that another process owns.
type Standby struct {
	Group     string
	Partition Partition
	Behind    int64 // approximate number of changelog records that the copy lacks
}
